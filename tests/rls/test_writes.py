"""Nobody writes what is not theirs: neither through the gateway, nor past it with the same token."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from databases import SupabaseProject
from flow.client import Client
from rls.person import ERAS, Person, Wire

To = Callable[..., Wire]

EVERYTHING = """
    select (select json_agg(n order by n.id) from public.notes n)::text as notes,
      (select json_agg(m order by m.organisation_id, m.user_id) from public.memberships m)::text as memberships,
      (select json_agg(o order by o.id) from public.organisations o)::text as organisations
"""


@asynccontextmanager
async def unchanged(project: SupabaseProject) -> AsyncIterator[None]:
    before = await project.fetch(EVERYTHING)
    yield
    assert await project.fetch(EVERYTHING) == before


@dataclass
class Rest:
    """PostgREST, as whoever holds a token and the publishable key can reach it."""

    project: SupabaseProject
    client: Client

    async def __call__(
        self, token: str | None, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        sent = {"apikey": self.project.publishable_key, "Prefer": "return=representation"} | headers
        reply = await self.client.send(
            body, token=token, headers=sent, method=method, url=f"{self.project.url}/rest/v1/{path}"
        )
        return reply.status, reply.json if reply.body else None


@pytest.fixture
def rest(team_notes_project: SupabaseProject, client: Client) -> Rest:
    return Rest(team_notes_project, client)


def refused(answer: tuple[int, Any]) -> bool:
    return answer[0] == 403 and answer[1]["code"] == "42501"


@pytest.mark.parametrize("era", ERAS)
async def test_a_note_cannot_be_put_into_another_organisation(
    wire: To, team_notes_project: SupabaseProject, alice: Person, bob: Person, era: str
) -> None:
    async with unchanged(team_notes_project):
        for named in (alice.organisation, alice.organisation_id, str(uuid.uuid4())):
            reply = await wire(bob, era).call("create_note", title="Mine now", body="", organisation=named)
            assert reply.result["isError"] is True
            assert bob.organisation in reply.text
            assert alice.organisation not in reply.text.replace(named, "")


@pytest.mark.parametrize("era", ERAS)
async def test_another_user_s_note_cannot_be_deleted(
    wire: To, team_notes_project: SupabaseProject, alice: Person, bob: Person, era: str
) -> None:
    async with unchanged(team_notes_project):
        reply = await wire(bob, era).call("delete_note", id=alice.note, confirm=True)
        assert reply.result["isError"] is True
        assert "no note with this id" in reply.text


async def test_a_user_writes_and_deletes_own_notes(
    wire: To, team_notes_project: SupabaseProject, alice: Person
) -> None:
    async with unchanged(team_notes_project):
        for era in ERAS:
            alices = wire(alice, era)
            title = f"Written in {era}"
            written = await alices.call("create_note", title=title, body="Text")
            assert alice.organisation in written.text, written.body
            rows = await team_notes_project.fetch(
                "select id::text, organisation_id::text, author_id::text from public.notes where title = $1", title
            )
            author = team_notes_project.auth.user(alice.email).id
            assert [tuple(row)[1:] for row in rows] == [(alice.organisation_id, author)]
            deleted = await alices.call("delete_note", id=rows[0]["id"], confirm=True)
            assert "The note was deleted." in deleted.text


async def test_past_the_gateway_the_policies_hold_as_well(
    rest: Rest, team_notes_project: SupabaseProject, alice: Person, bob: Person
) -> None:
    bobs_id = team_notes_project.auth.user(bob.email).id
    alices_id = team_notes_project.auth.user(alice.email).id
    hers, his = f"notes?id=eq.{alice.note}", f"notes?id=eq.{bob.note}"
    member = {"organisation_id": alice.organisation_id, "user_id": bobs_id, "role": "owner"}
    async with unchanged(team_notes_project):
        note = {"organisation_id": alice.organisation_id, "title": "Mine now"}
        assert refused(await rest(bob.token, "POST", "notes", note))
        # Invisible rows are not changed, and nothing says that they exist.
        assert await rest(bob.token, "GET", hers) == (200, [])
        assert await rest(bob.token, "PATCH", hers, {"title": "Mine now"}) == (200, [])
        assert await rest(bob.token, "DELETE", hers, {}) == (200, [])
        assert await rest(bob.token, "GET", f"organisations?id=eq.{alice.organisation_id}") == (200, [])
        assert await rest(bob.token, "GET", f"memberships?user_id=eq.{alices_id}") == (200, [])
        # Columns that nobody may write, on a row that is his.
        for change in ({"organisation_id": alice.organisation_id}, {"author_id": alices_id}, {"updated_at": "now"}):
            assert refused(await rest(bob.token, "PATCH", his, change))
        forged = {"organisation_id": bob.organisation_id, "title": "By her", "author_id": alices_id}
        assert refused(await rest(bob.token, "POST", "notes", forged))
        # Nobody makes a member.
        assert refused(await rest(bob.token, "POST", "memberships", member))
        assert refused(await rest(bob.token, "PATCH", f"memberships?user_id=eq.{bobs_id}", member))
        assert refused(await rest(bob.token, "POST", "organisations", {"name": "New"}))
        assert refused(await rest(bob.token, "DELETE", f"organisations?id=eq.{alice.organisation_id}", {}))


@pytest.mark.parametrize(
    "statement",
    [
        "insert into public.notes (organisation_id, author_id, title) values ('{globex}', '{alice}', 'By her')",
        "insert into public.notes (organisation_id, author_id, title) values ('{acme}', '{bob}', 'Into hers')",
        "update public.notes set organisation_id = '{acme}'",
    ],
    ids=["forge", "insert", "move"],
)
async def test_the_policies_hold_without_the_column_grants(
    team_notes_project: SupabaseProject, alice: Person, bob: Person, statement: str
) -> None:
    ids = {"acme": alice.organisation_id, "globex": bob.organisation_id}
    ids |= {"alice": team_notes_project.auth.user(alice.email).id, "bob": team_notes_project.auth.user(bob.email).id}
    claims = json.dumps({"sub": ids["bob"]})
    connection = await asyncpg.connect(team_notes_project.hosted.dsn)
    try:
        # Never committed.
        await connection.execute("begin; grant insert, update on public.notes to authenticated")
        await connection.execute("set local role authenticated")
        await connection.execute("select set_config('request.jwt.claims', $1, true)", claims)
        assert len(await connection.fetch("select from public.notes")) == 3
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute(statement.format(**ids))
    finally:
        await connection.close()


async def test_roles_decide_what_members_change(rest: Rest, team_notes_project: SupabaseProject) -> None:
    fetch = team_notes_project.fetch
    place = (await fetch("insert into public.organisations (name) values ('Roles') returning id::text"))[0]["id"]
    written = (
        "insert into public.notes (organisation_id, title) values ($1::uuid, 'Plan') returning id::text, updated_at"
    )
    note = (await fetch(written, place))[0]
    tokens = {}
    for role in ("owner", "editor", "viewer"):
        email = f"{role}-{uuid.uuid4().hex}@example.com"
        user = await team_notes_project.add_user(email)
        await fetch("insert into public.memberships values ($1::uuid, $2::uuid, $3)", place, user, role)
        tokens[role] = await team_notes_project.access_token(email)
    path = f"notes?id=eq.{note['id']}&select=id"
    hit = (200, [{"id": note["id"]}])
    async with unchanged(team_notes_project):
        assert await rest(tokens["viewer"], "GET", path) == hit
        assert await rest(tokens["viewer"], "PATCH", path, {"title": "New plan"}) == (200, [])
        assert await rest(tokens["viewer"], "DELETE", path, {}) == (200, [])
        assert refused(await rest(tokens["viewer"], "POST", "notes", {"organisation_id": place, "title": "Mine"}))
        assert await rest(tokens["editor"], "DELETE", path, {}) == (200, [])
    assert await rest(tokens["editor"], "PATCH", path, {"title": "New plan"}) == hit
    changed = (await fetch("select title, updated_at from public.notes where id = $1::uuid", note["id"]))[0]
    assert changed["title"] == "New plan"
    assert changed["updated_at"] > note["updated_at"]
    assert await rest(tokens["owner"], "DELETE", path, {}) == hit


async def test_a_member_who_left_keeps_nothing(rest: Rest, team_notes_project: SupabaseProject, alice: Person) -> None:
    email = f"{uuid.uuid4().hex}@example.com"
    user = await team_notes_project.add_user(email)
    await team_notes_project.fetch(
        "insert into public.memberships values ($1::uuid, $2::uuid, 'owner')", alice.organisation_id, user
    )
    token = await team_notes_project.access_token(email)
    status, rows = await rest(token, "POST", "notes", {"organisation_id": alice.organisation_id, "title": "Farewell"})
    assert status == 201
    await team_notes_project.fetch("delete from public.memberships where user_id = $1::uuid", user)
    path = f"notes?id=eq.{rows[0]['id']}"
    for method, body in (("GET", None), ("PATCH", {"title": "Still here"}), ("DELETE", {})):
        assert await rest(token, method, path, body) == (200, [])
    # Without a filter and without an answer, no policy for reading is asked.
    for method, body in (("PATCH", {"title": "Still here"}), ("DELETE", {})):
        assert await rest(token, method, "notes", body, Prefer="return=minimal") == (204, None)
    kept = await team_notes_project.fetch("delete from public.notes where id = $1::uuid returning title", rows[0]["id"])
    assert kept[0]["title"] == "Farewell"


async def test_without_a_user_nothing_answers(rest: Rest, team_notes_project: SupabaseProject, alice: Person) -> None:
    async with unchanged(team_notes_project):
        for table in ("notes", "memberships", "organisations"):
            status, error = await rest(None, "GET", table)
            assert (status, error["code"]) == (401, "42501")
        status, error = await rest(None, "POST", "notes", {"organisation_id": alice.organisation_id, "title": "x"})
        assert (status, error["code"]) == (401, "42501")


async def test_what_policies_ask_is_no_endpoint(rest: Rest, alice: Person) -> None:
    roles = {"roles": ["owner"]}
    assert (await rest(alice.token, "POST", "rpc/organisations_as", roles))[0] == 404
    status, error = await rest(alice.token, "POST", "rpc/organisations_as", roles, **{"Content-Profile": "private"})
    assert (status, error["code"]) == (406, "PGRST106")
