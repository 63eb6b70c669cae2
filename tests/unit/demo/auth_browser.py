"""What a user, a client and a consent page send to an authorization server."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from rowgate.demo.auth import AuthServer

CALLBACK = "http://localhost:6274/oauth/callback"
ALICE, BOB = "alice@example.com", "bob@example.com"
PASSWORD = "correct horse"


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Answer:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def location(self) -> dict[str, str]:
        query = parse_qs(urlsplit(self.headers["Location"]).query)
        return {name: values[0] for name, values in query.items()}


class Browser:
    """Talks to the server as clients and the consent page do."""

    def __init__(self, auth: AuthServer, session: aiohttp.ClientSession) -> None:
        self.auth, self.session = auth, session

    async def send(self, method: str, path: str, token: str | None = None, **request: Any) -> Answer:
        headers = dict(request.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = self.auth.issuer + path
        async with self.session.request(method, url, headers=headers, allow_redirects=False, **request) as answer:
            is_json = answer.headers.get("content-type") == "application/json"
            body = await (answer.json() if is_json else answer.text())
            return Answer(answer.status, body, dict(answer.headers))

    async def sign_in(self, email: str = ALICE) -> str:
        login = {"email": email, "password": PASSWORD}
        answer = await self.send("POST", "/token?grant_type=password", json=login)
        assert answer.status == 200, answer.body
        return str(answer.body["access_token"])

    async def register(self, **metadata: Any) -> dict[str, Any]:
        wanted = {"client_name": "Test", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"} | metadata
        answer = await self.send("POST", "/oauth/clients/register", json=wanted)
        assert answer.status == 201, answer.body
        return dict(answer.body)

    async def ask(self, client_id: str, verifier: str, **more: str) -> Answer:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": "s",
        }
        return await self.send("GET", "/oauth/authorize", params=query | more)

    async def approve(self, authorization_id: str, token: str) -> str:
        """The code."""
        path = f"/oauth/authorizations/{authorization_id}"
        seen = await self.send("GET", path, token)
        assert seen.status == 200, seen.body
        decided = seen
        if "redirect_url" not in seen.body:
            decided = await self.send("POST", f"{path}/consent", token, json={"action": "approve"})
        return parse_qs(urlsplit(decided.body["redirect_url"]).query)["code"][0]

    async def redeem(self, client_id: str, code: str, verifier: str, **more: str) -> Answer:
        form = {"grant_type": "authorization_code", "client_id": client_id, "code": code, "code_verifier": verifier}
        return await self.send("POST", "/oauth/token", data=form | {"redirect_uri": CALLBACK} | more)

    async def refresh(self, client_id: str, refresh_token: str) -> Answer:
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh_token}
        return await self.send("POST", "/oauth/token", data=form)

    async def connect(self, email: str = ALICE, scope: str = "openid email") -> tuple[str, dict[str, Any]]:
        """The whole dance. Returns the client's id and the token answer."""
        client_id = (await self.register())["client_id"]
        verifier = secrets.token_urlsafe(48)
        asked = await self.ask(client_id, verifier, scope=scope)
        code = await self.approve(asked.location["authorization_id"], await self.sign_in(email))
        answer = await self.redeem(client_id, code, verifier)
        assert answer.status == 200, answer.body
        return client_id, answer.body
