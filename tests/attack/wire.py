"""Requests as bytes, for what no HTTP client would send."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flow.conftest import Running

WORDS = 10.0
"""Seconds after which a gateway that says nothing is taken to hang."""


@dataclass(frozen=True)
class Answer:
    status: int
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        found = re.search(rb"(?im)^" + name.encode() + rb": ([^\r\n]*)", self.head)
        return found[1].decode() if found else None


class Connection:
    """One connection to the public listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, running: Running) -> Connection:
        url = urlsplit(running.public_url)
        return cls(*await asyncio.open_connection(url.hostname, url.port))

    async def answer(self) -> Answer:
        """The next answer, by its Content-Length."""
        async with asyncio.timeout(WORDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = await self.reader.readexactly(int(length[1])) if length else b""
        return Answer(int(head.split()[1]), head, body)

    async def ask(self, data: bytes) -> Answer:
        self.writer.write(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """Everything until the gateway closes."""
        async with asyncio.timeout(WORDS):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.transport.abort()


def request(
    running: Running,
    body: bytes = b"",
    *fields: tuple[bytes, bytes],
    target: str = "/mcp",
    method: str = "POST",
    token: str | None = None,
) -> bytes:
    """`fields` are sent as they are, the usual ones before them."""
    host = urlsplit(running.public_url).netloc.encode()
    usual = [
        (b"Host", host),
        (b"Accept", b"*/*"),
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    given = {name.lower() for name, _ in fields}
    lines = [field for field in usual if field[0].lower() not in given]
    if token is not None:
        lines.append((b"Authorization", b"Bearer " + token.encode()))
    head = b"".join(name + b": " + value + b"\r\n" for name, value in [*lines, *fields])
    return f"{method} {target} HTTP/1.1\r\n".encode() + head + b"\r\n" + body


async def once(running: Running, data: bytes) -> Answer:
    connection = await Connection.to(running)
    try:
        return await connection.ask(data)
    finally:
        connection.close()
