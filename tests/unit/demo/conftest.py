"""An authorization server on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from auth_browser import ALICE, BOB, PASSWORD, Browser, Clock

from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.realm import Settings
from rowgate.demo.listener import bind, origin, serve


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def extra_scopes() -> tuple[str, ...]:
    return ()


@pytest.fixture
async def auth(clock: Clock, extra_scopes: tuple[str, ...]) -> AsyncIterator[AuthServer]:
    listening = bind()
    url = origin(listening)
    server = AuthServer(Settings(f"{url}/auth/v1", url, extra_scopes=extra_scopes), clock=clock)
    for email in (ALICE, BOB):
        await server.add_user(email, PASSWORD)
    root = web.Application()
    root.add_subapp("/auth/v1", server.application())
    async with serve(root, listening):
        yield server


@pytest.fixture
async def browser(auth: AuthServer) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession() as session:
        yield Browser(auth, session)
