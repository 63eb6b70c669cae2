"""What an attacker can do with a token: of an issuer that signs anything, of another caller, or in another place."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc.jws import JWSRegistry

from attack.test_lying_plugins import VALUES
from attack.wire import Connection, once, request
from flow.client import envelope, mirrored
from flow.conftest import Running
from flow.issuer import ALICE, BOB
from rowgate_plugin.contract import CONTEXT_HEADER

WHO = envelope("tools/call", {"name": "whoami", "arguments": {}})
BODY = json.dumps(WHO).encode()
ROUTED = [(name.encode(), value.encode()) for name, value in mirrored(WHO).items()]
HOSTILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
CLAIMS = st.dictionaries(
    st.sampled_from(
        [
            *("iss", "sub", "aud", "exp", "nbf", "iat", "role", "client_id", "azp", "scope", "scp", "act", "email"),
            *("session_id", "aal", "is_anonymous", "app_metadata", "user_metadata", "mcp", "nonce", "typ", "token_use"),
        ]
    ),
    VALUES | st.sampled_from([ALICE, BOB, "authenticated", "service_role", "anon", ["authenticated"], {"sub": "x"}]),
    max_size=4,
)
HEADER = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u", "x5c", "cty", "zip"]), VALUES, max_size=3
)


def signed(running: Running, header: dict[str, Any], claims: str) -> str:
    """By the issuer's own key, whatever the header says."""
    protected = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
    message = protected + b"." + claims.encode()
    signature = JWSRegistry.algorithms["ES256"].sign(message, running.issuer.key)
    return (message + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@given(HEADER)
@HOSTILE
async def test_no_signed_header_is_a_defect(running: Running, header: dict[str, Any]) -> None:
    claims = running.issuer.token().split(".")[1]
    token = signed(running, {"alg": "ES256", "kid": running.issuer.key.kid, **header}, claims)
    answer = await once(running, request(running, BODY, *ROUTED, token=token))
    assert answer.status in (200, 401)
    if answer.status == 200:
        assert header.get("alg", "ES256") == "ES256"
        assert header.get("kid") in (None, running.issuer.key.kid)
        assert not {"crit", "b64"} & header.keys()


@given(CLAIMS)
@HOSTILE
async def test_no_signed_claims_are_a_defect_or_somebody_elses_name(running: Running, claims: dict[str, Any]) -> None:
    before = len(running.plugin.calls)
    token = running.issuer.token(**claims)
    answer = await once(running, request(running, BODY, *ROUTED, token=token))
    assert answer.status in (200, 401)
    if answer.status == 401:
        assert len(running.plugin.calls) == before
    else:
        assert running.plugin.calls[-1].context.sub == claims.get("sub", ALICE)


@pytest.mark.parametrize("where", ["query", "cookie", "form", "other header", "proxy header"])
async def test_a_token_anywhere_but_in_its_header_is_no_token(running: Running, where: str) -> None:
    token = running.issuer.token()
    fields = {
        "cookie": [(b"Cookie", f"access_token={token}".encode())],
        "other header": [(b"X-Access-Token", token.encode()), (b"apikey", token.encode())],
        "proxy header": [(b"Proxy-Authorization", f"Bearer {token}".encode()), (b"X-Forwarded-User", ALICE.encode())],
    }.get(where, [])
    body = f"access_token={token}".encode() if where == "form" else BODY
    target = f"/mcp?access_token={token}" if where == "query" else "/mcp"
    answer = await once(running, request(running, body, *ROUTED, *fields, target=target))
    assert answer.status == 401
    assert token.encode() not in answer.body
    assert token[:20].encode() not in bytes(running.log.data)
    assert not running.plugin.calls


async def test_a_connection_keeps_no_identity_between_its_requests(running: Running) -> None:
    connection = await Connection.to(running)
    for token, subject in ((running.issuer.token(ALICE), ALICE), (running.issuer.token(BOB), BOB), (None, None)) * 3:
        answer = await connection.ask(request(running, BODY, *ROUTED, token=token))
        if subject is None:
            assert answer.status == 401
        else:
            assert answer.json["result"]["content"][0]["text"] == subject
    connection.close()


async def test_requests_in_one_segment_are_answered_each_for_its_own_caller(running: Running) -> None:
    tokens = [running.issuer.token(ALICE), None, running.issuer.token(BOB), "forged.token.x"] * 4
    connection = await Connection.to(running)
    connection.writer.write(b"".join(request(running, BODY, *ROUTED, token=token) for token in tokens))
    answers = [await connection.answer() for _ in tokens]
    connection.close()
    assert [answer.status for answer in answers] == [200, 401, 200, 401] * 4
    told = [answer.json["result"]["content"][0]["text"] for answer in answers if answer.status == 200]
    assert told == [ALICE, BOB] * 4


async def test_callers_that_leave_at_any_moment_leave_nothing_to_the_next(running: Running) -> None:
    """Half of all calls are given up somewhere on their way; whoever stays gets their own answer, under one id."""
    tokens = {subject: running.issuer.token(subject) for subject in (ALICE, BOB)}

    async def call(number: int) -> None:
        subject = (ALICE, BOB)[number % 2]
        connection = await Connection.to(running)
        connection.writer.write(request(running, BODY, *ROUTED, token=tokens[subject]))
        if number % 3 == 0:
            for _ in range(number % 17):
                await asyncio.sleep(0)
        else:
            assert (await connection.answer()).json["result"]["content"][0]["text"] == subject
        connection.close()

    await asyncio.gather(*(call(number) for number in range(150)))


async def test_a_context_opens_nothing_but_the_door_that_it_was_written_for(start: Any, stack: Any) -> None:
    """A plugin that keeps what it is sent cannot become its caller anywhere else."""
    from flow.plugin import plugin

    other = await stack.enter_async_context(plugin("other"))
    running = await start(
        lambda tree: tree["servers"]["main"]["capabilities"].append(
            {"from": "other", "tools": ["echo"], "prefix": "o"}
        ),
        other=other,
    )
    assert (await running.client.call("whoami", token=running.issuer.token())).text == ALICE
    stolen = running.plugin.calls[-1]
    fields = {name: value for name, value in stolen.headers.items() if name not in ("Host", "Content-Length")}
    before = len(other.received)
    async with running.session.post(other.url, data=stolen.raw, headers=fields) as reply:
        assert (reply.status, (await reply.json())["reason"]) == (401, "audience")
    assert len(other.received) == before
    public = await running.client.send(stolen.raw, token=stolen.headers[CONTEXT_HEADER], headers=mirrored(WHO))
    assert public.status == 401
    beside = {**mirrored(WHO), CONTEXT_HEADER: stolen.headers[CONTEXT_HEADER]}
    assert (await running.client.send(stolen.raw, headers=beside)).status == 401


async def test_lists_of_one_caller_are_never_anothers(start: Any, notes: Any) -> None:
    from flow.plugin import Received, tool

    async def listed(it: Received) -> dict[str, Any]:
        mine = "echo" if it.context.sub == ALICE else "whoami"
        return it.result(tools=[tool(mine)], ttlMs=0, cacheScope="private")

    notes.answers["tools/list"] = listed
    running = await start(lambda tree: tree["plugins"]["notes"].update(lists="per_caller"))

    async def names(subject: str) -> list[str]:
        reply = await running.client.modern("tools/list", token=running.issuer.token(subject))
        return [item["name"] for item in reply.result["tools"]]

    seen = await asyncio.gather(*(names((ALICE, BOB)[number % 2]) for number in range(20)))
    assert seen == [["echo"], ["whoami"]] * 10
    foreign = await running.client.call("echo", token=running.issuer.token(BOB))
    assert foreign.error["data"]["code"] == "RG118"
