"""Test a plugin as Alice and as Bob, through the same door that the gateway uses.

async with plugin_client(server, as_=caller("alice", scopes={"notes:read"})) as client:
    result = await client.call_tool("search_notes", {"query": "roadmap"})
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from joserfc.jwk import KeySet, OKPKey
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from rowgate_plugin.contract import CONTEXT_HEADER, Actor, ContextKind, ContextSigner
from rowgate_plugin.keys import ContextKeys
from rowgate_plugin.middleware import Extend
from rowgate_plugin.serving import PluginApp
from rowgate_plugin.state import request_state
from rowgate_plugin.supabase import Project

_NAME_MEMBERS = ("name", "uri")


@dataclass(frozen=True, slots=True)
class CallerFixture:
    """Who a test calls as. `token` is what the plugin presents to Supabase."""

    subject: str | None
    kind: ContextKind = "user"
    token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] = frozenset()
    email: str | None = None
    client_id: str | None = "test-client"
    role: str | None = "authenticated"
    session_id: str | None = None
    aal: str | None = "aal1"
    actors: tuple[Actor, ...] = ()
    claims: Mapping[str, Any] = field(default_factory=dict)
    grant: Mapping[str, Any] | None = None


def caller(
    subject: str | None = "alice",
    *,
    kind: ContextKind = "user",
    token: str | None = None,
    scopes: Iterable[str] = (),
    **members: Any,
) -> CallerFixture:
    return CallerFixture(subject, kind, token, frozenset(scopes), **members)


class SigningGateway:
    """Signs contexts with a key of its own, as the gateway does for each request."""

    def __init__(self, audience: str, *, issuer: str = "https://gateway.test") -> None:
        self.audience = audience
        self.key = OKPKey.generate_key("Ed25519")
        self.signer = ContextSigner(self.key, issuer=issuer)

    def keys(self) -> ContextKeys:
        public = OKPKey.import_key(self.key.as_dict(private=False))
        return ContextKeys(KeySet([public]))

    def headers(self, body: bytes, as_: CallerFixture) -> dict[str, str]:
        method, name = _target(body)
        context = self.signer.sign(
            audience=self.audience,
            body=body,
            credential=as_.token,
            kind=as_.kind,
            sub=as_.subject,
            server="test",
            method=method,
            name=name,
            request_id=secrets.token_hex(8),
            client_id=as_.client_id,
            scope=as_.scopes,
            email=as_.email,
            role=as_.role,
            session_id=as_.session_id,
            aal=as_.aal,
            act=as_.actors,
            claims=as_.claims,
            grant=as_.grant,
        )
        headers = {CONTEXT_HEADER: context}
        if as_.token is not None:
            headers["Authorization"] = f"Bearer {as_.token}"
        return headers


@asynccontextmanager
async def plugin_client(
    server: MCPServer[Any],
    *,
    as_: CallerFixture,
    extend: Extend | None = None,
    project: Project | None = None,
    json_only: bool = False,
    environ: Mapping[str, str] | None = None,
    **client_options: Any,
) -> AsyncIterator[Client]:
    """The SDK's client as `as_`. `client_options` go to it (`elicitation_callback`, `mode`, …)."""
    gateway = SigningGateway(server.name)
    plugin = PluginApp(
        server,
        keys=gateway.keys(),
        state=request_state(environ or {}),
        extend=extend,
        project=project,
        json_only=json_only,
    )
    async with (
        plugin.lifespan(),
        httpx2.AsyncClient(transport=_Signing(plugin, gateway, as_)) as http,
    ):
        transport = streamable_http_client("http://plugin.test/mcp", http_client=http)
        async with Client(transport, **client_options) as client:
            yield client


class _Signing(httpx2.AsyncBaseTransport):
    def __init__(self, plugin: PluginApp, gateway: SigningGateway, as_: CallerFixture) -> None:
        self._transport = httpx2.ASGITransport(app=plugin)
        self._gateway = gateway
        self._as = as_

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        request.headers.update(self._gateway.headers(body, self._as))
        return await self._transport.handle_async_request(request)


def _target(body: bytes) -> tuple[str, str | None]:
    message = json.loads(body) if body else {}
    params = message.get("params") or {}
    name = next((params[member] for member in _NAME_MEMBERS if isinstance(params.get(member), str)), None)
    return message.get("method", "none"), name
