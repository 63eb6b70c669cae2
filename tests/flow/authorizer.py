"""An authorizer of an application: it verifies who asks as a plugin does, keeps what it was asked, answers as told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from joserfc.jwk import KeySet

from rowgate_plugin.contract import CONTEXT_HEADER, Context, ContextVerifier

Decide = Callable[[Context, dict[str, Any]], Any]


@dataclass
class Authorizer:
    url: str = ""
    keys: KeySet | None = None
    decide: Decide = lambda context, check: {"allowed": True}
    answer: Any = None
    """What is answered instead, whatever was asked."""
    status: int = 200
    asked: list[tuple[Context, dict[str, Any]]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        raw = await request.read()
        assert self.keys is not None
        verifier = ContextVerifier(self.keys, audience="main.authorizer")
        context = verifier.verify(
            request.headers.get(CONTEXT_HEADER), body=raw, authorization=request.headers.get("Authorization")
        )
        body = json.loads(raw)
        self.asked.append((context, body))
        if self.answer is not None:
            return web.json_response(self.answer, status=self.status)
        decisions = [self.decide(context, check) for check in body["checks"]]
        return web.json_response({"decisions": decisions}, status=self.status)


@asynccontextmanager
async def authorizer() -> AsyncIterator[Authorizer]:
    it = Authorizer()
    app = web.Application()
    app.router.add_post("/may", it.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}/may"
    try:
        yield it
    finally:
        await runner.cleanup()
