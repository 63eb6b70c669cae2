"""The load: a closed loop over kept-alive connections, and single requests for latency. An answer that is not 200 or
does not hold the upstream's text counts as bad, and one bad answer takes the verdict from the run."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from upstream import MARK, TOOL

GIVE_UP = 20.0
"""Seconds that a connection waits for the answers under way after its time is over."""

_VERSION = "2026-07-28"


def requests(port: int, tokens: Sequence[str]) -> list[bytes]:
    """One `tools/call` for each token, as a client of the modern era sends it."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": _VERSION,
        f"{prefix}clientInfo": {"name": "bench", "version": "1"},
        f"{prefix}clientCapabilities": {},
    }
    arguments = {"q": "revenue by region", "limit": 20, "filters": {"year": 2026}}
    call = {"name": TOOL, "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}, separators=(",", ":"))
    return [
        (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nAuthorization: Bearer {token}\r\n"
            f"MCP-Protocol-Version: {_VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: {TOOL}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        for token in tokens
    ]


@dataclass(slots=True)
class Sample:
    answers: int = 0
    bad: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    example: str = ""
    """The first bad answer, for the report."""

    def failed(self, what: bytes | str) -> None:
        self.bad += 1
        self.example = self.example or (what if isinstance(what, str) else what[:400].decode(errors="replace"))


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the last is answered, until `until`."""

    def __init__(self, source: Iterator[bytes], sample: Sample, until: float) -> None:
        self._source = source
        self._sample = sample
        self._until = until
        self._buffer = b""
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        whole = length_of(self._buffer)
        if whole is None or len(self._buffer) < whole:
            return
        now = time.perf_counter()
        self._sample.answers += 1
        self._sample.latencies.append(now - self._sent)
        if not is_good(self._buffer):
            self._sample.failed(self._buffer)
        self._buffer = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._transport.is_closing() or error or time.perf_counter() < self._until:
            self._sample.failed(f"connection lost: {error}")
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(next(self._source))


async def closed_loop(port: int, messages: Sequence[bytes], *, connections: int, seconds: float) -> Sample:
    """Every request that was sent is waited for, so that CPU time and answers belong together."""
    sample, source = Sample(), itertools.cycle(messages)
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Connection(source, sample, started + seconds), "127.0.0.1", port)
        for _ in range(connections)
    ]
    _, late = await asyncio.wait([protocol.done for _, protocol in opened], timeout=seconds + GIVE_UP)
    for transport, _ in opened:
        transport.abort()
    if late:
        sample.failed(f"{len(late)} connections got no answer")
    sample.seconds = time.perf_counter() - started
    return sample


class Probe:
    """One kept-alive connection, one request at a time."""

    def __init__(self, port: int, messages: Sequence[bytes]) -> None:
        self._port = port
        self._source = itertools.cycle(messages)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def once(self, sample: Sample) -> None:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        started = time.perf_counter()
        self._writer.write(next(self._source))
        buffer = b""
        while (whole := length_of(buffer)) is None or len(buffer) < whole:
            data = await self._reader.read(65536)
            if not data:
                sample.failed("connection closed")
                self.close()
                return
            buffer += data
        sample.latencies.append(time.perf_counter() - started)
        sample.answers += 1
        if not is_good(buffer):
            sample.failed(buffer)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def length_of(buffer: bytes) -> int | None:
    """Bytes of head and body, once the head is whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = buffer[:end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        return end + 4
    return end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])


def is_good(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.1 200") and MARK in answer
