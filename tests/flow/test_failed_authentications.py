"""Refused credentials are counted apart from good ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from joserfc.jwk import ECKey

from flow.client import Reply
from flow.conftest import Running
from flow.issuer import ALICE, BOB, Issuer

FLOOD = 12


def limited(tree: dict[str, Any]) -> None:
    tree["gateway"]["limits"] = {"failed_authentications": "5/minute"}
    tree["gateway"]["trusted_proxies"] = ["127.0.0.1/32"]


def at(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


def forged(issuer: Issuer) -> str:
    return issuer.token(key=ECKey.generate_key("P-256", {"kid": issuer.key.kid}))


async def flood(running: Running, address: str = "192.0.2.1") -> list[Reply]:
    return [await running.client.call("echo", token=forged(running.issuer), headers=at(address)) for _ in range(FLOOD)]


@pytest.fixture
async def running(start: Any) -> Running:
    it: Running = await start(limited)
    return it


async def test_a_flood_of_bad_tokens_is_answered_429_once_the_budget_is_used_up(running: Running) -> None:
    replies = await flood(running)
    assert [reply.status for reply in replies] == [401] * 5 + [429] * (FLOOD - 5)
    assert all("WWW-Authenticate" in reply.headers for reply in replies[:5])
    last = replies[-1]
    assert 1 <= int(last.headers["Retry-After"]) <= 120
    assert last.headers["Content-Type"] == "application/problem+json"
    assert (last.json["code"], last.json["status"]) == ("RG407", 429)


async def test_a_good_token_passes_from_an_address_that_floods_whether_it_was_seen_before_or_not(
    running: Running,
) -> None:
    """Kind of failure: rate-limit (failed attempts from a shared address lock out valid tokens)."""
    seen, unseen = running.issuer.token(ALICE), running.issuer.token(BOB)
    assert (await running.client.call("whoami", token=seen, headers=at("192.0.2.1"))).text == ALICE
    assert (await flood(running))[-1].status == 429
    assert (await running.client.call("whoami", token=seen, headers=at("192.0.2.1"))).text == ALICE
    assert (await running.client.call("whoami", token=unseen, headers=at("192.0.2.1"))).text == BOB


async def test_a_client_that_begins_to_sign_in_or_has_to_refresh_is_told_so_from_an_address_that_floods(
    running: Running,
) -> None:
    assert (await flood(running))[-1].status == 429
    missing = await running.client.call("echo", headers=at("192.0.2.1"))
    assert (missing.status, "resource_metadata=" in missing.headers["WWW-Authenticate"]) == (401, True)
    expired = running.issuer.token(exp=int(time.time()) - 600)
    reply = await running.client.call("echo", token=expired, headers=at("192.0.2.1"))
    assert (reply.status, reply.json["code"]) == (401, "RG204")


async def test_missing_and_expired_tokens_are_no_failures(running: Running) -> None:
    expired = running.issuer.token(exp=int(time.time()) - 600)
    for _ in range(FLOOD):
        assert (await running.client.call("echo", headers=at("192.0.2.1"))).status == 401
        assert (await running.client.call("echo", token=expired, headers=at("192.0.2.1"))).status == 401


@pytest.mark.parametrize(
    "authorization", ["Basic dXNlcjpwYXNz", "Bearer", "Bearer not.a.token", "Bearer sb_secret_0123456789", "Bearer a,b"]
)
async def test_whatever_is_wrong_with_a_credential_it_is_counted(running: Running, authorization: str) -> None:
    headers = at("192.0.2.1") | {"Authorization": authorization}
    statuses = [(await running.client.call("echo", headers=headers)).status for _ in range(6)]
    assert statuses == [401] * 5 + [429]


async def test_other_addresses_have_budgets_of_their_own(running: Running) -> None:
    await flood(running, "192.0.2.1")
    reply = await running.client.call("echo", token=forged(running.issuer), headers=at("192.0.2.2"))
    assert reply.status == 401


async def test_an_ipv6_customer_cannot_change_addresses_to_fail_on(running: Running) -> None:
    statuses = [
        (await running.client.call("echo", token=forged(running.issuer), headers=at(f"2001:db8::{n}"))).status
        for n in range(1, 8)
    ]
    assert statuses == [401] * 5 + [429] * 2


async def test_a_refusal_is_counted_and_audited(running: Running) -> None:
    await flood(running)
    audit = [it for it in running.log.lines if it.get("stream") == "audit"][-1]
    assert (audit["outcome"], audit["code"], audit["reason"]) == ("denied", "RG407", "failed_authentications")
    _, metrics = await running.internal("/metrics")
    refusals = f'limit_decisions_total{{decision="refused",limit="failed_authentications"}} {FLOOD - 5}.0'
    assert refusals in metrics


# --- opaque tokens: whoever is asked about them must not be asked at a stranger's pace -----------------------


class Introspection:
    """RFC 7662, with one good token."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        self.asked.append(token)
        if not token.startswith("good"):
            return web.json_response({"active": False})
        claims = {"sub": ALICE, "client_id": "c", "aud": "rowgate", "exp": int(time.time()) + 600, "iss": self.url}
        return web.json_response({"active": True, "token_type": "Bearer", "scope": "email", **claims})


@pytest.fixture
async def introspection() -> AsyncIterator[Introspection]:
    it = Introspection()
    app = web.Application()
    app.router.add_post("/introspect", it.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield it
    await runner.cleanup()


@pytest.fixture
async def opaque(start: Any, introspection: Introspection) -> Running:
    def change(tree: dict[str, Any]) -> None:
        limited(tree)
        tree["servers"]["main"]["auth"] = {
            "mode": "oauth",
            "issuer": {
                "issuer": introspection.url,
                "audience": ["rowgate"],
                "introspection": {
                    "url": f"{introspection.url}/introspect",
                    "client_id": "rowgate",
                    "client_secret": {"env": "CONTEXT_KEY"},
                },
            },
        }

    it: Running = await start(change)
    return it


async def test_nobody_is_asked_about_unknown_tokens_of_an_address_that_floods_and_known_ones_pass(
    opaque: Running, introspection: Introspection
) -> None:
    assert (await opaque.client.call("whoami", token="good-1", headers=at("192.0.2.1"))).text == ALICE
    statuses = [
        (await opaque.client.call("echo", token=f"bad-{n}", headers=at("192.0.2.1"))).status for n in range(FLOOD)
    ]
    assert statuses == [401] * 5 + [429] * (FLOOD - 5)
    # The sixth was still asked about: only then was the budget known to be used up.
    assert introspection.asked == ["good-1", *(f"bad-{n}" for n in range(6))]
    assert (await opaque.client.call("whoami", token="good-1", headers=at("192.0.2.1"))).text == ALICE
    assert (await opaque.client.call("whoami", token="good-2", headers=at("192.0.2.2"))).text == ALICE


async def test_requests_at_the_same_time_do_not_take_each_others_leave_to_ask(
    opaque: Running, introspection: Introspection
) -> None:
    for n in range(7):
        await opaque.client.call("echo", token=f"bad-{n}", headers=at("192.0.2.1"))
    asks = [opaque.client.call("whoami", token=f"good-{n}", headers=at(f"192.0.2.{1 + n % 2}")) for n in range(20)]
    statuses = [reply.status for reply in await asyncio.gather(*asks)]
    assert statuses == [429, 200] * 10
