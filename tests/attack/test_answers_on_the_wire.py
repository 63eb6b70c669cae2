"""A plugin, or whoever sits between, that chooses every byte of its answers and when each of them comes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from rowgate.errors import PluginDied, PluginTimeout
from rowgate.upstream.pooled import PooledLeg
from unit.upstream.rude_server import Peer, answer, rude_server

HOSTILE = settings(max_examples=80, deadline=None)
BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
HONEST = st.sampled_from([answer(BODY), CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + answer(BODY)])
FORGED = answer(b'{"forged":true}')
TAILS = st.sampled_from([FORGED, FORGED[:20], b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n", b"0\r\n\r\n", b"x"])
STATUS_LINES = [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/9.9 200 OK\r\n"]
LENGTHS = [b"Content-Length: %s\r\n" % length for length in (b"2", b"40", b"-1", b"1, 2", b"0x2", b"9" * 30)]
CODINGS = [b"Transfer-Encoding: %s\r\n" % coding for coding in (b"chunked", b"chunked, identity", b"xchunked")]
ODDITIES = [b"Connection: close\r\n", b" folded\r\n", b"X: \0\r\n", b"X: a\rY: b\r\n", b"\n"]
BODIES = [b"\r\n", b"{}", b"2\r\n{}\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n"]
LINES = st.sampled_from([*STATUS_LINES, *LENGTHS, *CODINGS, *ODDITIES, *BODIES])


async def ask(leg: PooledLeg) -> bytes:
    reply = await leg.post({}, b"{}", timeout=2)
    try:
        received = reply.received()
        return received if received is not None else b"".join([chunk async for chunk in reply.chunks()])
    finally:
        reply.release()


async def send_in_pieces(peer: Peer, data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        await peer.send(data[start:end])
        for _ in range(3):
            await asyncio.sleep(0)  # let the other side read


@given(HONEST, st.lists(st.integers(0, 300), max_size=8))
@HOSTILE
async def test_an_answer_is_the_same_however_it_arrives(data: bytes, cuts: list[int]) -> None:
    async def script(peer: Peer, request: bytes) -> None:
        await send_in_pieces(peer, data, cuts)

    async with rude_server(script) as server:
        leg = PooledLeg(server.url, max_connections=1, connect_timeout=5)
        assert await ask(leg) == BODY
        assert await ask(leg) == BODY
        await leg.close()


@given(HONEST, TAILS, st.lists(st.integers(0, 400), max_size=4))
@HOSTILE
async def test_what_comes_after_an_answer_is_never_the_next_callers(data: bytes, tail: bytes, cuts: list[int]) -> None:
    """Alice gets her answer, or an error where it came in one piece with rubbish; then Bob asks and gets his own."""
    answers = [data + tail]

    async def script(peer: Peer, request: bytes) -> None:
        if answers:
            await send_in_pieces(peer, answers.pop(), cuts)
        else:
            await peer.send(answer(b"bob"))

    async with rude_server(script) as server:
        leg = PooledLeg(server.url, max_connections=1, connect_timeout=5)
        try:
            assert await ask(leg) == BODY
        except PluginDied:
            pass
        for _ in range(20):
            await asyncio.sleep(0)  # what was already on its way arrives while nobody asks
        assert await ask(leg) == b"bob"
        await leg.close()


@given(st.lists(LINES, max_size=8).map(b"".join) | st.binary(max_size=80))
@HOSTILE
async def test_no_bytes_are_a_defect_or_outlive_their_request(data: bytes) -> None:
    rude = True

    async def script(peer: Peer, request: bytes) -> None:
        if rude:
            await peer.send(data)
            peer.writer.close()
        else:
            await peer.send(answer(b"bob"))

    async with rude_server(script) as server:
        leg = PooledLeg(server.url, max_connections=1, connect_timeout=5)
        try:
            await ask(leg)
        except (PluginDied, PluginTimeout):
            pass
        rude = False
        assert await ask(leg) == b"bob"
        await leg.close()
