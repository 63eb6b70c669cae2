"""An answer in one piece is what aiohttp's own response would have been, byte for byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from rowgate.edge.listener import Listener
from rowgate.observe.events import discard
from rowgate.protocol.stream import Answer, Written

BODY = b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xc3\xa9"}}'
HEADERS = {"Server": "rowgate", "X-Request-Id": "0" * 32, "Vary": "Origin"}
STATUSES = [200, 400, 401, 403, 404, 413, 429, 502, 503, 504]


async def answered(request: web.BaseRequest) -> web.StreamResponse:
    """By the gateway, or by aiohttp itself; `/ours/404`, `/aiohttps/404`."""
    _, whose, status = request.path.split("/")
    await request.read()
    if whose == "ours":
        return await Answer(request, HEADERS).send(BODY, status=int(status), headers={"Retry-After": "5"})
    fields = {"Cache-Control": "no-store", **HEADERS, "Retry-After": "5", "Content-Type": "application/json"}
    return web.Response(body=BODY, status=int(status), headers=fields)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    runner = web.ServerRunner(Listener(answered, emit=discard))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def request(path: str, *, method: str = "POST", version: str = "1.1", connection: str = "close") -> bytes:
    body = b"{}" if method == "POST" else b""
    head = (
        f"{method} {path} HTTP/{version}\r\nHost: x\r\nConnection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def exchange(port: int, *requests: bytes) -> bytes:
    """Everything until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(requests))
    data = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return re.sub(rb"\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", b"\r\nDate: now", data)


def alike(one: bytes, other: bytes) -> bool:
    """The order of fields means nothing."""
    heads = [sorted(data.partition(b"\r\n\r\n")[0].split(b"\r\n")) for data in (one, other)]
    bodies = [data.partition(b"\r\n\r\n")[2] for data in (one, other)]
    return heads[0] == heads[1] and bodies[0] == bodies[1]


@pytest.mark.parametrize("status", STATUSES)
async def test_the_last_answer_of_a_connection_says_so_and_closes_it(port: int, status: int) -> None:
    ours, theirs = [await exchange(port, request(f"/{whose}/{status}")) for whose in ("ours", "aiohttps")]
    assert alike(ours, theirs)
    assert b"\r\nConnection: close\r\n" in ours
    assert ours.endswith(b"\r\n\r\n" + BODY)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
@pytest.mark.parametrize("connection", ["close", "keep-alive"])
async def test_every_method_and_version_is_answered_as_aiohttp_does(
    port: int, method: str, version: str, connection: str
) -> None:
    last = [request("/aiohttps/200")] if connection == "keep-alive" else []
    ours, theirs = [
        await exchange(port, request(f"/{whose}/200", method=method, version=version, connection=connection), *last)
        for whose in ("ours", "aiohttps")
    ]
    assert alike(ours, theirs)


async def test_requests_sent_at_once_are_answered_in_order_on_one_connection(port: int) -> None:
    kept = [request(f"/ours/{status}", connection="keep-alive") for status in STATUSES]
    data = await exchange(port, *kept, request("/ours/200"))
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", data) == [b"%d" % status for status in [*STATUSES, 200]]
    assert data.count(b"Connection: close") == 1


async def test_a_line_break_never_gets_into_a_head(port: int) -> None:
    seen: list[BaseException] = []

    async def forged(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await Answer(request, HEADERS).send(BODY, headers={"X-Forged": "a\r\nSet-Cookie: b"})
        except ValueError as error:
            seen.append(error)
        return await Answer(request, HEADERS).send(BODY, status=500)

    runner = web.ServerRunner(Listener(forged, emit=discard))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    data = await exchange(runner.addresses[0][1], request("/"))
    await runner.cleanup()
    assert data.startswith(b"HTTP/1.1 500 ")
    assert b"Set-Cookie" not in data
    assert len(seen) == 1


async def test_the_server_asks_nothing_more_of_an_answer_that_is_on_its_way() -> None:
    written = Written(404, keep_alive=True)
    assert (written.status, written.keep_alive, written.prepared) == (404, True, True)
    await written.write_eof()
