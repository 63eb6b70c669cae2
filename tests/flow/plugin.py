"""A recording plugin: it verifies every context as the contract says, keeps what it got, and answers as it is told,
rudely where a test wants that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from joserfc.jwk import KeySet

from rowgate_plugin.contract import CONTEXT_HEADER, Context, ContextError, ContextVerifier

Answer = Callable[["Received"], Awaitable[web.StreamResponse | dict[str, Any]]]

HINTS = {"readOnlyHint": True}


@dataclass
class Received:
    request: web.Request
    raw: bytes
    message: dict[str, Any]
    context: Context

    @property
    def headers(self) -> Any:
        return self.request.headers

    @property
    def params(self) -> dict[str, Any]:
        return self.message["params"]

    def result(self, **members: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": {"resultType": "complete", **members}}

    def text(self, text: str, **members: Any) -> dict[str, Any]:
        return self.result(content=[{"type": "text", "text": text}], **members)

    def error(self, code: int, message: str, **members: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.message["id"], "error": {"code": code, "message": message, **members}}


def tool(name: str, **members: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "title": name.title(), "inputSchema": schema, "annotations": HINTS, **members}


@dataclass
class Plugin:
    name: str
    url: str = ""
    tools: list[dict[str, Any]] = field(default_factory=lambda: [tool("echo"), tool("admin"), tool("whoami")])
    prompts: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "summary", "title": "Summary"}])
    resources: list[dict[str, Any]] = field(default_factory=lambda: [{"uri": "note://all", "name": "all"}])
    templates: list[dict[str, Any]] = field(default_factory=lambda: [{"uriTemplate": "note://{id}", "name": "note"}])
    page_size: int = 2
    received: list[Received] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    """By JSON-RPC method, for what is not a list."""
    keys: KeySet | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def calls(self) -> list[Received]:
        return [it for it in self.received if it.message["method"] == "tools/call"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        assert self.keys is not None
        verifier = ContextVerifier(self.keys, audience=self.name)
        try:
            context = verifier.verify(
                request.headers.get(CONTEXT_HEADER), body=raw, authorization=request.headers.get("Authorization")
            )
        except ContextError as error:
            return web.json_response({"reason": error.reason}, status=401)
        received = Received(request, raw, json.loads(raw), context)
        self.received.append(received)
        method = received.message["method"]
        answer = self.answers.get(method) or self._default(method)
        try:
            given = await answer(received)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return web.json_response(given) if isinstance(given, dict) else given

    def _default(self, method: str) -> Answer:
        async def discover(it: Received) -> dict[str, Any]:
            capabilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
            return it.result(supportedVersions=["2026-07-28"], capabilities=capabilities, ttlMs=0, cacheScope="private")

        async def echo(it: Received) -> dict[str, Any]:
            if it.params["name"] == "whoami":
                return it.text(str(it.context.sub))
            return it.text(str(it.params.get("arguments", {}).get("text", "")))

        async def read(it: Received) -> dict[str, Any]:
            contents = [{"uri": it.params["uri"], "text": f"read by {it.context.sub}"}]
            return it.result(contents=contents, ttlMs=0, cacheScope="private")

        async def prompt(it: Received) -> dict[str, Any]:
            return it.result(messages=[{"role": "user", "content": {"type": "text", "text": it.params["name"]}}])

        async def complete(it: Received) -> dict[str, Any]:
            return it.result(completion={"values": ["one"]})

        async def unknown(it: Received) -> dict[str, Any]:
            return it.error(-32601, method)

        lists = {
            "tools/list": ("tools", self.tools),
            "prompts/list": ("prompts", self.prompts),
            "resources/list": ("resources", self.resources),
            "resources/templates/list": ("resourceTemplates", self.templates),
        }

        async def page(it: Received) -> dict[str, Any]:
            member, items = lists[method]
            start = int(it.params.get("cursor", "0"))
            rest = {"nextCursor": str(start + self.page_size)} if start + self.page_size < len(items) else {}
            return it.result(**{member: items[start : start + self.page_size]}, ttlMs=0, cacheScope="private", **rest)

        if method in lists:
            return page
        return {
            "server/discover": discover,
            "tools/call": echo,
            "resources/read": read,
            "prompts/get": prompt,
            "completion/complete": complete,
        }.get(method, unknown)


@asynccontextmanager
async def plugin(name: str) -> AsyncIterator[Plugin]:
    it = Plugin(name)
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_post("/mcp", it.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    try:
        yield it
    finally:
        await runner.cleanup()


def event_stream(*events: dict[str, Any] | str) -> Answer:
    """Answer with these events; a string is written as it stands, and a response is given the request's id."""

    async def answer(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        for event in events:
            if isinstance(event, dict) and "method" not in event:
                event = {**event, "id": it.message["id"]}
            text = event if isinstance(event, str) else f"event: message\ndata: {json.dumps(event)}\n\n"
            await response.write(text.encode())
        await response.write_eof()
        return response

    return answer
