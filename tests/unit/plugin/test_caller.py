from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    Completion,
    InputRequiredResult,
    PromptReference,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from recording_supabase import ALICE, BOB, RecordingSupabase

from rowgate_plugin import Actor, Caller, CurrentCaller, User, current_caller, with_caller
from rowgate_plugin.supabase import Project
from rowgate_plugin.testing import CallerFixture, caller, plugin_client


def make_server() -> MCPServer[Any]:
    server = MCPServer("notes", log_level="WARNING")

    @server.tool(title="Who", annotations=ToolAnnotations(read_only_hint=True))
    async def who(caller: CurrentCaller) -> str:
        return f"{caller.subject} {current_caller().subject}"

    @server.tool()
    def who_in_a_thread(prefix: str, caller: CurrentCaller) -> str:
        return f"{prefix} {caller.subject} {current_caller().subject}"

    @server.tool()
    async def who_with_progress(caller: CurrentCaller, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return f"{caller.subject} {current_caller().subject}"

    @server.tool()
    @with_caller
    async def who_asks(caller: CurrentCaller) -> InputRequiredResult | str:
        return str(caller.subject)

    @server.tool()
    async def read(caller: CurrentCaller) -> str:
        rows = await caller.supabase.table("notes").select("*").execute()
        return str(rows.data[0]["bearer"])

    @server.tool()
    async def whole(caller: CurrentCaller) -> dict[str, Any]:
        return {"extra": caller.extra, "repr": repr(caller)}

    @server.resource("who://static")
    @with_caller
    async def static(caller: CurrentCaller) -> str:
        return str(caller.subject)

    @server.resource("who://thread")
    @with_caller
    def static_in_a_thread(caller: CurrentCaller) -> str:
        return str(caller.subject)

    @server.resource("who://template/{id}")
    @with_caller
    async def template(id: str, caller: CurrentCaller) -> str:
        return f"{id} {caller.subject}"

    @server.prompt()
    @with_caller
    async def brief(topic: str, caller: CurrentCaller) -> str:
        return f"{topic} {caller.subject}"

    @server.completion()
    @with_caller
    async def complete(ref: Any, argument: Any, context: Any, caller: CurrentCaller) -> Completion:
        return Completion(values=[f"{argument.value} {caller.subject}"])

    return server


def text(content: Any) -> str:
    assert isinstance(content, TextContent | TextResourceContents)
    return content.text


async def ask_everything(server: MCPServer[Any], as_: CallerFixture, **options: Any) -> list[str]:
    async with plugin_client(server, as_=as_, **options) as client:
        answers = [
            text((await client.call_tool("who", {})).content[0]),
            text((await client.call_tool("who_in_a_thread", {"prefix": "t"})).content[0]),
            text((await client.call_tool("who_with_progress", {})).content[0]),
            text((await client.call_tool("who_asks", {})).content[0]),
            text((await client.read_resource("who://static")).contents[0]),
            text((await client.read_resource("who://thread")).contents[0]),
            text((await client.read_resource("who://template/7")).contents[0]),
            text((await client.get_prompt("brief", {"topic": "x"})).messages[0].content),
        ]
        completed = await client.complete(
            PromptReference(type="ref/prompt", name="brief"), {"name": "topic", "value": "x"}
        )
        return [*answers, *completed.completion.values]


@pytest.mark.parametrize("json_only", [False, True])
async def test_every_kind_of_handler_meets_the_same_caller(json_only: bool) -> None:
    answers = await ask_everything(make_server(), caller(ALICE), json_only=json_only)
    assert answers == [
        f"{ALICE} {ALICE}",
        f"t {ALICE} {ALICE}",
        f"{ALICE} {ALICE}",
        ALICE,
        ALICE,
        ALICE,
        f"7 {ALICE}",
        f"x {ALICE}",
        f"x {ALICE}",
    ]


async def test_a_legacy_client_meets_the_same_caller() -> None:
    async with plugin_client(make_server(), as_=caller(ALICE), mode="legacy") as client:
        assert text((await client.call_tool("who_with_progress", {})).content[0]) == f"{ALICE} {ALICE}"
        assert text((await client.call_tool("who_in_a_thread", {"prefix": "t"})).content[0]) == f"t {ALICE} {ALICE}"


async def test_alice_and_bob_at_once_never_meet_each_other() -> None:
    server = make_server()
    async with (
        plugin_client(server, as_=caller(ALICE)) as alice,
        plugin_client(server, as_=caller(BOB)) as bob,
    ):
        for _ in range(5):
            calls = [
                client.call_tool(tool, {"prefix": "t"})
                for client in (alice, bob)
                for tool in ("who", "who_in_a_thread", "who_with_progress")
            ]
            answers = [text(result.content[0]) for result in await asyncio.gather(*calls)]
            assert all(BOB not in answer for answer in answers[:3])
            assert all(ALICE not in answer for answer in answers[3:])


async def test_the_caller_is_in_no_schema_that_a_client_sees() -> None:
    async with plugin_client(make_server(), as_=caller(ALICE)) as client:
        for tool in (await client.list_tools()).tools:
            assert "caller" not in tool.input_schema.get("properties", {})
        for prompt in (await client.list_prompts()).prompts:
            assert [argument.name for argument in prompt.arguments or []] == ["topic"]


async def test_a_client_cannot_bring_its_own_caller() -> None:
    async with plugin_client(make_server(), as_=caller(ALICE)) as client:
        answer = await client.call_tool("who", {"caller": {"subject": BOB}})
        assert text(answer.content[0]) == f"{ALICE} {ALICE}"
        wrapped = await client.call_tool("who_asks", {"caller": {"subject": BOB}})
        assert text(wrapped.content[0]) == ALICE
        with pytest.raises(Exception, match=r"brief|Internal"):
            await client.get_prompt("brief", {"topic": "x", "caller": BOB})


async def test_supabase_is_asked_as_the_caller(supabase: RecordingSupabase) -> None:
    project = Project(supabase.url, "sb_publishable_x")
    server = make_server()
    for user, token in ((ALICE, "alice.jwt"), (BOB, "bob.jwt")):
        async with plugin_client(server, as_=caller(user, token=token), project=project) as client:
            assert text((await client.call_tool("read", {})).content[0]) == f"Bearer {token}"


@pytest.mark.parametrize(
    "as_",
    [
        caller(ALICE),
        caller("key-1", kind="application", token="not.for.supabase"),
        caller(None, kind="public", token="not.for.supabase"),
    ],
)
async def test_without_a_user_supabase_is_asked_anonymously(supabase: RecordingSupabase, as_: CallerFixture) -> None:
    project = Project(supabase.url, "sb_publishable_x")
    async with plugin_client(make_server(), as_=as_, project=project) as client:
        assert text((await client.call_tool("read", {})).content[0]) == ""
    assert "Authorization" not in supabase.requests[0].headers


async def test_extend_runs_once_a_request_as_the_caller(supabase: RecordingSupabase) -> None:
    seen: Counter[str] = Counter()

    async def extend(caller: Caller) -> dict[str, str]:
        seen[caller.request_id] += 1
        assert current_caller() is caller
        rows = await caller.supabase.table("members").select("*").execute()
        return {"member": rows.data[0]["bearer"]}

    project = Project(supabase.url, "sb_publishable_x")
    as_ = caller(ALICE, token="alice.jwt")
    async with plugin_client(make_server(), as_=as_, extend=extend, project=project) as client:
        result = await client.call_tool("whole", {})
        assert result.structured_content is not None
        assert result.structured_content["extra"] == {"member": "Bearer alice.jwt"}
    assert set(seen.values()) == {1}


async def test_a_failing_extend_answers_for_nobody() -> None:
    async def extend(caller: Caller) -> None:
        raise RuntimeError("secret detail")

    with pytest.raises(Exception) as caught:
        async with plugin_client(make_server(), as_=caller(ALICE), extend=extend, mode="2026-07-28") as client:
            await client.call_tool("who", {})
    assert "secret detail" not in str(caught.value)


async def test_a_caller_knows_what_the_gateway_knows() -> None:
    server = MCPServer("notes", log_level="WARNING")
    met: list[Caller] = []

    @server.tool()
    async def meet(caller: CurrentCaller) -> None:
        met.append(caller)

    as_ = caller(
        ALICE,
        scopes={"notes:read", "notes:write"},
        email="alice@example.com",
        session_id="s1",
        claims={"org": "acme"},
        grant={"workspace": "w1"},
        actors=(Actor("agent"), Actor("host")),
    )
    async with plugin_client(server, as_=as_) as client:
        await client.call_tool("meet", {})
    known = met[0]
    assert known.user == User(ALICE, "alice@example.com")
    assert (known.kind, known.subject, known.role, known.aal) == ("user", ALICE, "authenticated", "aal1")
    assert known.has_scope("notes:read", "notes:write")
    assert not known.has_scope("notes:read", "admin")
    assert (known.actor, known.actors[1]) == (Actor("agent"), Actor("host"))
    assert (known.session_id, known.claims["org"]) == ("s1", "acme")
    assert known.grant is not None
    assert known.grant["workspace"] == "w1"
    for hidden in ("alice@example.com", "s1", "acme", "w1"):
        assert hidden not in repr(known)
    with pytest.raises(AttributeError):
        known.subject = BOB  # type: ignore[misc]
    with pytest.raises(TypeError):
        known.claims["org"] = "other"  # type: ignore[index]


def test_outside_a_request_there_is_no_caller() -> None:
    with pytest.raises(LookupError):
        current_caller()


def test_a_forgotten_with_caller_says_what_to_do() -> None:
    server = MCPServer("notes", log_level="WARNING")

    async def brief(topic: str, caller: CurrentCaller) -> str:
        return topic

    with pytest.raises(TypeError, match="@with_caller"):
        server.prompt()(brief)


def test_with_caller_without_a_caller_says_so() -> None:
    with pytest.raises(TypeError, match="CurrentCaller"):

        @with_caller
        async def brief(topic: str) -> str:
            return topic
