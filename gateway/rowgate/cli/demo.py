"""`rowgate demo`: the gateway with an embedded database, a stand-in for Supabase Auth and the example plugin."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections import deque
from pathlib import Path

import click

from rowgate.cli.exits import FINDINGS, START
from rowgate.cli.serve import event_loop
from rowgate.errors import GatewayError

DEFAULT_PORT = 8080


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help=f"Port of the gateway; {DEFAULT_PORT}, or a free one.")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Keep the database here.")
@click.option("--check", is_flag=True, help="Drive the whole with the official client as both users, and exit.")
def demo(port: int | None, directory: Path | None, check: bool) -> None:
    """Run everything on loopback: PostgreSQL with Row Level Security, PostgREST, a stand-in for Supabase Auth, the
    example plugin and the gateway. For trying it out, never for serving anybody else.

    Exits 1 when a promise of --check broke, 3 when something could not start."""
    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            kept = runner.run(_check(directory) if check else _run(port, directory))
    except GatewayError as error:
        click.echo(f"rowgate demo: {error.code}: {error.message}", err=True)
        sys.exit(START)
    except ImportError as error:
        click.echo(f"rowgate demo: {error.name} is missing; install rowgate[demo].", err=True)
        sys.exit(START)
    if not kept:
        sys.exit(FINDINGS)


async def _run(port: int | None, directory: Path | None) -> bool:
    from rowgate.demo.stack import demo as running

    click.echo("Starting PostgreSQL, PostgREST, the example plugin and the gateway …")
    async with running(port=_port(port), directory=directory) as it:
        click.echo(_banner(it.url, it.internal_url, it.project.banner, it.project.password))
        await _signalled()
        click.echo("Stopping …")
    return True


async def _check(directory: Path | None) -> bool:
    from rowgate.demo.check import check
    from rowgate.demo.stack import demo as running
    from rowgate.observe.lines import LineWriter

    log = _Tail()
    async with running(directory=directory, log=LineWriter(log, interval=0)) as it:
        kept = await check(it, click.echo)
    if not kept:
        click.echo("The last lines of the gateway's log:\n" + log.text(), err=True)
    return kept


class _Tail:
    """The end of a log that nobody reads unless something broke."""

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque(maxlen=60)

    def write(self, data: memoryview) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")


def _port(wanted: int | None) -> int:
    """The default gives way when it is taken; a port that was asked for does not."""
    if wanted is not None:
        return wanted
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


async def _signalled() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def _banner(url: str, internal: str, project: str, password: str) -> str:
    return f"""
rowgate demo: everything on this machine, on loopback, for trying it out only.

  MCP endpoint      {url}
  Sign in as        alice@example.com (Acme) or bob@example.com (Globex)
  Password          {password}
  Metrics, health   {internal}/metrics  {internal}/readyz
  {project.split(". Sign in")[0]}

  MCP Inspector     npx @modelcontextprotocol/inspector --transport http --server-url {url}
  Claude Code       claude mcp add --transport http rowgate-demo {url}
  The whole proof   rowgate demo --check

Ctrl-C stops it. The gateway's log follows.
"""
