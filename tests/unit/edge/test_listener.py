"""Connections that never become a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from rowgate.edge.listener import Listener
from rowgate.observe.events import discard


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="here")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    runner = web.ServerRunner(Listener(_answer, emit=discard, head_patience=0.2))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bea"])
async def test_a_connection_that_sends_no_whole_head_is_dropped(port: int, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    try:
        assert await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        pass  # an abort shows as either
    writer.close()


async def test_one_that_sent_a_request_may_stay_longer(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"here" in await asyncio.wait_for(reader.readuntil(b"here"), 10)
        await asyncio.sleep(0.3)  # past the time that a first head has
    writer.close()
