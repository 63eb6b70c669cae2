"""A user connects an agent the way real ones do: discovery, registration, consent, token, rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from databases import PASSWORD, SupabaseProject
from rls.chain import Chain
from rls.person import Person

CALLBACK = "http://localhost:6274/oauth/callback"


class Memory:
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Where the user signs in and says yes."""

    def __init__(self, project: SupabaseProject, email: str, http: httpx2.AsyncClient) -> None:
        self.project = project
        self.email = email
        self.http = http
        self.arrived: dict[str, list[str]] = {}

    async def auth(self, method: str, path: str, token: str | None = None, **request: Any) -> dict[str, Any]:
        headers = {"apikey": self.project.publishable_key}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        answer = await self.http.request(method, f"{self.project.url}/auth/v1{path}", headers=headers, **request)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def open(self, url: str) -> None:
        asked = await self.http.get(url, follow_redirects=False)
        authorization = parse_qs(urlsplit(asked.headers["Location"]).query)["authorization_id"][0]
        login = {"email": self.email, "password": PASSWORD}
        session = (await self.auth("POST", "/token?grant_type=password", json=login))["access_token"]
        path = f"/oauth/authorizations/{authorization}"
        await self.auth("GET", path, session)
        decided = await self.auth("POST", f"{path}/consent", session, json={"action": "approve"})
        self.arrived = parse_qs(urlsplit(decided["redirect_url"]).query)

    async def callback(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self.arrived["code"][0], state=self.arrived["state"][0])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_connects_and_reads_what_its_user_may_read(
    chained: Chain, team_notes_project: SupabaseProject, alice: Person, bob: Person, mode: str
) -> None:
    for person, other in ((alice, bob), (bob, alice)):
        memory = Memory()
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": "Agent", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        )
        async with httpx2.AsyncClient() as web:
            browser = Browser(team_notes_project, person.email, web)
            auth = OAuthClientProvider(chained.first, metadata, memory, browser.open, browser.callback)
            async with (
                httpx2.AsyncClient(auth=auth) as http,
                Client(streamable_http_client(chained.first, http_client=http), mode=mode) as client,
            ):
                tools = [tool.name for tool in (await client.list_tools()).tools]
                found = await client.call_tool("search_notes", {"query": ""})
        assert tools == ["search_notes", "get_note", "create_note", "delete_note"]
        assert memory.tokens is not None
        assert person.title in str(found.structured_content)
        assert other.title not in str(found.structured_content)
