"""SIGTERM: what is in flight is finished, what is idle is not waited for, what lasts too long is cut off."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from flow.client import Client, envelope, mirrored
from flow.issuer import ALICE, Issuer
from flow.plugin import Plugin, Received
from process.conftest import Held, Start
from process.gateway import Gateway, until

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 1}}


async def not_ready(gateway: Gateway) -> dict[str, Any]:
    async def probe() -> dict[str, Any] | None:
        status, body = await gateway.readiness()
        return body if status == 503 else None

    return await until(probe)


class Streaming:
    """A tool that says something at once, and its result when it is let go."""

    def __init__(self, plugin: Plugin) -> None:
        self.released = asyncio.Event()
        plugin.answers["tools/call"] = self._answer

    async def _answer(self, it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        await response.write(b"data: " + json.dumps(PROGRESS).encode() + b"\n\n")
        await self.released.wait()
        await response.write(b"data: " + json.dumps(it.text("the end")).encode() + b"\n\n")
        await response.write_eof()
        return response


def opened(client: Client, token: str) -> Any:
    """A call whose answer is read piece by piece."""
    message = envelope("tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": "p"}})
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {token}"} | mirrored(message)
    return client.session.post(client.url, data=json.dumps(message), headers=headers)


async def test_answers_during_the_delay_end_their_connections(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["shutdown"] = {"delay": "5s"}
    gateway = await start()
    assert "Connection" not in (await client.call("echo", token=tokens.token())).headers
    gateway.send(signal.SIGTERM)
    await not_ready(gateway)
    reply = await client.call("echo", token=tokens.token())
    assert (reply.status, reply.headers["Connection"]) == (200, "close")


async def test_a_call_in_flight_is_answered_after_sigterm_and_then_the_process_ends(
    gateway: Gateway, held: Held, client: Client, tokens: Issuer
) -> None:
    call = asyncio.create_task(client.call("echo", token=tokens.token()))
    await held.arrival()
    gateway.send(signal.SIGTERM)
    await gateway.refuses()
    assert (await not_ready(gateway))["checks"]["gateway"] == "draining"
    held.released.set()
    reply = await call
    assert (reply.status, reply.text) == (200, ALICE)
    assert await gateway.exits() == 0
    assert (await gateway.logged(event="request_finished"))["outcome"] == "ok"


async def test_an_open_stream_is_served_to_its_end(
    gateway: Gateway, notes: Plugin, client: Client, tokens: Issuer
) -> None:
    streaming = Streaming(notes)
    async with opened(client, tokens.token()) as response:
        assert b"progress" in await response.content.readuntil(b"\r\n\r\n")
        gateway.send(signal.SIGTERM)
        await gateway.refuses()
        streaming.released.set()
        assert b"the end" in await response.content.read()
    assert await gateway.exits() == 0


async def test_readiness_turns_at_once_and_requests_are_served_for_the_delay(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["shutdown"]["delay"] = "5s"
    gateway = await start()
    gateway.send(signal.SIGTERM)
    assert (await not_ready(gateway))["missing"] == ["gateway"]
    async with aiohttp.ClientSession() as newcomer:
        reply = await Client(newcomer, client.url).call("echo", {"text": "late"}, token=tokens.token())
    assert reply.text == "late"
    await gateway.refuses()
    assert await gateway.exits() == 0


async def test_after_the_timeout_the_rest_is_cut_off_and_recorded(
    start: Start, tree: dict[str, Any], held: Held, notes: Plugin, client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["shutdown"]["timeout"] = "1s"
    gateway = await start()
    call = asyncio.create_task(client.call("echo", token=tokens.token()))
    await held.arrival()
    gateway.send(signal.SIGTERM)
    with pytest.raises(aiohttp.ClientConnectionError):
        await call
    await asyncio.wait_for(notes.cancelled.wait(), 30)
    assert await gateway.exits() == 0
    line = await gateway.logged(event="request_finished")
    assert (line["outcome"], line["status"], line["name"]) == ("cancelled", 0, "echo")
    assert (await gateway.logged(event="mcp_request"))["outcome"] == "cancelled"
    assert gateway.log[-1]["state"] == "stopped"
    assert gateway.stderr == []


async def test_the_drain_takes_its_timeout_once_and_not_twice(
    start: Start, tree: dict[str, Any], held: Held, client: Client, tokens: Issuer
) -> None:
    """Orchestrators kill what outlives their grace period. The bound is the timeout's double, which aiohttp takes."""
    tree["gateway"]["shutdown"]["timeout"] = "10s"
    gateway = await start()
    call = asyncio.create_task(client.call("echo", token=tokens.token()))
    await held.arrival()
    gateway.send(signal.SIGTERM)
    assert await gateway.exits(within=18) == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await call


async def test_a_timeout_of_0_waits_for_nothing(
    start: Start, tree: dict[str, Any], held: Held, notes: Plugin, client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["shutdown"]["timeout"] = "0s"
    gateway = await start()
    call = asyncio.create_task(client.call("echo", token=tokens.token()))
    await held.arrival()
    assert await gateway.stop() == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await call
    await asyncio.wait_for(notes.cancelled.wait(), 30)
    assert (await gateway.logged(event="request_finished"))["outcome"] == "cancelled"


async def test_a_cut_stream_ends_without_its_end(
    start: Start, tree: dict[str, Any], notes: Plugin, client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["shutdown"]["timeout"] = "1s"
    gateway = await start()
    Streaming(notes)
    async with opened(client, tokens.token()) as response:
        await response.content.readuntil(b"\r\n\r\n")
        gateway.send(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()
    assert await gateway.exits() == 0
    line = await gateway.logged(event="request_finished")
    assert (line["outcome"], line["streamed"]) == ("cancelled", True)


async def test_idle_connections_do_not_hold_up_the_process(gateway: Gateway, client: Client, tokens: Issuer) -> None:
    """The drain's timeout is longer than a test waits for the exit."""
    assert (await client.call("echo", token=tokens.token())).status == 200  # stays open in its session
    silent = await asyncio.open_connection(*gateway.address)
    half = await asyncio.open_connection(*gateway.address)
    half[1].write(b"POST /mcp HTTP/1.1\r\nHost: half")
    await half[1].drain()
    assert (await client.call("echo", token=tokens.token())).status == 200
    assert await gateway.stop() == 0
    for reader, writer in (silent, half):
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_another_signal_during_the_drain_changes_nothing(
    gateway: Gateway, held: Held, client: Client, tokens: Issuer, number: signal.Signals
) -> None:
    call = asyncio.create_task(client.call("echo", token=tokens.token()))
    await held.arrival()
    gateway.send(signal.SIGTERM)
    await gateway.refuses()
    gateway.send(number)
    gateway.send(number)
    await not_ready(gateway)
    held.released.set()
    assert (await call).text == ALICE
    assert await gateway.exits() == 0
    assert gateway.stderr == []
