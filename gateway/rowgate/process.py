"""Child processes that end with this one, whatever ends this one."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# Runs between fork and the real program: drops root, asks the kernel for a signal when the parent dies, and puts the
# socket where the program looks for it. The kernel forgets that wish when the user changes, hence the order; and the
# parent may have died before it was uttered. What else is open is closed, because uvloop leaves some of its own open.
# Python ignores SIGPIPE, which the program would inherit.
_LAUNCH = """
import ctypes, os, signal, sys
parent, uid, gid, death, umask, listening = map(int, sys.argv[1:7])
argv = sys.argv[7:]
if uid >= 0:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death)
    if os.getppid() != parent:
        sys.exit(1)
if umask >= 0:
    os.umask(umask)
if listening >= 0:
    os.dup2(listening, 3)
    os.set_inheritable(3, True)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.closerange(3 if listening < 0 else 4, max(os.sysconf("SC_OPEN_MAX"), 1024))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
try:
    os.execvp(argv[0], argv)
except OSError as error:
    print(f"cannot run {argv[0]}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""


async def launch(
    argv: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    death: signal.Signals,
    cwd: str | Path = "/",
    user: tuple[int, int] | None = None,
    umask: int | None = None,
    listening: socket.socket | None = None,
    output: int = asyncio.subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """Run `argv` in a process group of its own, its standard output and error on one pipe, or on `output`.

    The kernel sends `death` when this process dies (Linux). `user`: uid and gid to become. `listening` becomes file
    descriptor 3, announced as systemd does it (LISTEN_FDS, LISTEN_PID). A program that cannot be run says so there
    and ends with 126 or 127.
    """
    uid, gid = user or (-1, -1)
    passed = -1 if listening is None else listening.fileno()
    facts = (os.getpid(), uid, gid, int(death), -1 if umask is None else umask, passed)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, facts), *map(str, argv)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environ),
        cwd=cwd,
        pass_fds=() if listening is None else (passed,),
        # Ctrl-C belongs to the foreground process: it stops its children in its own order.
        start_new_session=True,
    )


def signal_group(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To the child and to whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
