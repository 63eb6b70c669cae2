"""Plugins that end their streams late, never, or with more than was asked for."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from flow.conftest import Running
from flow.plugin import Received, event_stream


async def streamed(it: Received, late: asyncio.Event | None = None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(it.request)
    await response.write(f"data: {json.dumps(it.text('done'))}\n\n".encode())
    if late is not None:
        await late.wait()
    for _ in range(20):
        await asyncio.sleep(0)  # the gateway, on the same loop, has read the result before its stream ends
    await response.write_eof()
    return response


async def test_streamed_answers_share_a_connection_although_their_end_comes_by_itself(running: Running) -> None:
    connections: set[Any] = set()

    async def answer(it: Received) -> web.StreamResponse:
        assert it.request.transport is not None
        connections.add(it.request.transport.get_extra_info("peername"))
        return await streamed(it)

    running.plugin.answers["tools/call"] = answer
    for _ in range(10):
        assert (await running.client.call("echo", token=running.issuer.token())).text == "done"
    assert len(connections) == 1


async def test_a_stream_that_never_ends_holds_neither_the_answer_nor_the_connection(running: Running) -> None:
    running.plugin.answers["tools/call"] = lambda it: streamed(it, late=asyncio.Event())
    assert (await running.client.call("echo", token=running.issuer.token())).text == "done"
    async with asyncio.timeout(5):
        await running.plugin.cancelled.wait()


async def test_no_generator_of_a_call_is_left_for_the_collector(running: Running) -> None:
    """What it leaves runs later, in a task of its own, when its connection already serves another caller."""
    left: list[str] = []
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=lambda generator: left.append(generator.__qualname__))
    try:
        for end in ("result", "dies"):
            running.plugin.answers["tools/call"] = streamed if end == "result" else event_stream(": ping\n\n")
            await running.client.call("echo", token=running.issuer.token())
    finally:
        sys.set_asyncgen_hooks(*before)
    assert left == []
