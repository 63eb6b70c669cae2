"""A plugin that is down, slow, rude or gone: each failure has its error, costs no slot and repeats no request."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from rowgate.errors import PluginDied, PluginTimeout, PluginUnreachable
from rowgate.upstream.pooled import PooledLeg
from unit.upstream.exchanges import PLENTY, ask, post
from unit.upstream.rude_server import Peer, answer


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"HTTP/1.1 200",
        b"rubbish\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200 + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=["nothing", "half a line", "rubbish", "no number", "two lengths", "a long field", "many fields", "only 100"],
)
async def test_what_is_no_answer_is_a_plugin_that_died_and_the_request_is_not_repeated(start: Any, wire: bytes) -> None:
    async def say(peer: Peer, request: bytes) -> None:
        await peer.send(wire)
        peer.writer.close()

    server, leg = await start(say, max_connections=1)
    for calls in (1, 2):  # the second shows that the slot of the first is free again
        with pytest.raises(PluginDied):
            await post(leg)
        assert len(server.requests) == calls


async def test_a_reset_on_a_connection_that_served_before_is_not_answered_with_a_second_try(start: Any) -> None:
    async def second_dies(peer: Peer, request: bytes) -> None:
        if len(server.requests) == 2:
            peer.writer.transport.abort()
        else:
            await peer.send(answer(b"{}"))

    server, leg = await start(second_dies)
    await ask(leg)
    with pytest.raises(PluginDied):
        await post(leg)
    assert (len(server.requests), len(server.peers)) == (2, 1), "a tool call is never repeated"
    assert await ask(leg) == b"{}"


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nrubbish",
    ],
    ids=["short of its length", "without its last chunk", "with a chunk that is none"],
)
async def test_a_body_that_does_not_end_is_a_plugin_that_died(start: Any, wire: bytes) -> None:
    async def say(peer: Peer, request: bytes) -> None:
        await peer.send(wire)
        peer.writer.close()

    _, leg = await start(say)
    with pytest.raises(PluginDied):
        await ask(leg)
    assert leg.idle_connections == 0


async def test_a_plugin_that_is_down_is_unreachable_and_takes_no_slot(unused_tcp_port: int) -> None:
    leg = PooledLeg(f"http://127.0.0.1:{unused_tcp_port}/mcp", max_connections=1, connect_timeout=PLENTY)
    for _ in range(3):
        with pytest.raises(PluginUnreachable):
            await post(leg)


async def test_a_plugin_that_accepts_nobody_is_unreachable_after_the_connect_timeout() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # the kernel keeps one, and drops what comes after
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        leg = PooledLeg(f"http://127.0.0.1:{full.getsockname()[1]}/", max_connections=1, connect_timeout=0.05)
        for _ in range(2):
            with pytest.raises(PluginUnreachable):
                await post(leg)


@pytest.mark.parametrize("wire", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-"])
async def test_a_head_that_does_not_come_in_time_is_a_timeout_and_tells_the_plugin(start: Any, wire: bytes) -> None:
    async def nothing(peer: Peer, request: bytes) -> None:
        await peer.send(wire)
        await peer.until_closed()

    server, leg = await start(nothing, max_connections=1)
    for calls in (1, 2):
        with pytest.raises(PluginTimeout):
            await post(leg, timeout=0.05)
        await server.peers[calls - 1].closed.wait()
