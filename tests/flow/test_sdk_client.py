"""The official SDK's client, in each of its modes, through the gateway to a plugin of the official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import mcp.types as t
import pytest
from joserfc.jwk import KeySet, OKPKey
from mcp.client import Client, ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from flow.conftest import CONTEXT_KEY, Running
from flow.issuer import ALICE, BOB
from flow.sdk_plugin import SdkPlugin, Seen, sdk_plugin

MODERN = ["auto", "2026-07-28"]
MODES = [*MODERN, "legacy"]
TOOLS = ["find", "count", "fail", "read_aloud", "mention", "wait", "wait_aloud", "meet", "lend", "ship"]

# The protocol deprecated log messages, and the SDK says so to the plugin that sends one; clients still have them.
LOGS = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def books(stack: AsyncExitStack) -> SdkPlugin:
    public = OKPKey.import_key(CONTEXT_KEY.as_dict(private=False))
    return await stack.enter_async_context(sdk_plugin(KeySet([public])))


@pytest.fixture
def seen(books: SdkPlugin) -> Seen:
    return books.seen


@pytest.fixture
async def gateway(start: Callable[..., Any], books: SdkPlugin) -> Running:
    def change(tree: dict[str, Any]) -> None:
        tree["plugins"]["books"]["timeout"] = "30s"
        tree["servers"]["main"]["capabilities"] = [
            {
                "from": "books",
                "tools": TOOLS,
                "prompts": ["review"],
                "resources": ["books://**"],
                "templates": ["books://by/{author}"],
            }
        ]

    return await start(change, books=books)


@pytest.fixture
def connect(gateway: Running) -> Connect:
    """`connect(mode, subject, **client_options)`: the SDK's client, signed in."""

    @asynccontextmanager
    async def run(mode: str, subject: str = ALICE, **options: Any) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {gateway.issuer.token(subject)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(60)) as http:
            transport = streamable_http_client(gateway.client.url, http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client

    return run


def text_of(result: t.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, t.TextContent)
    return block.text


@pytest.mark.parametrize("mode", MODES)
async def test_each_mode_gets_the_version_it_asks_for_and_sees_the_gateway_as_the_server(
    connect: Connect, mode: str
) -> None:
    async with connect(mode) as client:
        await client.list_tools()
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        if mode != "2026-07-28":  # a pinned client asks nobody who it talks to
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.title) == ("main", "Flow")
            assert client.server_capabilities.tools is not None


@pytest.mark.parametrize("mode", MODES)
async def test_everything_that_is_declared_is_listed(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        assert (tools[0].title, tools[0].annotations) == ("Find a book", t.ToolAnnotations(read_only_hint=True))
        assert tools[0].output_schema is not None
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["review"]
        assert [resource.uri for resource in (await client.list_resources()).resources] == ["books://all"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["books://by/{author}"]


@pytest.mark.parametrize("mode", MODES)
async def test_structured_output_arrives_and_fits_the_listed_schema(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        await client.list_tools()  # the client checks each result against the schema that it has listed
        found = await client.call_tool("find", {"title": "Emma"})
        assert found.structured_content == {"title": "Emma", "pages": 4}
        assert (await client.call_tool("count")).structured_content == {"result": [1, 2, 3]}


@pytest.mark.parametrize("mode", MODES)
async def test_progress_arrives_in_order_while_the_tool_runs(connect: Connect, mode: str) -> None:
    reports: list[tuple[float, float | None, str | None]] = []
    complete = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        if progress == total:
            complete.set()

    async with connect(mode) as client:
        result = await client.call_tool("read_aloud", {"pages": 3}, progress_callback=on_progress)
        assert text_of(result) == "the end"
        await complete.wait()
    assert reports == [(1, 3, "page 1"), (2, 3, "page 2"), (3, 3, "page 3")]


@LOGS
@pytest.mark.parametrize("mode", MODES)
async def test_log_messages_arrive_where_the_era_gives_them(connect: Connect, mode: str) -> None:
    """A modern client asks with each request; a legacy one gets them unasked."""
    messages: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(params: t.LoggingMessageNotificationParams) -> None:
        await messages.put(params.data)

    level = {} if mode == "legacy" else {"log_level": "info"}
    async with connect(mode, logging_callback=on_message, **level) as client:
        await client.call_tool("mention")
        assert await messages.get() == "found it"


@LOGS
async def test_a_modern_client_that_asks_for_no_log_messages_gets_none(connect: Connect) -> None:
    messages: list[Any] = []

    async def on_message(params: t.LoggingMessageNotificationParams) -> None:
        messages.append(params.data)

    async with connect("2026-07-28", logging_callback=on_message) as client:
        assert text_of(await client.call_tool("mention")) == "mentioned"
    assert messages == []


@pytest.mark.parametrize("mode", MODES)
async def test_resources_prompts_and_completions_are_answered(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        [every] = (await client.read_resource("books://all")).contents
        [by] = (await client.read_resource("books://by/Austen")).contents
        assert isinstance(every, t.TextResourceContents)
        assert isinstance(by, t.TextResourceContents)
        assert (every.text, by.text, by.mime_type) == ("all of them", "books by Austen", "text/plain")
        [message] = (await client.get_prompt("review", {"book": "Emma"})).messages
        assert message.content == t.TextContent(type="text", text="Review Emma")
        for ref in (
            t.PromptReference(type="ref/prompt", name="review"),
            t.ResourceTemplateReference(type="ref/resource", uri="books://by/{author}"),
        ):
            completed = await client.complete(ref, {"name": "book", "value": "U"})
            assert completed.completion.values == ["Ulysses"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_that_fails_is_an_error_the_model_can_read(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        result = await client.call_tool("fail")
        assert (result.is_error, text_of(result)) == (True, "Error executing tool fail: The shelf is empty")


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_a_protocol_error_and_the_client_goes_on(connect: Connect, mode: str) -> None:
    async with connect(mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("burn")
        assert caught.value.error.code == t.INVALID_PARAMS
        assert text_of(await client.call_tool("ship")) == "none"


# --- questions to the user ---------------------------------------------------------------------------------


async def for_a_week(context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
    assert params.message == "For how long?"
    return t.ElicitResult(action="accept", content={"days": 7})


@pytest.mark.parametrize("mode", MODERN)
async def test_a_question_to_the_user_is_asked_and_its_answer_comes_back(connect: Connect, mode: str) -> None:
    async with connect(mode, elicitation_callback=for_a_week) as client:
        assert text_of(await client.call_tool("lend")) == f"{ALICE} accept 7"


async def test_a_legacy_client_is_told_which_version_can_answer_a_question(connect: Connect) -> None:
    async with connect("legacy", elicitation_callback=for_a_week) as client:
        result = await client.call_tool("lend")
        assert result.is_error
        assert "2026-07-28" in text_of(result)


async def test_an_answer_cannot_be_given_for_another_user(connect: Connect) -> None:
    async with connect("2026-07-28", ALICE) as alice, connect("2026-07-28", BOB) as bob:
        asked = await alice.session.call_tool("lend", allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        answers: t.InputResponses = {"days": t.ElicitResult(action="accept", content={"days": 7})}
        with pytest.raises(MCPError) as caught:
            await bob.call_tool("lend", input_responses=answers, request_state=asked.request_state)
        assert caught.value.error.code == t.INVALID_PARAMS
        finished = await alice.call_tool("lend", input_responses=answers, request_state=asked.request_state)
        assert text_of(finished) == f"{ALICE} accept 7"


# --- leaving, and being many -------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["wait", "wait_aloud"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_leaves_stops_the_tool_in_the_plugin(
    connect: Connect, seen: Seen, mode: str, tool: str
) -> None:
    async def call() -> None:
        async with connect(mode) as client:
            await client.call_tool(tool, progress_callback=ignored)

    calling = asyncio.create_task(call())
    await seen.started.wait()
    calling.cancel()
    await seen.cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize("mode", MODERN)
async def test_one_call_that_is_given_up_stops_alone(connect: Connect, seen: Seen, mode: str) -> None:
    async with connect(mode) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await seen.started.wait()
        calling.cancel()
        await seen.cancelled.wait()
        assert text_of(await client.call_tool("ship")) == "none"


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    pass


@pytest.mark.parametrize("mode", MODES)
async def test_two_callers_with_the_same_message_id_get_each_their_own_answer(
    connect: Connect, seen: Seen, mode: str
) -> None:
    """The barrier holds both calls in the plugin until both are there."""
    async with connect(mode, ALICE) as alice, connect(mode, BOB) as bob:
        results = await asyncio.gather(alice.call_tool("meet"), bob.call_tool("meet"))
    assert [text_of(result) for result in results] == [ALICE, BOB]
    assert seen.ids[0] != seen.ids[1], "the gateway gives each exchange an id of its own"


# --- parameters in headers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_a_parameter_that_belongs_in_a_header_reaches_the_plugin_there_too(
    connect: Connect, seen: Seen, mode: str
) -> None:
    """The legacy client knows nothing of it: the gateway writes the header from the argument."""
    async with connect(mode) as client:
        await client.list_tools()
        assert text_of(await client.call_tool("ship", {"region": "eu"})) == "eu"
    assert seen.regions == ["eu"]


@pytest.mark.parametrize("headers", [{"Mcp-Param-Region": "us"}, {"Mcp-Param-Region": "=?base64?x?="}, {}])
async def test_a_parameter_header_that_disagrees_with_its_argument_is_refused_by_the_gateway(
    gateway: Running, seen: Seen, headers: dict[str, str]
) -> None:
    params = {"name": "ship", "arguments": {"region": "eu"}}
    token = gateway.issuer.token()
    reply = await gateway.client.modern("tools/call", params, token=token, headers=headers)
    assert (reply.status, reply.error["code"]) == (400, t.HEADER_MISMATCH)
    assert seen.regions == []
