"""The plugin asks the user through the gateway, by the SDK's own client on the other side."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from databases import SupabaseProject
from flow.client import Client as HTTPClient
from flow.client import Reply
from rls.chain import Chain
from rls.person import Person

ACCEPT = ElicitResult(action="accept", content={"delete": True})
MAY_ASK = {"elicitation": {"form": {}}}


@asynccontextmanager
async def sdk_client(url: str, token: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


async def ask(client: HTTPClient, url: str, person: Person, params: dict[str, Any]) -> Reply:
    """As a client that can show the question, one round at a time."""
    return await HTTPClient(client.session, url).modern(
        "tools/call", params, token=person.token, clientCapabilities=MAY_ASK
    )


class Note:
    def __init__(self, project: SupabaseProject, id: str) -> None:
        self.project = project
        self.id = id

    async def exists(self) -> bool:
        return bool(await self.project.fetch("select from public.notes where id = $1::uuid", self.id))


@pytest.fixture
async def note(team_notes_project: SupabaseProject, alice: Person) -> AsyncIterator[Note]:
    """One of Alice's organisation, for one test."""
    id = str(uuid.uuid4())
    await team_notes_project.fetch(
        "insert into public.notes (id, organisation_id, title) values ($1::uuid, $2::uuid, 'Old plan')",
        *(id, alice.organisation_id),
    )
    yield Note(team_notes_project, id)
    await team_notes_project.fetch("delete from public.notes where id = $1::uuid", id)


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (ACCEPT, True),
        (ElicitResult(action="accept", content={"delete": False}), False),
        (ElicitResult(action="decline"), False),
        (ElicitResult(action="cancel"), False),
    ],
)
async def test_a_note_is_deleted_only_if_its_user_agrees(
    chained: Chain, alice: Person, note: Note, answer: ElicitResult, deleted: bool
) -> None:
    asked: list[str] = []

    async def user(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert await note.exists()
        asked.append(params.message)
        return answer

    async with sdk_client(chained.first, alice.token, elicitation_callback=user) as client:
        result = await client.call_tool("delete_note", {"id": note.id, "confirm": True})
    assert asked == ["Delete the note “Old plan” of Acme?"]
    assert not result.is_error
    assert result.structured_content is not None
    assert result.structured_content["deleted"] is deleted
    assert await note.exists() is not deleted


async def test_a_legacy_client_confirms_by_an_argument(chained: Chain, alice: Person, note: Note) -> None:
    async with sdk_client(chained.first, alice.token, mode="legacy") as client:
        result = await client.call_tool("delete_note", {"id": note.id})
        assert result.is_error
        assert "confirm=true" in str(result.content)
        assert await note.exists()
        result = await client.call_tool("delete_note", {"id": note.id, "confirm": True})
    assert result.structured_content == {"deleted": True, "message": "The note was deleted."}
    assert not await note.exists()


async def test_the_answer_may_go_to_another_gateway_and_counts_for_its_user_and_note_only(
    chained: Chain, client: HTTPClient, alice: Person, bob: Person, note: Note
) -> None:
    params: dict[str, Any] = {"name": "delete_note", "arguments": {"id": note.id}}
    asked = (await ask(client, chained.first, alice, params)).result
    assert asked["resultType"] == "input_required"
    answers = {key: {"action": "accept", "content": {"delete": True}} for key in asked["inputRequests"]}
    answered = params | {"inputResponses": answers, "requestState": asked["requestState"]}
    assert (await ask(client, chained.second, bob, answered)).error["code"] == -32602
    other = answered | {"arguments": {"id": alice.note}}
    assert (await ask(client, chained.second, alice, other)).error["code"] == -32602
    assert await note.exists()
    assert (await ask(client, chained.second, alice, answered)).result["structuredContent"]["deleted"] is True
    assert not await note.exists()


async def test_an_answer_to_a_question_that_nobody_asked_is_not_one(
    chained: Chain, client: HTTPClient, alice: Person, note: Note
) -> None:
    answers = {"team_notes.server:confirmation": {"action": "accept", "content": {"delete": True}}}
    params = {"name": "delete_note", "arguments": {"id": note.id}, "inputResponses": answers}
    asked = await ask(client, chained.first, alice, params)
    assert asked.result["resultType"] == "input_required"
    assert set(asked.result["inputRequests"]) == set(answers)
    forged = await ask(client, chained.first, alice, params | {"requestState": "e30"})
    assert forged.error["code"] == -32602
    assert await note.exists()
