"""A child process that ends with this one, whatever ends this one."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rowgate.errors import StartError

# Runs between fork and the real program: drops root, then asks the kernel for a signal when the parent dies. The
# kernel forgets that wish when the user changes, hence the order; and the parent may have died before it was uttered.
_LAUNCH = """
import ctypes, os, sys
parent, uid, gid, death = map(int, sys.argv[1:5])
if uid >= 0:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death)
    if os.getppid() != parent:
        sys.exit(1)
os.umask(0o077)
os.execv(sys.argv[5], sys.argv[5:])
"""
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
    uid = -1 if owner.ours else owner.uid
    facts = (str(fact) for fact in (os.getpid(), uid, owner.gid, int(stop)))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _LAUNCH, *facts, *map(str, argv)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environ),
        cwd="/",
        # Ctrl-C belongs to the foreground process: it stops its daemons in its own order.
        start_new_session=True,
    )


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
