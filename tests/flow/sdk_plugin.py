"""A plugin as its author writes it, on the official SDK and the plugin library, served in the test's own process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import mcp.types as t
import uvicorn
from joserfc.jwk import KeySet
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from rowgate_plugin import CurrentCaller, current_caller, request_state
from rowgate_plugin.keys import ContextKeys
from rowgate_plugin.serving import PluginApp

READ_ONLY = t.ToolAnnotations(read_only_hint=True)
STATE_KEY = {"ROWGATE_STATE_KEY": "a key of the tests, of 32 bytes and more"}


class Book(BaseModel):
    title: str
    pages: int


@dataclass
class Seen:
    """What went on in the plugin, as events that a test awaits."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    together: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(2))
    ids: list[t.RequestId] = field(default_factory=list)
    regions: list[str | None] = field(default_factory=list)


@dataclass
class SdkPlugin:
    url: str
    keys: KeySet
    seen: Seen


def bookshelf(seen: Seen) -> MCPServer[Any]:
    server = MCPServer("books", version="1")

    def tool(title: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return server.tool(title=title, description=f"{title}.", annotations=READ_ONLY)

    @tool("Find a book")
    async def find(title: str) -> Book:
        return Book(title=title, pages=len(title))

    @tool("Count books")
    async def count() -> list[int]:
        return [1, 2, 3]

    @tool("Fail")
    async def fail() -> str:
        raise ToolError("The shelf is empty")

    @tool("Read aloud")
    async def read_aloud(ctx: Context, pages: int) -> str:
        for page in range(1, pages + 1):
            await ctx.report_progress(page, pages, f"page {page}")
        return "the end"

    @tool("Mention")
    async def mention(ctx: Context) -> str:
        await ctx.info("found it")
        return "mentioned"

    async def until_cancelled() -> str:
        seen.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.cancelled.set()
            raise
        raise AssertionError("nobody sets this event")

    @tool("Wait in silence")
    async def wait() -> str:
        return await until_cancelled()

    @tool("Wait after a word")
    async def wait_aloud(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return await until_cancelled()

    @tool("Meet")
    async def meet(ctx: Context, caller: CurrentCaller) -> str:
        seen.ids.append(ctx.request_id)
        await seen.together.wait()
        return str(caller.subject)

    @tool("Lend")
    async def lend(ctx: Context) -> str | t.InputRequiredResult:
        answer = (ctx.input_responses or {}).get("days")
        if isinstance(answer, t.ElicitResult) and ctx.request_state == "asked":
            return f"{current_caller().subject} {answer.action} {(answer.content or {}).get('days')}"
        schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
        question = t.ElicitRequestFormParams(message="For how long?", requested_schema=schema)
        return t.InputRequiredResult(input_requests={"days": t.ElicitRequest(params=question)}, request_state="asked")

    @tool("Ship")
    async def ship(
        ctx: Context, region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none"
    ) -> str:
        seen.regions.append((ctx.headers or {}).get("mcp-param-region"))
        return region

    @server.resource("books://all", mime_type="text/plain")
    def every() -> str:
        return "all of them"

    @server.resource("books://by/{author}", mime_type="text/plain")
    def by(author: str) -> str:
        return f"books by {author}"

    @server.prompt(title="Review", description="Review a book.")
    async def review(book: str) -> str:
        return f"Review {book}"

    @server.completion()
    async def complete(ref: Any, argument: t.CompletionArgument, context: Any) -> t.Completion:
        return t.Completion(values=[title for title in ("Emma", "Ulysses") if title.startswith(argument.value)])

    return server


@asynccontextmanager
async def sdk_plugin(keys: KeySet) -> AsyncIterator[SdkPlugin]:
    seen = Seen()
    app = PluginApp(bookshelf(seen), keys=ContextKeys(keys), state=request_state(STATE_KEY))
    with socket.socket() as listening:
        # It listens before the server runs, so that nobody has to wait for that.
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(
            app, lifespan="on", ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield SdkPlugin(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", keys, seen)
        finally:
            server.should_exit = True
            await serving
