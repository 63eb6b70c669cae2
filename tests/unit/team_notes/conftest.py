"""The example plugin as somebody: its own server, the real project behind it, no gateway in between."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.client import Client

from databases import SupabaseProject
from rowgate_plugin.supabase import Project
from rowgate_plugin.testing import caller, plugin_client
from team_notes.server import server


@dataclass
class Team:
    """An organisation of one test."""

    project: SupabaseProject
    id: str
    name: str

    async def add(self, role: str, email: str | None = None) -> str:
        """A member, new unless an address is given. Returns the address."""
        if email is None:
            email = f"{role}-{uuid.uuid4().hex}@example.com"
            await self.project.add_user(email)
        member = "insert into public.memberships select $1::uuid, id, $3 from auth.users where email = $2"
        await self.project.fetch(member, self.id, email, role)
        return email

    async def note(self, author: str, title: str, body: str = "") -> str:
        """Written past all policies. Returns the id."""
        statement = """
            insert into public.notes (organisation_id, author_id, title, body)
            select $1::uuid, id, $3, $4 from auth.users where email = $2 returning id::text
        """
        return str((await self.project.fetch(statement, self.id, author, title, body))[0]["id"])

    async def titles(self) -> list[str]:
        rows = await self.project.fetch(
            "select title from public.notes where organisation_id = $1::uuid order by title", self.id
        )
        return [row["title"] for row in rows]


class Connections:
    """Clients that stay connected until the test ends, each on a task of its own: an SDK client must be left by the
    task that entered it, and pytest runs tests and fixtures on different ones."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, client: AbstractAsyncContextManager[Client]) -> Client:
        entered: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with client as connected:
                    entered.set_result(connected)
                    await self._ended.wait()
            except BaseException as error:
                if entered.done():
                    raise
                entered.set_exception(error)

        self._tasks.append(asyncio.create_task(hold()))
        return await entered

    async def close(self) -> None:
        self._ended.set()
        await asyncio.gather(*self._tasks)


@pytest.fixture
async def as_user(team_notes_project: SupabaseProject) -> AsyncIterator[Callable[..., Any]]:
    """The SDK's client, as this user. Further arguments are the client's."""
    project = Project(team_notes_project.url, team_notes_project.publishable_key)
    connections = Connections()

    async def connect(email: str, **options: Any) -> Client:
        token = await team_notes_project.access_token(email, client_id=str(uuid.uuid4()), scope="email")
        user = caller(team_notes_project.auth.user(email).id, token=token)
        return await connections.open(plugin_client(server, as_=user, project=project, **options))

    yield connect
    await connections.close()


@pytest.fixture
async def team(team_notes_project: SupabaseProject) -> Team:
    name = f"Team {uuid.uuid4().hex[:8]}"
    rows = await team_notes_project.fetch(
        "insert into public.organisations (name) values ($1) returning id::text", name
    )
    return Team(team_notes_project, rows[0]["id"], name)
