"""Real processes: the gateway as a subprocess, a recording plugin and an issuer on real sockets in the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest
from joserfc.jwk import KeySet

from flow.client import Client
from flow.conftest import CONTEXT_KEY, settings
from flow.issuer import Issuer, issuer
from flow.plugin import Plugin, Received, plugin, tool
from ports import free_port
from process.gateway import Gateway, serve

CONTEXT_KEY_TEXT = json.dumps(CONTEXT_KEY.as_dict(private=True))
Change = Callable[[dict[str, Any]], None]


def unchanged(tree: dict[str, Any]) -> None:
    pass


class Start(Protocol):
    async def __call__(self, change: Change = unchanged, *, ready: bool = True, **env: str) -> Gateway: ...


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
async def session(stack: AsyncExitStack) -> aiohttp.ClientSession:
    return await stack.enter_async_context(aiohttp.ClientSession())


@pytest.fixture
async def notes(stack: AsyncExitStack) -> Plugin:
    it = await stack.enter_async_context(plugin("notes"))
    it.tools.append(tool("write"))
    it.keys = KeySet([CONTEXT_KEY])
    return it


@pytest.fixture
async def tokens(stack: AsyncExitStack) -> Issuer:
    return await stack.enter_async_context(issuer())


@pytest.fixture
def tree(notes: Plugin, tokens: Issuer) -> dict[str, Any]:
    """The configuration of a gateway on ports of its own, with time for slow calls."""
    it = settings(tokens, {"notes": notes.url}, free_port())
    it["gateway"]["internal_listen"] = f"127.0.0.1:{free_port()}"
    it["gateway"]["shutdown"]["timeout"] = "60s"
    it["plugins"]["notes"] |= {"timeout": "60s", "required": True}
    return it


@pytest.fixture
async def start(stack: AsyncExitStack, session: aiohttp.ClientSession, tree: dict[str, Any], tmp_path: Path) -> Start:
    """Start a gateway; `change` edits the configuration tree first."""

    async def run(change: Change = unchanged, *, ready: bool = True, **env: str) -> Gateway:
        change(tree)
        env = {"CONTEXT_KEY": CONTEXT_KEY_TEXT, **env}
        it = await stack.enter_async_context(serve(tree, tmp_path, env=env, session=session))
        await (it.ready() if ready else it.alive())
        return it

    return run


@pytest.fixture
async def gateway(start: Start) -> Gateway:
    return await start()


@pytest.fixture
def client(session: aiohttp.ClientSession, tree: dict[str, Any]) -> Client:
    return Client(session, tree["gateway"]["public_url"] + "/mcp")


class Held:
    """Calls that arrive in the plugin and stay there until they are let go."""

    def __init__(self, plugin: Plugin) -> None:
        self.arrived: asyncio.Queue[Received] = asyncio.Queue()
        self.released = asyncio.Event()
        plugin.answers["tools/call"] = self._answer

    async def arrival(self) -> Received:
        return await asyncio.wait_for(self.arrived.get(), 30)

    async def _answer(self, it: Received) -> dict[str, Any]:
        self.arrived.put_nowait(it)
        await self.released.wait()
        return it.text(str(it.context.sub))


@pytest.fixture
def held(notes: Plugin) -> Held:
    return Held(notes)
