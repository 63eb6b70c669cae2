"""Somebody on the network between a gateway and its plugin, who keeps every request as it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from rowgate.demo.listener import bind, origin, serve

_CONNECTION = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True)
class Recorded:
    headers: dict[str, str]
    body: bytes


@dataclass
class Wiretap:
    url: str
    plugin: str
    session: aiohttp.ClientSession
    requests: list[Recorded] = field(default_factory=list)
    waiting: int = 0
    busiest: int = 0
    """The most requests that waited for the plugin at once."""

    async def handle(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _CONNECTION}
        recorded = Recorded(headers, await request.read())
        self.requests.append(recorded)
        self.waiting += 1
        self.busiest = max(self.busiest, self.waiting)
        try:
            async with self.session.post(self.plugin, headers=headers, data=recorded.body) as answer:
                given = {name: value for name, value in answer.headers.items() if name.lower() not in _CONNECTION}
                return web.Response(status=answer.status, headers=given, body=await answer.read())
        finally:
            self.waiting -= 1


@asynccontextmanager
async def wiretap(plugin: str) -> AsyncIterator[Wiretap]:
    listening = bind()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session:
        it = Wiretap(f"{origin(listening)}/mcp", plugin, session)
        app = web.Application(client_max_size=2**22)
        app.router.add_post("/mcp", it.handle)
        async with serve(app, listening):
            yield it
