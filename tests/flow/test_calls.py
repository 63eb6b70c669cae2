"""What a signed-in client gets, in both eras."""

from __future__ import annotations

from typing import Any

import pytest

from flow.conftest import Running
from flow.issuer import ALICE, BOB

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]


async def test_a_modern_call_reaches_the_plugin_and_its_result_the_client(running: Running) -> None:
    reply = await running.client.call("echo", {"text": "grüße"}, token=running.issuer.token(), id="a-1")
    assert reply.status == 200
    assert reply.json["id"] == "a-1"
    assert reply.text == "grüße"
    assert reply.result["resultType"] == "complete"
    assert reply.result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "main"


@pytest.mark.parametrize("version", [*LEGACY, None])
async def test_a_legacy_call_is_served_without_a_handshake_and_without_modern_fields(
    running: Running, version: str | None
) -> None:
    params = {"name": "echo", "arguments": {"text": "hi"}}
    reply = await running.client.legacy("tools/call", params, token=running.issuer.token(), version=version)
    assert reply.status == 200
    assert reply.result == {"content": [{"type": "text", "text": "hi"}]}
    assert "Mcp-Session-Id" not in reply.headers


async def test_the_plugin_is_always_spoken_to_in_the_modern_era_with_headers_that_mirror_the_body(
    running: Running,
) -> None:
    await running.client.legacy("tools/call", {"name": "echo", "arguments": {}}, token=running.issuer.token())
    call = running.plugin.calls[-1]
    assert call.headers["MCP-Protocol-Version"] == "2026-07-28"
    assert call.headers["Mcp-Method"] == "tools/call"
    assert call.headers["Mcp-Name"] == "echo"
    assert call.params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert call.params["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.parametrize("asked", [*LEGACY, "2024-11-05"])
async def test_initialize_echoes_a_version_that_is_served(running: Running, asked: str) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    reply = await running.client.legacy("initialize", params, token=running.issuer.token(), version=None)
    assert reply.result["protocolVersion"] == asked
    assert reply.result["serverInfo"]["title"] == "Flow"
    assert reply.result["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    assert "Mcp-Session-Id" not in reply.headers


@pytest.mark.parametrize("asked", ["2026-07-28", "1999-01-01", "anything"])
async def test_initialize_offers_its_newest_legacy_version_to_whoever_asks_for_another(
    running: Running, asked: str
) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    reply = await running.client.legacy("initialize", params, token=running.issuer.token(), version=None)
    assert reply.result["protocolVersion"] == "2025-11-25"


async def test_discover_names_the_modern_version_and_only_what_is_served(running: Running) -> None:
    reply = await running.client.modern("server/discover", token=running.issuer.token())
    assert reply.result["supportedVersions"] == ["2026-07-28"]
    assert reply.result["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    assert reply.result["cacheScope"] == "private"
    assert reply.result["ttlMs"] > 0


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"])
async def test_legacy_requests_without_effect_are_answered_empty(running: Running, method: str) -> None:
    params = {"level": "info", "uri": "note://all"}
    reply = await running.client.legacy(method, params, token=running.issuer.token())
    assert (reply.status, reply.result) == (200, {})


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "subscriptions/listen", "tasks/get", "nothing/known"]
)
async def test_methods_that_the_modern_protocol_has_not_are_404(running: Running, method: str) -> None:
    reply = await running.client.modern(method, {}, token=running.issuer.token())
    assert (reply.status, reply.error["code"]) == (404, -32601)
    assert reply.json["id"] == 1


async def test_an_unknown_legacy_method_rides_on_200(running: Running) -> None:
    reply = await running.client.legacy("nothing/known", {}, token=running.issuer.token())
    assert (reply.status, reply.error["code"]) == (200, -32601)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", None])
async def test_a_notification_is_accepted_with_an_empty_202(running: Running, version: str | None) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    headers = {"MCP-Protocol-Version": version} if version else {}
    reply = await running.client.send(message, token=running.issuer.token(), headers=headers)
    assert (reply.status, reply.body) == (202, b"")


async def test_a_posted_response_is_dropped_for_legacy_and_refused_for_modern_clients(running: Running) -> None:
    message = {"jsonrpc": "2.0", "id": 3, "result": {}}
    token = running.issuer.token()
    assert (await running.client.send(message, token=token)).status == 202
    modern = await running.client.send(message, token=token, headers={"MCP-Protocol-Version": "2026-07-28"})
    assert (modern.status, modern.error["code"]) == (400, -32600)


async def test_every_page_of_the_plugins_list_is_in_the_clients_one_page(running: Running) -> None:
    reply = await running.client.modern("tools/list", token=running.issuer.token())
    assert [it["name"] for it in reply.result["tools"]] == ["echo", "whoami"]
    assert "nextCursor" not in reply.result
    assert (reply.result["cacheScope"], reply.result["resultType"]) == ("private", "complete")


async def test_a_cursor_that_nobody_gave_is_refused(running: Running) -> None:
    reply = await running.client.modern("tools/list", {"cursor": "x"}, token=running.issuer.token())
    assert reply.error["code"] == -32602


async def test_lists_come_in_the_same_order_and_bytes_each_time(running: Running) -> None:
    def comparable(result: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in result.items() if key != "ttlMs"}

    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        first = await running.client.modern(method, token=running.issuer.token())
        again = await running.client.modern(method, token=running.issuer.token())
        assert comparable(first.result) == comparable(again.result)


async def test_fields_that_nobody_knows_survive_in_both_directions(running: Running) -> None:
    async def answer(it: Any) -> dict[str, Any]:
        return it.text("ok", future={"deep": [1, 2.5, 12345678901234567890]}, _meta={"vendor.example/x": 1})

    running.plugin.answers["tools/call"] = answer
    params = {"name": "echo", "arguments": {"text": "x"}, "futureParam": {"n": 12345678901234567890}}
    reply = await running.client.modern("tools/call", params, token=running.issuer.token())
    assert running.plugin.calls[-1].params["futureParam"] == {"n": 12345678901234567890}
    assert reply.result["future"] == {"deep": [1, 2.5, 12345678901234567890]}
    assert reply.result["_meta"]["vendor.example/x"] == 1


async def test_resources_templates_prompts_and_completions_are_forwarded(running: Running) -> None:
    token = running.issuer.token()
    read = await running.client.modern("resources/read", {"uri": "note://7"}, token=token)
    assert read.result["contents"][0]["text"] == f"read by {ALICE}"
    prompt = await running.client.modern("prompts/get", {"name": "summary"}, token=token)
    assert prompt.result["messages"][0]["content"]["text"] == "summary"
    ref = {"type": "ref/resource", "uri": "note://{id}"}
    done = await running.client.modern(
        "completion/complete", {"ref": ref, "argument": {"name": "id", "value": ""}}, token=token
    )
    assert done.result["completion"]["values"] == ["one"]


async def test_the_signed_context_says_who_calls_what_and_for_which_server(running: Running) -> None:
    await running.client.call("echo", {"text": "x"}, token=running.issuer.token(BOB, aal="aal2"))
    context = running.plugin.calls[-1].context
    assert (context.kind, context.sub, context.aal) == ("user", BOB, "aal2")
    assert (context.server, context.method, context.name) == ("main", "tools/call", "echo")
    assert context.email == "bob@example.com"
    assert context.request_id == running.last.request_id
    assert "user_metadata" not in (context.claims or {})


async def test_lists_are_fetched_in_the_gateways_own_name_without_a_credential(running: Running) -> None:
    lists = [it for it in running.plugin.received if it.message["method"] != "tools/call"]
    assert {it.context.kind for it in lists} == {"gateway"}
    assert {it.context.sub for it in lists} == {None}
    assert all("Authorization" not in it.headers for it in lists)
