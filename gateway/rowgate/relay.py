"""From a judged call to the plugin's answer at the client: notifications as they come, then one result, bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from aiohttp import web

from rowgate.auth.principal import Principal
from rowgate.auth.watch import StreamWatch
from rowgate.config.plugin import Plugin
from rowgate.endpoint import Endpoint
from rowgate.errors import PluginDied, PluginTimeout
from rowgate.limits.occupancy import Place
from rowgate.observe.events import Emit, ResultTruncated, StreamChanged
from rowgate.observe.record import Record
from rowgate.policy.catalog import Target
from rowgate.protocol.call import Call
from rowgate.protocol.render import plugin_error_message, result_message
from rowgate.protocol.stream import Answer
from rowgate.upstream.exchange import Final, Frame, KeepAlive
from rowgate.upstream.forward import Exchange, Forwarder
from rowgate.upstream.results import bound_result


class Relay:
    def __init__(
        self,
        forwarder: Forwarder,
        plugins: Mapping[str, Plugin],
        *,
        deadline: float,
        emit: Emit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`deadline`: seconds after which any call ends, however busy it is."""
        self._forwarder = forwarder
        self._plugins = plugins
        self._deadline = deadline
        self._emit = emit
        self._clock = clock

    async def send(
        self,
        call: Call,
        caller: Principal,
        target: Target,
        endpoint: Endpoint,
        record: Record,
        answer: Answer,
        place: Place | None = None,
    ) -> web.StreamResponse:
        """`place`: what the call holds while it runs, where that is limited."""
        sent = self._forwarder.forward(
            call,
            caller,
            target,
            server=endpoint.name,
            request_id=record.request_id,
            trace_id=record.trace_id,
            within=self._deadline,
        )
        async with sent as exchange:
            final = exchange.received()
            if final is None:  # a stream, or not yet whole
                final = await self._awaited(exchange, call, caller, endpoint, record, answer, place)
        return await self._finish(final, call, target, endpoint, record, answer)

    async def _awaited(
        self,
        exchange: Exchange,
        call: Call,
        caller: Principal,
        endpoint: Endpoint,
        record: Record,
        answer: Answer,
        place: Place | None,
    ) -> Final:
        try:
            left = self._deadline - exchange.elapsed
            async with asyncio.timeout(left) as limit, aclosing(exchange.frames()) as frames:
                return await self._relay(frames, call, caller, endpoint, record, answer, limit, place)
        except TimeoutError:
            raise PluginTimeout(reason="deadline") from None

    async def _relay(
        self,
        frames: AsyncIterator[Frame],
        call: Call,
        caller: Principal,
        endpoint: Endpoint,
        record: Record,
        answer: Answer,
        limit: asyncio.Timeout,
        place: Place | None,
    ) -> Final:
        """Pass on what comes before the result; the first of it turns the answer into a stream."""
        watch: StreamWatch | None = None
        try:
            async for frame in frames:
                if isinstance(frame, Final):
                    return frame
                if watch is None:
                    if place is not None:
                        place.stream()  # a tool error, 429
                    record.streamed = True
                    self._emit(StreamChanged(endpoint.name, 1))
                    watch = StreamWatch(caller, endpoint.admission, limit, clock=self._clock)
                if isinstance(frame, KeepAlive):
                    await answer.keep_alive()
                elif relayed(frame.message, call):
                    await answer.notify(frame.message)
        except asyncio.CancelledError:
            if watch is not None and (over := watch.reason()) is not None:
                raise over from None
            raise
        finally:
            if watch is not None:
                watch.close()
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
