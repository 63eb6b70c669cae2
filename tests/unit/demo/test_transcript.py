"""The stand-in answers as a real Supabase Auth did (v2.196, recorded with the hook below)."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from transcript import HEADERS, Names, recording

from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.realm import Settings

RECORDED_AT = 1796030726.0
ISSUER = "http://127.0.0.1:54321/auth/v1"
SITE = "http://127.0.0.1:3000"

ELSEWHERE = {
    "postgrest with revoked session token": "PostgREST's answer; test_project.py holds the promise",
}
"""The exchanges of the recording that are not replayed here, with the reason."""

WITH_OAUTH_TOKEN = {
    "userinfo",
    "GET /user with oauth token",
    "grants with the OAuth token",
    "GET /user after revoke",
    "userinfo after revoke",
}
WITH_SERVICE_ROLE = {
    "admin list clients",
    "admin create client",
    "admin get client",
    "admin update",
    "ban",
    "unban",
    "delete client",
}


async def recorded_hook(event: dict[str, Any]) -> dict[str, Any]:
    """The Custom Access Token hook of the recorded server: an audience and scopes of the application's own."""
    claims = dict(event["claims"])
    if "client_id" in claims:
        claims["aud"] = ["authenticated", "https://mcp.example.com/mcp"]
        claims["mcp_scopes"] = "todos:read todos:write"
    return {"claims": claims}


def decoded(token: str) -> list[dict[str, Any]]:
    parts = token.split(".")[:2]
    return [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts]


class Replay:
    def __init__(self, auth: AuthServer, session: aiohttp.ClientSession, url: str) -> None:
        self.auth, self.session, self.url = auth, session, url
        self.names = Names()
        self.tokens: dict[str, str] = {}

    async def exchange(self, entry: dict[str, Any]) -> None:
        if "req" not in entry:
            which = {"oauth access token decoded": "oauth", "id token decoded": "id"}[entry["label"]]
            self.names.compare(entry["body"], decoded(self.tokens[which]), entry["label"])
            return
        status, headers, body = await self._send(self.names.translate(entry["req"]), entry["label"])
        self._remember(entry["label"], body)
        label = entry["label"]
        assert status == entry["status"], f"{label}: {status} {body}"
        self.names.compare(entry["headers"], headers, f"{label} headers")
        self.names.compare(self._expected(entry), body, label)

    async def _send(self, request: dict[str, Any], label: str) -> tuple[int, dict[str, str], Any]:
        headers = dict(request.get("headers", {}))
        if headers.get("Authorization") == "Bearer <JWT>":
            headers["Authorization"] = f"Bearer {self._token(label)}"
        async with self.session.request(
            request["method"],
            self.url + request["path"],
            params=request.get("params"),
            json=request.get("json"),
            data=request.get("data", request.get("content")),
            headers=headers,
            allow_redirects=False,
        ) as answer:
            text = await answer.text()
            is_json = answer.headers.get("content-type") == "application/json"
            kept = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
            if not text:
                # aiohttp names a type for an empty body too; Go does not.
                kept.pop("content-type", None)
            return answer.status, kept, json.loads(text) if is_json else text

    def _token(self, label: str) -> str:
        now = int(RECORDED_AT)
        times = {"iat": now, "exp": now + 3600}
        user_id = self.auth.user("u693a9c@example.com").id
        if label == "GET /user expired":
            return self.auth.mint({"sub": user_id, "iat": now - 7200, "exp": now - 3600})
        if label == "GET /user anon key-like":
            return self.auth.mint({"role": "anon", **times})
        if label == "GET /user unknown sub":
            return self.auth.mint({"sub": "11111111-1111-4111-8111-111111111111", **times})
        if label in WITH_SERVICE_ROLE:
            return self.auth.mint({"role": "service_role", **times})
        return self.tokens["oauth" if label in WITH_OAUTH_TOKEN else "user"]

    def _remember(self, label: str, body: Any) -> None:
        if label == "password login":
            self.tokens["user"] = body["access_token"]
        if label == "token: ok":
            self.tokens |= {"oauth": body["access_token"], "id": body["id_token"]}

    def _expected(self, entry: dict[str, Any]) -> Any:
        if entry["label"] != "admin list clients":
            return entry["body"]
        # The recorded server had registered others before.
        ours = [client for client in entry["body"]["clients"] if client["client_id"] in self.names.bound]
        assert len(ours) == 2
        return {"clients": ours}


class Seconds:
    """A clock that moves only a little: enough to put things in an order."""

    def __init__(self) -> None:
        self.now = RECORDED_AT - 1

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
async def replay() -> AsyncIterator[Replay]:
    auth = AuthServer(Settings(ISSUER, SITE, token_hook=recorded_hook), clock=Seconds())
    root = web.Application()
    root.add_subapp("/auth/v1", auth.application())
    async with TestServer(root) as server, aiohttp.ClientSession() as session:
        yield Replay(auth, session, str(server.make_url("/auth/v1")))


async def test_every_recorded_exchange_is_answered_alike(replay: Replay) -> None:
    entries = recording()
    assert len(entries) == 80
    replayed = [entry for entry in entries if entry["label"] not in ELSEWHERE]
    for entry in replayed:
        await replay.exchange(entry)
    assert len(replayed) == 80 - len(ELSEWHERE)


def test_a_different_answer_is_noticed() -> None:
    names = Names()
    recorded = {"id": "952b21fd-3b1e-4b7a-96ec-02111d37a7c8", "scope": "email", "n": 1}
    names.compare(recorded, recorded | {"id": "952b21fd-0000-4b7a-96ec-02111d37a7c8"}, "first")
    for other in ({"scope": "openid"}, {"n": 2}, {"n": True}, {"id": "x"}, {"more": 1}, {"id": recorded["id"]}):
        with pytest.raises(AssertionError):
            names.compare(
                recorded, {"id": "952b21fd-0000-4b7a-96ec-02111d37a7c8", "scope": "email", "n": 1} | other, ""
            )
