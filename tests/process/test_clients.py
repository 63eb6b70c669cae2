"""Clients that leave, and clients that do not read: what they cost is given back, and bounded until then."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from flow.client import Client, envelope, mirrored
from flow.issuer import Issuer
from flow.plugin import Plugin, Received
from process.conftest import Start
from process.gateway import Gateway, until

MEBIBYTE = 2**20
ABORTED = 200
TOGETHER = 20


def progress(padding: str = "") -> bytes:
    params = {"progressToken": "p", "progress": 1, "message": padding}
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def request(gateway: Gateway, token: str) -> bytes:
    """A call whose answer is a stream, as bytes."""
    message = envelope("tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": "p"}})
    body = json.dumps(message)
    host, port = gateway.address
    headers = {
        "Host": f"{host}:{port}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Authorization": f"Bearer {token}",
        **mirrored(message),
    }
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", body]
    return "\r\n".join(lines).encode()


class Endless:
    """A tool that begins a stream and never ends it; it counts who is connected."""

    def __init__(self, plugin: Plugin) -> None:
        self.open = 0
        plugin.answers["tools/call"] = self._answer

    async def _answer(self, it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self.open += 1
        try:
            await response.prepare(it.request)
            await response.write(progress())
            await asyncio.Event().wait()
        finally:
            self.open -= 1
        return response


@asynccontextmanager
async def calling(gateway: Gateway, token: str) -> AsyncIterator[asyncio.StreamReader]:
    """A connection with that request on it, dropped at the end."""
    reader, writer = await asyncio.open_connection(*gateway.address, limit=1024)
    try:
        writer.write(request(gateway, token))
        yield reader
    finally:
        writer.transport.abort()


async def abort(gateway: Gateway, token: str) -> None:
    """Begin a stream, read its first event, and leave."""
    async with calling(gateway, token) as reader:
        await reader.readuntil(b"notifications/progress")


async def abort_many(gateway: Gateway, token: str) -> None:
    for _ in range(ABORTED // TOGETHER):
        await asyncio.gather(*(abort(gateway, token) for _ in range(TOGETHER)))


async def settled(gateway: Gateway, endless: Endless, files: int) -> None:
    """Until no stream is left on either side, and no file that it needed."""

    async def back() -> bool | None:
        async with gateway.session.get(f"{gateway.internal_url}/metrics") as answer:
            text = await answer.text()
        streams = [line for line in text.splitlines() if line.startswith("rowgate_streams_open{")]
        assert streams, text
        none_left = all(float(line.split()[-1]) == 0 for line in streams)
        return True if none_left and endless.open == 0 and gateway.open_files() <= files else None

    await until(back)


async def test_aborted_streams_give_back_their_files_their_plugin_connections_and_their_memory(
    gateway: Gateway, notes: Plugin, client: Client, tokens: Issuer
) -> None:
    endless, token = Endless(notes), tokens.token()
    # The first round fills caches and pools once; what a leak takes, every round takes.
    await abort_many(gateway, token)
    await settled(gateway, endless, files=40)
    files, memory = gateway.open_files(), gateway.resident()
    for _ in range(2):
        await abort_many(gateway, token)
        await settled(gateway, endless, files)
    assert gateway.resident() - memory < 8 * MEBIBYTE
    del notes.answers["tools/call"]
    assert (await client.call("echo", {"text": "hello"}, token=token)).text == "hello"
    assert await gateway.stop() == 0
    outcomes = Counter(line["outcome"] for line in gateway.log if line["event"] == "request_finished")
    assert outcomes == {"cancelled": 3 * ABORTED, "ok": 1}
    assert not [line for line in gateway.log if line["level"] == "error"]


class Flood:
    """A tool that streams far more than anybody should hold, and notices when it is held back."""

    def __init__(self, plugin: Plugin, size: int) -> None:
        self._size = size
        self.sent = 0
        self.stalled = asyncio.Event()
        self.ended = asyncio.Event()
        plugin.answers["tools/call"] = self._answer

    async def _answer(self, it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        event = progress("x" * 8000)
        try:
            while self.sent < self._size:
                await self._write(response, event)
        finally:
            self.ended.set()
        return response

    async def _write(self, response: web.StreamResponse, event: bytes) -> None:
        writing = asyncio.ensure_future(response.write(event))
        try:
            done, _ = await asyncio.wait((writing,), timeout=3)
            if not done:
                self.stalled.set()
            await writing
        finally:
            writing.cancel()
        self.sent += len(event)


async def test_a_client_that_reads_nothing_makes_the_plugin_wait_and_not_the_gateway_grow(
    gateway: Gateway, notes: Plugin, tokens: Issuer
) -> None:
    flood = Flood(notes, 50 * MEBIBYTE)
    memory = gateway.resident()
    async with calling(gateway, tokens.token()):
        waiting = [asyncio.create_task(event.wait()) for event in (flood.stalled, flood.ended)]
        await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert flood.stalled.is_set(), f"{flood.sent} bytes were taken from the plugin for a client that read none"
        assert flood.sent < 50 * MEBIBYTE
        assert gateway.resident() - memory < 20 * MEBIBYTE
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    line = await gateway.logged(event="request_finished")
    assert (line["outcome"], line["streamed"]) == ("cancelled", True)


async def test_a_client_that_reads_slowly_gets_every_event(gateway: Gateway, notes: Plugin, tokens: Issuer) -> None:
    flood = Flood(notes, 4 * MEBIBYTE)
    received = bytearray()
    async with calling(gateway, tokens.token()) as reader:
        while not received.endswith(b"0\r\n\r\n"):
            received += await asyncio.wait_for(reader.read(512 * 1024), 30)
    assert received.count(b"notifications/progress") * len(progress("x" * 8000)) == flood.sent


@pytest.mark.parametrize("streamed", [False, True], ids=["buffered", "streamed"])
async def test_a_client_that_never_reads_its_answer_is_given_up(
    start: Start, tree: dict[str, Any], notes: Plugin, tokens: Issuer, streamed: bool
) -> None:
    """Nobody may hold an answer, a task and a connection for ever by not reading."""
    tree["gateway"]["request"] = {"timeout": "2s"}
    tree["plugins"]["notes"] |= {"timeout": "2s", "result_limit": 0, "max_answer_bytes": "16MiB"}
    gateway = await start()

    async def large(it: Received) -> dict[str, Any]:
        return it.text("x" * (12 * MEBIBYTE))

    flood = Flood(notes, 50 * MEBIBYTE)
    if not streamed:
        notes.answers["tools/call"] = large
    async with calling(gateway, tokens.token()) as reader:
        assert (await gateway.logged(event="request_finished"))["outcome"] != "ok"
        # What the network held arrives, the rest never does.
        received = 0
        with suppress(ConnectionError):
            while chunk := await asyncio.wait_for(reader.read(MEBIBYTE), 30):
                received += len(chunk)
        assert received < 12 * MEBIBYTE
    if streamed:
        await asyncio.wait_for(flood.ended.wait(), 30)
