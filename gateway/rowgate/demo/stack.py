"""The whole demo: a Supabase project on loopback, the example plugin as a process of its own, and the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import aiohttp
from joserfc.jwk import Key

from rowgate.app import gateway
from rowgate.config.load import load
from rowgate.config.models import Config
from rowgate.demo.process import Account, Daemon, daemon
from rowgate.demo.project import Project, project
from rowgate.observe.lines import LineWriter
from rowgate.observe.observers import observers
from rowgate.upstream.context import ephemeral_key
from rowgate_plugin.contract import public_jwks
from team_notes import MIGRATIONS

HOST = "127.0.0.1"
PLUGIN = "notes"


@dataclass(frozen=True, slots=True)
class Demo:
    project: Project
    url: str
    """The MCP endpoint."""
    internal_url: str


@asynccontextmanager
async def demo(*, port: int = 0, directory: Path | None = None, log: LineWriter | None = None) -> AsyncIterator[Demo]:
    """Run everything until the block ends. `directory` keeps the database; port 0 is a free one. Raises StartError."""
    public_port, internal_port, plugin_port = free_ports(3)
    public_port = port or public_port
    key = ephemeral_key()
    async with AsyncExitStack() as stack:
        supabase = await stack.enter_async_context(project(sql=MIGRATIONS, directory=directory))
        await stack.enter_async_context(example(supabase, key, plugin_port))
        config = configuration(supabase, key, public_port, internal_port, plugin_port)
        observed = stack.enter_context(observers(config, log))
        serving = gateway(config, emit=observed.emit, metrics=observed.metrics, health=observed.health)
        await stack.enter_async_context(serving)
        url = config.gateway.public_url + config.servers["main"].path
        yield Demo(supabase, url, f"http://{HOST}:{internal_port}")


@asynccontextmanager
async def example(supabase: Project, key: Key, port: int) -> AsyncIterator[Daemon]:
    """`python -m team_notes`, with what any plugin is told: whose contexts to trust, and where Supabase is."""
    environ = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ},
        "HOST": HOST,
        "PORT": str(port),
        "ROWGATE_PLUGIN": PLUGIN,
        "ROWGATE_CONTEXT_JWKS": json.dumps(public_jwks([key])),
        "SUPABASE_URL": supabase.url,
        "SUPABASE_PUBLISHABLE_KEY": supabase.publishable_key,
    }
    us = Account(os.geteuid(), os.getegid(), "")
    argv = [sys.executable, "-m", "team_notes"]
    async with daemon("The example plugin", argv, owner=us, stop=signal.SIGTERM, environ=environ) as running:
        await answering(running, f"http://{HOST}:{port}/healthz")
        yield running


async def answering(running: Daemon, url: str) -> None:
    """Return when the plugin answers. Raises StartError when it ends instead."""
    async with aiohttp.ClientSession() as session:
        while running.child.returncode is None:
            try:
                async with session.get(url) as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
    raise running.died()


def configuration(supabase: Project, key: Key, port: int, internal_port: int, plugin_port: int) -> Config:
    environ = {
        "DEMO_PUBLIC_URL": f"http://{HOST}:{port}",
        "DEMO_LISTEN": f"{HOST}:{port}",
        "DEMO_INTERNAL_LISTEN": f"{HOST}:{internal_port}",
        "DEMO_CONTEXT_KEY": json.dumps(key.as_dict(private=True)),
        "DEMO_SUPABASE_URL": supabase.url,
        "DEMO_PLUGIN_URL": f"http://{HOST}:{plugin_port}/mcp",
    }
    with as_file(files("rowgate.demo") / "config.yaml") as path:
        return load(path, environ)


def free_ports(count: int) -> list[int]:
    """All held at once, or the system might give one of them twice."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
