"""Plugins that the gateway starts itself: one process each, on a socket that nobody else can reach.

Each start gets a socket of its own, of which the gateway keeps no copy. So a plugin that is down refuses connections
instead of queueing calls that it would run after their callers were told that they failed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rowgate.config.plugin import Plugin
from rowgate.errors import GatewayError, StartError
from rowgate.observe.events import Defect, Emit, ExitCause, PluginProcessChanged
from rowgate.process import launch, signal_group
from rowgate.upstream.output import Output
from rowgate.upstream.unix import MAX_PATH, listen

GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL. The calls are over by then, and container platforms wait for 30 s in all."""
_PROBE_PAUSE = 0.25
_LAST_WORDS = 1.0
"""Seconds for what a process wrote before its end, whose pipe something that it started may hold open."""

Environment = Callable[[str, Plugin], Mapping[str, str]]
Sleep = Callable[[float], Awaitable[None]]
Ask = Callable[[str], Awaitable[object]]


@dataclass(slots=True)
class _Life:
    """One run of a plugin's process."""

    child: asyncio.subprocess.Process
    reading: asyncio.Task[None]
    answered_at: float | None = None


class Supervisor:
    def __init__(
        self,
        plugins: Mapping[str, Plugin],
        directory: Path,
        environment: Environment,
        *,
        emit: Emit,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        grace: float = GRACE,
    ) -> None:
        """`plugins`: those with a command. `directory` is where their sockets lie. `chance`: between 0 and 1."""
        self._plugins = plugins
        self._directory = directory
        self._environment = environment
        self._emit = emit
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance
        self._grace = grace
        self._tasks: list[asyncio.Task[None]] = []

    def socket(self, plugin: str) -> str | None:
        """Where a supervised plugin listens; None for the others."""
        return str(self._directory / f"{plugin}.sock") if plugin in self._plugins else None

    def start(self, probe: Ask, ready: Ask) -> None:
        """`probe` asks a plugin for what it is, and raises GatewayError while it does not answer; `ready` is awaited
        once it did, after each start."""
        for name in self._plugins:
            self._tasks.append(asyncio.create_task(self._supervise(name, probe, ready), name=f"plugin {name}"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _supervise(self, name: str, probe: Ask, ready: Ask) -> None:
        failures = 0
        spread = self._plugins[name].restart.backoff
        while True:
            answered = await self._run(name, probe, ready)
            failures = 0 if answered >= spread.most else failures
            longest = min(spread.most, spread.least * 2.0 ** min(failures, 32))
            failures += 1
            # Half of it by chance, so that plugins that fell together do not rise together.
            await self._sleep(longest * (1 + self._chance()) / 2)

    async def _run(self, name: str, probe: Ask, ready: Ask) -> float:
        """One life of the process. Returns the seconds for which it answered."""
        try:
            life = await self._launch(name)
        except OSError as error:
            self._emit(PluginProcessChanged(name, "exited", cause="not_started", detail=error.strerror or ""))
            return 0.0
        child = life.child
        self._emit(PluginProcessChanged(name, "started", pid=child.pid))
        probing = asyncio.create_task(self._probe(name, life, probe, ready))
        try:
            status = await child.wait()
        except asyncio.CancelledError:
            await asyncio.shield(self._stop(name, life))
            raise
        finally:
            probing.cancel()
        await self._buried(life)
        self._emit(PluginProcessChanged(name, "exited", pid=child.pid, cause=_cause(status), detail=_words(status)))
        return 0.0 if life.answered_at is None else self._monotonic() - life.answered_at

    async def _launch(self, name: str) -> _Life:
        plugin = self._plugins[name]
        assert plugin.command is not None
        # A pipe of our own: with one of asyncio's, the end of the process is told only when the pipe is closed too,
        # which whatever the process started may hold open.
        source, sink = os.pipe()
        output = Output(name, self._emit, monotonic=self._monotonic)
        try:
            with listen(self._directory / f"{name}.sock") as listening:
                child = await launch(
                    plugin.command,
                    environ=self._environment(name, plugin),
                    # A plugin may take its time over SIGTERM; of a gateway that is gone, nobody would end it.
                    death=signal.SIGKILL,
                    cwd=plugin.cwd or "/",
                    listening=listening,
                    output=sink,
                )
        except BaseException:
            os.close(source)
            raise
        finally:
            os.close(sink)
        return _Life(child, asyncio.create_task(output.follow(source)))

    async def _probe(self, name: str, life: _Life, probe: Ask, ready: Ask) -> None:
        while life.answered_at is None:
            try:
                await probe(name)
                life.answered_at = self._monotonic()
            except GatewayError:
                await self._sleep(_PROBE_PAUSE)
        self._emit(PluginProcessChanged(name, "ready", pid=life.child.pid))
        try:
            await ready(name)
        except Exception as error:
            self._emit(Defect(where=f"lists of {name}", error=error))

    async def _stop(self, name: str, life: _Life) -> None:
        signal_group(life.child, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(life.child.wait(), self._grace)
        signal_group(life.child, signal.SIGKILL)
        status = await life.child.wait()
        await self._buried(life)
        detail = _words(status)
        self._emit(PluginProcessChanged(name, "stopped", pid=life.child.pid, cause=_cause(status), detail=detail))

    async def _buried(self, life: _Life) -> None:
        """What the process started itself goes with it."""
        signal_group(life.child, signal.SIGKILL)
        await asyncio.wait({life.reading}, timeout=_LAST_WORDS)
        life.reading.cancel()


@asynccontextmanager
async def supervisor(
    plugins: Mapping[str, Plugin], environment: Environment, *, emit: Emit, grace: float = GRACE
) -> AsyncIterator[Supervisor]:
    """Processes end, and the directory of their sockets goes, when the context is left. Raises StartError."""
    commanded = {name: plugin for name, plugin in plugins.items() if plugin.command is not None}
    if not commanded:
        yield Supervisor({}, Path(), environment, emit=emit)
        return
    try:
        made = TemporaryDirectory(prefix="rowgate-", ignore_cleanup_errors=True)  # mode 0700
    except OSError as error:
        raise StartError(f"No directory can be made for the sockets of plugins: {error.strerror}.") from None
    with made as directory:
        it = Supervisor(commanded, Path(directory), environment, emit=emit, grace=grace)
        if any(len(os.fsencode(it.socket(name) or "")) > MAX_PATH for name in commanded):
            raise StartError(f"{directory} is too long a path for sockets: set TMPDIR to a shorter one.")
        try:
            yield it
        finally:
            await it.close()


def _cause(status: int) -> ExitCause:
    return "ok" if status == 0 else "signal" if status < 0 else "status"


def _words(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
