"""Whether an authorization server would issue what is advertised: asked as clients ask, and never held against it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web

from rowgate.auth.server_metadata import metadata_urls, refused_scopes


@asynccontextmanager
async def server(documents: dict[str, Any]) -> AsyncIterator[tuple[str, list[str], ClientSession]]:
    """`documents` by path; each says `{issuer}` where its issuer belongs."""
    asked: list[str] = []
    origin = ""

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path not in documents:
            return web.Response(status=404)
        document = documents[request.path]
        if isinstance(document, dict):
            named = document.get("issuer", "{origin}/auth/v1")
            return web.json_response({**document, "issuer": named.replace("{origin}", origin)})
        return web.Response(body=document)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with ClientSession() as session:
            yield f"{origin}/auth/v1", asked, session
    finally:
        await runner.cleanup()


OAUTH = "/.well-known/oauth-authorization-server/auth/v1"
INSERTED = "/.well-known/openid-configuration/auth/v1"
APPENDED = "/auth/v1/.well-known/openid-configuration"


@pytest.mark.parametrize("path", [OAUTH, INSERTED, APPENDED])
async def test_a_scope_that_is_not_listed_is_found_at_each_place_of_the_document(path: str) -> None:
    async with server({path: {"scopes_supported": ["email", "openid"]}}) as (issuer, asked, session):
        assert await refused_scopes(session, issuer, ["email", "notes:read"]) == ("notes:read",)
        assert asked == [OAUTH, INSERTED, APPENDED][: [OAUTH, INSERTED, APPENDED].index(path) + 1]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"scopes_supported": "email"},
        {"scopes_supported": [], "issuer": "https://somebody.else"},
        b"no json",
        b"[" * 100_000,
        b"x" * 600_000,
    ],
)
async def test_a_document_that_says_nothing_usable_warns_of_nothing(document: Any) -> None:
    async with server({OAUTH: document}) as (issuer, _, session):
        assert await refused_scopes(session, issuer, ["notes:read"]) == ()


async def test_a_server_that_is_away_warns_of_nothing() -> None:
    async with ClientSession() as session:
        assert await refused_scopes(session, "http://127.0.0.1:1/auth/v1", ["notes:read"]) == ()


def test_an_issuer_without_a_path_is_asked_at_two_places() -> None:
    assert list(metadata_urls("https://login.example.com/")) == [
        "https://login.example.com/.well-known/oauth-authorization-server",
        "https://login.example.com/.well-known/openid-configuration",
    ]
