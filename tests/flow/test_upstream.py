"""A plugin that is down, slow, rude or endless: every failure is ours to explain, and nothing it wrote leaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from flow.conftest import Running
from flow.plugin import Received, event_stream, tool

SECRET = "postgres://service:hunter2@db"


def body(text: str, *, status: int = 200, content_type: str = "application/json", **headers: str) -> Any:
    async def answer(it: Received) -> web.StreamResponse:
        return web.Response(
            text=text.replace("ID", json.dumps(it.message["id"])),
            status=status,
            headers={"Content-Type": content_type, **headers},
        )

    return answer


RESULT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"resultType":"complete"}}'

RUDE: dict[str, tuple[Callable[[Received], Awaitable[Any]], int, str]] = {
    "no JSON": (body(SECRET), 502, "RG503"),
    "HTML": (body(f"<h1>{SECRET}</h1>", content_type="text/html"), 502, "RG503"),
    "an array": (body("[]"), 502, "RG503"),
    "not JSON-RPC": (body('{"id":ID,"result":{}}'), 502, "RG503"),
    "another id": (body('{"jsonrpc":"2.0","id":"other","result":{}}'), 502, "RG503"),
    "the id in a list": (body('{"jsonrpc":"2.0","id":[ID],"result":{}}'), 502, "RG503"),
    "result and error": (
        body('{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}'),
        502,
        "RG503",
    ),
    "a result that is no object": (body('{"jsonrpc":"2.0","id":ID,"result":[]}'), 502, "RG503"),
    "an error without a code": (body('{"jsonrpc":"2.0","id":ID,"error":{"message":"x"}}'), 502, "RG503"),
    "an unknown result type": (body(RESULT.replace("complete", "task")), 502, "RG503"),
    "a request": (body('{"jsonrpc":"2.0","id":ID,"method":"sampling/createMessage","params":{}}'), 502, "RG503"),
    "a redirect": (body("", status=307, Location="http://127.0.0.1:1/steal"), 502, "RG503"),
    "an empty 202": (body("", status=202), 502, "RG503"),
    "a 500 with its stack": (body(SECRET, status=500, content_type="text/plain"), 502, "RG503"),
    "a 502 of its own proxy": (body(SECRET, status=502, content_type="text/html"), 502, "RG501"),
    "a refusal of our context": (body('{"reason":"signature"}', status=401), 502, "RG505"),
    "a compressed answer": (body(RESULT, **{"Content-Encoding": "br"}), 502, "RG503"),
    "a header disagreement": (
        body('{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"x"}}', status=400),
        502,
        "RG503",
    ),
    "duplicate keys": (body('{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}'), 502, "RG503"),
    "a surrogate": (
        body('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\\ud800"}]}}'),
        502,
        "RG503",
    ),
}


@pytest.mark.parametrize("case", RUDE)
async def test_a_rude_answer_becomes_our_error_and_nothing_of_it_leaks(running: Running, case: str) -> None:
    answer, status, code = RUDE[case]
    running.plugin.answers["tools/call"] = answer
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (status, code)
    assert reply.json["id"] == 1
    assert SECRET not in reply.body.decode()
    assert running.last.outcome == "upstream_error"
    assert SECRET.encode() not in bytes(running.log.data)
    assert len(running.plugin.calls) == 1


async def test_the_same_failure_rides_on_200_for_a_legacy_caller(running: Running) -> None:
    running.plugin.answers["tools/call"] = body("rubbish")
    params = {"name": "echo", "arguments": {}}
    reply = await running.client.legacy("tools/call", params, token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (200, "RG503")


async def test_a_plugin_that_is_down_is_502_and_its_items_are_left_out_of_lists(start: Any, notes: Any) -> None:
    def nowhere(tree: dict[str, Any]) -> None:
        tree["plugins"]["notes"]["url"] = "http://127.0.0.1:1/mcp"

    running = await start(nowhere)
    token = running.issuer.token()
    listed = await running.client.modern("tools/list", token=token)
    assert listed.result["tools"] == []
    assert listed.result["ttlMs"] <= 5000
    assert (await running.client.call("echo", token=token)).error["code"] == -32602
    _, metrics = await running.internal("/metrics")
    assert 'rowgate_catalog_loads_total{outcome="failed",plugin="notes"} 1.0' in metrics


async def test_a_plugin_that_dies_after_its_lists_were_read_is_502(running: Running) -> None:
    async def drop(it: Received) -> web.StreamResponse:
        assert it.request.transport is not None
        it.request.transport.abort()
        await asyncio.sleep(10)
        raise AssertionError

    running.plugin.answers["tools/call"] = drop
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (502, "RG506")
    assert len(running.plugin.calls) == 1, "a tool call is never repeated"


async def test_a_slow_plugin_is_504_and_is_told_to_stop(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(timeout="200ms"))

    async def sleep(it: Received) -> dict[str, Any]:
        await asyncio.sleep(30)
        return it.text("late")

    running.plugin.answers["tools/call"] = sleep
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (504, "RG502")
    await asyncio.wait_for(running.plugin.cancelled.wait(), 5)


async def test_an_endless_answer_is_cut_off_at_the_limit(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(max_answer_bytes="64KiB"))

    async def endless(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(it.request)
        while True:
            await response.write(b'{"x":"' + b"x" * 8192)

    running.plugin.answers["tools/call"] = endless
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (502, "RG504")


async def test_an_endless_event_is_cut_off_at_the_limit(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(max_answer_bytes="64KiB"))
    running.plugin.answers["tools/call"] = event_stream("data: " + "x" * 200_000)
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.error["data"]["code"]) == (502, "RG504")


async def test_a_plugins_own_protocol_error_passes_with_the_status_that_clients_show(running: Running) -> None:
    async def missing(it: Received) -> web.StreamResponse:
        data = {"requiredCapabilities": {"sampling": {}}}
        return web.json_response(it.error(-32021, "needs sampling", data=data), status=400)

    running.plugin.answers["tools/call"] = missing
    token = running.issuer.token()
    modern = await running.client.call("echo", token=token)
    assert (modern.status, modern.error["code"]) == (400, -32021)
    assert modern.error["data"] == {"requiredCapabilities": {"sampling": {}}}
    legacy = await running.client.legacy("tools/call", {"name": "echo", "arguments": {}}, token=token)
    assert legacy.status == 200
    assert legacy.result["isError"] is True
    assert "2026-07-28" in legacy.text


async def test_a_failing_tool_is_a_tool_error_and_not_a_success(running: Running) -> None:
    async def fail(it: Received) -> dict[str, Any]:
        return it.text("no", isError=True)

    running.plugin.answers["tools/call"] = fail
    reply = await running.client.call("echo", token=running.issuer.token())
    assert (reply.status, reply.result["isError"]) == (200, True)
    assert running.last.outcome == "tool_error"


async def test_a_credential_that_supabase_refused_becomes_our_own_challenge(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(credential="user_token"))

    async def refused(it: Received) -> web.StreamResponse:
        return web.json_response(it.text("JWT expired", isError=True), headers={"Rowgate-Credential": "refused"})

    running.plugin.answers["tools/call"] = refused
    reply = await running.client.call("echo", token=running.issuer.token())
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
    assert running.last.code == "RG507"


async def test_only_a_plugin_that_gets_the_credential_can_say_that_it_was_refused(running: Running) -> None:
    async def liar(it: Received) -> web.StreamResponse:
        return web.json_response(it.text("x"), headers={"Rowgate-Credential": "refused"})

    running.plugin.answers["tools/call"] = liar
    assert (await running.client.call("echo", token=running.issuer.token())).status == 200


@pytest.mark.parametrize("credential", ["none", "user_token"])
async def test_the_users_token_reaches_only_the_plugin_that_is_configured_for_it(start: Any, credential: str) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(credential=credential))
    token = running.issuer.token()
    await running.client.call("echo", token=token)
    call = running.plugin.calls[-1]
    assert call.headers.get("Authorization") == (f"Bearer {token}" if credential == "user_token" else None)
    assert (call.context.ath is not None) == (credential == "user_token")


async def test_nothing_of_the_clients_own_headers_crosses(running: Running) -> None:
    spoofed = {
        "Rowgate-Context": "forged",
        "ROWGATE-CONTEXT": "forged too",
        "Rowgate-Credential": "refused",
        "Rowgate_Context": "forged",
        "Cookie": "session=1",
        "X-Forwarded-For": "1.2.3.4",
        "X-Request-Id": "chosen-by-client",
        "X-Forwarded-User": "root",
        "Connection": "keep-alive, X-Custom",
        "X-Custom": "1",
        "Proxy-Authorization": "Basic eA==",
    }
    await running.client.call("echo", token=running.issuer.token(), headers=spoofed)
    call = running.plugin.calls[-1]
    assert call.context.sub is not None
    allowed = {
        "host", "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name",
        "x-request-id", "rowgate-context", "content-length",
    }  # fmt: skip
    assert {name.lower() for name in call.headers} <= allowed
    assert call.headers["X-Request-Id"] == running.last.request_id != "chosen-by-client"
    assert call.headers.getall("Rowgate-Context") == [call.headers["Rowgate-Context"]]


async def test_recognised_parameter_headers_are_rebuilt_and_others_pass(start: Any, notes: Any) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    notes.tools[:] = [tool("echo", inputSchema=schema)]
    running = await start()
    token = running.issuer.token()
    headers = {"Mcp-Param-Region": "eu", "Mcp-Param-Other": "passes"}
    reply = await running.client.call("echo", {"region": "eu", "text": "x"}, token=token, headers=headers)
    assert reply.status == 200
    assert running.plugin.calls[-1].headers["Mcp-Param-Region"] == "eu"
    assert running.plugin.calls[-1].headers["Mcp-Param-Other"] == "passes"
    wrong = await running.client.call("echo", {"region": "eu"}, token=token, headers={"Mcp-Param-Region": "us"})
    assert (wrong.status, wrong.error["code"]) == (400, -32020)
    absent = await running.client.call("echo", {"region": "eu"}, token=token)
    assert (absent.status, absent.error["code"]) == (400, -32020)
    params = {"name": "echo", "arguments": {"region": "grün"}}
    assert (await running.client.legacy("tools/call", params, token=token)).status == 200
    assert running.plugin.calls[-1].headers["Mcp-Param-Region"] == "=?base64?Z3LDvG4=?="


async def test_a_result_over_the_limit_is_cut_and_says_so(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(result_limit=1000))

    async def long(it: Received) -> dict[str, Any]:
        return it.text("x" * 5000)

    running.plugin.answers["tools/call"] = long
    reply = await running.client.call("echo", token=running.issuer.token())
    assert reply.text == "x" * 1000
    assert "5000 characters" in reply.result["content"][-1]["text"]
    assert reply.result["_meta"]["rowgate/truncated"] == {"characters": 5000}


async def test_structured_content_over_the_limit_is_dropped_and_the_result_is_an_error(start: Any) -> None:
    running = await start(lambda tree: tree["plugins"]["notes"].update(result_limit=1000))

    async def long(it: Received) -> dict[str, Any]:
        return it.text("short", structuredContent={"rows": ["x" * 5000]})

    running.plugin.answers["tools/call"] = long
    reply = await running.client.call("echo", token=running.issuer.token())
    assert "structuredContent" not in reply.result
    assert reply.result["isError"] is True


async def test_a_second_request_on_the_same_connection_works_after_each_refusal(running: Running) -> None:
    token = running.issuer.token()
    running.plugin.answers["tools/call"] = body("rubbish")
    assert (await running.client.call("echo", token=token)).status == 502
    del running.plugin.answers["tools/call"]
    for _ in range(3):
        assert (await running.client.call("echo", {"text": "y"}, token=token)).text == "y"
