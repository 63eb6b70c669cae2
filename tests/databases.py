"""A real project for every test that wants one: PostgreSQL, PostgREST and the stand-in for Supabase Auth.

It runs once a session, on a thread with an event loop of its own: each test has its own loop, and a server on a loop
that does not run answers nobody. Tests that rotate keys, break things or need other settings run their own
`rowgate.demo.project.project`; those that ban or sign out use a user they made.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

import asyncpg
import pytest

from rowgate.demo.auth import AuthServer
from rowgate.demo.project import ALICE, BOB, Project, project
from team_notes import MIGRATIONS

T = TypeVar("T")
E = TypeVar("E")
SCHEMA = Path(__file__).parent / "data" / "notebook.sql"
API_KEYS = Path(str(files("rowgate.supabase"))) / "sql" / "api_keys.sql"
PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class SupabaseProject:
    """`hosted` belongs to another thread: read its facts and call what is synchronous; await through `run`."""

    hosted: Project
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return self.hosted.url

    @property
    def publishable_key(self) -> str:
        return self.hosted.publishable_key

    @property
    def auth(self) -> AuthServer:
        return self.hosted.auth

    async def run(self, work: Callable[[Project], Awaitable[T]]) -> T:
        """Await `work(hosted)` on the project's own loop."""

        async def there() -> T:
            return await work(self.hosted)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), self.loop))

    async def access_token(self, email: str, *, client_id: str | None = None, scope: str | None = None) -> str:
        """Of a live session: first-party, or an OAuth client's."""
        return await self.run(lambda hosted: hosted.auth.access_token(email, client_id=client_id, scope=scope))

    async def add_user(self, email: str) -> str:
        """A user for one test, in Auth and in auth.users. Returns the id."""
        user = await self.run(lambda hosted: hosted.auth.add_user(email, PASSWORD))
        return user.id

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        """As the database's superuser, whom no policy concerns."""
        connection = await asyncpg.connect(self.hosted.dsn)
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()


class Background(Generic[E]):
    """Keeps an asynchronous context manager entered on a loop of its own, on a thread of its own."""

    def __init__(self, entered: AbstractAsyncContextManager[E]) -> None:
        self._manager = entered
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def _do(self, work: Awaitable[T]) -> T:
        async def there() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(90)

    def start(self) -> E:
        self._thread.start()
        try:
            return self._do(self._manager.__aenter__())
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        try:
            self._do(self._manager.__aexit__(None, None, None))
        finally:
            self._end()

    def _end(self) -> None:
        self._do(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def hosting(*sql: Path) -> Iterator[SupabaseProject]:
    background = Background(project(users=(ALICE, BOB), sql=sql, password=PASSWORD))
    hosted = background.start()
    yield SupabaseProject(hosted, background.loop)
    background.stop()


@pytest.fixture(scope="session")
def supabase_project() -> Iterator[SupabaseProject]:
    yield from hosting(SCHEMA, API_KEYS)


@pytest.fixture(scope="session")
def team_notes_project() -> Iterator[SupabaseProject]:
    """The project of the example plugin, with its policies and its two organisations."""
    yield from hosting(*MIGRATIONS)
