"""What an attacker can do with a body: the message ladder has a step for everything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack.wire import once, request
from flow.client import envelope, mirrored
from flow.conftest import Running
from flow.plugin import tool
from rowgate.protocol import ijson

HOSTILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
METHODS = st.sampled_from(
    [
        *("tools/call", "tools/list", "resources/read", "prompts/get", "completion/complete", "server/discover"),
        *("initialize", "ping", "subscriptions/listen", "notifications/initialized", "notifications/cancelled", "rpc"),
    ]
)
META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from(["2026-07-28", "2025-11-25", "v9"]) | VALUES,
        "io.modelcontextprotocol/clientCapabilities": st.just({}) | VALUES,
        "progressToken": VALUES,
        "traceparent": VALUES,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["echo", "admin", "nobody"]) | VALUES,
        "uri": st.sampled_from(["note://all", "note://7", "file:///etc/passwd"]) | VALUES,
        "arguments": VALUES,
        "ref": VALUES,
        "cursor": VALUES,
        "_meta": META | VALUES,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": st.integers() | st.text(max_size=8) | VALUES,
        "method": METHODS | VALUES,
        "params": PARAMS | VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "MCP-Protocol-Version": st.sampled_from(["2026-07-28", "2025-11-25", "2025-03-26", "1999-01-01", "v9"]),
        "Mcp-Method": METHODS,
        "Mcp-Name": st.sampled_from(["echo", "admin", "=?base64?ZWNobw==?=", "=?base64??=", "note://all"]),
    },
)


def readable(value: Any) -> Any:
    """The id that an error has to name."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) or type(found) is int else None


async def answered(running: Running, body: bytes, headers: dict[str, str]) -> Any:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    return await once(running, request(running, body, *lines, token=running.issuer.token()))


@given(MESSAGES | VALUES, HEADERS)
@HOSTILE
async def test_no_message_is_a_defect_and_only_valid_ones_reach_the_plugin(
    running: Running, message: Any, headers: dict[str, str]
) -> None:
    before = len(running.plugin.received)
    answer = await answered(running, json.dumps(message).encode(), headers)
    assert answer.status < 500
    if answer.status == 202:
        assert answer.body == b""
        assert not isinstance(message, dict) or "id" not in message or "method" not in message
    else:
        assert answer.json["jsonrpc"] == "2.0"
        assert answer.json["id"] == readable(message) or answer.json["error"]["code"] == -32700
        assert ("result" in answer.json) != ("error" in answer.json)
    for received in running.plugin.received[before:]:
        assert received.message["params"]["name" if "name" in received.params else "uri"] in (
            "echo",
            "note://all",
            "note://7",
        )
        assert received.message["id"] == message["id"]


@given(st.binary(max_size=200), HEADERS)
@HOSTILE
async def test_no_bytes_are_a_defect(running: Running, body: bytes, headers: dict[str, str]) -> None:
    before = len(running.plugin.received)
    answer = await answered(running, body, headers)
    assert 400 <= answer.status < 500
    assert answer.json["error"]["code"] in (-32700, -32600, -32602, -32020, -32022)
    assert len(running.plugin.received) == before


@given(st.binary(max_size=300))
@settings(max_examples=500, deadline=None)
def test_what_is_accepted_is_forwarded_with_the_same_meaning(body: bytes) -> None:
    try:
        value = ijson.loads(body)
    except ijson.NotIJson:
        return
    assert ijson.loads(ijson.dumps(value)) == value


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_integers_and_text_are_forwarded_exactly(value: Any) -> None:
    try:
        parsed = ijson.loads(json.dumps(value).encode())
    except ijson.NotIJson:
        return
    assert json.loads(ijson.dumps(parsed)) == value


async def test_a_notification_of_an_invented_method_leaves_nothing_behind(running: Running) -> None:
    """Its method is the client's own text, of up to the whole body, and metrics keep what they count."""
    token = running.issuer.token()
    invented = "x" * 500_000
    for number in range(3):
        body = json.dumps({"jsonrpc": "2.0", "method": f"{invented}{number}"}).encode()
        assert (await once(running, request(running, body, token=token))).status == 202
    assert running.last.method is None
    assert invented[:100].encode() not in bytes(running.log.data)
    assert invented[:100] not in (await running.internal("/metrics"))[1]


@pytest.mark.parametrize("member", ["result", "error"])
async def test_a_message_that_is_request_and_response_at_once_reaches_no_plugin(running: Running, member: str) -> None:
    """The gateway reads a request in it; another reader may see an answer."""
    message = {**envelope("tools/call", {"name": "echo", "arguments": {}}), member: {}}
    reply = await running.client.send(message, token=running.issuer.token(), headers=mirrored(message))
    assert (reply.status, reply.error["code"]) == (400, -32600)
    assert not running.plugin.calls


async def test_no_member_of_a_message_can_replace_what_policy_judged(running: Running) -> None:
    message = envelope("tools/call", {"name": "echo", "arguments": {"text": "x", "name": "admin"}, "Name": "admin"})
    message |= {"name": "admin", "Method": "tools/list", "tool": "admin"}
    reply = await running.client.send(message, token=running.issuer.token(), headers=mirrored(message))
    assert reply.text == "x"
    received = running.plugin.calls[-1]
    assert (received.params["name"], received.context.name, received.headers["Mcp-Name"]) == ("echo",) * 3


async def test_an_argument_that_is_too_long_for_its_header_is_no_failure_of_the_plugin(start: Any, notes: Any) -> None:
    """A legacy caller sends no header, so nothing bounds the argument before the gateway makes one of it."""
    properties = {"text": {"type": "string", "x-mcp-header": "Text"}}
    notes.tools[:] = [tool("echo", inputSchema={"type": "object", "properties": properties})]
    running = await start()
    token = running.issuer.token()
    for length, failed in ((8000, False), (40_000, True)):
        params = {"name": "echo", "arguments": {"text": "x" * length}}
        reply = await running.client.legacy("tools/call", params, token=token)
        assert ("error" in reply.json) == failed
    assert reply.error["data"]["code"] == "RG113"
    assert running.last.outcome == "protocol_error"
    assert len(running.plugin.calls) == 1
