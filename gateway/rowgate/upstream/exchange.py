"""One exchange with a plugin: what is sent, and the frames that come back, checked.

A frame is all that may follow a request on MCP's HTTP transport: notifications, keep-alives, then one final
response. Whatever else a plugin sends is its failure and ends the exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from mcp_types import jsonrpc as rpc
from mcp_types.methods import INPUT_REQUIRED_METHODS

from rowgate.auth.step_up import META_KEY
from rowgate.errors import (
    CredentialRefused,
    PluginAnswerTooLarge,
    PluginDied,
    PluginProtocolError,
    PluginRefusedContext,
    PluginTimeout,
    PluginUnreachable,
)
from rowgate.protocol import ijson
from rowgate.upstream.leg import Reply
from rowgate.upstream.sse import EventParser
from rowgate.value import value
from rowgate_plugin.contract import CREDENTIAL_HEADER, CREDENTIAL_REFUSED

RESULT_TYPES = frozenset({"complete", "input_required"})
LINGER = 0.1
"""Seconds that a result waits for its stream to end, which costs less than a connection of its own for each call."""
OWN_META = "rowgate/"
"""The prefix of what the gateway itself writes into `_meta`."""
_ABSENT_STATUSES = frozenset({502, 503, 504})
_RPC_STATUSES = frozenset({200, 400, 404})
_OUR_DEFECT = frozenset({rpc.HEADER_MISMATCH, rpc.UNSUPPORTED_PROTOCOL_VERSION})


@value
class Outgoing:
    """A request to a plugin, ready to be sent."""

    plugin: str
    method: str
    id: str | int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    with_credential: bool = False


@dataclass(frozen=True, slots=True)
class Notification:
    message: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The plugin has nothing to say yet, but has begun a stream."""


@value
class Final:
    """Exactly one of `result` and `error`. `size`: bytes of the answer on the wire."""

    result: dict[str, Any] | None = field(default=None, repr=False)
    error: dict[str, Any] | None = field(default=None, repr=False)
    size: int = 0


Frame = Notification | KeepAlive | Final


def received(reply: Reply, outgoing: Outgoing, *, max_bytes: int) -> Final | None:
    """The final frame of a JSON answer that is there already, as short ones are; None where one has to wait."""
    data = reply.received() if _is_json(reply) else None
    return None if data is None else _only(data, outgoing, max_bytes)


async def frames(reply: Reply, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> AsyncGenerator[Frame, None]:
    """`timeout`: seconds without a message; keep-alives do not count as one. Ends after the Final frame, or raises."""
    if _is_json(reply):
        yield _only(await _whole(reply, timeout, max_bytes), outgoing, max_bytes)
        return
    if _media_type(reply) != "text/event-stream" or reply.status != 200:
        raise PluginProtocolError(reason="media_type" if reply.status == 200 else "status")
    async with aclosing(_events(reply, outgoing, timeout, max_bytes)) as events:
        async for frame in events:
            yield frame


def _is_json(reply: Reply) -> bool:
    return reply.status in _RPC_STATUSES and _media_type(reply) == "application/json"


def _media_type(reply: Reply) -> str:
    return reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _only(data: bytes, outgoing: Outgoing, max_bytes: int) -> Final:
    if len(data) > max_bytes:
        raise PluginAnswerTooLarge(reason="too_large")
    final = _frame(data, outgoing)
    if not isinstance(final, Final):
        raise PluginProtocolError(reason="no_result")
    return final


def check_head(reply: Reply, outgoing: Outgoing) -> None:
    """Raises what status and header fields say, before anything of the body is read."""
    if outgoing.with_credential and reply.headers.get(CREDENTIAL_HEADER) == CREDENTIAL_REFUSED:
        raise CredentialRefused(reason="credential_refused")
    if reply.status == 401:
        raise PluginRefusedContext(reason="context_refused")
    if reply.status in _ABSENT_STATUSES:
        raise PluginUnreachable(reason="status")
    if reply.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise PluginProtocolError(reason="encoding")


async def _whole(reply: Reply, timeout: float, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout):
            async for chunk in reply.chunks():
                size += len(chunk)
                if size > max_bytes:
                    raise PluginAnswerTooLarge(reason="too_large")
                parts.append(chunk)
    except TimeoutError:
        raise PluginTimeout(reason="timeout") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _events(reply: Reply, outgoing: Outgoing, timeout: float, max_bytes: int) -> AsyncGenerator[Frame, None]:
    parser = EventParser(max_bytes)
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout
    async with aclosing(reply.chunks()) as chunks:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise PluginTimeout(reason="timeout") from None
            if chunk is None:
                raise PluginDied(reason="died")
            for data in parser.feed(chunk):
                if data is None:
                    yield KeepAlive()
                    continue
                deadline = clock() + timeout
                frame = _frame(data, outgoing)
                if isinstance(frame, Final):
                    await _drain(chunks)
                    yield frame
                    return
                yield frame


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read on to the end of the body, so that the connection can be used again."""
    try:
        async with asyncio.timeout(LINGER):
            await anext(chunks, None)
    except (TimeoutError, PluginDied):
        return


def _frame(data: bytes, outgoing: Outgoing) -> Frame:
    try:
        message = ijson.loads(data)
    except ijson.NotIJson:
        raise PluginProtocolError(reason="json") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise PluginProtocolError(reason="json_rpc")
    if "method" in message:
        if "id" in message:
            # The stateless protocol has no requests from server to client.
            raise PluginProtocolError(reason="request")
        return Notification(message)
    return _final(message, outgoing, len(data))


def _final(message: dict[str, Any], outgoing: Outgoing, size: int) -> Final:
    answered = message.get("id")
    if answered != outgoing.id or type(answered) is not type(outgoing.id):
        raise PluginProtocolError(reason="foreign_id")
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict) and result is None:
        _disown(error.get("data"))
        return Final(error=_checked_error(error), size=size)
    if not isinstance(result, dict) or error is not None:
        raise PluginProtocolError(reason="json_rpc")
    kind = result.setdefault("resultType", "complete")
    if not isinstance(kind, str) or kind not in RESULT_TYPES:
        raise PluginProtocolError(reason="result_type")
    if kind == "input_required" and outgoing.method not in INPUT_REQUIRED_METHODS:
        raise PluginProtocolError(reason="result_type")
    _disown(result)
    return Final(result=result, size=size)


def _disown(members: Any) -> None:
    """Take out what only the gateway says: a client acts on a challenge, and follows it to where it points."""
    meta = members.get("_meta") if isinstance(members, dict) else None
    if isinstance(meta, dict):
        for key in [key for key in meta if key == META_KEY or key.startswith(OWN_META)]:
            del meta[key]


def _checked_error(error: dict[str, Any]) -> dict[str, Any]:
    code = error.get("code")
    if type(code) is not int or not isinstance(error.get("message"), str):
        raise PluginProtocolError(reason="json_rpc")
    if code in _OUR_DEFECT:
        # The gateway writes those headers and that version: a client can do nothing about it.
        raise PluginProtocolError(reason="headers_refused")
    return error
