"""Headers and body must say the same, and what is not one well-formed message goes no further."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import CIMultiDict

from flow.client import envelope, mirrored
from flow.conftest import Running

CALL = envelope("tools/call", {"name": "echo", "arguments": {"text": "x"}})


async def send(running: Running, body: Any, headers: dict[str, str] | None = None) -> Any:
    fields = mirrored(CALL) if headers is None else headers
    return await running.client.send(body, token=running.issuer.token(), headers=fields)


def without(headers: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


MISMATCHES = {
    "no version header": without(mirrored(CALL), "MCP-Protocol-Version"),
    "a legacy version header": mirrored(CALL) | {"MCP-Protocol-Version": "2025-11-25"},
    "another version": mirrored(CALL) | {"MCP-Protocol-Version": "2027-01-01"},
    "no method": without(mirrored(CALL), "Mcp-Method"),
    "another method": mirrored(CALL) | {"Mcp-Method": "tools/list"},
    "a method in another case": mirrored(CALL) | {"Mcp-Method": "TOOLS/CALL"},
    "no name": without(mirrored(CALL), "Mcp-Name"),
    "another name": mirrored(CALL) | {"Mcp-Name": "admin"},
    "a name with bad base64": mirrored(CALL) | {"Mcp-Name": "=?base64?ZWNob?="},
    "an empty encoded name": mirrored(CALL) | {"Mcp-Name": "=?base64??="},
}


@pytest.mark.parametrize("case", MISMATCHES)
async def test_headers_that_disagree_with_the_body_are_refused_before_the_plugin(running: Running, case: str) -> None:
    reply = await send(running, CALL, MISMATCHES[case])
    assert (reply.status, reply.error["code"]) == (400, -32020)
    assert reply.json["id"] == 1
    assert not running.plugin.calls


@pytest.mark.parametrize("name", [" echo ", "=?base64?ZWNobw==?="])
async def test_blanks_around_a_name_and_its_encoded_form_agree(running: Running, name: str) -> None:
    assert (await send(running, CALL, mirrored(CALL) | {"Mcp-Name": name})).status == 200


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_routing_header_that_comes_twice_is_refused(running: Running, header: str) -> None:
    fields = CIMultiDict({"Accept": "*/*", "Content-Type": "application/json", **mirrored(CALL)})
    fields.add(header, fields[header])
    fields["Authorization"] = f"Bearer {running.issuer.token()}"
    async with running.session.post(running.client.url, data=json.dumps(CALL), headers=fields) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == -32020


@pytest.mark.parametrize("version", ["2027-01-01", "v999.0.0"])
async def test_a_version_that_is_not_served_names_those_that_are(running: Running, version: str) -> None:
    message = envelope("tools/list", protocolVersion=version)
    reply = await send(running, message, mirrored(message) | {"MCP-Protocol-Version": version})
    assert (reply.status, reply.error["code"]) == (400, -32022)
    assert reply.error["data"]["supported"] == ["2026-07-28"]
    assert reply.error["data"]["requested"] == version


async def test_a_legacy_looking_version_that_never_existed_is_400_and_names_the_supported(running: Running) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    reply = await send(running, message, {"MCP-Protocol-Version": "1999-01-01"})
    assert (reply.status, reply.error["code"]) == (400, -32022)


@pytest.mark.parametrize(
    "missing", [{"protocolVersion": None}, {"clientCapabilities": None}, {"clientCapabilities": []}]
)
async def test_an_incomplete_envelope_is_invalid_params(running: Running, missing: dict[str, Any]) -> None:
    message = envelope("tools/list", **missing)
    reply = await send(running, message, mirrored(message))
    assert (reply.status, reply.error["code"]) == (400, -32602)
    assert reply.json["id"] == 1


async def test_a_legacy_caller_that_mirrors_must_mirror_rightly_and_never_sees_a_modern_code(running: Running) -> None:
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
    headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": "tools/call", "Mcp-Name": "admin"}
    reply = await send(running, message, headers)
    assert (reply.status, reply.error["code"], reply.json["id"]) == (400, -32600, 9)
    assert not running.plugin.calls


BROKEN: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", -32700),
    "empty": (b"", -32700),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    "a byte order mark": (b"\xef\xbb\xbf" + json.dumps(CALL).encode(), -32700),
    "two messages": (json.dumps(CALL).encode() * 2, -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
    "a number beyond range": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}', -32700),
    "an endless integer": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"9" * 5000 + b"}}", -32700),
    "a duplicate key": (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', -32700),
    "a duplicate name deep inside": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"n":1,"n":2}}}', -32700),
    "an unpaired surrogate": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}', -32700),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 200 + b"]" * 200 + b"}}", -32700),
    "absurdly deep": (b"[" * 200_000, -32700),
    "a string": (b'"ping"', -32600),
    "null": (b"null", -32600),
    "a batch": (json.dumps([CALL]).encode(), -32600),
    "an empty batch": (b"[]", -32600),
    "a batch in blanks": (b" \n[" + json.dumps(CALL).encode() + b"]", -32600),
    "no version": (b'{"id":1,"method":"ping"}', -32600),
    "version 1.0": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "a fractional id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "a boolean id": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "a method that is no string": (b'{"jsonrpc":"2.0","id":1,"method":["tools/call"]}', -32600),
    "a null method beside an error": (b'{"jsonrpc":"2.0","id":1,"method":null,"error":null}', -32600),
    "params that are no object": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("case", BROKEN)
async def test_what_is_no_message_is_refused_and_reaches_no_plugin(running: Running, case: str, era: str) -> None:
    body, code = BROKEN[case]
    before = len(running.plugin.received)
    reply = await send(running, body, mirrored(CALL) if era == "modern" else {})
    assert reply.error["code"] == code
    assert reply.status == (400 if era == "modern" or code != -32602 else 200)
    assert "id" in reply.json
    assert len(running.plugin.received) == before


@pytest.mark.parametrize(
    "params",
    [
        {"name": 7},
        {},
        {"name": "echo", "arguments": []},
        {"name": "echo", "arguments": "x"},
    ],
)
async def test_a_call_without_a_name_or_with_arguments_that_are_no_object_is_invalid(
    running: Running, params: dict[str, Any]
) -> None:
    message = envelope("tools/call", params)
    reply = await send(running, message, mirrored(message) | {"Mcp-Name": "echo"})
    assert reply.error["code"] in (-32602, -32020)
    assert not running.plugin.calls


@pytest.mark.parametrize("ref", [None, [], {"type": []}, {"type": "ref/prompt"}, {"type": "ref/prompt", "name": 1}])
async def test_a_completion_must_say_what_it_completes(running: Running, ref: Any) -> None:
    argument = {"name": "x", "value": ""}
    reply = await running.client.modern(
        "completion/complete", {"ref": ref, "argument": argument}, token=running.issuer.token()
    )
    assert (reply.status, reply.error["code"]) == (400, -32602)


@pytest.mark.parametrize("content_type", ["text/plain", "application/json; charset=latin-1", "application/x-json"])
async def test_only_json_in_utf8_is_read(running: Running, content_type: str) -> None:
    assert (await send(running, CALL, mirrored(CALL) | {"Content-Type": content_type})).status == 415


async def test_a_compressed_body_is_refused(running: Running) -> None:
    assert (await send(running, CALL, mirrored(CALL) | {"Content-Encoding": "gzip"})).status == 415


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/json, text/event-stream", 200),
        ("text/*;q=0.5, application/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("application/json, text/event-stream;q=0", 406),
    ],
)
async def test_a_client_must_take_both_answers(running: Running, accept: str, status: int) -> None:
    assert (await send(running, CALL, mirrored(CALL) | {"Accept": accept})).status == status


async def test_a_body_over_the_limit_is_413_whether_announced_or_not(start: Any) -> None:
    running = await start(lambda tree: tree["gateway"].update(request={"max_bytes": "2KiB"}))
    large = envelope("tools/call", {"name": "echo", "arguments": {"text": "x" * 4000}})
    assert (await send(running, large, mirrored(large))).status == 413

    async def chunks() -> Any:
        data = json.dumps(large).encode()
        for start in range(0, len(data), 500):
            yield data[start : start + 500]

    headers = {"Accept": "*/*", "Content-Type": "application/json"} | mirrored(large)
    headers["Authorization"] = f"Bearer {running.issuer.token()}"
    async with running.session.post(running.client.url, data=chunks(), headers=headers) as response:
        assert response.status == 413


async def test_the_trailing_slash_is_served_without_a_redirect(running: Running) -> None:
    reply = await running.client.send(
        CALL, token=running.issuer.token(), headers=mirrored(CALL), url=running.client.url + "/"
    )
    assert reply.status == 200


async def test_session_and_event_ids_of_older_clients_are_ignored(running: Running) -> None:
    headers = mirrored(CALL) | {"Mcp-Session-Id": "gone", "Last-Event-ID": "7"}
    reply = await send(running, CALL, headers)
    assert reply.status == 200
    assert "Mcp-Session-Id" not in running.plugin.calls[-1].headers
    assert "Last-Event-ID" not in running.plugin.calls[-1].headers
