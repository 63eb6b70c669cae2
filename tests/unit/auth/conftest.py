"""A real issuer: keys, signatures and a JWKS endpoint on a loopback socket. Time is a number that tests move."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, DummyCookieJar, web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from multidict import CIMultiDict

from rowgate.auth import Authenticator
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.jwks import KeySource
from rowgate.auth.verifier import TokenVerifier
from rowgate.observe.events import Event, KeysRefreshed, TokenLookup

NOW = 1_800_000_000.0
ISSUER = "https://project.supabase.co/auth/v1"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class SigningKeys:
    """Each is made once: generating RSA keys is slow."""

    def __init__(self) -> None:
        self.ec = ECKey.generate_key("P-256", {"kid": "ec-1", "alg": "ES256", "use": "sig"})
        self.other_ec = ECKey.generate_key("P-256", {"kid": "ec-2", "alg": "ES256", "use": "sig"})
        self.rsa = RSAKey.generate_key(2048, {"kid": "rsa-1"})
        self.ed = OKPKey.generate_key("Ed25519", {"kid": "ed-1"})

    @staticmethod
    def renamed(key: Key, kid: str) -> Key:
        return type(key).import_key({**key.as_dict(private=True), "kid": kid})


class LocalIssuer:
    """Serves whatever a test puts into `keys` (JWKs) or `answer`, and counts."""

    def __init__(self, *keys: Key) -> None:
        self.keys: list[dict[str, Any]] = [dict(key.as_dict(private=False)) for key in keys]
        self.answer: Callable[[], web.StreamResponse] | None = None
        self.fetches = 0
        self.elsewhere = 0
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()
        self.url = ""

    def publish(self, *keys: Key) -> None:
        self.keys = [dict(key.as_dict(private=False)) for key in keys]

    async def jwks(self, request: web.Request) -> web.StreamResponse:
        self.fetches += 1
        self.asked.set()
        await self.open.wait()
        return self.answer() if self.answer else web.json_response({"keys": self.keys})

    async def other(self, request: web.Request) -> web.StreamResponse:
        self.elsewhere += 1
        return web.json_response({"keys": self.keys})

    @staticmethod
    def mint(key: Key, claims: dict[str, Any] | None = None, header: dict[str, Any] | None = None, **drop: None) -> str:
        """A token as Supabase Auth issues it to an OAuth client, with what `claims` and `header` change or drop."""
        named = {"kid": key.kid} if key.kid else {}
        body = {
            "iss": ISSUER,
            "sub": "2b6b2a5e-8a0f-4f0e-9c52-0d5a6a0e8a11",
            "aud": "authenticated",
            "exp": int(NOW) + 3600,
            "iat": int(NOW),
            "email": "alice@example.com",
            "role": "authenticated",
            "aal": "aal1",
            "session_id": "5f0e8a11-2b6b-4f0e-9c52-2a5e8a0f0d5a",
            "is_anonymous": False,
            "client_id": "9c522a5e-8a0f-4f0e-2b6b-0d5a6a0e8a11",
            "scope": "email profile",
            "app_metadata": {"provider": "email", "roles": ["editor"]},
            "user_metadata": {"roles": ["admin"]},
        } | (claims or {})
        protected = {"alg": {"EC": "ES256", "RSA": "RS256", "OKP": "EdDSA"}[key.key_type], **named} | (header or {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            registry = JWSRegistry(algorithms=[protected["alg"]], strict_check_header=False)
            return jwt.encode(
                {name: value for name, value in protected.items() if value is not None},
                {name: value for name, value in body.items() if value is not None},
                key,
                registry=registry,
            )


class Door:
    """An authenticator with its parts, and what they emitted."""

    def __init__(self, issuer: TrustedIssuer, session: ClientSession, clock: Clock, capacity: int = 64) -> None:
        self.issuer = issuer
        self.events: list[Event] = []
        self.source = KeySource(issuer, session, clock=clock, emit=self.events.append, timeout=30)
        self.verifier = TokenVerifier(issuer, self.source, clock=clock, emit=self.events.append, capacity=capacity)
        self.authenticator = Authenticator(issuer, self.verifier)

    async def __call__(self, token: str) -> Any:
        return await self.authenticator.authenticate(CIMultiDict({"Authorization": f"Bearer {token}"}))

    @property
    def lookups(self) -> list[bool]:
        return [event.hit for event in self.events if isinstance(event, TokenLookup)]

    @property
    def refreshes(self) -> list[str]:
        return [event.outcome for event in self.events if isinstance(event, KeysRefreshed)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def signing() -> SigningKeys:
    return SigningKeys()


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession(cookie_jar=DummyCookieJar()) as client:
        yield client


@pytest.fixture
async def local(signing: SigningKeys) -> AsyncIterator[LocalIssuer]:
    issuer = LocalIssuer(signing.ec)
    app = web.Application()
    app.router.add_get("/jwks.json", issuer.jwks)
    app.router.add_get("/elsewhere.json", issuer.other)
    async with TestServer(app) as server:
        issuer.url = str(server.make_url("/jwks.json"))
        yield issuer
        issuer.open.set()


@pytest.fixture
def trusted(local: LocalIssuer) -> Callable[..., TrustedIssuer]:
    def make(**changes: Any) -> TrustedIssuer:
        facts: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_url": local.url,
            "algorithms": ("ES256", "RS256"),
            "audiences": ("authenticated",),
            "token_roles": ("authenticated",),
        }
        return TrustedIssuer(**(facts | changes))

    return make


@pytest.fixture
async def door(
    trusted: Callable[..., TrustedIssuer], session: ClientSession, clock: Clock
) -> AsyncIterator[Callable[..., Door]]:
    opened: list[Door] = []

    def make(capacity: int = 64, **changes: Any) -> Door:
        opened.append(Door(trusted(**changes), session, clock, capacity))
        return opened[-1]

    yield make
    for each in opened:
        await each.source.close()
