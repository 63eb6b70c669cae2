"""Deny by default, one decision for lists and calls, and a challenge only where a new token would help."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp.shared.inbound import encode_header_value

from flow.client import envelope, mirrored
from flow.conftest import Running
from flow.plugin import Received, plugin, tool


async def names(running: Running, token: str) -> list[str]:
    reply = await running.client.modern("tools/list", token=token)
    return [it["name"] for it in reply.result["tools"]]


async def test_what_no_entry_names_is_neither_listed_nor_called(start: Any, notes: Any) -> None:
    notes.tools.append(tool("undeclared"))
    running = await start()
    token = running.issuer.token()
    assert "undeclared" not in await names(running, token)
    reply = await running.client.call("undeclared", token=token)
    assert (reply.status, reply.error["code"]) == (200, -32602)
    assert not running.plugin.calls


async def test_a_hidden_tool_is_answered_like_an_unknown_one(running: Running) -> None:
    token = running.issuer.token()
    hidden = await running.client.call("admin", token=token)
    unknown = await running.client.call("nimda", token=token)

    def same(reply: Any) -> dict[str, Any]:
        error = dict(reply.error)
        error["data"] = {key: value for key, value in error["data"].items() if key != "requestId"}
        return error

    assert same(hidden) == same(unknown)
    assert hidden.status == unknown.status
    assert [it.reason for it in running.finished[-2:]] == ["hidden", "unknown"]
    assert not running.plugin.calls


async def test_a_role_opens_what_it_hides_from_others_in_lists_and_calls_alike(running: Running) -> None:
    editor = running.issuer.token(app_metadata={"roles": ["editor"]})
    assert "admin" in await names(running, editor)
    assert (await running.client.call("admin", {"text": "x"}, token=editor)).text == "x"


async def test_a_missing_scope_is_challenged_with_everything_the_caller_needs_to_go_on(running: Running) -> None:
    token = running.issuer.token()
    assert "write" not in await names(running, token)
    reply = await running.client.call("write", token=token)
    assert reply.status == 403
    challenge = reply.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert re.search(r'scope="notes:write"', challenge)
    assert "resource_metadata=" in challenge
    assert (running.last.outcome, running.last.code) == ("denied", "RG301")
    assert not running.plugin.calls


async def test_a_new_token_with_the_scope_goes_on(running: Running) -> None:
    token = running.issuer.token(scope="email notes:write")
    assert "write" in await names(running, token)
    assert (await running.client.call("write", {"text": "x"}, token=token)).text == "x"
    assert running.plugin.calls[-1].context.scope == {"email", "notes:write"}


async def test_what_a_server_requires_of_everybody_is_asked_for_at_the_first_request(start: Any) -> None:
    running = await start(lambda tree: tree["servers"]["main"]["scopes"].update(required=["notes:write"]))
    for method in ("server/discover", "tools/list"):
        reply = await running.client.modern(method, token=running.issuer.token())
        assert reply.status == 403
        assert 'scope="notes:write"' in reply.headers["WWW-Authenticate"]
    assert (await names(running, running.issuer.token(scope="notes:write"))) == ["echo", "whoami", "write"]


@pytest.mark.parametrize(
    "uri",
    [
        "note://../admin",
        "note://a/../b",
        "note://%2e%2e/admin",
        "note://a%2fb",
        "other://7",
        "NOTE://7",
        "note://a/b",
        "note://\x00",
        "/etc/passwd",
        "",
    ],
)
async def test_a_uri_outside_the_declared_ones_is_not_found_and_reaches_no_plugin(running: Running, uri: str) -> None:
    before = len(running.plugin.received)
    params = {"uri": uri}
    message = envelope("resources/read", params)
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read"}
    headers["Mcp-Name"] = encode_header_value(uri)
    reply = await running.client.send(message, token=running.issuer.token(), headers=headers)
    assert reply.error["code"] == -32602
    assert reply.error["data"]["uri"] == uri
    assert len(running.plugin.received) == before


async def test_names_are_compared_exactly(running: Running) -> None:
    for name in ("ECHO", "echo ", " echo", "echo\u200b", "ec\u0068o\u0301"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        reply = await running.client.send(message, token=running.issuer.token())
        assert reply.error["code"] == -32602
    assert not running.plugin.calls


async def test_two_plugins_share_a_server_under_prefixes(start: Any, stack: Any) -> None:
    other = await stack.enter_async_context(plugin("other"))

    def two(tree: dict[str, Any]) -> None:
        entry = {"from": "other", "tools": ["*"], "prompts": ["*"], "prefix": "other"}
        tree["servers"]["main"]["capabilities"].append(entry)
        tree["plugins"]["other"]["hints"] = "default"

    running = await start(two, other=other)
    token = running.issuer.token()
    assert "other_echo" in await names(running, token)
    assert (await running.client.call("other_echo", {"text": "x"}, token=token)).text == "x"
    assert other.calls[-1].params["name"] == "echo"
    assert other.calls[-1].headers["Mcp-Name"] == "echo"
    assert not running.plugin.calls


async def test_a_server_shows_only_what_it_declares_of_a_shared_plugin(start: Any) -> None:
    def second(tree: dict[str, Any]) -> None:
        tree["servers"]["other"] = {
            **tree["servers"]["main"],
            "path": "/other",
            "capabilities": [{"from": "notes", "tools": ["whoami"]}],
        }

    running = await start(second)
    token = running.issuer.token()
    url = running.public_url + "/other"
    listed = envelope("tools/list")
    reply = await running.client.send(listed, token=token, headers=mirrored(listed), url=url)
    assert [it["name"] for it in reply.result["tools"]] == ["whoami"]
    call = envelope("tools/call", {"name": "echo", "arguments": {}})
    assert (await running.client.send(call, token=token, headers=mirrored(call), url=url)).error["code"] == -32602


async def test_a_list_that_was_not_read_to_its_end_opens_nothing_beyond_itself(start: Any, notes: Any) -> None:
    """What is listed and not declared stays shut; of what is cut off nobody knows what that would be."""

    async def endless(it: Received) -> dict[str, Any]:
        return it.result(resources=[{"uri": "note://all", "name": "all"}], nextCursor="again", ttlMs=0)

    whole = await start()
    token = whole.issuer.token()
    assert "contents" in (await whole.client.modern("resources/read", {"uri": "note://7"}, token=token)).result
    notes.answers["resources/list"] = endless
    cut = await start()
    for uri, known in (("note://7", False), ("note://all", True)):
        reply = await cut.client.modern("resources/read", {"uri": uri}, token=token)
        assert ("result" in reply.json) is known
