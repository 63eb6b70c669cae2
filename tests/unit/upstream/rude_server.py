"""A plugin of bare sockets, which answers with the bytes that it is told, when it is told."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Peer:
    """One connection of the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Read on until the other side is gone, however it went."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.closed.set()


Script = Callable[[Peer, bytes], Awaitable[None]]
"""Called for each request, with its bytes."""


@dataclass
class RudeServer:
    script: Script
    url: str = ""
    peers: list[Peer] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            while request := await read_request(reader):
                self.requests.append(request)
                await self.script(peer, request)
        except ConnectionError:
            pass
        finally:
            peer.closed.set()
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


@asynccontextmanager
async def rude_server(script: Script, listening: socket.socket | None = None) -> AsyncIterator[RudeServer]:
    """On a free port of its own, or on a socket that listens already."""
    it = RudeServer(script)
    if listening is None:
        server = await asyncio.start_server(it.accept, "127.0.0.1", 0)
        it.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp?tenant=a%2Fb"
    else:
        server = await asyncio.start_unix_server(it.accept, sock=listening)
    try:
        yield it
    finally:
        server.close()
        for peer in it.peers:
            peer.writer.transport.abort()
        await server.wait_closed()


def saying(*answers: bytes) -> Script:
    """Answer the first request with the first bytes, and so on; the last of them serves for the rest."""
    left = list(answers)

    async def script(peer: Peer, request: bytes) -> None:
        await peer.send(left.pop(0) if len(left) > 1 else left[0])

    return script


def answer(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"".join(line + b"\r\n" for line in (b"Content-Length: %d" % len(body), *fields))
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"\r\n" + body
