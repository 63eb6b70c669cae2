"""Opaque tokens, at a real introspection endpoint on a socket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import unquote_plus

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

from rowgate.auth.authenticators import Authenticators, Tokens, authenticators
from rowgate.auth.issuer import IntrospectionEndpoint, TrustedIssuer
from rowgate.auth.principal import Principal
from rowgate.errors import AuthenticationError, IdentityUnavailable, TokenExpired
from rowgate.observe.events import Event, IdentityAsked

ISSUER = "https://id.supplier.example"
RESOURCE = "https://mcp.example.com/suppliers/mcp"
SECRET = "s3cret:with %&+ ümlaut"
TOKEN = "opaque-token.0123456789"


class Endpoint:
    """Answers with `answer`, or as `reply` says, and keeps what it was sent."""

    def __init__(self, now: float) -> None:
        self.url = ""
        self.answer: dict[str, Any] = {
            "active": True,
            "iss": ISSUER,
            "sub": "supplier-7",
            "aud": RESOURCE,
            "exp": int(now) + 600,
            "scope": "notes:read notes:write",
            "client_id": "agent",
            "token_type": "Bearer",
        }
        self.reply: Callable[[], web.StreamResponse] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(dict(await request.post()))
        self.headers.append(request.headers)
        self.reached.set()
        await self.open.wait()
        return self.reply() if self.reply else web.json_response(self.answer)


class Server:
    def __init__(self, endpoint: Endpoint, session: ClientSession, clock: Any, **changes: Any) -> None:
        self.events: list[Event] = []
        facts: dict[str, Any] = {
            "url": endpoint.url,
            "client_id": "row gate",
            "client_secret": SECRET,
            **{key: changes.pop(key) for key in ("in_header", "remembered") if key in changes},
        }
        issuer: dict[str, Any] = {"issuer": ISSUER, "jwks_url": "", "algorithms": (), "audiences": (RESOURCE,)}
        trusted = TrustedIssuer(
            **(issuer | {"resource": RESOURCE, "introspection": IntrospectionEndpoint(**facts)} | changes)
        )
        self.doors: Authenticators = authenticators(
            {"main": Tokens((trusted,))}, session, clock=clock, emit=self.events.append
        )

    async def __call__(self, token: str = TOKEN) -> Principal:
        return await self.doors.by_server["main"].authenticate(CIMultiDict({"Authorization": f"Bearer {token}"}))

    async def reason(self, token: str = TOKEN) -> str:
        with pytest.raises(AuthenticationError) as caught:
            await self(token)
        return caught.value.reason

    @property
    def asked(self) -> list[str]:
        return [event.outcome for event in self.events if isinstance(event, IdentityAsked)]


@pytest.fixture
async def endpoint(clock: Any) -> AsyncIterator[Endpoint]:
    it = Endpoint(clock.now)
    app = web.Application()
    app.router.add_post("/introspect", it.handle)
    async with TestServer(app) as server:
        it.url = str(server.make_url("/introspect"))
        yield it
        it.open.set()


@pytest.fixture
async def server(endpoint: Endpoint, session: ClientSession, clock: Any) -> AsyncIterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(**changes: Any) -> Server:
        made.append(Server(endpoint, session, clock, **changes))
        return made[-1]

    yield make
    for each in made:
        await each.doors.close()


async def test_an_active_token_makes_a_caller(server: Any, clock: Any) -> None:
    caller = await server()()
    assert (caller.kind, caller.subject, caller.issuer, caller.client_id) == ("user", "supplier-7", ISSUER, "agent")
    assert caller.scopes == {"notes:read", "notes:write"}
    assert caller.expires_at == clock.now + 600


async def test_the_holder_of_an_opaque_token_has_no_credential_for_supabase(server: Any) -> None:
    caller = await server()()
    assert caller.credential == ""
    assert TOKEN not in repr(caller)


async def test_the_gateways_secret_is_form_urlencoded_inside_basic(server: Any, endpoint: Endpoint) -> None:
    await server()()
    scheme, _, encoded = endpoint.headers[0]["Authorization"].partition(" ")
    name, _, secret = base64.b64decode(encoded).decode("ascii").partition(":")
    assert (scheme, unquote_plus(name), unquote_plus(secret)) == ("Basic", "row gate", SECRET)
    assert endpoint.bodies == [{"token": TOKEN, "token_type_hint": "access_token"}]


async def test_or_stands_in_the_body_where_the_issuer_wants_that(server: Any, endpoint: Endpoint) -> None:
    await server(in_header=False)()
    assert "Authorization" not in endpoint.headers[0]
    assert endpoint.bodies[0]["client_id"] == "row gate"
    assert endpoint.bodies[0]["client_secret"] == SECRET


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"active": False}, "inactive"),
        ({"iss": ISSUER + "/"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": RESOURCE + "/"}, "audience"),
        ({"aud": [RESOURCE.upper()]}, "audience"),
        ({"aud": None}, "audience"),
        ({"exp": None}, "no_expiry"),
        ({"exp": "never"}, "no_expiry"),
        ({"exp": 1_700_000_000}, "expired"),
        ({"nbf": 1_900_000_000}, "not_yet_valid"),
        ({"sub": None}, "subject"),
        ({"client_id": None}, "client_missing"),
        ({"token_type": "DPoP"}, "token_type"),
        ({"cnf": {"jkt": "x"}}, "token_type"),
        ({"act": "nobody"}, "actor"),
        ({"role": "service_role"}, "role"),
        ({"mcp": {}}, "minted"),
    ],
)
async def test_an_answer_about_some_other_token_lets_nobody_in(
    server: Any, endpoint: Endpoint, change: dict[str, Any], reason: str
) -> None:
    endpoint.answer |= change
    assert await server().reason() == reason


async def test_an_issuer_that_does_not_name_itself_is_the_one_that_was_asked(server: Any, endpoint: Endpoint) -> None:
    del endpoint.answer["iss"]
    assert (await server()()).issuer == ISSUER


@pytest.mark.parametrize(
    "reply",
    [
        lambda: web.Response(status=401),
        lambda: web.Response(status=500),
        lambda: web.Response(status=302, headers={"Location": "/elsewhere"}),
        lambda: web.Response(text="<html>"),
        lambda: web.json_response({"sub": "supplier-7"}),
        lambda: web.json_response({"active": "true"}),
        lambda: web.json_response([True]),
        lambda: web.Response(body=b"[" * 100_000),
        lambda: web.Response(body=json.dumps({"active": True, "x": "y" * 300_000}).encode()),
    ],
)
async def test_an_endpoint_that_fails_is_a_503_and_never_a_401(server: Any, endpoint: Endpoint, reply: Any) -> None:
    endpoint.reply = reply
    opened = server()
    with pytest.raises(IdentityUnavailable) as caught:
        await opened()
    assert (caught.value.status, caught.value.reason) == (503, "introspection")
    assert not isinstance(caught.value, AuthenticationError)
    endpoint.reply = None
    assert await opened()
    assert opened.asked == ["failed", "ok"]


async def test_an_endpoint_that_is_away_is_a_503(server: Any, endpoint: Endpoint) -> None:
    endpoint.url = "http://127.0.0.1:9/introspect"
    with pytest.raises(IdentityUnavailable):
        await server()()


async def test_an_answer_is_kept_for_its_time(server: Any, endpoint: Endpoint, clock: Any) -> None:
    opened = server()
    for _ in range(3):
        await opened()
    assert len(endpoint.bodies) == 1
    clock.advance(30)
    endpoint.answer["active"] = False
    assert await opened.reason() == "inactive"


async def test_no_answer_is_kept_beyond_the_end_of_its_token(server: Any, endpoint: Endpoint, clock: Any) -> None:
    endpoint.answer["exp"] = int(clock.now) + 5
    opened = server()
    await opened()
    clock.advance(5)
    with pytest.raises(TokenExpired):
        await opened()


async def test_a_dead_token_is_asked_about_once_in_a_while(server: Any, endpoint: Endpoint, clock: Any) -> None:
    endpoint.answer = {"active": False}
    opened = server()
    for _ in range(100):
        assert await opened.reason() == "inactive"
    assert len(endpoint.bodies) == 1
    clock.advance(10)
    assert await opened.reason() == "inactive"
    assert len(endpoint.bodies) == 2


async def test_one_token_from_many_requests_is_asked_about_once(server: Any, endpoint: Endpoint) -> None:
    endpoint.open.clear()
    opened = server()
    waiting = [asyncio.create_task(opened()) for _ in range(20)]
    await endpoint.reached.wait()
    endpoint.open.set()
    await asyncio.gather(*waiting)
    assert len(endpoint.bodies) == 1


async def test_without_a_cache_every_call_asks(server: Any, endpoint: Endpoint) -> None:
    opened = server(remembered=0.0)
    await opened()
    await opened()
    assert len(endpoint.bodies) == 2


async def test_a_token_that_names_another_issuer_is_shown_to_nobody(
    server: Any, endpoint: Endpoint, local: Any, signing: Any
) -> None:
    assert await server().reason(local.mint(signing.ec)) == "issuer"
    assert endpoint.bodies == []


async def test_a_supabase_key_is_shown_to_nobody(server: Any, endpoint: Endpoint) -> None:
    assert await server().reason("sb_secret_0123456789") == "api_key"
    assert endpoint.bodies == []


async def test_cookies_of_the_endpoint_are_not_kept(server: Any, endpoint: Endpoint) -> None:
    def reply() -> web.StreamResponse:
        response = web.json_response(endpoint.answer)
        response.set_cookie("user", "alice")
        return response

    endpoint.reply = reply
    opened = server(remembered=0.0)
    await opened()
    await opened()
    assert "Cookie" not in endpoint.headers[1]
