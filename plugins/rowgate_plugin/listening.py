"""The socket that a plugin listens on when it is not a port: one that was passed on, or a Unix socket of its own."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import MutableMapping
from pathlib import Path

from rowgate_plugin.settings import SettingsError

PASSED = 3
"""The first descriptor that is passed on (sd_listen_fds(3))."""
MODE = 0o660
"""Of a socket of our own: for its owner and group. The signed context is what admits; this keeps others from trying."""
SOCKET = "SOCKET"


def listening_socket(environ: MutableMapping[str, str], *, pid: int) -> socket.socket | None:
    """None when the plugin shall listen on host and port. `SettingsError` for a socket that cannot be used."""
    if environ.get("LISTEN_PID") == str(pid) and "LISTEN_FDS" in environ:
        count = environ.pop("LISTEN_FDS")
        # Whatever this process starts must not take the socket for its own.
        del environ["LISTEN_PID"]
        if count != "1":
            raise SettingsError("LISTEN_FDS must be 1: a plugin listens on one socket")
        return passed_on(PASSED)
    path = environ.get(SOCKET)
    return bound(Path(path)) if path else None


def passed_on(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        passed = socket.socket(fileno=descriptor)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        raise SettingsError(f"LISTEN_FDS is set, but descriptor {descriptor} is no socket") from None
    if not listens or passed.type != socket.SOCK_STREAM:
        passed.close()
        raise SettingsError(f"LISTEN_FDS is set, but descriptor {descriptor} is no socket that listens")
    return passed


def bound(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        before = os.umask(0o777 & ~MODE)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen()
    except OSError as error:
        listening.close()
        raise SettingsError(f"{SOCKET} cannot be listened on: {error.strerror or error}") from None
    return listening


def _remove_stale(path: Path) -> None:
    """A socket that an earlier process left behind, and only that."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, "another process listens there")
    path.unlink()
