"""THE request, top to bottom. Who reads one file reads this.

    door.py      request id, host and origin, CORS, which server; one wrapper that renders errors and records
    pipeline.py  who calls, what, may they, and the plugin's answer   <- you are here

Everything that can be refused is refused before the first byte of a stream. What policy judged is the value that
is forwarded: the bytes of the client go no further than `read_call`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from rowgate.auth.authenticator import Authenticator
from rowgate.auth.metadata import Resource
from rowgate.auth.principal import Principal
from rowgate.config.models import Plugin, Request, Server
from rowgate.edge.body import read_body, require_media
from rowgate.errors import MethodNotAllowed, ParseError, PluginDied, PluginTimeout
from rowgate.observe.events import Emit, ResultTruncated, StreamChanged
from rowgate.observe.record import Record
from rowgate.policy.catalog import Catalog, Target
from rowgate.policy.catalogs import Catalogs
from rowgate.policy.rules import Requirement, ScopePolicy, decide, require
from rowgate.protocol import answers, ijson
from rowgate.protocol.answers import ServerIdentity
from rowgate.protocol.call import LIST_METHODS, Call
from rowgate.protocol.message import era_of, read_call, readable_id
from rowgate.protocol.render import plugin_error_message, result_message
from rowgate.protocol.stream import Answer
from rowgate.upstream.exchange import Final, Frame, KeepAlive
from rowgate.upstream.forward import Forwarder
from rowgate.upstream.results import bound_result

EVERY_CALL = Requirement()
"""What a server asks of everybody, before any capability asks for more: its own `scopes.required`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server of the configuration, with what was built for it at start."""

    name: str
    config: Server
    identity: ServerIdentity
    resource: Resource
    authenticator: Authenticator
    scopes: ScopePolicy


class Pipeline:
    def __init__(
        self,
        *,
        limits: Request,
        plugins: Mapping[str, Plugin],
        catalogs: Catalogs,
        forwarder: Forwarder,
        emit: Emit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._plugins = plugins
        self._catalogs = catalogs
        self._forwarder = forwarder
        self._emit = emit
        self._monotonic = monotonic

    async def serve(
        self, request: web.BaseRequest, endpoint: Endpoint, record: Record, answer: Answer
    ) -> web.StreamResponse:
        caller = await endpoint.authenticator.authenticate(request.headers)  # 401 with a challenge, 503
        record.principal = caller
        require(decide(caller, EVERY_CALL, endpoint.scopes))  # 403 with a challenge
        require_post(request)  # 405
        require_media(request)  # 415, 406
        call = await self._read(request, record)  # 413, 408, 400, 404
        if call.kind == "notification":
            return await answer.send(status=202)
        catalog = await self._catalogs.of(endpoint.name, caller)
        if call.kind in ("own", "list"):
            result = own_answer(call, caller, catalog, endpoint.identity, catalog.ttl_ms(self._monotonic()))
            return await answer.finish(result_message(call, result, endpoint.identity))
        target = catalog.resolve(call, caller)  # unknown and hidden look the same
        record.capability, record.plugin = target.capability.name, target.plugin
        require(target.decision)  # 403 with a challenge
        return await self._forward(call, caller, target, endpoint, record, answer)

    async def _read(self, request: web.BaseRequest, record: Record) -> Call:
        raw = await read_body(request, max_bytes=self._limits.max_bytes, timeout=self._limits.timeout)
        record.parsed = True
        try:
            body = ijson.loads(raw)
        except ijson.NotIJson as error:
            raise ParseError(str(error)) from None
        record.rpc_id, record.era = readable_id(body), era_of(body, request.headers)
        record.call = call = read_call(body, request.headers)
        record.trace_id = trace_id(call)
        return call

    async def _forward(
        self, call: Call, caller: Principal, target: Target, endpoint: Endpoint, record: Record, answer: Answer
    ) -> web.StreamResponse:
        sent = self._forwarder.forward(
            call,
            caller,
            target,
            server=endpoint.name,
            request_id=record.request_id,
            trace_id=record.trace_id,
        )
        try:
            async with asyncio.timeout(self._limits.timeout), sent as frames:
                final = await self._relay(frames, call, endpoint, record, answer)
        except TimeoutError:
            raise PluginTimeout(reason="deadline") from None
        return await self._finish(final, call, target, endpoint, record, answer)

    async def _relay(
        self, frames: AsyncIterator[Frame], call: Call, endpoint: Endpoint, record: Record, answer: Answer
    ) -> Final:
        """Pass on what comes before the result; the first of it turns the answer into a stream."""
        async for frame in frames:
            if isinstance(frame, Final):
                return frame
            if not record.streamed:
                record.streamed = True
                self._emit(StreamChanged(endpoint.name, 1))
            if isinstance(frame, KeepAlive):
                await answer.keep_alive()
            elif relayed(frame.message, call):
                await answer.notify(frame.message)
        raise PluginDied(reason="died")

    async def _finish(
        self, final: Final, call: Call, target: Target, endpoint: Endpoint, record: Record, answer: Answer
    ) -> web.StreamResponse:
        if final.result is None:
            assert final.error is not None, "a final frame has a result or an error"
            record.outcome = "protocol_error"
            status, message = plugin_error_message(call, final.error)
            return await answer.finish(message, status)
        result = final.result
        limit = self._plugins[target.plugin].result_limit
        if call.kind == "call" and limit and final.size > limit and (size := bound_result(result, limit)):
            self._emit(ResultTruncated(endpoint.name, target.capability.name, size))
        if result.get("resultType") == "input_required":
            record.outcome = "input_required"
        elif result.get("isError") is True:
            record.outcome = "tool_error"
        return await answer.finish(result_message(call, result, endpoint.identity, target.capability.definition))


def require_post(request: web.BaseRequest) -> None:
    if request.method != "POST":
        raise MethodNotAllowed(headers={"Allow": "POST"})


def own_answer(
    call: Call, caller: Principal, catalog: Catalog, identity: ServerIdentity, ttl_ms: int
) -> dict[str, Any]:
    """What the gateway answers itself. Lists and capabilities are the caller's own."""
    if call.method == "initialize":
        return answers.initialize(call, identity, catalog.offered(caller))
    if call.method == "server/discover":
        return answers.discover(identity, catalog.offered(caller), ttl_ms)
    if member := LIST_METHODS.get(call.method):
        return answers.cacheable({member: catalog.list(call.method, caller)}, ttl_ms)
    return {}


def relayed(message: Mapping[str, Any], call: Call) -> bool:
    """Only what belongs to this request may travel on its stream (MCP 2026-07-28, transports)."""
    params = message.get("params")
    if message["method"] == "notifications/message":
        return True
    asked = call.params.get("_meta", {}).get("progressToken") if isinstance(call.params.get("_meta"), dict) else None
    return (
        message["method"] == "notifications/progress"
        and asked is not None
        and isinstance(params, dict)
        and params.get("progressToken") == asked
    )


def trace_id(call: Call) -> str | None:
    """W3C trace context, which MCP carries in `_meta` (SEP-414)."""
    meta = call.params.get("_meta")
    parent = meta.get("traceparent") if isinstance(meta, dict) else None
    parts = parent.split("-") if isinstance(parent, str) else []
    valid = len(parts) >= 4 and len(parts[1]) == 32 and set(parts[1]) <= set("0123456789abcdef")
    return parts[1] if valid else None
