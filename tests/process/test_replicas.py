"""Two gateways that share a signing key and nothing else: any of them answers any request."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flow.client import Client, Reply
from flow.issuer import ALICE, BOB, Issuer
from flow.plugin import Plugin, Received
from ports import free_port
from process.conftest import CONTEXT_KEY_TEXT, Held
from process.gateway import Gateway, serve

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@dataclass
class Replicas:
    stack: AsyncExitStack
    session: aiohttp.ClientSession
    trees: list[dict[str, Any]]
    directory: Path
    gateways: list[Gateway]

    def client(self, index: int) -> Client:
        return Client(self.session, self.gateways[index].url)

    async def restart(self, index: int) -> Gateway:
        directory = self.directory / str(index)
        directory.mkdir(exist_ok=True)
        serving = serve(self.trees[index], directory, env={"CONTEXT_KEY": CONTEXT_KEY_TEXT}, session=self.session)
        self.gateways[index] = await self.stack.enter_async_context(serving)
        await self.gateways[index].ready()
        return self.gateways[index]


@pytest.fixture
async def replicas(
    stack: AsyncExitStack, session: aiohttp.ClientSession, tree: dict[str, Any], tmp_path: Path
) -> Replicas:
    """The second is reached by another port and says the same public URL."""
    port = free_port()
    gateway = tree["gateway"] | {"allowed_hosts": [f"127.0.0.1:{port}"]}
    listens = {"listen": f"127.0.0.1:{port}", "internal_listen": f"127.0.0.1:{free_port()}"}
    trees = [tree | {"gateway": gateway}, tree | {"gateway": gateway | listens}]
    it = Replicas(stack, session, trees, tmp_path, [None, None])  # type: ignore[list-item]
    await asyncio.gather(it.restart(0), it.restart(1))
    return it


async def test_what_one_replica_began_another_goes_on_with(replicas: Replicas, tokens: Issuer) -> None:
    first, second = replicas.client(0), replicas.client(1)
    begun = await first.legacy("initialize", INITIALIZE, token=tokens.token(), version=None)
    assert begun.result["protocolVersion"] == "2025-11-25"
    assert "Mcp-Session-Id" not in begun.headers
    assert (await second.legacy("notifications/initialized", token=tokens.token(), id=None)).status in (202, 400)
    listed = await second.legacy("tools/list", token=tokens.token())
    assert [tool["name"] for tool in listed.result["tools"]] == ["echo", "whoami"]
    called = await second.legacy("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, token=tokens.token())
    assert called.text == "hello"


async def test_both_publish_the_same_context_key_and_resource(replicas: Replicas) -> None:
    published, documents = [], []
    for gateway in replicas.gateways:
        async with replicas.session.get(f"{gateway.internal_url}/context/jwks.json") as answer:
            published.append(await answer.read())
        url = f"{gateway.public_url}/.well-known/oauth-protected-resource/mcp"
        documents.append((await replicas.client(0).send(None, method="GET", url=url)).json)
    assert published[0] == published[1]
    assert documents[0] == documents[1]
    assert documents[0]["resource"] == replicas.trees[0]["gateway"]["public_url"] + "/mcp"


async def test_callers_with_the_same_request_id_get_their_own_answers(
    replicas: Replicas, notes: Plugin, tokens: Issuer
) -> None:
    """All calls are in the plugin at the same time, and are answered in reverse."""
    waiting: list[tuple[Received, asyncio.Event]] = []
    complete = asyncio.Event()
    callers = [(subject, replica) for subject in (ALICE, BOB) for replica in (0, 1)] * 5

    async def answer(it: Received) -> dict[str, Any]:
        mine = asyncio.Event()
        waiting.append((it, mine))
        if len(waiting) == len(callers):
            complete.set()
        await mine.wait()
        return it.text(f"{it.context.sub} {it.params['arguments']['text']}")

    notes.answers["tools/call"] = answer
    calls = [
        asyncio.create_task(
            replicas.client(replica).call("echo", {"text": str(n)}, token=tokens.token(subject), id="same")
        )
        for n, (subject, replica) in enumerate(callers)
    ]
    await asyncio.wait_for(complete.wait(), 30)
    for _, released in reversed(waiting):
        released.set()
    for n, ((subject, _), call) in enumerate(zip(callers, calls, strict=True)):
        reply = await call
        assert (reply.json["id"], reply.text) == ("same", f"{subject} {n}")


async def test_a_restart_of_one_replica_loses_nothing_that_was_accepted(
    replicas: Replicas, held: Held, notes: Plugin, tokens: Issuer
) -> None:
    balancer = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
    await replicas.stack.enter_async_context(balancer)

    async def call(text: str) -> tuple[int, Reply]:
        """The other replica where the first cannot be connected to."""
        for index in (0, 1):
            try:
                client = Client(balancer, replicas.gateways[index].url)
                return index, await client.call("echo", {"text": text}, token=tokens.token(), id=text)
            except aiohttp.ClientConnectorError:
                continue
        raise AssertionError("both replicas refused")

    accepted = [asyncio.create_task(call(f"before {n}")) for n in range(5)]
    for _ in accepted:
        await held.arrival()
    leaving = replicas.gateways[0]
    leaving.send(signal.SIGTERM)
    await leaving.refuses()
    during = [asyncio.create_task(call(f"during {n}")) for n in range(5)]
    for _ in during:
        await held.arrival()
    held.released.set()
    assert {index for index, _ in await asyncio.gather(*during)} == {1}
    assert await leaving.exits() == 0
    await replicas.restart(0)
    after = [await call(f"after {n}") for n in range(5)]
    assert {index for index, _ in after} == {0}

    replies = [*await asyncio.gather(*accepted, *during), *after]
    assert [(reply.status, reply.text) for _, reply in replies] == [(200, ALICE)] * 15
    sent = [it.params["arguments"]["text"] for it in notes.calls]
    assert sorted(sent) == sorted(reply.json["id"] for _, reply in replies)
