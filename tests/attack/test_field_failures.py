"""Failures that others met in the field and that no other test here or in `tests/flow` holds; the numbers are those
of the table in README.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from attack.wire import once, request
from flow.client import envelope, mirrored
from flow.conftest import Running
from flow.issuer import ALICE
from flow.plugin import Received

LIST = envelope("tools/list")
BODY = json.dumps(LIST).encode()
ROUTED = [(name.encode(), value.encode()) for name, value in mirrored(LIST).items()]

REFUSED: dict[str, tuple[int, dict[str, Any], bytes]] = {
    "no token": (401, {"token": None}, BODY),
    "a forged token": (401, {"token": "a.b.c"}, BODY),
    "another method": (405, {"method": "PUT"}, BODY),
    "another type": (415, {}, BODY),
    "a body too large": (413, {}, b"x" * 3000),
    "no message": (400, {}, b"[]"),
    "an unknown method": (404, {}, json.dumps(envelope("tools/drop")).encode()),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_109_a_browser_can_read_every_refusal(start: Any, case: str) -> None:
    status, options, body = REFUSED[case]
    running = await start(lambda tree: tree["gateway"].update(request={"max_bytes": "2KiB"}))
    fields = [(b"Origin", running.public_url.encode())]
    if status == 415:
        fields.append((b"Content-Type", b"text/plain"))
    if status == 404:
        fields += [(b"MCP-Protocol-Version", b"2026-07-28"), (b"Mcp-Method", b"tools/drop")]
    answer = await once(running, request(running, body, *fields, **{"token": running.issuer.token(), **options}))
    assert answer.status == status
    assert answer.header("Access-Control-Allow-Origin") == running.public_url
    assert "WWW-Authenticate" in (answer.header("Access-Control-Expose-Headers") or "")
    assert answer.header("Access-Control-Allow-Credentials") is None


async def test_115_to_117_nothing_of_a_plugins_head_reaches_the_client(running: Running) -> None:
    evil = {
        "Connection": "X-Foo",
        "X-Foo": "1",
        "Set-Cookie": "session=alice",
        "WWW-Authenticate": 'Bearer resource_metadata="https://evil.example/"',
        "Location": "https://evil.example/",
        "Access-Control-Allow-Origin": "*",
        "Mcp-Session-Id": "s",
        "Server": "plugin/1",
    }

    async def answer(it: Received) -> web.StreamResponse:
        return web.json_response(it.text("x"), headers=evil)

    running.plugin.answers["tools/call"] = answer
    reply = await running.client.call("echo", token=running.issuer.token())
    assert reply.text == "x"
    assert not {"x-foo", "set-cookie", "www-authenticate", "location", "mcp-session-id"} & {
        name.lower() for name in reply.headers
    }
    assert reply.headers.get("Server") != "plugin/1"
    assert reply.headers.get("Access-Control-Allow-Origin") is None


async def test_160_a_flood_of_bad_tokens_locks_no_good_one_out(running: Running) -> None:
    for number in range(100):
        assert (await running.client.call("whoami", token=f"a.b.{number}")).status == 401
    assert (await running.client.call("whoami", token=running.issuer.token())).text == ALICE


async def test_169_a_client_without_a_name_is_served(running: Running) -> None:
    data = request(running, BODY, *ROUTED, token=running.issuer.token())
    assert b"user-agent" not in data.lower()
    assert (await once(running, data)).status == 200


@pytest.mark.parametrize("name", ["Rowgate-Context", "rowgate-context", "ROWGATE_CONTEXT", "Rowgate-Anything"])
async def test_147_no_spelling_of_our_namespace_crosses(running: Running, name: str) -> None:
    message = envelope("tools/call", {"name": "whoami", "arguments": {}})
    fields = [(key.encode(), value.encode()) for key, value in mirrored(message).items()]
    spoofed = [(name.encode(), b"spoofed"), (name.encode(), b"twice")]
    body = json.dumps(message).encode()
    answer = await once(running, request(running, body, *fields, *spoofed, token=running.issuer.token()))
    assert answer.json["result"]["content"][0]["text"] == ALICE
    received = running.plugin.calls[-1].headers
    assert "spoofed" not in received.values()
    assert len(received.getall("Rowgate-Context")) == 1
