from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, EmbeddedResource, PromptReference, TextContent

from databases import SupabaseProject
from rowgate.demo.project import ALICE, BOB
from rowgate_plugin.serving import tools_without_hints
from rowgate_plugin.supabase import Project
from rowgate_plugin.testing import caller, plugin_client
from team_notes.server import server

ACME, GLOBEX = "Acme", "Globex"
SKATES = "ac3e0000-0000-4000-8000-0000000000a1"
TOPIC = PromptReference(type="ref/prompt", name="summarise_notes")

As = Callable[..., Any]


async def ok(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def failure(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text.removeprefix(f"Error executing tool {tool}: ")


async def found(client: Client, query: str = "", limit: int = 20) -> list[str]:
    return [note["title"] for note in (await ok(client, "search_notes", query=query, limit=limit))["notes"]]


class User:
    """Answers the question, and remembers it."""

    def __init__(self, answer: ElicitResult) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self.answer


async def test_each_user_finds_the_notes_of_the_own_organisation_newest_first(as_user: As) -> None:
    alice, bob = await as_user(ALICE.email), await as_user(BOB.email)
    assert await found(alice) == ["Hiring plan", "Retro of the anvil launch", "Rocket skates roadmap"]
    assert await found(bob) == ["Hammock district survey", "Budget for the volcano office", "Weather machine roadmap"]
    assert await found(alice, "roadmap") == ["Rocket skates roadmap"]
    assert await found(bob, "roadmap") == ["Weather machine roadmap"]
    assert await found(alice, "volcano") == []


@pytest.mark.parametrize(
    "query", ["'); drop table notes; --", '"', "a & | !", "*", "%", "\\", "id.eq.1),or(", "(" * 200]
)
async def test_no_query_is_read_as_anything_but_words(as_user: As, query: str) -> None:
    assert await found(await as_user(ALICE.email), query) == []


async def test_a_search_says_whether_there_is_more(as_user: As) -> None:
    alice = await as_user(ALICE.email)
    two, three = [await ok(alice, "search_notes", query="", limit=limit) for limit in (2, 3)]
    assert (len(two["notes"]), two["more"]) == (2, True)
    assert (len(three["notes"]), three["more"]) == (3, False)


async def test_a_note_is_read_whole(as_user: As) -> None:
    note = await ok(await as_user(ALICE.email), "get_note", id=SKATES)
    assert (note["title"], note["organisation"]) == ("Rocket skates roadmap", ACME)
    assert note["body"].startswith("The skates ship in March.")


async def test_somebody_else_s_note_is_answered_like_one_that_never_was(as_user: As) -> None:
    bob = await as_user(BOB.email)
    ids = (SKATES, str(uuid.uuid4()), "not-an-id", "")
    for tool in ("get_note", "delete_note"):
        assert len({await failure(bob, tool, id=id) for id in ids}) == 1
    errors = []
    for id in ids[:3]:
        with pytest.raises(MCPError) as missing:
            await bob.read_resource(f"notes://{id}")
        errors.append((missing.value.code, missing.value.message))
    assert errors == [(-32602, "There is no note with this id. search_notes gives the ids of notes.")] * 3


async def test_a_new_note_goes_to_the_only_organisation_and_carries_its_author(as_user: As, team: Any) -> None:
    email = await team.add("editor")
    note = await ok(await as_user(email), "create_note", title="First", body="Text")
    assert note["organisation"] == team.name
    row = (await team.project.fetch("select author_id::text, body from public.notes where id = $1::uuid", note["id"]))[
        0
    ]
    assert (row["author_id"], row["body"]) == (team.project.auth.user(email).id, "Text")


async def test_with_several_organisations_one_has_to_be_named(as_user: As, team: Any) -> None:
    email = await team.add("owner")
    acme = "ac3e0000-0000-4000-8000-000000000001"
    await team.project.fetch(
        "insert into public.memberships select $1::uuid, id, 'editor' from auth.users where email = $2", acme, email
    )
    client = await as_user(email)
    question = await failure(client, "create_note", title="Where", body="")
    assert acme in question
    assert team.id in question
    assert await failure(client, "create_note", title="Where", body="", organisation=GLOBEX) == question
    for named in (team.name, team.id):
        assert (await ok(client, "create_note", title="Here", body="", organisation=named))["organisation"] == team.name
    assert await team.titles() == ["Here", "Here"]


async def test_a_viewer_reads_and_does_not_write(as_user: As, team: Any) -> None:
    owner, viewer = await team.add("owner"), await team.add("viewer")
    id = await team.note(owner, "Read me")
    client = await as_user(viewer)
    assert await found(client) == ["Read me"]
    assert "may not write" in await failure(client, "create_note", title="No", body="")
    assert "still there" in await failure(client, "delete_note", id=id, confirm=True)
    assert await team.titles() == ["Read me"]


async def test_an_editor_deletes_own_notes_and_not_those_of_others(as_user: As, team: Any) -> None:
    owner, editor = await team.add("owner"), await team.add("editor")
    theirs, own = await team.note(owner, "Theirs"), await team.note(editor, "Own")
    client = await as_user(editor)
    assert "still there" in await failure(client, "delete_note", id=theirs, confirm=True)
    assert (await ok(client, "delete_note", id=own, confirm=True))["deleted"] is True
    assert await team.titles() == ["Theirs"]


async def test_a_note_that_breaks_a_rule_is_refused_in_words_and_shown_nowhere(
    as_user: As, team: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await as_user(await team.add("owner"))
    told = await failure(client, "create_note", title="two\nlines of secret", body="")
    assert told == "A title is one line of 1 to 200 characters, and a body has at most 20000 characters."
    told += await failure(client, "create_note", title="t", body="nul \x00 secret")
    own = [record.getMessage() for record in caplog.records if record.name.startswith("team_notes")]
    assert own == ["Supabase refused a query: 23514", "Supabase refused a query: 22P05"]
    for word in ("secret", "violates", "notes_title_check", "insert"):
        assert word not in told
        assert word not in caplog.text
    assert await team.titles() == []


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_a_note_is_deleted_after_its_user_agreed(as_user: As, team: Any, mode: str) -> None:
    email = await team.add("owner")
    id = await team.note(email, "Old plan")
    user = User(ElicitResult(action="accept", content={"delete": True}))
    client = await as_user(email, elicitation_callback=user, mode=mode)
    assert await ok(client, "delete_note", id=id) == {"deleted": True, "message": "The note was deleted."}
    assert user.asked == [f"Delete the note “Old plan” of {team.name}?"]
    assert await team.titles() == []


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"delete": False}),
    ],
)
async def test_a_note_is_kept_when_its_user_does_not_agree_whatever_the_model_says(
    as_user: As, team: Any, answer: ElicitResult, confirm: bool
) -> None:
    email = await team.add("owner")
    id = await team.note(email, "Kept")
    client = await as_user(email, elicitation_callback=User(answer))
    kept = await ok(client, "delete_note", id=id, confirm=confirm)
    assert kept == {"deleted": False, "message": "The user does not want it deleted. The note was kept."}
    assert await team.titles() == ["Kept"]


async def test_a_client_that_cannot_ask_has_to_confirm(as_user: As, team: Any) -> None:
    email = await team.add("owner")
    id = await team.note(email, "Old plan")
    client = await as_user(email)
    told = await failure(client, "delete_note", id=id)
    assert "“Old plan”" in told
    assert "confirm=true" in told
    assert await team.titles() == ["Old plan"]
    assert (await ok(client, "delete_note", id=id, confirm=True))["deleted"] is True
    assert await team.titles() == []


async def test_the_resources_are_the_caller_s_own(as_user: As) -> None:
    alice = await as_user(ALICE.email)
    contents = (await alice.read_resource("notes://organisations")).contents[0]
    assert contents.mime_type == "application/json"
    assert [(one["name"], one["role"]) for one in json.loads(contents.text)] == [(ACME, "owner")]
    contents = (await alice.read_resource(f"notes://{SKATES}")).contents[0]
    assert contents.mime_type == "text/markdown"
    assert contents.text.startswith("# Rocket skates roadmap\n\nThe skates ship in March.")


async def test_the_prompt_brings_the_notes_with_it(as_user: As) -> None:
    alice, bob = await as_user(ALICE.email), await as_user(BOB.email)
    messages = (await alice.get_prompt("summarise_notes", {"topic": "anvil"})).messages
    assert isinstance(messages[0].content, TextContent)
    assert "“anvil”" in messages[0].content.text
    assert [message.content.resource.uri for message in messages if isinstance(message.content, EmbeddedResource)] == [
        "notes://ac3e0000-0000-4000-8000-0000000000a2"
    ]
    messages = (await bob.get_prompt("summarise_notes", {"topic": "anvil"})).messages
    assert len(messages) == 1


async def test_topics_are_completed_from_the_caller_s_own_titles(as_user: As) -> None:
    alice, bob = await as_user(ALICE.email), await as_user(BOB.email)

    async def topics(client: Client, value: str, name: str = "topic") -> list[str]:
        return (await client.complete(TOPIC, {"name": name, "value": value})).completion.values

    assert await topics(alice, "ROAD") == ["Rocket skates roadmap"]
    assert await topics(bob, "road") == ["Weather machine roadmap"]
    assert await topics(bob, "skates") == []
    assert await topics(alice, "road", name="another") == []


@pytest.mark.parametrize("character", ["%", "_", "\\", "*"])
async def test_a_wildcard_completes_nothing_but_itself(as_user: As, team: Any, character: str) -> None:
    email = await team.add("owner")
    await team.note(email, "plain words")
    special = f"{character}9"
    await team.note(email, f"with {special}")
    await team.note(email, "with 9")
    client = await as_user(email)
    values = (await client.complete(TOPIC, {"name": "topic", "value": f"h {special}"})).completion.values
    assert values == [f"with {special}"]


async def test_nobody_in_particular_sees_nothing(team_notes_project: SupabaseProject) -> None:
    project = Project(team_notes_project.url, team_notes_project.publishable_key)
    for kind in ("application", "public"):
        nobody = caller("key-1" if kind == "application" else None, kind=kind)
        async with plugin_client(server, as_=nobody, project=project) as client:
            assert await failure(client, "search_notes", query="") == "You are not allowed to do this."
            assert await failure(client, "create_note", title="t", body="b") == "You are not allowed to do this."


async def test_a_project_that_is_away_is_reported_in_words(unused_tcp_port: int) -> None:
    away = Project(f"http://127.0.0.1:{unused_tcp_port}", "sb_publishable_test")
    async with plugin_client(server, as_=caller("alice", token="t"), project=away) as client:
        told = await failure(client, "search_notes", query="")
    assert told == "The notes cannot be reached at the moment; try again later."


async def test_every_tool_has_a_title_and_hints_and_no_argument_for_the_caller(as_user: As) -> None:
    assert await tools_without_hints(server) == []
    client = await as_user(ALICE.email)
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    arguments = {name: set(tool.input_schema["properties"]) for name, tool in tools.items()}
    assert arguments == {
        "search_notes": {"query", "limit"},
        "get_note": {"id"},
        "create_note": {"title", "body", "organisation"},
        "delete_note": {"id", "confirm"},
    }
    assert all(tool.output_schema for tool in tools.values())
    assert tools["delete_note"].annotations is not None
    assert tools["delete_note"].annotations.destructive_hint is True
