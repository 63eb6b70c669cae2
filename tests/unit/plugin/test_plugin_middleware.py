from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from aiohttp import web
from joserfc.jwk import KeySet, OKPKey
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from recording_supabase import ALICE, RecordingSupabase

from rowgate_plugin import CurrentCaller
from rowgate_plugin.contract import CONTEXT_HEADER, CREDENTIAL_HEADER
from rowgate_plugin.keys import ContextKeys
from rowgate_plugin.serving import PluginApp
from rowgate_plugin.state import request_state
from rowgate_plugin.supabase import Project
from rowgate_plugin.testing import CallerFixture, SigningGateway, caller

AS_ALICE = caller(ALICE, token="alice.jwt")


def make_server() -> MCPServer[Any]:
    server = MCPServer("notes", log_level="WARNING")

    @server.tool()
    async def who(caller: CurrentCaller) -> str:
        return str(caller.subject)

    @server.tool()
    async def read(caller: CurrentCaller) -> str:
        return str((await caller.supabase.table("notes").select("*").execute()).data)

    @server.tool()
    async def read_late(caller: CurrentCaller, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return str((await caller.supabase.table("notes").select("*").execute()).data)

    return server


def call(tool: str = "who", method: str = "tools/call") -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "gateway", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"_meta": meta}
    if method == "tools/call":
        params |= {"name": tool, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def headers(gateway: SigningGateway, body: bytes, as_: CallerFixture = AS_ALICE) -> dict[str, str]:
    message = json.loads(body)
    wire = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
        **gateway.headers(body, as_),
    }
    name = message["params"].get("name")
    return {**wire, "Mcp-Name": name} if name else wire


class Door:
    def __init__(self, http: httpx2.AsyncClient, gateway: SigningGateway) -> None:
        self.http = http
        self.gateway = gateway

    async def post(self, body: bytes = b"", sent: Any = None) -> httpx2.Response:
        body = body or call()
        return await self.http.post("/mcp", content=body, headers=headers(self.gateway, body) if sent is None else sent)


@asynccontextmanager
async def door(keys: ContextKeys | None = None, **settings: Any) -> AsyncIterator[Door]:
    gateway = SigningGateway("notes")
    plugin = PluginApp(make_server(), keys=keys or gateway.keys(), state=request_state({}), **settings)
    transport = httpx2.ASGITransport(app=plugin)
    async with plugin.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://plugin.test") as http:
        yield Door(http, gateway)


def reason(response: httpx2.Response) -> str:
    assert response.status_code == 401
    body = response.json()
    assert body["error"] == "context_refused"
    return str(body["reason"])


async def test_a_signed_call_is_answered() -> None:
    async with door() as at:
        response = await at.post()
        assert response.status_code == 200
        assert response.json()["result"]["content"][0]["text"] == ALICE


async def test_nothing_is_parsed_without_a_context() -> None:
    async with door() as at:
        for body in (call(), b"{", b"\xff" * 100):
            sent = {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28"}
            assert reason(await at.post(body, sent)) == "missing"


async def test_each_defect_has_its_reason() -> None:
    async with door() as at:
        body = call()
        good = headers(at.gateway, body)
        assert reason(await at.post(body, {**good, CONTEXT_HEADER: "x"})) == "malformed"
        assert reason(await at.post(body, {**good, "Authorization": "Bearer bob.jwt"})) == "credential"
        assert reason(await at.post(call("read"), good)) == "digest"
        assert reason(await at.post(body, headers(SigningGateway("notes"), body))) == "unknown_key"
        at.gateway.audience = "billing"
        assert reason(await at.post(body, headers(at.gateway, body))) == "audience"


async def test_a_context_opens_the_door_once() -> None:
    async with door() as at:
        body = call()
        sent = headers(at.gateway, body)
        assert (await at.post(body, sent)).status_code == 200
        assert reason(await at.post(body, sent)) == "replayed"


async def test_doubled_headers_are_refused() -> None:
    async with door() as at:
        body = call()
        good = headers(at.gateway, body)
        other = headers(at.gateway, body)[CONTEXT_HEADER]
        assert reason(await at.post(body, [*good.items(), (CONTEXT_HEADER, other)])) == "malformed"
        assert reason(await at.post(body, [*good.items(), ("Authorization", "Bearer bob.jwt")])) == "credential"


async def test_the_gateway_s_own_context_lists_and_calls_nothing() -> None:
    async with door() as at:
        as_gateway = caller(None, kind="gateway")
        body = call(method="tools/list")
        listed = await at.post(body, headers(at.gateway, body, as_gateway))
        assert {tool["name"] for tool in listed.json()["result"]["tools"]} == {"who", "read", "read_late"}
        with pytest.raises(ValueError):
            headers(at.gateway, call(), as_gateway)


async def test_extend_is_not_asked_about_the_gateway() -> None:
    async def extend(_: object) -> None:
        raise AssertionError("there is nobody to extend")

    async with door(extend=extend) as at:
        body = call(method="tools/list")
        assert (await at.post(body, headers(at.gateway, body, caller(None, kind="gateway")))).status_code == 200
        assert (await at.post()).json() == {"error": "extend_failed"}


async def test_a_body_over_the_limit_is_not_taken() -> None:
    async with door(max_body_bytes=1000) as at:
        assert (await at.post(call() + b" " * 1000)).status_code == 413
        assert (await at.post()).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_only_post_is_served(method: str) -> None:
    async with door() as at:
        response = await at.http.request(method, "/mcp", headers=at.gateway.headers(b"", AS_ALICE))
        assert response.status_code == 405


async def test_health_says_nothing_and_needs_nothing() -> None:
    async with door() as at:
        response = await at.http.get("/healthz")
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_any_host_name_reaches_the_plugin() -> None:
    async with door() as at:
        body = call()
        sent = {**headers(at.gateway, body), "Host": "notes.plugins.svc.cluster.local:9000"}
        assert (await at.post(body, sent)).status_code == 200


async def test_a_rotated_key_is_fetched_during_the_request() -> None:
    gateway = SigningGateway("notes")
    public = OKPKey.import_key(gateway.key.as_dict(private=False))
    fetched: list[int] = []

    async def source() -> KeySet:
        fetched.append(1)
        return KeySet([public])

    async with door(ContextKeys(KeySet([OKPKey.generate_key("Ed25519")]), source)) as at:
        body = call()
        assert (await at.post(body, headers(gateway, body))).status_code == 200
        assert reason(await at.post(body, headers(at.gateway, body))) == "unknown_key"
        assert len(fetched) == 1


async def test_a_refused_credential_is_reported_beside_the_answer(supabase: RecordingSupabase) -> None:
    supabase.answer = web.Response(status=401, body=b'{"code": "PGRST303", "message": "JWT expired"}')
    async with door(project=Project(supabase.url, "sb_publishable_x")) as at:
        response = await at.post(call("read"))
        assert response.headers[CREDENTIAL_HEADER] == "refused"
        assert response.json()["result"]["isError"] is True
        assert CREDENTIAL_HEADER not in (await at.post(call("who"))).headers


async def test_a_refused_row_is_not_reported(supabase: RecordingSupabase) -> None:
    supabase.answer = web.Response(status=403, body=b'{"code": "42501", "message": "permission denied"}')
    async with door(project=Project(supabase.url, "sb_publishable_x")) as at:
        assert CREDENTIAL_HEADER not in (await at.post(call("read"))).headers


async def test_a_credential_refused_in_mid_stream_is_a_tool_error(supabase: RecordingSupabase) -> None:
    supabase.answer = web.Response(status=401, body=b'{"code": "PGRST303", "message": "JWT expired"}')
    async with door(project=Project(supabase.url, "sb_publishable_x")) as at:
        body = call("read_late")
        message = json.loads(body)
        message["params"]["_meta"]["progressToken"] = 7
        body = json.dumps(message).encode()
        response = await at.post(body)
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert '"isError":true' in response.text.replace(" ", "")


async def test_no_refusal_writes_a_token_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with door() as at:
        body = call()
        sent = headers(at.gateway, body)
        await at.post(body, {**sent, "Authorization": "Bearer bob.secret"})
        await at.post(call("read"), sent)
    for record in caplog.records:
        assert "bob.secret" not in record.getMessage()
        assert sent[CONTEXT_HEADER] not in record.getMessage()
    told = [record for record in caplog.records if record.name == "rowgate_plugin.middleware"]
    assert ["credential" in told[0].getMessage(), "digest" in told[1].getMessage()] == [True, True]
