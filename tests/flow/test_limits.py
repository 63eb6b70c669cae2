"""How often, over the wire: whose budget a request is, and what each refusal looks like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flow.client import Reply
from flow.conftest import Running
from flow.issuer import ALICE, BOB
from flow.plugin import tool

PUBLIC = {"mode": "public", "acknowledge": "Anyone can call this server without signing in."}


def limited(**limits: Any) -> Any:
    """A change of the configuration: limits of the server, clients behind a proxy that is trusted."""

    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = limits
        tree["gateway"]["trusted_proxies"] = ["127.0.0.1/32"]

    return change


def entry_limits(**limits: Any) -> Any:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = {"subject": "100/minute"}
        tree["servers"]["main"]["capabilities"][0]["limits"] = limits

    return change


def at(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


def refused(reply: Reply, code: str) -> dict[str, Any]:
    """The tool error of a call that was refused for now."""
    assert (reply.status, reply.result["isError"]) == (200, True)
    meta = reply.result["_meta"]
    assert meta["rowgate/error"]["error"] == code
    assert isinstance(meta["rowgate/retry_after"], int)
    assert 1 <= meta["rowgate/retry_after"] <= 120
    seconds = meta["rowgate/retry_after"]
    assert reply.text.endswith(f"Try again in {seconds} second{'s' * (seconds != 1)}.")
    return meta


def refused_in_http(reply: Reply, code: str, status: int = 429) -> None:
    assert (reply.status, reply.error["data"]["code"]) == (status, code)
    assert reply.json["id"] == 1
    assert 1 <= int(reply.headers["Retry-After"]) <= 120
    assert reply.error["data"]["retry_after"] == int(reply.headers["Retry-After"])
    assert reply.headers["Content-Type"] == "application/json"


# --- callers and addresses ---------------------------------------------------------------------------------


async def test_a_caller_whose_calls_are_used_up_reads_when_to_come_back_and_others_go_on(start: Any) -> None:
    running = await start(limited(subject="2/minute"))
    alice, bob = running.issuer.token(ALICE), running.issuer.token(BOB)
    for _ in range(2):
        assert (await running.client.call("echo", {"text": "hi"}, token=alice)).text == "hi"
    reply = await running.client.call("echo", {"text": "secret argument"}, token=alice, id="mine")
    meta = refused(reply, "RG402")
    assert reply.json["id"] == "mine"
    assert meta["rowgate/error"]["code"] == "LIMIT_REACHED"
    assert meta["rowgate/error"]["requestId"] == reply.headers["X-Request-Id"]
    assert len(running.plugin.calls) == 2
    assert (await running.client.call("whoami", token=bob)).text == BOB


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", None])
async def test_a_legacy_caller_reads_the_same(start: Any, version: str | None) -> None:
    running = await start(limited(subject="1/minute"))
    token = running.issuer.token()
    params = {"name": "echo", "arguments": {"text": "hi"}}
    first = await running.client.legacy("tools/call", params, token=token, version=version)
    assert first.text == "hi"
    reply = await running.client.legacy("tools/call", params, token=token, version=version)
    refused(reply, "RG402")
    assert "resultType" not in reply.result


async def test_a_new_token_of_the_same_user_is_no_new_budget(start: Any) -> None:
    running = await start(limited(subject="1/minute"))
    assert (await running.client.call("echo", {"text": "hi"}, token=running.issuer.token())).text == "hi"
    for claims in ({"session_id": "5e551011-0000-4000-8000-000000000009"}, {"client_id": "another"}, {"jti": "x"}):
        refused(await running.client.call("echo", token=running.issuer.token(**claims)), "RG402")


async def test_an_address_that_had_its_share_is_answered_429_in_both_eras(start: Any) -> None:
    running = await start(limited(address="2/minute"))
    token = running.issuer.token()
    for _ in range(2):
        assert (await running.client.call("echo", {"text": "hi"}, token=token, headers=at("192.0.2.1"))).text == "hi"
    refused_in_http(await running.client.call("echo", token=token, headers=at("192.0.2.1")), "RG401")
    params = {"name": "echo", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    legacy = at("192.0.2.1") | {"MCP-Protocol-Version": "2025-06-18"}
    refused_in_http(await running.client.send(message, token=token, headers=legacy), "RG401")
    assert (await running.client.call("echo", {"text": "hi"}, token=token, headers=at("192.0.2.2"))).text == "hi"


async def test_whoever_writes_x_forwarded_for_without_being_a_trusted_proxy_gets_no_new_budget(start: Any) -> None:
    """Kind of failure: rate-limit (a limiter's key from the client's own header)."""

    def untrusted(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = {"address": "2/minute"}

    running = await start(untrusted)
    token = running.issuer.token()
    statuses = [(await running.client.call("echo", token=token, headers=at(f"203.0.113.{n}"))).status for n in range(6)]
    assert statuses == [200, 200, 429, 429, 429, 429]


async def test_what_stands_left_of_the_trusted_proxys_own_entry_makes_no_new_budget(start: Any) -> None:
    running = await start(limited(address="2/minute"))
    token = running.issuer.token()
    statuses = [
        (await running.client.call("echo", token=token, headers=at(f"203.0.113.{n}, 192.0.2.1"))).status
        for n in range(4)
    ]
    assert statuses == [200, 200, 429, 429]


async def test_all_addresses_of_an_ipv6_customer_share_one_budget(start: Any) -> None:
    running = await start(limited(address="2/minute"))
    token = running.issuer.token()
    for suffix in ("1", "2"):
        assert (await running.client.call("echo", token=token, headers=at(f"2001:db8:0:1::{suffix}"))).status == 200
    refused_in_http(await running.client.call("echo", token=token, headers=at("2001:db8:0:1:ffff::3")), "RG401")
    assert (await running.client.call("echo", token=token, headers=at("2001:db8:0:2::1"))).status == 200


async def test_five_hundred_users_of_one_address_are_not_limited_below_their_own_budgets(start: Any) -> None:
    """Kind of failure: rate-limit (hosted clients share their addresses)."""
    running = await start(limited(address="6000/minute", subject="2/minute", lists="2/minute"))
    tokens = [running.issuer.token(f"00000000-0000-4000-8000-{n:012}") for n in range(500)]
    gate = asyncio.Semaphore(50)

    async def work(token: str) -> list[int]:
        async with gate:
            replies = [await running.client.modern("tools/list", token=token)]
            replies += [await running.client.call("echo", {"text": "hi"}, token=token) for _ in range(2)]
            return [reply.status for reply in replies if "error" not in reply.json and not reply.result.get("isError")]

    assert await asyncio.gather(*map(work, tokens)) == [[200, 200, 200]] * 500
    refused(await running.client.call("echo", token=tokens[7]), "RG402")


async def test_calls_that_are_refused_to_one_caller_do_not_use_up_the_address_of_the_others(start: Any) -> None:
    running = await start(limited(address="10/minute", subject="2/minute"))
    alice, bob = running.issuer.token(ALICE), running.issuer.token(BOB)
    for _ in range(30):
        await running.client.call("echo", token=alice)
    assert len(running.plugin.calls) == 2
    assert (await running.client.call("whoami", token=bob)).text == BOB


async def test_asking_for_tools_that_do_not_exist_is_counted_too(start: Any) -> None:
    running = await start(limited(subject="3/minute"))
    token = running.issuer.token()
    for name in ("a", "b", "c"):
        assert (await running.client.call(name, token=token)).error["code"] == -32602
    refused(await running.client.call("echo", token=token), "RG402")


# --- lists and reads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tools/list", "resources/templates/list", "server/discover"])
async def test_lists_have_a_budget_of_their_own_and_are_answered_429(start: Any, method: str) -> None:
    running = await start(limited(subject="1/minute", lists="2/minute"))
    token = running.issuer.token()
    for _ in range(2):
        assert (await running.client.modern(method, token=token)).status == 200
    refused_in_http(await running.client.modern(method, token=token), "RG402")
    refused_in_http(await running.client.legacy("tools/list", token=token), "RG402")
    assert (await running.client.call("echo", {"text": "hi"}, token=token)).text == "hi"


async def test_reads_have_a_budget_of_their_own_and_are_answered_429(start: Any) -> None:
    running = await start(limited(reads="3/minute"))
    token = running.issuer.token()
    completion = {"ref": {"type": "ref/prompt", "name": "summary"}, "argument": {"name": "a", "value": "b"}}
    asked = [
        ("resources/read", {"uri": "note://all"}),
        ("prompts/get", {"name": "summary"}),
        ("completion/complete", completion),
    ]
    for method, params in asked:
        assert (await running.client.modern(method, params, token=token)).status == 200
    for method, params in asked:
        refused_in_http(await running.client.modern(method, params, token=token), "RG402")
    assert (await running.client.call("echo", {"text": "hi"}, token=token)).text == "hi"


async def test_lists_that_depend_on_the_caller_are_not_asked_for_in_the_name_of_one_who_had_enough(
    start: Any, notes: Any
) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = {"lists": "1/minute"}
        tree["plugins"]["notes"] |= {"lists": "per_caller", "list_ttl": "1s"}

    running = await start(change)
    token = running.issuer.token()
    assert (await running.client.modern("tools/list", token=token)).status == 200
    asked = len(notes.received)
    for _ in range(5):
        refused_in_http(await running.client.modern("tools/list", token=token), "RG402")
    assert len(notes.received) == asked


async def test_what_costs_nothing_is_free(start: Any) -> None:
    """Kind of failure: rate-limit (discovery behind the limiter)."""

    def change(tree: dict[str, Any]) -> None:
        limited(address="1/minute")(tree)
        tree["gateway"]["allowed_origins"] = ["https://claude.ai"]

    running = await start(change)
    token = running.issuer.token()
    assert (await running.client.modern("tools/list", token=token)).status == 200
    refused_in_http(await running.client.modern("tools/list", token=token), "RG401")
    document = f"{running.public_url}/.well-known/oauth-protected-resource/mcp"
    preflight = {"Origin": "https://claude.ai", "Access-Control-Request-Method": "POST"}
    for _ in range(5):
        assert (await running.client.send(None, method="GET", url=document)).status == 200
        assert (await running.client.send(None, method="OPTIONS", headers=preflight)).status == 204
        assert (await running.client.send(None, method="GET", headers={"Accept": "text/html"})).status == 200
        assert (await running.client.legacy("notifications/initialized", token=token, id=None)).status in (202, 400)
        assert (await running.client.modern("tools/list")).status == 401


# --- capabilities ------------------------------------------------------------------------------------------


async def test_a_capability_has_a_budget_for_each_caller_apart_from_its_neighbours(start: Any) -> None:
    running = await start(entry_limits(subject="2/minute"))
    alice, bob = running.issuer.token(ALICE), running.issuer.token(BOB)
    for _ in range(2):
        assert (await running.client.call("echo", {"text": "hi"}, token=alice)).text == "hi"
    reply = await running.client.call("echo", token=alice)
    refused(reply, "RG403")
    assert reply.result["structuredContent"]["kind"] == "limited"
    assert (await running.client.call("whoami", token=alice)).text == ALICE
    assert (await running.client.call("echo", {"text": "hi"}, token=bob)).text == "hi"


async def test_a_limited_prompt_is_answered_429_and_completions_do_not_use_it_up(start: Any) -> None:
    running = await start(entry_limits(subject="1/minute"))
    token = running.issuer.token()
    completion = {"ref": {"type": "ref/prompt", "name": "summary"}, "argument": {"name": "a", "value": "b"}}
    for _ in range(3):
        assert (await running.client.modern("completion/complete", completion, token=token)).status == 200
    assert (await running.client.modern("prompts/get", {"name": "summary"}, token=token)).status == 200
    refused_in_http(await running.client.modern("prompts/get", {"name": "summary"}, token=token), "RG403")


async def test_every_uri_of_a_template_takes_from_the_budget_of_the_template(start: Any) -> None:
    running = await start(entry_limits(subject="2/minute"))
    token = running.issuer.token()
    for name in ("one", "two"):
        assert (await running.client.modern("resources/read", {"uri": f"note://{name}"}, token=token)).status == 200
    refused_in_http(await running.client.modern("resources/read", {"uri": "note://three"}, token=token), "RG403")


async def test_an_expensive_tool_takes_its_cost_from_the_callers_budget(start: Any) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["limits"] = {"subject": "10/minute"}
        tree["servers"]["main"]["capabilities"][2] = {"from": "notes", "tools": ["write"], "limits": {"cost": 4}}

    running = await start(change)
    token = running.issuer.token()
    for _ in range(2):
        assert (await running.client.call("write", {"text": "hi"}, token=token)).text == "hi"
    assert (await running.client.call("echo", {"text": "hi"}, token=token)).text == "hi"
    refused(await running.client.call("write", token=token), "RG402")
    assert len(running.plugin.calls) == 3


async def test_a_tool_that_the_caller_may_not_use_takes_nothing_of_its_budget_and_says_nothing_of_it(
    start: Any,
) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["capabilities"][1]["limits"] = {"subject": "1/minute"}

    running = await start(change)
    token = running.issuer.token()
    editor = running.issuer.token(app_metadata={"roles": ["editor"]})
    for _ in range(3):
        assert (await running.client.call("admin", token=token)).error["code"] == -32602
    assert not (await running.client.call("admin", token=editor)).result.get("isError")
    refused(await running.client.call("admin", token=editor), "RG403")


async def test_a_refused_call_promises_no_structured_content_to_a_tool_that_has_a_schema_for_it(
    start: Any, notes: Any
) -> None:
    notes.tools[0] = tool("echo", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}})
    running = await start(entry_limits(subject="1/minute"))
    token = running.issuer.token()
    await running.client.call("echo", token=token)
    reply = await running.client.call("echo", token=token)
    refused(reply, "RG403")
    assert "structuredContent" not in reply.result


# --- public servers ----------------------------------------------------------------------------------------


async def test_a_public_server_limits_addresses(start: Any) -> None:
    def change(tree: dict[str, Any]) -> None:
        limited(address="2/minute")(tree)
        tree["servers"]["main"] |= {"auth": PUBLIC, "scopes": {}}
        tree["servers"]["main"]["capabilities"] = [{"from": "notes", "tools": ["echo"]}]

    running = await start(change)
    for _ in range(2):
        assert (await running.client.call("echo", {"text": "hi"}, headers=at("192.0.2.1"))).text == "hi"
    refused_in_http(await running.client.call("echo", headers=at("192.0.2.1")), "RG401")
    assert (await running.client.call("echo", {"text": "hi"}, headers=at("192.0.2.2"))).text == "hi"


# --- what operators see ------------------------------------------------------------------------------------


async def test_a_refusal_is_logged_audited_and_counted_and_names_no_argument(start: Any) -> None:
    running = await start(limited(address="10/minute", subject="1/minute"))
    token = running.issuer.token()
    await running.client.call("echo", token=token)
    await running.client.call("echo", {"text": "a secret argument"}, token=token)
    line = next(it for it in running.log.lines if it.get("event") == "request_finished" and it.get("code"))
    assert (line["outcome"], line["code"], line["reason"], line["status"]) == ("limited", "RG402", "subject", 200)
    audit = [it for it in running.log.lines if it.get("stream") == "audit"][-1]
    assert (audit["outcome"], audit["code"], audit["reason"]) == ("denied", "RG402", "subject")
    assert audit["subject"] == ALICE
    assert b"secret argument" not in running.log.data
    _, metrics = await running.internal("/metrics")
    assert 'rowgate_limit_decisions_total{decision="allowed",limit="address"} 1.0' in metrics
    assert 'rowgate_limit_decisions_total{decision="allowed",limit="subject"} 1.0' in metrics
    assert 'rowgate_limit_decisions_total{decision="refused",limit="subject"} 1.0' in metrics
    assert 'rowgate_refusals_total{code="RG402",server="main"} 1.0' in metrics


async def test_without_limits_nothing_is_counted(running: Running) -> None:
    for _ in range(5):
        assert (await running.client.call("echo", token=running.issuer.token())).status == 200
    _, metrics = await running.internal("/metrics")
    assert "rowgate_limit_decisions_total{" not in metrics
