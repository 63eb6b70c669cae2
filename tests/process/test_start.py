"""The start: when the gateway answers, when it is ready, and what it does until then."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from joserfc.jwk import KeySet

from flow.client import Client
from flow.conftest import CONTEXT_KEY
from flow.issuer import Issuer
from flow.plugin import Plugin
from ports import free_port
from process.conftest import Start
from process.gateway import Gateway


@pytest.fixture
def late_port(tree: dict[str, Any]) -> int:
    """Where the plugin will listen, some time."""
    port = free_port()
    tree["plugins"]["notes"]["url"] = f"http://127.0.0.1:{port}/mcp"
    return port


async def listen(stack: AsyncExitStack, plugin: Plugin, port: int) -> None:
    app = web.Application()
    app.router.add_post("/mcp", plugin.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", port).start()


async def test_a_gateway_is_ready_with_its_keys_and_its_required_plugins(
    gateway: Gateway, tokens: Issuer, client: Client
) -> None:
    status, body = await gateway.readiness()
    assert (status, body["missing"]) == (200, [])
    assert body["checks"] == {"gateway": "ok", f"keys:{tokens.url}": "ok", "plugin:notes": "ok"}
    assert (await client.call("echo", {"text": "hello"}, token=tokens.token())).text == "hello"
    assert gateway.stderr == []


async def test_a_late_plugin_is_named_and_makes_the_gateway_ready_when_it_comes(
    start: Start, stack: AsyncExitStack, notes: Plugin, tokens: Issuer, client: Client, late_port: int
) -> None:
    gateway = await start(ready=False)
    await gateway.logged(event="gateway_changed", state="serving")
    status, body = await gateway.readiness()
    assert (status, body["missing"]) == (503, ["plugin:notes"])
    assert body["checks"]["plugin:notes"] == "not reachable"

    listed = await client.modern("tools/list", token=tokens.token())
    assert (listed.status, listed.result["tools"]) == (200, [])
    assert (await client.legacy("initialize", initialize(), token=tokens.token(), version=None)).status == 200
    assert (await client.call("echo", token=tokens.token())).error["code"] == -32602

    await listen(stack, notes, late_port)
    await gateway.ready()
    names = [tool["name"] for tool in (await client.modern("tools/list", token=tokens.token())).result["tools"]]
    assert names == ["echo", "whoami"]


async def test_a_plugin_that_is_not_required_does_not_hold_up_readiness(
    start: Start, tree: dict[str, Any], late_port: int
) -> None:
    tree["plugins"]["notes"]["required"] = False
    gateway = await start()
    assert (await gateway.readiness())[1]["missing"] == []


async def test_a_late_issuer_is_named_and_makes_the_gateway_ready_without_any_request(
    start: Start, tokens: Issuer
) -> None:
    tokens.published = False
    gateway = await start(ready=False)
    await gateway.logged(event="gateway_changed", state="serving")
    status, body = await gateway.readiness()
    assert (status, body["missing"]) == (503, [f"keys:{tokens.url}"])
    tokens.published = True
    await gateway.ready()


async def test_without_keys_a_request_is_answered_503_and_with_them_as_usual(
    start: Start, tokens: Issuer, client: Client
) -> None:
    tokens.published = False
    gateway = await start(ready=False)
    reply = await client.call("echo", {"text": "x"}, token=tokens.token())
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) > 0
    tokens.published = True
    await gateway.ready()
    assert (await client.call("echo", {"text": "x"}, token=tokens.token())).text == "x"


async def test_health_and_documents_are_served_while_the_first_lists_are_still_awaited(
    start: Start, notes: Plugin, tokens: Issuer, client: Client
) -> None:
    go_on = asyncio.Event()

    async def discover(it: Any) -> dict[str, Any]:
        await go_on.wait()
        return it.result(supportedVersions=["2026-07-28"], capabilities={"tools": {}}, ttlMs=0, cacheScope="private")

    notes.answers["server/discover"] = discover
    gateway = await start(ready=False)
    status, body = await gateway.readiness()
    assert (status, body["checks"]["gateway"]) == (503, "starting")
    assert (await client.send(None)).status == 401
    document = f"{gateway.public_url}/.well-known/oauth-protected-resource/mcp"
    assert (await client.send(None, method="GET", url=document)).status == 200
    go_on.set()
    await gateway.ready()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_a_silent_plugin_is_awaited_ends_the_start(
    start: Start, tree: dict[str, Any], stack: AsyncExitStack, number: signal.Signals
) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    stack.push_async_callback(server.wait_closed)
    stack.callback(server.close)
    tree["plugins"]["notes"]["url"] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    gateway = await start(ready=False)
    await asyncio.wait_for(connected.wait(), 30)
    gateway.send(number)
    assert await gateway.exits() == 0
    assert gateway.log[-1]["state"] == "stopped"
    assert gateway.stderr == []


async def test_port_0_takes_a_free_port_and_the_log_names_it(
    start: Start, tree: dict[str, Any], client: Client
) -> None:
    tree["gateway"]["listen"] = "127.0.0.1:0"
    gateway = await start()
    detail = (await gateway.logged(event="gateway_changed", state="starting"))["detail"]
    address = detail.removeprefix("listening on ").partition(",")[0]
    assert not address.endswith(":0")
    host = tree["gateway"]["public_url"].removeprefix("http://")
    assert (await client.send(None, url=f"http://{address}/mcp", headers={"Host": host})).status == 401


async def test_uvloop_runs_the_gateway_where_it_is_installed(gateway: Gateway) -> None:
    assert gateway.loaded("/uvloop/")


async def test_the_gateway_works_without_uvloop(start: Start, tokens: Issuer, client: Client, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "uvloop.py").write_text("raise ImportError('not installed')\n")
    gateway = await start(PYTHONPATH=str(absent))
    assert not gateway.loaded("/uvloop/")
    assert (await client.call("echo", {"text": "hello"}, token=tokens.token())).text == "hello"
    assert await gateway.stop() == 0
    assert gateway.stderr == []


async def test_without_a_signing_key_the_gateway_says_that_it_can_only_run_alone(
    start: Start, tree: dict[str, Any], notes: Plugin, tokens: Issuer, client: Client
) -> None:
    del tree["gateway"]["context"]
    gateway = await start(ready=False)
    notice = await gateway.logged(event="security_notice", reason="context_key_ephemeral")
    assert notice["level"] == "warning"
    async with gateway.session.get(f"{gateway.internal_url}/context/jwks.json") as answer:
        published = KeySet.import_key_set(await answer.json(content_type=None))
    assert [key.kid for key in published.keys] != [CONTEXT_KEY.kid]
    notes.keys = published
    await gateway.ready()
    assert (await client.call("echo", {"text": "hello"}, token=tokens.token())).text == "hello"


def initialize() -> dict[str, Any]:
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
