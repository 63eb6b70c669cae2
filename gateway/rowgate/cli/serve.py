"""`rowgate serve`: run the gateway until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

import click

from rowgate.app import Listening, gateway
from rowgate.cli.exits import CONFIGURATION, START
from rowgate.config.load import check
from rowgate.config.models import Config
from rowgate.errors import GatewayError
from rowgate.observe.events import GatewayChanged
from rowgate.observe.observers import observers

GARBAGE = 20_000
"""Objects after which the collector looks for cycles; Python looks after 700, which is every fifth call."""


@click.command()
@click.argument("path", required=False)
@click.pass_obj
def serve(config_path: str, path: str | None) -> None:
    """Run the gateway with the configuration at PATH until SIGTERM or SIGINT.

    The signal begins the drain that `gateway.shutdown` describes; another one changes nothing. Exits 0 after it,
    3 when the gateway could not start, 78 when the configuration is not valid."""
    file = path or config_path
    checked = check(Path(file), os.environ)
    for problem in checked.problems:
        click.echo(problem.render(file), err=True)
    if checked.config is None:
        sys.exit(CONFIGURATION)
    try:
        run(checked.config)
    except GatewayError as error:
        click.echo(f"rowgate: {error.code}: {error.message} ({error.hint})", err=True)
        sys.exit(START)


def run(config: Config) -> None:
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(until_signalled(config))


async def until_signalled(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with observers(config) as observed:
        async with AsyncExitStack() as stack:
            serving = gateway(config, emit=observed.emit, metrics=observed.metrics, health=observed.health)
            if listening := await started(stack.enter_async_context(serving), stop):
                spare_what_stays()
                await stop.wait()
                # Readiness turns first, so that a load balancer stops sending before the socket closes.
                listening.drain()
                await asyncio.sleep(config.gateway.shutdown.delay)
        observed.emit(GatewayChanged("stopped"))


async def started(start: Coroutine[None, None, Listening], stop: asyncio.Event) -> Listening | None:
    """A start waits for issuers and plugins; a signal does not wait for the start."""
    starting, signalled = asyncio.create_task(start), asyncio.create_task(stop.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        signalled.cancel()
        return await starting
    starting.cancel()
    await asyncio.wait((starting,))
    return None


def spare_what_stays() -> None:
    """What was built at start lives as long as the process, and calls leave next to no cycles: the collector walked the
    one because of the other, which was 4 % of the time of a call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
