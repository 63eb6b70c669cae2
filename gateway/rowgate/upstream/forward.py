"""The door to the plugins: forward a judged call, or ask for what a plugin offers."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from mcp_types import jsonrpc as rpc
from multidict import CIMultiDict

from rowgate.auth.principal import Principal
from rowgate.config.plugin import Plugin
from rowgate.errors import GatewayError, MethodNotFound, PluginProtocolError, PluginTimeout
from rowgate.observe.events import Emit, UpstreamFinished
from rowgate.policy.catalog import Target
from rowgate.protocol import ijson
from rowgate.protocol.call import Call
from rowgate.upstream.context import ContextIssuer
from rowgate.upstream.exchange import Final, Frame, Outgoing, check_head, frames, received
from rowgate.upstream.leg import Leg, Reply
from rowgate.upstream.request import forwarded_message, own_message, param_headers, protocol_headers
from rowgate_plugin.contract import CONTEXT_HEADER

EVERY_SERVER = "*"
"""The server in the context of a list: one plugin's offer serves all servers that expose it."""


class Exchange:
    """One exchange with a plugin, from sending to giving the connection back. Leaving it early cancels the call there.

    A class and not a generator: contextlib and a stream of one frame took an eighth of the time of a call."""

    __slots__ = ("_emit", "_leg", "_monotonic", "_outgoing", "_plugin", "_reply", "_started", "_within")

    def __init__(
        self,
        outgoing: Outgoing,
        plugin: Plugin,
        leg: Leg,
        *,
        within: float,
        emit: Emit,
        monotonic: Callable[[], float],
    ) -> None:
        """`within`: seconds until the head of the answer must be there, even if the plugin had more time."""
        self._outgoing = outgoing
        self._plugin = plugin
        self._leg = leg
        self._within = within
        self._emit = emit
        self._monotonic = monotonic
        self._started = 0.0
        self._reply: Reply | None = None

    async def __aenter__(self) -> Self:
        self._started = self._monotonic()
        try:
            self._reply = await self._posted()
            check_head(self._reply, self._outgoing)
        except BaseException as error:
            self._finish(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._finish(error)

    def received(self) -> Final | None:
        """The whole answer, where there is nothing to wait for."""
        return received(self._answer, self._outgoing, max_bytes=self._plugin.max_answer_bytes)

    def frames(self) -> AsyncGenerator[Frame, None]:
        """What `received` did not give. To be closed by whoever asked for it."""
        plugin = self._plugin
        return frames(self._answer, self._outgoing, timeout=plugin.timeout, max_bytes=plugin.max_answer_bytes)

    @property
    def elapsed(self) -> float:
        """Seconds since it was entered."""
        return self._monotonic() - self._started

    @property
    def _answer(self) -> Reply:
        assert self._reply is not None, "an exchange is entered before it is read"
        return self._reply

    async def _posted(self) -> Reply:
        timeout = min(self._plugin.timeout, self._within)
        try:
            return await self._leg.post(self._outgoing.headers, self._outgoing.body, timeout=timeout)
        except PluginTimeout:
            if timeout < self._plugin.timeout:
                raise PluginTimeout(reason="deadline") from None
            raise

    def _finish(self, error: BaseException | None) -> None:
        status = 0
        if self._reply is not None:
            status = self._reply.status
            self._reply.release()
        code = error.code if isinstance(error, GatewayError) else None
        self._emit(UpstreamFinished(self._outgoing.plugin, self._outgoing.method, status, self.elapsed, code))


class Forwarder:
    def __init__(
        self,
        plugins: Mapping[str, Plugin],
        *,
        legs: Mapping[str, Leg],
        context: ContextIssuer,
        emit: Emit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugins = plugins
        self._legs = legs
        self._context = context
        self._emit = emit
        self._monotonic = monotonic

    def forward(
        self,
        call: Call,
        principal: Principal,
        target: Target,
        *,
        server: str,
        request_id: str,
        trace_id: str | None,
        within: float = float("inf"),
    ) -> Exchange:
        """Sent once, when it is entered; `tools/call` is never repeated."""
        name = None if call.method == "completion/complete" else target.inner
        headers: MutableMapping[str, str] = protocol_headers(call.method, name)
        if params := param_headers(call, target):
            headers = CIMultiDict([*headers.items(), *params])
        outgoing = self._outgoing(
            target.plugin,
            forwarded_message(call, target, request_id),
            headers,
            principal,
            server=server,
            name=target.inner,
            request_id=request_id,
            trace_id=trace_id,
        )
        return self._exchange(outgoing, within)

    async def ask(
        self, plugin: str, method: str, params: Mapping[str, Any], principal: Principal | None = None
    ) -> dict[str, Any]:
        """A list or discover, asked as the gateway, or as the caller where lists depend on the caller.

        Raises MethodNotFound when the plugin does not have the method, any other GatewayError when it failed."""
        headers = protocol_headers(method, None)
        outgoing = self._outgoing(
            plugin, own_message(method, params), headers, principal, request_id=secrets.token_hex(16)
        )
        async with self._exchange(outgoing) as exchange:
            if final := exchange.received():
                return _result(final)
            async with aclosing(exchange.frames()) as answer:
                async for frame in answer:
                    if isinstance(frame, Final):
                        return _result(frame)
        raise PluginProtocolError(reason="no_result")

    def _outgoing(
        self,
        plugin: str,
        message: dict[str, Any],
        headers: MutableMapping[str, str],
        principal: Principal | None,
        *,
        request_id: str,
        server: str = EVERY_SERVER,
        name: str | None = None,
        trace_id: str | None = None,
    ) -> Outgoing:
        body = ijson.dumps(message)
        credential = None if principal is None else credential_for(self._plugins[plugin], principal)
        headers["X-Request-Id"] = request_id
        headers[CONTEXT_HEADER] = self._context.sign(
            principal,
            plugin=plugin,
            server=server,
            method=message["method"],
            name=name,
            request_id=request_id,
            trace_id=trace_id,
            body=body,
            credential=credential,
        )
        if credential is not None:
            headers["Authorization"] = f"Bearer {credential}"
        return Outgoing(plugin, message["method"], message["id"], headers, body, credential is not None)

    def _exchange(self, outgoing: Outgoing, within: float = float("inf")) -> Exchange:
        return Exchange(
            outgoing,
            self._plugins[outgoing.plugin],
            self._legs[outgoing.plugin],
            within=within,
            emit=self._emit,
            monotonic=self._monotonic,
        )


def credential_for(plugin: Plugin, principal: Principal) -> str | None:
    """What the plugin may use towards Supabase: nothing, or the very token that was verified."""
    if plugin.credential == "user_token" and principal.kind == "user":
        return principal.credential or None
    return None


def _result(frame: Final) -> dict[str, Any]:
    if frame.result is not None:
        return frame.result
    if frame.error is not None and frame.error["code"] == rpc.METHOD_NOT_FOUND:
        raise MethodNotFound
    raise PluginProtocolError(reason="error")
