"""The whole gateway in process, on real sockets: an issuer, a recording plugin, a client that sends what it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from joserfc.jwk import KeySet, OKPKey

from flow.client import Client
from flow.issuer import Issuer, issuer
from flow.plugin import Plugin, plugin, tool
from ports import free_port
from rowgate.app import Listening, gateway
from rowgate.config.load import check_text
from rowgate.config.models import Config
from rowgate.observe.events import Event, RequestFinished
from rowgate.observe.lines import LineWriter
from rowgate.observe.observers import observers

CONTEXT_KEY = OKPKey.generate_key("Ed25519", auto_kid=True)


class Memory:
    """Where the log goes: a raw stream that keeps everything."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview) -> int:
        self.data += data
        return len(data)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in bytes(self.data).splitlines()]


@dataclass
class Running:
    client: Client
    issuer: Issuer
    plugin: Plugin
    listening: Listening
    public_url: str
    session: aiohttp.ClientSession
    log: Memory
    events: list[Event] = field(default_factory=list)
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request was recorded."""

    @property
    def finished(self) -> list[RequestFinished]:
        return [event for event in self.events if isinstance(event, RequestFinished)]

    @property
    def last(self) -> RequestFinished:
        return self.finished[-1]

    async def internal(self, path: str) -> tuple[int, str]:
        host, port = self.listening.internal
        async with self.session.get(f"http://{host}:{port}{path}") as response:
            return response.status, await response.text()


def settings(issuer: Issuer, plugins: dict[str, str], port: int) -> dict[str, Any]:
    """A configuration as its YAML would have it; tests change it before the start."""
    return {
        "version": 1,
        "gateway": {
            "public_url": f"http://127.0.0.1:{port}",
            "listen": f"127.0.0.1:{port}",
            "internal_listen": "127.0.0.1:0",
            "shutdown": {"timeout": "1s"},
            "context": {"signing_key": {"env": "CONTEXT_KEY"}},
        },
        "plugins": {name: {"url": url, "timeout": "2s"} for name, url in plugins.items()},
        "servers": {
            "main": {
                "path": "/mcp",
                "title": "Flow",
                "auth": {
                    "mode": "oauth",
                    "issuer": {
                        "issuer": issuer.url,
                        "jwks_url": issuer.jwks_url,
                        "audience": ["authenticated"],
                        "token_role": ["authenticated"],
                    },
                },
                "scopes": {"issuable": ["email", "notes:write"], "advertised": ["email"]},
                "capabilities": [
                    {
                        "from": "notes",
                        "tools": ["echo", "whoami"],
                        "prompts": ["*"],
                        "resources": ["note://*"],
                        "templates": ["note://{id}"],
                    },
                    {"from": "notes", "tools": ["admin"], "require": {"roles": ["editor"]}},
                    {"from": "notes", "tools": ["write"], "require": {"scopes": ["notes:write"]}},
                ],
            }
        },
    }


def config_of(tree: dict[str, Any]) -> Config:
    env = {"CONTEXT_KEY": json.dumps(CONTEXT_KEY.as_dict(private=True))}
    checked = check_text(yaml.safe_dump(tree, sort_keys=False), env, Path())
    assert checked.config is not None, checked.problems
    return checked.config


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
async def notes(stack: AsyncExitStack) -> Plugin:
    it = await stack.enter_async_context(plugin("notes"))
    it.tools.append(tool("write"))
    return it


@pytest.fixture
async def tokens(stack: AsyncExitStack) -> Issuer:
    return await stack.enter_async_context(issuer())


@pytest.fixture
async def start(stack: AsyncExitStack, notes: Plugin, tokens: Issuer) -> Callable[..., Any]:
    """Start a gateway; `change` edits the configuration tree first."""

    async def run(change: Callable[[dict[str, Any]], None] = lambda tree: None, **plugins: Plugin) -> Running:
        port = free_port()
        offered = {"notes": notes, **plugins}
        for it in offered.values():
            it.keys = KeySet([CONTEXT_KEY])
        tree = settings(tokens, {name: it.url for name, it in offered.items()}, port)
        change(tree)
        config = config_of(tree)
        log = Memory()
        observed = stack.enter_context(observers(config, LineWriter(log, interval=0)))
        events: list[Event] = []

        recorded = asyncio.Event()

        def emit(event: Event) -> None:
            events.append(event)
            observed.emit(event)
            if isinstance(event, RequestFinished):
                recorded.set()

        session = await stack.enter_async_context(aiohttp.ClientSession())
        serving = gateway(config, emit=emit, metrics=observed.metrics, health=observed.health)
        listening = await stack.enter_async_context(serving)
        url = tree["gateway"]["public_url"]
        return Running(Client(session, url + "/mcp"), tokens, notes, listening, url, session, log, events, recorded)

    return run


@pytest.fixture
async def running(start: Callable[..., Any]) -> Running:
    return await start()
