"""The official SDK's OAuth client as the oracle: it finds its way through the gateway, or our discovery is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import httpx2
import pytest
from aiohttp import web
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from flow.conftest import notes, stack, start
from flow.plugin import Plugin
from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.realm import Settings
from rowgate.demo.check import CALLBACK, Wallet
from rowgate.demo.listener import bind, origin, serve

__all__ = ["notes", "stack", "start"]

PASSWORD = "correct horse"
ALICE = "alice@example.com"
APPLICATION_SCOPES = ("notes:write", "notes:admin")


@dataclass
class SignIn:
    """An authorization server, and the user who decides at it."""

    server: AuthServer
    session: aiohttp.ClientSession
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    approves: bool = True
    _answer: dict[str, list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.issuer

    @property
    def jwks_url(self) -> str:
        return f"{self.server.issuer}/.well-known/jwks.json"

    async def open(self, url: str) -> None:
        self.asked.append(parse_qs(urlsplit(url).query))
        async with self.session.get(url, allow_redirects=False) as answer:
            request = parse_qs(urlsplit(answer.headers["Location"]).query)["authorization_id"][0]
        login = {"email": ALICE, "password": PASSWORD}
        async with self.session.post(f"{self.url}/token?grant_type=password", json=login) as answer:
            headers = {"Authorization": f"Bearer {(await answer.json())['access_token']}"}
        place = f"{self.url}/oauth/authorizations/{request}"
        async with self.session.get(place, headers=headers) as answer:
            seen = await answer.json()
        if "redirect_url" not in seen:
            action = {"action": "approve" if self.approves else "deny"}
            async with self.session.post(f"{place}/consent", headers=headers, json=action) as answer:
                seen = await answer.json()
        self._answer = parse_qs(urlsplit(seen["redirect_url"]).query)

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self._answer["code"][0], state=self._answer["state"][0])


@pytest.fixture
async def sign_in(stack: AsyncExitStack) -> SignIn:
    listening = bind()
    url = origin(listening)
    server = AuthServer(Settings(f"{url}/auth/v1", url, extra_scopes=APPLICATION_SCOPES))
    await server.add_user(ALICE, PASSWORD)

    async def metadata(request: web.Request) -> web.Response:
        return web.json_response(server.metadata())

    root = web.Application()
    root.router.add_get("/.well-known/oauth-authorization-server/auth/v1", metadata)
    root.add_subapp("/auth/v1", server.application())
    await stack.enter_async_context(serve(root, listening))
    return SignIn(server, await stack.enter_async_context(aiohttp.ClientSession()))


@pytest.fixture
def tokens(sign_in: SignIn) -> SignIn:
    """What the flow harness calls the issuer."""
    return sign_in


@dataclass
class Connected:
    client: Client
    wallet: Wallet
    provider: OAuthClientProvider


@asynccontextmanager
async def connected(url: str, sign_in: SignIn, **client: Any) -> AsyncIterator[Connected]:
    wallet = Wallet()
    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "Oracle", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    )
    provider = OAuthClientProvider(url, metadata, wallet, sign_in.open, sign_in.returned)
    async with (
        httpx2.AsyncClient(auth=provider, trust_env=False, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), **client) as it,
    ):
        yield Connected(it, wallet, provider)


@pytest.fixture
def plugin(notes: Plugin) -> Plugin:
    return notes
