"""Unix sockets: listening on one in a private directory, and connecting only to whom a path should belong."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from rowgate.errors import PluginSocketForeign, StartError

MAX_PATH = 100
"""Bytes of a path. The kernel takes 107 on Linux and 103 on others."""
BACKLOG = 1024
_CREDENTIALS = struct.Struct("3i")
_ROOT = 0


def listeners(owner: str | None) -> frozenset[int]:
    """The uids that may listen on a plugin's socket: of `owner` (a name or a number, by default this process's user),
    and root, who could be anybody. Raises StartError for a name that this system does not know."""
    if owner is None:
        return frozenset({os.geteuid(), _ROOT})
    if owner.isdecimal():
        return frozenset({int(owner), _ROOT})
    try:
        return frozenset({pwd.getpwnam(owner).pw_uid, _ROOT})
    except KeyError:
        raise StartError(f"There is no user {owner} on this system, whom a plugin's socket_owner names.") from None


@dataclass(frozen=True, slots=True)
class UnixSocket:
    path: str
    owners: frozenset[int]
    """The uids that may listen there."""

    async def connect(self) -> socket.socket:
        """Raises OSError when nobody listens, and PluginSocketForeign when it is somebody else: whoever may write
        into the directory could put a socket of their own there."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, self.path)
            # Of a listener whose queue is full, the loop says that it is connected.
            connection.getpeername()
            if listener_of(connection, self.path) not in self.owners:
                raise PluginSocketForeign(reason="socket_owner")
        except BaseException:
            connection.close()
            raise
        return connection


def listener_of(connection: socket.socket, path: str) -> int:
    """The uid that began to listen, as the kernel noted it; elsewhere than on Linux, the owner of the file."""
    if sys.platform != "linux":
        return os.stat(path).st_uid
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return int(uid)


def listen(path: Path) -> socket.socket:
    """A new socket at `path`, where an earlier one may lie. Only the directory decides who reaches it."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
