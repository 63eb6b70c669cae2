"""The door to the plugins: forward a judged call, or ask for what a plugin offers."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

from mcp_types import jsonrpc as rpc
from multidict import CIMultiDict

from rowgate.auth.principal import Principal
from rowgate.config.plugin import Plugin
from rowgate.errors import GatewayError, MethodNotFound, PluginProtocolError
from rowgate.observe.events import Emit, UpstreamFinished
from rowgate.policy.catalog import Target
from rowgate.protocol import ijson
from rowgate.protocol.call import Call
from rowgate.upstream.context import ContextIssuer
from rowgate.upstream.exchange import Final, Frame, Outgoing, frames
from rowgate.upstream.leg import Leg
from rowgate.upstream.request import forwarded_message, own_message, param_headers, protocol_headers
from rowgate_plugin.contract import CONTEXT_HEADER

EVERY_SERVER = "*"
"""The server in the context of a list: one plugin's offer serves all servers that expose it."""


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
        self, call: Call, principal: Principal, target: Target, *, server: str, request_id: str, trace_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[Frame]]:
        """Send once; `tools/call` is never repeated. Leaving the context early cancels the call in the plugin."""
        headers = protocol_headers(call.method, None if call.method == "completion/complete" else target.inner)
        headers.extend(param_headers(call, target))
        outgoing = self._outgoing(
            target.plugin,
            forwarded_message(call, target),
            headers,
            principal,
            server=server,
            name=target.inner,
            request_id=request_id,
            trace_id=trace_id,
        )
        return self._exchange(outgoing)

    async def ask(
        self, plugin: str, method: str, params: Mapping[str, Any], principal: Principal | None = None
    ) -> dict[str, Any]:
        """A list or discover, asked as the gateway, or as the caller where lists depend on the caller.

        Raises MethodNotFound when the plugin does not have the method, any other GatewayError when it failed."""
        headers = protocol_headers(method, None)
        outgoing = self._outgoing(
            plugin, own_message(method, params), headers, principal, request_id=secrets.token_hex(16)
        )
        async with self._exchange(outgoing) as answer:
            async for frame in answer:
                if isinstance(frame, Final):
                    return _result(frame)
        raise PluginProtocolError(reason="no_result")

    def _outgoing(
        self,
        plugin: str,
        message: dict[str, Any],
        headers: CIMultiDict[str],
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

    @asynccontextmanager
    async def _exchange(self, outgoing: Outgoing) -> AsyncIterator[AsyncIterator[Frame]]:
        plugin = self._plugins[outgoing.plugin]
        started = self._monotonic()
        status = 0
        code: str | None = None
        try:
            leg = self._legs[outgoing.plugin]
            reply = await leg.post(outgoing.headers, outgoing.body, timeout=plugin.timeout)
            status = reply.status
            try:
                answer = frames(reply, outgoing, timeout=plugin.timeout, max_bytes=plugin.max_answer_bytes)
                async with aclosing(answer):
                    yield answer
            finally:
                reply.release()
        except GatewayError as error:
            code = error.code
            raise
        finally:
            duration = self._monotonic() - started
            self._emit(UpstreamFinished(outgoing.plugin, outgoing.method, status, duration, code))

    async def close(self) -> None:
        for leg in self._legs.values():
            await leg.close()


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
