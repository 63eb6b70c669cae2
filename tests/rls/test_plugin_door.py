"""The plugin answers the gateway and nobody else, and tells the gateway when Supabase refuses a token."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from databases import SupabaseProject
from flow.client import Client, envelope, mirrored
from rls.chain import Chain
from rls.person import ERAS, OPERATIONS, Person, Wire, get
from rls.wiretap import Recorded
from rowgate_plugin.contract import CONTEXT_HEADER

To = Callable[..., Wire]


@pytest.fixture
async def recorded(chained: Chain, wire: To, alice: Person) -> Recorded:
    """A call of Alice, as it crossed from the gateway to the plugin."""
    before = len(chained.tap.requests)
    reply = await get(wire(alice, url=chained.second), alice)
    assert alice.owns(reply)
    taken = [request for request in chained.tap.requests[before:] if b"get_note" in request.body]
    assert len(taken) == 1
    return taken[0]


async def refusal(client: Client, url: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    reply = await client.send(body, headers=headers, url=url)
    assert reply.status == 401, reply.body
    return dict(reply.json)


async def test_the_plugin_knows_no_client_whatever_its_token(chained: Chain, client: Client, alice: Person) -> None:
    message = envelope("tools/call", {"name": "get_note", "arguments": {"id": alice.note}})
    body = json.dumps(message).encode()
    missing = {"error": "context_refused", "reason": "missing"}
    for headers in ({}, {"Authorization": f"Bearer {alice.token}"}):
        assert await refusal(client, chained.plugin, mirrored(message) | headers, body) == missing
    made_up = mirrored(message) | {CONTEXT_HEADER: alice.token, "Authorization": f"Bearer {alice.token}"}
    assert (await refusal(client, chained.plugin, made_up, body))["error"] == "context_refused"


async def test_a_recorded_request_works_no_second_time(chained: Chain, client: Client, recorded: Recorded) -> None:
    refused = await refusal(client, chained.plugin, recorded.headers, recorded.body)
    assert refused == {"error": "context_refused", "reason": "replayed"}


async def test_a_recorded_context_carries_no_other_call_and_no_other_credential(
    chained: Chain, client: Client, recorded: Recorded, alice: Person, bob: Person
) -> None:
    changed = recorded.body.replace(alice.note.encode(), bob.note.encode())
    assert changed != recorded.body
    assert (await refusal(client, chained.plugin, recorded.headers, changed))["reason"] == "digest"
    bobs = recorded.headers | {"Authorization": f"Bearer {bob.token}"}
    assert (await refusal(client, chained.plugin, bobs, recorded.body))["reason"] == "credential"
    bare = {name: value for name, value in recorded.headers.items() if name.lower() != "authorization"}
    assert (await refusal(client, chained.plugin, bare, recorded.body))["reason"] == "credential"


async def test_a_context_from_a_client_stays_outside(
    chained: Chain, client: Client, recorded: Recorded, alice: Person, bob: Person
) -> None:
    stolen = {CONTEXT_HEADER: recorded.headers[CONTEXT_HEADER]}
    message = envelope("tools/call", {"name": "search_notes", "arguments": {"query": "roadmap"}})
    reply = await client.send(message, token=bob.token, headers=mirrored(message) | stolen, url=chained.second)
    assert bob.owns(reply)
    assert alice.title not in reply.body.decode()
    assert chained.tap.requests[-1].headers[CONTEXT_HEADER] != stolen[CONTEXT_HEADER]


async def test_the_plugin_gets_the_caller_s_own_token_and_no_key(
    recorded: Recorded, team_notes_project: SupabaseProject, alice: Person
) -> None:
    assert recorded.headers["Authorization"] == f"Bearer {alice.token}"
    assert team_notes_project.hosted.secret_key not in str(recorded)


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_that_supabase_refuses_is_challenged_for(
    chained: Chain, wire: To, team_notes_project: SupabaseProject, alice: Person, era: str
) -> None:
    ended = expired(team_notes_project, alice)
    for operation in OPERATIONS:
        reply = await operation(Wire(wire(alice).client, chained.tolerant, era, ended), alice)
        assert reply.status == 401
        challenge = reply.headers["WWW-Authenticate"]
        assert 'error="invalid_token"' in challenge
        assert "/.well-known/oauth-protected-resource/tolerant/mcp" in challenge
        assert reply.error["data"]["code"] == "RG507"
        assert "JWT" not in reply.body.decode()
    good = Wire(wire(alice).client, chained.tolerant, era, alice.token)
    assert alice.owns(await get(good, alice))


def expired(project: SupabaseProject, person: Person) -> str:
    """Like a token of this person whose last hour ended two minutes ago."""
    now = int(time.time())
    user = project.auth.user(person.email)
    return project.auth.mint(
        {
            "iss": project.hosted.issuer,
            "sub": user.id,
            "aud": "authenticated",
            "role": "authenticated",
            "iat": now - 3720,
            "exp": now - 120,
            "client_id": "c0ffee00-0000-4000-8000-000000000000",
            "session_id": "5e550000-0000-4000-8000-000000000000",
            "is_anonymous": False,
        }
    )
