"""The door of a plugin: nothing is parsed before the gateway's context holds."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowgate_plugin.caller import CURRENT, Caller, caller_from
from rowgate_plugin.contract import (
    CONTEXT_HEADER,
    CREDENTIAL_HEADER,
    CREDENTIAL_REFUSED,
    Context,
    ContextError,
    ContextVerifier,
)
from rowgate_plugin.keys import ContextKeys
from rowgate_plugin.supabase import Connections

HEALTH_PATH = "/healthz"
MAX_BODY_BYTES = 4 * 1024 * 1024

Extend = Callable[[Caller], Awaitable[Any]]
"""Asks once a request for what the author wants to know about the caller."""

logger = logging.getLogger(__name__)


class _Refusal(Exception):
    def __init__(self, status: int, error: str, **members: str) -> None:
        self.status = status
        self.body = {"error": error, **members}


class _Exchange:
    """What happened to the caller's credential during one request."""

    __slots__ = ("credential_refused",)

    def __init__(self) -> None:
        self.credential_refused = False

    def refuse_credential(self) -> None:
        self.credential_refused = True


class ContextMiddleware:
    """Outermost ASGI middleware. Behind it `current_caller()` answers, and only there."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        verifier: ContextVerifier,
        keys: ContextKeys,
        connections: Connections | None = None,
        extend: Extend | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._app = app
        self._verifier = verifier
        self._keys = keys
        self._connections = connections
        self._extend = extend
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == HEALTH_PATH and scope["method"] in ("GET", "HEAD"):
            return await _answer(send, 200, {"status": "ok"})
        exchange = _Exchange()
        try:
            body = await self._admit(scope, receive)
            if body is None:
                return None
            context, token = await self._verify(scope, body)
        except _Refusal as refusal:
            logger.warning("request refused: %s", json.dumps(refusal.body))
            return await _answer(send, refusal.status, refusal.body)
        reset = CURRENT.set(self._caller(context, token, exchange))
        try:
            if not await self._extended():
                return await _answer(send, 500, {"error": "extend_failed"}, _credential_headers(exchange))
            await self._app(scope, _replay(body, receive), _reporting(send, exchange))
        finally:
            CURRENT.reset(reset)
        return None

    async def _admit(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None when the gateway went away. A stranger's body is not even read."""
        if scope["method"] != "POST":
            raise _Refusal(405, "method_not_allowed")
        if not _header(scope, CONTEXT_HEADER):
            raise _Refusal(401, "context_refused", reason="missing")
        return await self._read_body(receive)

    async def _read_body(self, receive: Receive) -> bytes | None:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max_body_bytes:
                raise _Refusal(413, "body_too_large")
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def _verify(self, scope: Scope, body: bytes) -> tuple[Context, str | None]:
        contexts = _header(scope, CONTEXT_HEADER)
        credentials = _header(scope, "Authorization")
        try:
            if len(contexts) > 1:
                raise ContextError("malformed")
            if len(credentials) > 1:
                raise ContextError("credential")
            authorization = credentials[0] if credentials else None
            context = await self._verify_context(contexts[0], body, authorization)
        except ContextError as error:
            raise _Refusal(401, "context_refused", reason=error.reason) from None
        return context, authorization.partition(" ")[2] if authorization else None

    async def _verify_context(self, token: str, body: bytes, authorization: str | None) -> Context:
        await self._keys.freshen()
        try:
            return self._verifier.verify(token, body=body, authorization=authorization)
        except ContextError as error:
            if error.reason != "unknown_key" or not await self._keys.reload():
                raise
        return self._verifier.verify(token, body=body, authorization=authorization)

    def _caller(self, context: Context, token: str | None, exchange: _Exchange) -> Caller:
        if self._connections is None:
            return caller_from(context, None)
        # Only a user has a token that means something to Supabase; everybody else is anonymous there.
        presented = token if context.kind == "user" else None
        return caller_from(context, self._connections.client(presented, exchange.refuse_credential))

    async def _extended(self) -> bool:
        caller = CURRENT.get()
        if self._extend is None or caller.kind == "gateway":
            return True
        try:
            extra = await self._extend(caller)
        except Exception:
            logger.exception("extend failed")
            return False
        CURRENT.set(dataclasses.replace(caller, extra=extra))
        return True


def _header(scope: Scope, name: str) -> list[str]:
    wanted = name.lower().encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == wanted]


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def replay() -> Message:
        nonlocal pending
        if pending is None:
            return await receive()
        message, pending = pending, None
        return message

    return replay


def _reporting(send: Send, exchange: _Exchange) -> Send:
    async def report(message: Message) -> None:
        # A stream has begun before the tool talks to Supabase; there the tool's own error is all that is told.
        if message["type"] == "http.response.start" and exchange.credential_refused:
            message = {**message, "headers": [*message.get("headers", ()), *_credential_headers(exchange)]}
        await send(message)

    return report


def _credential_headers(exchange: _Exchange) -> list[tuple[bytes, bytes]]:
    if not exchange.credential_refused:
        return []
    return [(CREDENTIAL_HEADER.lower().encode(), CREDENTIAL_REFUSED.encode())]


async def _answer(
    send: Send, status: int, body: dict[str, str], headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    content = json.dumps(body).encode()
    fixed = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *(headers or [])]})
    await send({"type": "http.response.body", "body": content})
