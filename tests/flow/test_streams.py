"""Streams: relayed as they come, cancelled when the client leaves, closed with an error when the plugin dies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from flow.client import envelope, mirrored
from flow.conftest import Running
from flow.issuer import ALICE, BOB
from flow.plugin import Received, event_stream
from rowgate.observe.events import StreamChanged

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 1}}
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
META = {"_meta": {"progressToken": "p"}}


def result(id: Any = 1) -> dict[str, Any]:
    content = [{"type": "text", "text": "done"}]
    return {"jsonrpc": "2.0", "id": id, "result": {"content": content, "resultType": "complete"}}


async def call(running: Running, **options: Any) -> Any:
    params = {"name": "echo", "arguments": {}, **META}
    return await running.client.modern("tools/call", params, token=running.issuer.token(), **options)


async def test_progress_and_log_messages_come_before_the_result_on_one_stream(running: Running) -> None:
    running.plugin.answers["tools/call"] = event_stream(PROGRESS, LOG, result())
    reply = await call(running)
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert reply.headers["X-Accel-Buffering"] == "no"
    assert reply.headers["Cache-Control"] == "no-cache, no-transform"
    assert [event.get("method", "result") for event in reply.events] == [
        "notifications/progress",
        "notifications/message",
        "result",
    ]
    assert reply.events[-1]["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "main"


async def test_a_stream_that_begins_with_the_result_is_answered_as_json(running: Running) -> None:
    running.plugin.answers["tools/call"] = event_stream(result())
    reply = await call(running)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.text == "done"


async def test_events_reach_the_client_before_the_result_exists(running: Running) -> None:
    go_on = asyncio.Event()

    async def answer(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        await response.write(f"data: {json.dumps(PROGRESS)}\r\n\r\n".encode())
        await go_on.wait()
        await response.write(f"data: {json.dumps(result(it.message['id']))}\r\n\r\n".encode())
        return response

    running.plugin.answers["tools/call"] = answer
    message = envelope("tools/call", {"name": "echo", "arguments": {}, **META})
    headers = {"Accept": "*/*", "Content-Type": "application/json", **mirrored(message)}
    headers["Authorization"] = f"Bearer {running.issuer.token()}"
    async with running.session.post(running.client.url, json=message, headers=headers) as response:
        assert b"progress" in await asyncio.wait_for(response.content.readuntil(b"\r\n\r\n"), 5)
        go_on.set()
        assert b"done" in await asyncio.wait_for(response.content.read(), 5)


async def test_a_keep_alive_of_the_plugin_opens_the_clients_stream(running: Running) -> None:
    running.plugin.answers["tools/call"] = event_stream(": ping\n\n", result())
    reply = await call(running)
    assert reply.body.startswith(b": keep-alive\r\n\r\n")
    assert reply.events[-1]["result"]["content"][0]["text"] == "done"


async def test_only_notifications_of_this_request_travel_on_its_stream(running: Running) -> None:
    foreign = {**PROGRESS, "params": {"progressToken": "other", "progress": 1}}
    change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    running.plugin.answers["tools/call"] = event_stream(foreign, change, PROGRESS, result())
    reply = await call(running)
    assert len(reply.events) == 2
    assert reply.events[0]["params"]["progressToken"] == "p"


async def test_a_request_of_the_plugin_ends_the_exchange(running: Running) -> None:
    asked = {"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {}}
    running.plugin.answers["tools/call"] = event_stream(asked, result())
    assert (await call(running)).error["data"]["code"] == "RG503"


async def test_a_plugin_that_dies_in_mid_stream_leaves_an_error_as_the_last_event(running: Running) -> None:
    running.plugin.answers["tools/call"] = event_stream(PROGRESS)
    reply = await call(running)
    assert reply.status == 200
    assert reply.events[-1]["id"] == 1
    assert reply.events[-1]["error"]["data"]["code"] == "RG506"
    assert running.last.outcome == "upstream_error"


async def test_silence_in_mid_stream_is_a_timeout_and_keep_alives_do_not_hide_it(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(timeout="300ms"))

    async def answer(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        while True:
            await response.write(b": ping\n\n")
            await asyncio.sleep(0.05)

    running.plugin.answers["tools/call"] = answer
    reply = await call(running)
    assert reply.events[-1]["error"]["data"]["code"] == "RG502"
    await asyncio.wait_for(running.plugin.cancelled.wait(), 5)


async def test_no_call_outlives_the_hard_limit_however_busy_it_is(start: Any) -> None:
    running = await start(lambda tree: tree["gateway"].update(request={"timeout": "1s"}))

    async def answer(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        while True:
            await response.write(f"data: {json.dumps(PROGRESS)}\n\n".encode())
            await asyncio.sleep(0.05)

    running.plugin.answers["tools/call"] = answer
    reply = await call(running)
    assert reply.events[-1]["error"]["data"]["code"] == "RG502"
    await asyncio.wait_for(running.plugin.cancelled.wait(), 5)


async def leave(running: Running, message: dict[str, Any], headers: dict[str, str]) -> None:
    """Send, wait until the plugin has the call, and go away."""
    arrived = asyncio.Event()

    async def endless(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if headers.get("streaming"):
            await response.prepare(it.request)
            await response.write(b": ping\n\n")
        arrived.set()
        await asyncio.sleep(60)
        return response

    running.plugin.answers["tools/call"] = endless
    fields = {"Accept": "*/*", "Content-Type": "application/json", **headers}
    fields["Authorization"] = f"Bearer {running.issuer.token()}"
    sending = asyncio.ensure_future(running.session.post(running.client.url, json=message, headers=fields))
    await asyncio.wait_for(arrived.wait(), 5)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await asyncio.wait_for(running.plugin.cancelled.wait(), 5)
    await asyncio.wait_for(running.recorded.wait(), 5)


async def test_a_client_that_leaves_stops_the_plugin_and_is_recorded(running: Running) -> None:
    message = envelope("tools/call", {"name": "echo", "arguments": {}})
    await leave(running, message, mirrored(message))
    assert running.last.outcome == "cancelled"
    assert (running.last.status, running.last.capability) == (0, "echo")


async def test_a_legacy_client_that_leaves_stops_the_plugin_too(running: Running) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
    await leave(running, message, {})
    assert running.last.outcome == "cancelled"


async def test_streams_are_counted_open_and_closed(running: Running) -> None:
    running.plugin.answers["tools/call"] = event_stream(PROGRESS, result())
    await call(running)
    changes = [event.change for event in running.events if isinstance(event, StreamChanged)]
    assert changes == [1, -1]
    assert running.last.streamed is True


async def test_input_required_passes_untouched_with_its_state(running: Running) -> None:
    asked = {"confirm": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}}

    async def answer(it: Received) -> dict[str, Any]:
        if "inputResponses" in it.params:
            assert it.params["requestState"] == "opaque~1"
            return it.text(it.params["inputResponses"]["confirm"]["action"])
        given = it.result(inputRequests=asked, requestState="opaque~1")
        given["result"]["resultType"] = "input_required"
        return given

    running.plugin.answers["tools/call"] = answer
    token = running.issuer.token()
    first = await running.client.call("echo", token=token)
    assert first.result["resultType"] == "input_required"
    assert first.result["inputRequests"] == asked
    assert first.result["requestState"] == "opaque~1"
    assert running.last.outcome == "input_required"
    again = {
        "name": "echo",
        "arguments": {},
        "requestState": "opaque~1",
        "inputResponses": {"confirm": {"action": "accept"}},
    }
    assert (await running.client.modern("tools/call", again, token=token, id=2)).text == "accept"


async def test_a_legacy_caller_of_a_tool_that_asks_back_is_told_which_version_can(running: Running) -> None:
    async def answer(it: Received) -> dict[str, Any]:
        given = it.result(requestState="x")
        given["result"]["resultType"] = "input_required"
        return given

    for method in ("tools/call", "prompts/get"):
        running.plugin.answers[method] = answer
    token = running.issuer.token()
    reply = await running.client.legacy("tools/call", {"name": "echo", "arguments": {}}, token=token)
    assert reply.result["isError"] is True
    assert "2026-07-28" in reply.text
    prompt = await running.client.legacy("prompts/get", {"name": "summary"}, token=token)
    assert prompt.error["code"] == -32600


async def test_two_callers_with_the_same_id_at_the_same_time_get_their_own_answers(running: Running) -> None:
    async def who(subject: str) -> str:
        reply = await running.client.call("whoami", token=running.issuer.token(subject), id=7)
        return str(reply.text)

    subjects = [ALICE, BOB] * 50
    assert await asyncio.gather(*(who(subject) for subject in subjects)) == subjects
