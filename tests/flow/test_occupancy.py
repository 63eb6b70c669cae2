"""How many at once: places are refused when there is none, and free again however a call ends."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse, web

from flow.client import Reply, envelope, mirrored
from flow.conftest import Running
from flow.issuer import ALICE, BOB
from flow.plugin import Plugin, Received, tool
from flow.plugin import plugin as another

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 1}}


def of_server(**limits: Any) -> Any:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = limits

    return change


def of_plugin(concurrency: int) -> Any:
    def change(tree: dict[str, Any]) -> None:
        tree["plugins"]["notes"]["concurrency"] = concurrency

    return change


BOTH = [pytest.param(of_server(concurrency=1), "RG404", id="caller"), pytest.param(of_plugin(1), "RG406", id="plugin")]


class Held:
    """Calls that stay in the plugin until they are let go."""

    def __init__(self, plugin: Plugin) -> None:
        self.arrived: asyncio.Queue[Received] = asyncio.Queue()
        self.released = asyncio.Event()
        for method in ("tools/call", "resources/read"):
            plugin.answers[method] = self._answer

    async def arrival(self) -> Received:
        return await asyncio.wait_for(self.arrived.get(), 30)

    async def _answer(self, it: Received) -> dict[str, Any]:
        self.arrived.put_nowait(it)
        await self.released.wait()
        if it.message["method"] == "resources/read":
            return it.result(contents=[{"uri": it.params["uri"], "text": "t"}], ttlMs=0, cacheScope="private")
        return it.text("let go")


@pytest.fixture
def held(notes: Plugin) -> Held:
    return Held(notes)


def call(running: Running, subject: str = ALICE) -> asyncio.Task[Reply]:
    return asyncio.create_task(running.client.call("echo", token=running.issuer.token(subject)))


def code_of(reply: Reply) -> str:
    assert (reply.status, reply.result["isError"]) == (200, True)
    assert reply.result["_meta"]["rowgate/retry_after"] >= 1
    return str(reply.result["_meta"]["rowgate/error"]["error"])


async def recorded(running: Running, outcome: str, code: str | None = None) -> None:
    """Until a request ended so: what it held is free by then."""
    async with asyncio.timeout(30):
        while not any(it.outcome == outcome and it.code == code for it in running.finished):
            running.recorded.clear()
            await running.recorded.wait()


@pytest.mark.parametrize(("change", "code"), BOTH)
async def test_a_call_for_which_there_is_no_place_is_refused_at_once_and_does_not_reach_the_plugin(
    start: Any, held: Held, change: Any, code: str
) -> None:
    running = await start(change)
    first = call(running)
    await held.arrival()
    assert code_of(await call(running)) == code
    assert held.arrived.empty()
    held.released.set()
    assert (await first).text == "let go"
    assert (await call(running)).text == "let go"


async def test_other_callers_have_places_of_their_own(start: Any, held: Held) -> None:
    running = await start(of_server(concurrency=1))
    calls = [call(running, ALICE), call(running, BOB)]
    for _ in calls:
        await held.arrival()
    assert code_of(await call(running, ALICE)) == "RG404"
    held.released.set()
    assert [reply.text for reply in await asyncio.gather(*calls)] == ["let go"] * 2


async def test_the_places_of_a_plugin_are_everybodys_and_other_plugins_are_not_concerned(
    start: Any, held: Held, stack: Any
) -> None:
    other = await stack.enter_async_context(another("other"))
    other.tools[:] = [tool("free")]

    def change(tree: dict[str, Any]) -> None:
        of_plugin(2)(tree)
        tree["servers"]["main"]["capabilities"].append({"from": "other", "tools": ["free"]})

    running = await start(change, other=other)
    calls = [call(running, ALICE), call(running, BOB)]
    for _ in calls:
        await held.arrival()
    third = "33333333-3333-4333-8333-333333333333"
    assert code_of(await call(running, third)) == "RG406"
    reply = await running.client.call("free", {"text": "hi"}, token=running.issuer.token(third))
    assert reply.text == "hi"
    held.released.set()
    await asyncio.gather(*calls)


async def test_a_read_that_finds_the_plugin_busy_is_answered_503(start: Any, held: Held) -> None:
    running = await start(of_plugin(1))
    token = running.issuer.token()
    first = asyncio.create_task(running.client.modern("resources/read", {"uri": "note://all"}, token=token))
    await held.arrival()
    reply = await running.client.modern("resources/read", {"uri": "note://all"}, token=token)
    assert (reply.status, reply.error["data"]["code"], reply.headers["Retry-After"]) == (503, "RG406", "1")
    held.released.set()
    assert (await first).status == 200


# --- however a call ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "code"), BOTH)
async def test_a_client_that_leaves_gives_its_place_back(start: Any, held: Held, change: Any, code: str) -> None:
    running = await start(change)
    leaving = call(running)
    await held.arrival()
    leaving.cancel()
    await recorded(running, "cancelled")
    held.released.set()
    assert (await call(running)).text == "let go"


@pytest.mark.parametrize(("change", "code"), BOTH)
async def test_a_plugin_that_takes_too_long_gives_the_place_back(
    start: Any, held: Held, change: Any, code: str
) -> None:
    def impatient(tree: dict[str, Any]) -> None:
        change(tree)
        tree["plugins"]["notes"]["timeout"] = "100ms"

    running = await start(impatient)
    assert (await call(running)).error["data"]["code"] == "RG502"
    held.released.set()
    assert (await call(running)).text == "let go"


@pytest.mark.parametrize(("change", "code"), BOTH)
async def test_a_plugin_that_dies_or_babbles_gives_the_place_back(
    start: Any, notes: Plugin, change: Any, code: str
) -> None:
    running = await start(change)

    async def dies(it: Received) -> web.StreamResponse:
        transport = it.request.transport
        assert transport is not None
        transport.close()
        return web.Response()

    async def babbles(it: Received) -> web.StreamResponse:
        return web.Response(text="no MCP")

    for answer in (dies, babbles):
        notes.answers["tools/call"] = answer
        assert (await call(running)).status in (200, 502)
    del notes.answers["tools/call"]
    assert (await running.client.call("echo", {"text": "hi"}, token=running.issuer.token())).text == "hi"


async def test_a_refused_place_of_the_plugin_leaves_the_callers_own_free(start: Any, held: Held) -> None:
    def change(tree: dict[str, Any]) -> None:
        of_plugin(1)(tree)
        tree["servers"]["main"]["limits"] = {"concurrency": 1}

    running = await start(change)
    first = call(running, ALICE)
    await held.arrival()
    assert code_of(await call(running, BOB)) == "RG406"
    held.released.set()
    await first
    assert (await call(running, BOB)).text == "let go"


async def test_a_storm_of_calls_that_come_and_go_leaves_every_place_free(start: Any, held: Held) -> None:
    running = await start(of_server(concurrency=3))
    for _ in range(10):
        calls = [call(running) for _ in range(6)]
        for _ in range(3):
            await held.arrival()
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        async with asyncio.timeout(30):
            while sum(it.outcome == "cancelled" for it in running.finished) < len(running.plugin.calls):
                running.recorded.clear()
                await running.recorded.wait()
    held.released.set()
    replies = await asyncio.gather(*(call(running) for _ in range(3)))
    assert [reply.text for reply in replies] == ["let go"] * 3


# --- streams -----------------------------------------------------------------------------------------------


class Streaming:
    """Calls that stream until they are let go."""

    def __init__(self, plugin: Plugin) -> None:
        self.released = asyncio.Event()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        plugin.answers["tools/call"] = self._answer

    async def _answer(self, it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        await response.write(f"data: {json.dumps(PROGRESS)}\n\n".encode())
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.ended.put_nowait("cancelled")
            raise
        await response.write(f"data: {json.dumps(it.text('streamed'))}\n\n".encode())
        return response


@asynccontextmanager
async def stream(running: Running, subject: str = ALICE) -> Any:
    """An open stream: its first event has come."""
    params = {"name": "echo", "arguments": {}, "_meta": {"progressToken": "p"}}
    message = envelope("tools/call", params)
    headers = {"Accept": "*/*", "Content-Type": "application/json", **mirrored(message)}
    headers["Authorization"] = f"Bearer {running.issuer.token(subject)}"
    async with running.session.post(running.client.url, json=message, headers=headers) as response:
        assert b"progress" in await asyncio.wait_for(response.content.readuntil(b"\r\n\r\n"), 30)
        yield response


async def rest(response: ClientResponse) -> bytes:
    return await asyncio.wait_for(response.content.read(), 30)


async def test_a_stream_for_which_there_is_no_place_is_refused_before_its_first_byte_and_cancelled_in_the_plugin(
    start: Any, notes: Plugin
) -> None:
    running = await start(of_server(streams=1))
    streaming = Streaming(notes)
    async with stream(running) as first:
        reply = await call(running)
        assert code_of(reply) == "RG405"
        assert reply.headers["Content-Type"] == "application/json"
        assert await asyncio.wait_for(streaming.ended.get(), 30) == "cancelled"
        async with stream(running, BOB) as others:
            streaming.released.set()
            assert b"streamed" in await rest(others)
        assert b"streamed" in await rest(first)
    async with stream(running) as again:
        assert b"streamed" in await rest(again)


async def test_a_client_that_leaves_its_stream_gives_the_place_back(start: Any, notes: Plugin) -> None:
    running = await start(of_server(streams=1))
    streaming = Streaming(notes)
    async with stream(running) as leaving:
        leaving.close()
    await recorded(running, "cancelled")
    async with stream(running) as again:
        streaming.released.set()
        assert b"streamed" in await rest(again)


async def test_calls_that_do_not_stream_need_no_place_for_a_stream(start: Any, notes: Plugin) -> None:
    running = await start(of_server(streams=1))
    streaming = Streaming(notes)
    async with stream(running) as first:
        del notes.answers["tools/call"]
        token = running.issuer.token()
        replies = await asyncio.gather(*(running.client.call("echo", {"text": "hi"}, token=token) for _ in range(5)))
        assert [reply.text for reply in replies] == ["hi"] * 5
        streaming.released.set()
        assert b"streamed" in await rest(first)
