"""The servers of the demo: who they run as, when they are ready, and how they are stopped."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rowgate.errors import StartError
from rowgate.process import launch

_KEPT_LINES = 20


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system's user that a child runs as."""

    uid: int
    gid: int
    name: str

    @property
    def ours(self) -> bool:
        return self.uid == os.geteuid()


def account(uid: int) -> Account:
    """Raises StartError for a uid that has no entry in the user database: PostgreSQL refuses to run as one."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise StartError(f"User id {uid} has no name on this system; the embedded database needs one.") from None
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def unprivileged() -> Account:
    """This process's user, or `nobody` when that is root."""
    if os.geteuid() != 0:
        return account(os.geteuid())
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise StartError("As root, the demo's servers run as the user `nobody`, and there is none here.") from None
    return Account(nobody.pw_uid, nobody.pw_gid, nobody.pw_name)


def reachable(path: Path, owner: Account) -> bool:
    """Whether `owner` may pass through every directory above `path`."""
    if owner.ours:
        return True
    return all(
        stat.st_mode & 0o001 or (stat.st_uid == owner.uid and stat.st_mode & 0o100)
        for stat in (parent.stat() for parent in path.resolve().parents)
    )


@dataclass(frozen=True, slots=True)
class Daemon:
    name: str
    child: asyncio.subprocess.Process
    last_lines: deque[str] = field(repr=False)

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.child.send_signal(number)

    def died(self) -> StartError:
        said = "\n".join(self.last_lines) or "(it wrote nothing)"
        status = self.child.returncode
        return StartError(f"{self.name} ended with status {status} before it was ready. It said:\n{said}")


async def _launch(
    argv: Sequence[str | Path], owner: Account, stop: signal.Signals, environ: Mapping[str, str]
) -> asyncio.subprocess.Process:
    user = None if owner.ours else (owner.uid, owner.gid)
    return await launch(argv, environ=environ, death=stop, user=user, umask=0o077)


@asynccontextmanager
async def daemon(
    name: str,
    argv: Sequence[str | Path],
    *,
    owner: Account,
    stop: signal.Signals,
    environ: Mapping[str, str],
    ready: str | None = None,
    patience: float = 60.0,
) -> AsyncIterator[Daemon]:
    """Run `argv` until the block ends; with `ready`, enter the block when the program has written that text.

    The kernel sends `stop` when this process dies (Linux). Raises StartError when the program ends too early or is
    not ready within `patience` seconds.
    """
    child = await _launch(argv, owner, stop, environ)
    running = Daemon(name, child, deque(maxlen=_KEPT_LINES))
    announced = asyncio.Event()
    reader = asyncio.create_task(_read(running, ready, announced))
    try:
        if ready is not None:
            await _until(announced, running, patience)
        yield running
    finally:
        await asyncio.shield(_stop(running, reader, stop))


async def _read(running: Daemon, ready: str | None, announced: asyncio.Event) -> None:
    assert running.child.stdout is not None
    # Chunks, not lines: a line may be longer than any buffer.
    rest = ""
    while chunk := await running.child.stdout.read(65536):
        *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
        running.last_lines.extend(lines)
        rest = rest[-4096:]
        if ready is not None and any(ready in line for line in lines):
            announced.set()
    announced.set()


async def _until(announced: asyncio.Event, running: Daemon, patience: float) -> None:
    try:
        await asyncio.wait_for(announced.wait(), patience)
    except TimeoutError:
        raise StartError(f"{running.name} was not ready after {patience:.0f} seconds.") from None
    if running.child.stdout is not None and running.child.stdout.at_eof():
        await running.child.wait()
        raise running.died()


async def _stop(running: Daemon, reader: asyncio.Task[None], stop: signal.Signals) -> None:
    for number in (stop, signal.SIGQUIT, signal.SIGKILL):
        running.signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(running.child.wait(), 10)
            break
    await reader


async def run(argv: Sequence[str | Path], *, owner: Account, environ: Mapping[str, str], what: str) -> None:
    """Run a program to its end. Raises StartError, with what it wrote, when it fails."""
    child = await _launch(argv, owner, signal.SIGTERM, environ)
    output, _ = await child.communicate()
    if child.returncode:
        said = output.decode(errors="replace").strip()[-2000:]
        raise StartError(f"{what} failed with status {child.returncode}. It said:\n{said}")
