"""A stream ends with the right to it, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rowgate.auth.admission import Admission
from rowgate.auth.principal import Principal
from rowgate.auth.watch import StreamWatch
from rowgate.errors import GatewayError, SessionOver, TokenExpired


class Refusing(Admission):
    """Lives for some answers, and then no more."""

    def __init__(self, answers: int, interval: float | None = 0.001) -> None:
        super().__init__()
        object.__setattr__(self, "left", answers)
        object.__setattr__(self, "every", interval)

    @property
    def interval(self) -> float | None:
        return self.every  # type: ignore[attr-defined]

    async def again(self, principal: Principal) -> None:
        object.__setattr__(self, "left", self.left - 1)  # type: ignore[attr-defined]
        if self.left < 0:  # type: ignore[attr-defined]
            raise SessionOver(reason="session_over")


def caller(until: float = float("inf")) -> Principal:
    return Principal(kind="user", subject="u", issuer="i", accepted_until=until)


async def stream(watched: Callable[[asyncio.Timeout], StreamWatch], deadline: float = 60.0) -> GatewayError | None:
    """A stream on which nothing ever comes."""
    watch: StreamWatch | None = None
    reason: GatewayError | None = None
    try:
        async with asyncio.timeout(deadline) as limit:
            watch = watched(limit)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                reason = watch.reason()
                raise
            finally:
                watch.close()
    except TimeoutError:
        return reason
    raise AssertionError("it never ends by itself")


async def test_a_silent_stream_ends_with_its_token() -> None:
    reason = await stream(lambda limit: StreamWatch(caller(100.01), None, limit, clock=lambda: 100.0))
    assert isinstance(reason, TokenExpired)


async def test_a_token_that_ended_already_ends_the_stream_at_once() -> None:
    reason = await stream(lambda limit: StreamWatch(caller(50.0), None, limit, clock=lambda: 100.0))
    assert isinstance(reason, TokenExpired)


async def test_a_silent_stream_ends_with_its_session() -> None:
    reason = await stream(lambda limit: StreamWatch(caller(), Refusing(3), limit))
    assert isinstance(reason, SessionOver)


async def test_the_time_limit_of_a_call_is_not_taken_for_either() -> None:
    reason = await stream(lambda limit: StreamWatch(caller(), Refusing(10**6), limit), deadline=0.02)
    assert reason is None


async def test_a_client_that_leaves_is_not_taken_for_either() -> None:
    opened = asyncio.Event()
    seen: list[GatewayError | None] = []

    async def streaming() -> None:
        async with asyncio.timeout(60) as limit:
            watch = StreamWatch(caller(1e12), Refusing(0, interval=60.0), limit)
            opened.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(watch.reason())
                watch.close()

    task = asyncio.create_task(streaming())
    await opened.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [None]


async def test_a_watch_that_is_closed_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    async with asyncio.timeout(60) as limit:
        StreamWatch(caller(), Refusing(10**6), limit).close()
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
