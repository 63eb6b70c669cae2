from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Annotated, Any

import pytest
from mcp.client.context import ClientRequestContext
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.request_state import RequestStateBoundary
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent
from pydantic import BaseModel
from recording_supabase import ALICE, BOB

from rowgate_plugin import CurrentCaller
from rowgate_plugin.settings import SettingsError
from rowgate_plugin.state import STATE_KEY, install, request_state
from rowgate_plugin.testing import CallerFixture, caller, plugin_client

SHARED = {STATE_KEY: "k" * 32}


class Confirm(BaseModel):
    sure: bool


async def confirm(id: int) -> Elicit[Confirm]:
    return Elicit(f"Delete note {id}?", Confirm)


def make_server(name: str = "notes") -> MCPServer[Any]:
    server = MCPServer(name, log_level="WARNING")

    @server.tool()
    async def delete_note(id: int, answer: Annotated[Confirm, Resolve(confirm)], caller: CurrentCaller) -> str:
        return f"{caller.subject} deleted {id}" if answer.sure else "kept"

    return server


async def agree(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


class Rounds:
    """The two rounds of one call, each as whom and on which server a test says."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack

    async def client(self, server: MCPServer[Any], as_: CallerFixture, environ: dict[str, str]) -> Any:
        return await self.stack.enter_async_context(
            plugin_client(server, as_=as_, environ=environ, elicitation_callback=agree, mode="2026-07-28")
        )

    async def ask(self, client: Any, id: int = 7) -> InputRequiredResult:
        asked = await client.session.call_tool("delete_note", {"id": id}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert asked.request_state
        return asked

    async def answer(self, client: Any, asked: InputRequiredResult, id: int = 7) -> str:
        responses = {key: ElicitResult(action="accept", content={"sure": True}) for key in asked.input_requests or {}}
        result = await client.session.call_tool(
            "delete_note", {"id": id}, input_responses=responses, request_state=asked.request_state
        )
        assert isinstance(result.content[0], TextContent)
        return str(result.content[0].text)


async def test_a_question_is_asked_and_answered_by_the_same_user() -> None:
    options = {"environ": SHARED, "elicitation_callback": agree}
    async with plugin_client(make_server(), as_=caller(ALICE), **options) as client:
        result = await client.call_tool("delete_note", {"id": 7})
        assert isinstance(result.content[0], TextContent)
        assert result.content[0].text == f"{ALICE} deleted 7"


async def test_another_replica_with_the_same_key_takes_the_answer() -> None:
    async with AsyncExitStack() as stack:
        rounds = Rounds(stack)
        first = await rounds.client(make_server(), caller(ALICE), SHARED)
        second = await rounds.client(make_server(), caller(ALICE), SHARED)
        assert await rounds.answer(second, await rounds.ask(first)) == f"{ALICE} deleted 7"


@pytest.mark.parametrize(
    "other",
    [
        caller(BOB),
        caller(ALICE, client_id="another-client"),
        caller(ALICE, kind="application"),
        caller(None, kind="public"),
    ],
)
async def test_nobody_else_can_use_the_state(other: CallerFixture) -> None:
    async with AsyncExitStack() as stack:
        rounds = Rounds(stack)
        server = make_server()
        alice = await rounds.client(server, caller(ALICE), SHARED)
        asked = await rounds.ask(alice)
        stranger = await rounds.client(server, other, SHARED)
        with pytest.raises(MCPError, match="requestState"):
            await rounds.answer(stranger, asked)


async def test_the_state_is_for_these_arguments_only() -> None:
    async with AsyncExitStack() as stack:
        rounds = Rounds(stack)
        alice = await rounds.client(make_server(), caller(ALICE), SHARED)
        with pytest.raises(MCPError, match="requestState"):
            await rounds.answer(alice, await rounds.ask(alice, 7), 8)


@pytest.mark.parametrize(("name", "environ"), [("notes", {}), ("notes", {STATE_KEY: "x" * 32}), ("billing", SHARED)])
async def test_another_plugin_or_key_cannot_read_the_state(name: str, environ: dict[str, str]) -> None:
    async with AsyncExitStack() as stack:
        rounds = Rounds(stack)
        alice = await rounds.client(make_server(), caller(ALICE), SHARED)
        asked = await rounds.ask(alice)
        elsewhere = await rounds.client(make_server(name), caller(ALICE), environ)
        with pytest.raises(MCPError, match="requestState"):
            await rounds.answer(elsewhere, asked)


@pytest.mark.parametrize("key", ["", "short"])
def test_a_short_key_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match=STATE_KEY) as caught:
        request_state({STATE_KEY: key})
    assert "short" not in str(caught.value)


def test_a_process_without_a_key_says_what_that_means(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    request_state({})
    assert STATE_KEY in caplog.text


def test_installing_replaces_and_never_adds() -> None:
    server = make_server()
    before = len(server.middleware)
    install(server, request_state(SHARED))
    install(server, request_state(SHARED))
    assert len(server.middleware) == before
    assert sum(isinstance(installed, RequestStateBoundary) for installed in server.middleware) == 1


def test_a_server_without_a_boundary_is_not_served() -> None:
    server = make_server()
    server.middleware[:] = [m for m in server.middleware if not isinstance(m, RequestStateBoundary)]
    with pytest.raises(SettingsError):
        install(server, request_state(SHARED))
