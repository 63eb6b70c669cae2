"""The connections of our own towards plugins, against a server that keeps no promise: what is sent and understood."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from rowgate.errors import PluginDied, PluginTimeout
from rowgate.upstream.pooled import PooledLeg, request_bytes
from unit.upstream.exchanges import PLENTY, ask, post, until, whole
from unit.upstream.rude_server import Peer, answer, saying

# --- what is sent ------------------------------------------------------------------------------------------


async def test_a_request_is_exactly_what_was_given_and_nothing_of_aiohttps_own(start: Any) -> None:
    server, leg = await start(saying(answer(b"{}")))
    await whole(await leg.post({"Accept": "a", "Rowgate-Context": "x.y.z"}, b'{"a":"\xc3\xa9"}', timeout=PLENTY))
    host = server.url.removeprefix("http://").partition("/")[0]
    assert server.requests == [
        (
            f"POST /mcp?tenant=a%2Fb HTTP/1.1\r\nHost: {host}\r\nAccept: a\r\nRowgate-Context: x.y.z\r\n"
            "Content-Length: 10\r\n\r\n"
        ).encode()
        + b'{"a":"\xc3\xa9"}'
    ]


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nX: y", "a\rX", "a\0b", "caf\u00e9", "\u560a"])
@pytest.mark.parametrize("part", ["name", "value"])
async def test_a_field_that_would_not_stay_one_line_is_never_sent(start: Any, value: str, part: str) -> None:
    server, leg = await start(saying(answer(b"{}")), max_connections=1)
    with pytest.raises(ValueError):
        await leg.post({"A": value} if part == "value" else {value: "A"}, b"", timeout=PLENTY)
    assert await ask(leg) == b"{}"
    assert len(server.requests) == 1


def test_a_break_in_one_field_is_not_made_up_for_by_another() -> None:
    with pytest.raises(ValueError):
        request_bytes("POST / HTTP/1.1", {"A": "b\r\n", "C": "d"}, b"")


# --- what is understood ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wire",
    [
        answer(b"hello world"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb;x=y\r\nhello world\r\n0\r\nTrailer: t\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"hello world"),
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + answer(b"hello world"),
    ],
    ids=["a length", "chunks", "an extension and a trailer", "100 first", "three times 103 first"],
)
async def test_an_answer_is_read_whatever_its_framing_and_the_connection_serves_again(start: Any, wire: bytes) -> None:
    server, leg = await start(saying(wire))
    assert [await ask(leg) for _ in range(3)] == [b"hello world"] * 3
    assert len(server.peers) == 1


async def test_an_answer_that_comes_byte_by_byte_is_the_same(start: Any) -> None:
    async def slowly(peer: Peer, request: bytes) -> None:
        for byte in answer(b"hello world"):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

    server, leg = await start(slowly)
    assert [await ask(leg) for _ in range(2)] == [b"hello world"] * 2
    assert len(server.peers) == 1


async def test_an_answer_that_ends_with_the_connection_is_whole_and_the_last(start: Any) -> None:
    async def close(peer: Peer, request: bytes) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\nhello ")
        await peer.send(b"world")
        peer.writer.close()

    server, leg = await start(close)
    assert [await ask(leg) for _ in range(2)] == [b"hello world"] * 2
    assert len(server.peers) == 2


@pytest.mark.parametrize("status", [b"204 No Content", b"202 Accepted", b"401 Unauthorized", b"500 Oh"])
async def test_status_and_fields_are_those_of_the_answer(start: Any, status: bytes) -> None:
    _, leg = await start(saying(answer(b"", b"Rowgate-Credential: refused", status=status)))
    reply = await post(leg)
    assert (reply.status, reply.headers["rowgate-credential"]) == (int(status[:3]), "refused")
    assert await whole(reply) == b""


async def test_a_redirect_is_an_answer_and_is_not_followed(start: Any) -> None:
    server, leg = await start(saying(answer(b"", b"Location: http://127.0.0.1:1/", status=b"307 Temporary Redirect")))
    reply = await post(leg)
    assert reply.status == 307
    reply.release()
    assert len(server.requests) == 1


# --- what ends a connection --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wire",
    [
        answer(b"{}", b"Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n{}",
        answer(b"{}") + answer(b'"for whoever asks next"'),
        answer(b"{}") + b"H",
        answer(b"{}") + answer(b'"for whoever asks next"')[:20],
        answer(b"{}") + answer(b'"for whoever asks next"')[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
        answer(b"", status=b"204 No Content") + b"HTTP/1.1 200 OK\r\nContent-Length: 1",
    ],
    ids=[
        "Connection: close",
        "HTTP/1.0",
        "an upgrade",
        "an answer too many",
        "its first byte",
        "half its head",
        "all but its end",
        "the start of one behind chunks",
        "the start of one behind no body",
    ],
)
async def test_a_connection_that_cannot_be_trusted_with_another_request_is_closed(start: Any, wire: bytes) -> None:
    server, leg = await start(saying(wire, answer(b'"mine"')))
    (await post(leg)).release()
    await server.peers[0].closed.wait()
    assert await ask(leg) == b'"mine"'
    assert len(server.peers) == 2


@pytest.mark.parametrize("unasked", [answer(b'"another\'s"'), b"HTTP/1.1 200 OK\r\nContent-", b"\r\n", b"x"])
async def test_bytes_that_nobody_asked_for_are_never_the_answer_to_the_next_request(start: Any, unasked: bytes) -> None:
    server, leg = await start(saying(answer(b'"mine"')))
    assert await ask(leg) == b'"mine"'
    await server.peers[0].send(unasked)
    await server.peers[0].closed.wait()
    assert await ask(leg) == b'"mine"'
    assert len(server.peers) == 2


async def test_a_connection_that_the_plugin_closed_meanwhile_is_not_used(start: Any) -> None:
    async def once(peer: Peer, request: bytes) -> None:
        await peer.send(answer(b"{}"))
        peer.writer.close()

    server, leg = await start(once)
    for calls in (1, 2, 3):
        assert await ask(leg) == b"{}"
        assert len(server.peers) == calls
        await server.peers[-1].closed.wait()
        await until(lambda: not leg.idle_connections)


async def test_a_connection_that_rested_too_long_is_not_used(start: Any) -> None:
    server, leg = await start(saying(answer(b"{}")), idle=-1.0)
    await ask(leg)
    await ask(leg)
    assert len(server.peers) == 2
    await server.peers[0].closed.wait()


async def test_an_answer_before_the_request_was_taken_ends_the_connection(stack: AsyncExitStack) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(answer(b"too large", status=b"413 Content Too Large"))
        gone.append(writer)

    gone: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    stack.callback(server.close)
    leg = PooledLeg(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", max_connections=1, connect_timeout=PLENTY
    )
    stack.push_async_callback(leg.close)
    reply = await post(leg, b"x" * 32_000_000)
    assert (reply.status, await whole(reply)) == (413, b"too large")
    assert leg.idle_connections == 0
    gone[0].close()


# --- one exchange at a time --------------------------------------------------------------------------------


async def test_cancelling_a_call_closes_its_connection(start: Any) -> None:
    asked = asyncio.Event()

    async def never(peer: Peer, request: bytes) -> None:
        asked.set()
        await peer.until_closed()

    server, leg = await start(never, max_connections=1)
    call = asyncio.create_task(post(leg))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.peers[0].closed.wait()
    assert leg.idle_connections == 0


async def test_leaving_a_stream_early_closes_its_connection(start: Any) -> None:
    async def stream(peer: Peer, request: bytes) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await peer.until_closed()

    server, leg = await start(stream)
    reply = await post(leg)
    chunks = reply.chunks()
    assert await anext(chunks) == b"hello"
    assert reply.received() is None
    reply.release()
    await server.peers[0].closed.wait()


async def test_a_call_beyond_the_limit_waits_for_a_connection_to_be_free(start: Any) -> None:
    server, leg = await start(saying(answer(b"{}")), max_connections=1)
    first = await post(leg)
    second = asyncio.create_task(ask(leg))
    third = asyncio.create_task(ask(leg))
    with pytest.raises(PluginTimeout):
        await post(leg, timeout=0.05)
    third.cancel()
    assert len(server.requests) == 1
    await whole(first)
    assert await second == b"{}"
    assert await ask(leg) == b"{}"
    assert len(server.peers) == 1


async def test_calls_at_the_same_time_never_share_a_connection(start: Any) -> None:
    async def echo(peer: Peer, request: bytes) -> None:
        await asyncio.sleep(0)
        await peer.send(answer(request.partition(b"\r\n\r\n")[2]))

    server, leg = await start(echo, max_connections=4)
    bodies = [b'{"user":%d}' % number for number in range(200)]
    assert await asyncio.gather(*(ask(leg, body) for body in bodies)) == bodies
    assert len(server.peers) == 4


async def test_a_reader_that_is_slow_slows_the_plugin_and_fills_no_memory(start: Any) -> None:
    size = 64 * 2**20

    async def flood(peer: Peer, request: bytes) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)

    server, leg = await start(flood)
    reply = await post(leg)
    await until(lambda: leg.paused_connections > 0)
    assert server.peers[0].writer.transport.get_write_buffer_size() > size // 2
    assert sum([len(chunk) async for chunk in reply.chunks()]) == size
    reply.release()
    assert leg.idle_connections == 1


async def test_closing_the_leg_closes_what_rests_and_what_works(start: Any) -> None:
    async def first_only(peer: Peer, request: bytes) -> None:
        if len(server.requests) > 1:
            await peer.until_closed()
        else:
            await peer.send(answer(b"{}"))

    server, leg = await start(first_only)
    resting = await post(leg)
    working = asyncio.create_task(post(leg))
    await until(lambda: len(server.requests) == 2)
    await whole(resting)
    await leg.close()
    with pytest.raises(PluginDied):
        await working
    for peer in server.peers:
        await peer.closed.wait()
