"""Scopes and permissions from the application's own tables: real tokens and policies, functions called as the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databases import SupabaseProject, hosting
from flow.conftest import Running
from rowgate.observe.events import PolicyAsked

SQL = Path(__file__).parents[1] / "data" / "grants.sql"
ALICE, BOB = "alice@example.com", "bob@example.com"
AGENT = "0d9f3a52-6c1e-4d5b-9a70-2f8f6f1f7c11"
OTHER_AGENT = "0d9f3a52-6c1e-4d5b-9a70-2f8f6f1f7c12"


@pytest.fixture(scope="module")
def application() -> Iterator[SupabaseProject]:
    yield from hosting(SQL)


@pytest.fixture
async def tables(application: SupabaseProject) -> SupabaseProject:
    for table in ("agent_grants", "agent_permissions"):
        await application.fetch(f"truncate public.{table}")
    return application


async def grant(tables: SupabaseProject, email: str, scope: str, client: str = AGENT) -> None:
    await tables.fetch(
        "insert into public.agent_grants select id, $2, $3 from auth.users where email = $1", email, client, scope
    )


@pytest.fixture
def in_front(tables: SupabaseProject, tmp_path: Path) -> Callable[..., Any]:
    """The change that puts the gateway in front of the project; `server` are members of its server."""
    key = tmp_path / "publishable"
    key.write_text(tables.publishable_key)

    def changing(scopes: dict[str, Any] | None = None, **server: Any) -> Callable[[dict[str, Any]], None]:
        def change(tree: dict[str, Any]) -> None:
            tree["supabase"] = {"url": tables.url, "publishable_key": {"file": str(key)}}
            function = {"source": "function", "function": {"name": "agent_scopes", "cache": 0}}
            tree["servers"]["main"] |= {"auth": {"mode": "oauth"}, "scopes": scopes or function, **server}

        return change

    return changing


async def names(running: Running, token: str) -> list[str]:
    reply = await running.client.modern("tools/list", token=token)
    return [it["name"] for it in reply.result["tools"]]


# --- scopes ------------------------------------------------------------------------------------------------


async def test_a_grant_opens_a_tool_for_its_user_and_its_client_only(
    start: Any, in_front: Any, tables: SupabaseProject
) -> None:
    await grant(tables, ALICE, "notes:write")
    running = await start(in_front())
    alice = await tables.access_token(ALICE, client_id=AGENT)
    assert "write" in await names(running, alice)
    assert (await running.client.call("write", {"text": "x"}, token=alice)).text == "x"
    assert running.plugin.calls[-1].context.scope == {"notes:write"}
    for email, client in ((BOB, AGENT), (ALICE, OTHER_AGENT)):
        token = await tables.access_token(email, client_id=client, scope="notes:write email")
        assert "write" not in await names(running, token)
        reply = await running.client.call("write", token=token)
        assert reply.result["structuredContent"]["code"] == "SCOPE_NOT_GRANTED"
    assert len(running.plugin.calls) == 1


async def test_a_withdrawn_grant_closes_the_tool_at_the_next_call(
    start: Any, in_front: Any, tables: SupabaseProject
) -> None:
    await grant(tables, ALICE, "notes:write")
    running = await start(in_front())
    token = await tables.access_token(ALICE, client_id=AGENT)
    assert (await running.client.call("write", {"text": "x"}, token=token)).text == "x"
    await tables.fetch("truncate public.agent_grants")
    assert (await running.client.call("write", token=token)).result["isError"] is True
    assert len(running.plugin.calls) == 1


async def test_an_answer_is_kept_for_one_token_and_no_other(start: Any, in_front: Any, tables: SupabaseProject) -> None:
    await grant(tables, ALICE, "notes:write")
    running = await start(in_front({"source": "function", "function": {"name": "agent_scopes", "cache": "60s"}}))
    alice = await tables.access_token(ALICE, client_id=AGENT)
    bob = await tables.access_token(BOB, client_id=AGENT)
    for _ in range(3):
        assert "write" in await names(running, alice)
        assert "write" not in await names(running, bob)
    assert len([event for event in running.events if isinstance(event, PolicyAsked)]) == 2


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("agent_scopes_broken", "grants_answer"),
        ("agent_scopes_hidden", "grants_refused"),
        ("no_such_function", "grants_refused"),
    ],
)
async def test_a_function_that_gives_no_scopes_lets_nobody_in_on_a_guess(
    start: Any, in_front: Any, tables: SupabaseProject, function: str, reason: str
) -> None:
    running = await start(in_front({"source": "function", "function": {"name": function, "cache": 0}}))
    token = await tables.access_token(ALICE, client_id=AGENT)
    for reply in (
        await running.client.call("echo", token=token),
        await running.client.modern("tools/list", token=token),
    ):
        assert (reply.status, reply.headers["Retry-After"]) == (503, "2")
        assert "WWW-Authenticate" not in reply.headers
        assert (running.last.code, running.last.reason, running.last.outcome) == ("RG310", reason, "denied")
    assert not running.plugin.calls


# --- permissions -------------------------------------------------------------------------------------------

RULED = [{"from": "notes", "tools": ["admin"], "require": {"permission": "notes.archive"}}]


async def test_a_function_decides_permissions_as_the_user(start: Any, in_front: Any, tables: SupabaseProject) -> None:
    await tables.fetch(
        "insert into public.agent_permissions select id, 'notes.archive', null from auth.users where email = $1", ALICE
    )
    await tables.fetch(
        "insert into public.agent_permissions select id, 'notes.archive', 'APPROVAL_REQUIRED' from auth.users "
        "where email = $1",
        BOB,
    )
    await tables.add_user("carol@example.com")
    authorizer = {"function": "agent_may", "cache": 0}
    running = await start(in_front({"source": "token"}, authorizer=authorizer, capabilities=RULED))
    expected = {ALICE: None, BOB: "APPROVAL_REQUIRED", "carol@example.com": "PERMISSION_DENIED"}
    for email, word in expected.items():
        token = await tables.access_token(email, client_id=AGENT)
        assert ("admin" in await names(running, token)) is (word is None)
        reply = await running.client.call("admin", {"text": "x"}, token=token)
        assert reply.result.get("structuredContent", {}).get("code") == word
    assert len(running.plugin.calls) == 1


async def test_a_function_that_fails_permits_nothing(start: Any, in_front: Any, tables: SupabaseProject) -> None:
    authorizer = {"function": "no_such_function"}
    running = await start(in_front({"source": "token"}, authorizer=authorizer, capabilities=RULED))
    token = await tables.access_token(ALICE, client_id=AGENT)
    assert await names(running, token) == []
    reply = await running.client.call("admin", token=token)
    assert reply.result["structuredContent"]["code"] == "PERMISSION_UNKNOWN"
    assert not running.plugin.calls


# --- sessions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freshness", ["fresh", "live"])
async def test_a_tool_that_asks_for_a_session_is_closed_to_a_user_who_signed_out(
    start: Any, in_front: Any, tables: SupabaseProject, freshness: str
) -> None:
    email = f"{freshness}@example.com"
    await tables.add_user(email)
    entries = [
        {"from": "notes", "tools": ["admin"], "require": {"session": freshness}},
        {"from": "notes", "tools": ["echo"]},
    ]
    running = await start(in_front({"source": "token"}, capabilities=entries))
    token = await tables.access_token(email, client_id=AGENT)
    if freshness == "fresh":
        assert (await running.client.call("admin", {"text": "x"}, token=token)).text == "x"
    tables.auth.sign_out(email)
    reply = await running.client.call("admin", token=token)
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
    assert (await running.client.call("echo", {"text": "x"}, token=token)).text == "x"
