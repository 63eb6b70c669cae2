"""The official SDK's OAuth client takes the stand-in for what it is: an MCP authorization server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from aiohttp import web
from auth_browser import ALICE, CALLBACK, Browser
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from rowgate.demo.auth import AuthServer
from rowgate.demo.listener import bind, origin, serve


class Memory:
    def __init__(self) -> None:
        self.tokens: list[OAuthToken] = []
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
async def resource(auth: AuthServer) -> AsyncIterator[str]:
    """The smallest protected resource: it verifies the signature and says whose the token is."""
    listening = bind()
    url = f"{origin(listening)}/mcp"

    async def metadata(request: web.Request) -> web.Response:
        return web.json_response({"resource": url, "authorization_servers": [auth.issuer]})

    async def answer(request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            claims = jwt.decode(token, KeySet.import_key_set(auth.jwks()), algorithms=["ES256"]).claims
        except (JoseError, ValueError):
            place = f"{origin(listening)}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{place}", scope="email"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        return web.json_response({"email": claims["email"], "client_id": claims["client_id"], "scope": claims["scope"]})

    app = web.Application()
    app.router.add_get("/.well-known/oauth-protected-resource/mcp", metadata)
    app.router.add_get("/mcp", answer)
    async with serve(app, listening):
        yield url


async def test_it_discovers_registers_authorizes_and_refreshes(resource: str, browser: Browser) -> None:
    arrived: dict[str, list[str]] = {}

    async def redirect(url: str) -> None:
        async with browser.session.get(url, allow_redirects=False) as answer:
            authorization_id = parse_qs(urlsplit(answer.headers["Location"]).query)["authorization_id"][0]
        path = f"/oauth/authorizations/{authorization_id}"
        user = await browser.sign_in(ALICE)
        await browser.send("GET", path, user)
        decided = await browser.send("POST", f"{path}/consent", user, json={"action": "approve"})
        arrived.update(parse_qs(urlsplit(decided.body["redirect_url"]).query))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=arrived["code"][0], state=arrived["state"][0])

    memory = Memory()
    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "Oracle", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    )
    provider = OAuthClientProvider(resource, metadata, memory, redirect, callback)
    async with httpx2.AsyncClient(auth=provider) as http:
        first = await http.get(resource)
        assert first.status_code == 200
        assert memory.client is not None
        assert (first.json()["email"], first.json()["client_id"]) == (ALICE, memory.client.client_id)
        # It adds offline_access by itself where the server offers that.
        assert first.json()["scope"] == "email offline_access"

        # As if an hour had passed for the client.
        provider.context.token_expiry_time = 1.0
        second = await http.get(resource)
    assert second.status_code == 200
    assert len(memory.tokens) == 2
    assert memory.tokens[0].refresh_token != memory.tokens[1].refresh_token
    assert memory.tokens[0].access_token != memory.tokens[1].access_token
