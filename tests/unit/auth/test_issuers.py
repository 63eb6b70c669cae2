"""Several issuers at one server, and issuers that sign with a secret: nobody is believed about another's tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey
from multidict import CIMultiDict

from rowgate.auth.authenticators import Authenticators, Tokens, authenticators
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.issuers import claimed_issuer
from rowgate.auth.principal import Principal
from rowgate.errors import AuthenticationError, ConfigurationError

ONE = "https://one.example"
TWO = "https://two.example"
LEGACY = "https://legacy.example"
SECRET = b"0123456789abcdef0123456789abcdef"


class Party:
    def __init__(self, name: str) -> None:
        self.name = name
        self.key = ECKey.generate_key("P-256", {"kid": "the-same-kid"})
        self.url = ""

    async def jwks(self, request: web.Request) -> web.Response:
        return web.json_response(KeySet([self.key]).as_dict(private=False))


def claims(issuer: str, now: float, **changes: Any) -> dict[str, Any]:
    members = {"iss": issuer, "sub": "u1", "aud": "rowgate", "exp": int(now) + 600, "client_id": "agent"} | changes
    return {name: value for name, value in members.items() if value is not None}


def signed(key: Any, members: dict[str, Any], algorithm: str = "ES256", **header: Any) -> str:
    fields = {"alg": algorithm, "kid": "the-same-kid"} | header
    return jwt.encode(fields, members, key, algorithms=[algorithm])


class World:
    def __init__(self, one: Party, two: Party, doors: Authenticators, now: float) -> None:
        self.one, self.two, self.doors, self.now = one, two, doors, now

    async def __call__(self, token: str, server: str = "main") -> Principal:
        return await self.doors.by_server[server].authenticate(CIMultiDict({"Authorization": f"Bearer {token}"}))

    async def reason(self, token: str, server: str = "main") -> str:
        with pytest.raises(AuthenticationError) as caught:
            await self(token, server)
        return caught.value.reason


@pytest.fixture
async def world(session: ClientSession, clock: Any) -> AsyncIterator[World]:
    one, two = Party(ONE), Party(TWO)
    app = web.Application()
    app.router.add_get("/one", one.jwks)
    app.router.add_get("/two", two.jwks)
    async with TestServer(app) as server:
        one.url, two.url = str(server.make_url("/one")), str(server.make_url("/two"))

        def trusted(party: Party, **changes: Any) -> TrustedIssuer:
            facts = {"issuer": party.name, "jwks_url": party.url, "algorithms": ("ES256",), "audiences": ("rowgate",)}
            return TrustedIssuer(**(facts | changes))

        legacy = TrustedIssuer(LEGACY, "", ("HS256",), ("rowgate",), secret=SECRET)
        strategies = {
            "main": Tokens((trusted(one), trusted(two, scope_claim="grants.list", audiences=("two",)), legacy)),
            "one": Tokens((trusted(one),)),
            "legacy": Tokens((legacy,)),
        }
        doors = authenticators(strategies, session, clock=clock)
        await doors.fetch_keys()
        yield World(one, two, doors, clock.now)
        await doors.close()


async def test_each_issuer_is_believed_about_its_own_tokens(world: World) -> None:
    first = await world(signed(world.one.key, claims(ONE, world.now, scope="a b")))
    second = await world(signed(world.two.key, claims(TWO, world.now, aud="two", grants={"list": ["c", "d e"]})))
    third = await world(signed(OctKey.import_key(SECRET), claims(LEGACY, world.now, scp=["f"]), "HS256"))
    assert [it.issuer for it in (first, second, third)] == [ONE, TWO, LEGACY]
    assert [it.scopes for it in (first, second, third)] == [{"a", "b"}, {"c", "d", "e"}, {"f"}]


async def test_no_issuer_signs_for_another_though_the_key_ids_are_the_same(world: World) -> None:
    assert await world.reason(signed(world.two.key, claims(ONE, world.now))) == "signature"
    assert await world.reason(signed(world.one.key, claims(TWO, world.now, aud="two"))) == "signature"
    forged = signed(OctKey.import_key(SECRET), claims(ONE, world.now), "HS256")
    assert await world.reason(forged) == "algorithm"
    assert await world.reason(signed(world.one.key, claims(LEGACY, world.now))) == "algorithm"


async def test_each_issuer_has_its_own_audience(world: World) -> None:
    assert await world.reason(signed(world.two.key, claims(TWO, world.now, aud="rowgate"))) == "audience"
    assert await world.reason(signed(world.one.key, claims(ONE, world.now, aud="two"))) == "audience"


@pytest.mark.parametrize("issuer", [ONE + "/", ONE.upper(), "https://three.example", "", None, 7, [ONE], {"iss": ONE}])
async def test_a_token_of_nobody_we_know_is_refused(world: World, issuer: Any) -> None:
    token = signed(world.one.key, claims(ONE, world.now, iss=issuer) if issuer is not None else {"sub": "u1"})
    assert await world.reason(token) in ("issuer", "malformed")


@pytest.mark.parametrize("token", ["abc", "a.b", "a.b.c", "a.b.c.d", "a.bnVsbA.c", "...", "a." + "W1tb" * 5000 + ".c"])
async def test_what_names_no_issuer_is_refused_where_none_can_be_asked(world: World, token: str) -> None:
    assert await world.reason(token) == "malformed"


async def test_a_server_takes_the_tokens_of_its_own_issuers_only(world: World) -> None:
    token = signed(world.two.key, claims(TWO, world.now, aud="two"))
    assert await world(token)
    assert await world.reason(token, "one") in ("issuer", "signature")


async def test_a_token_that_was_verified_for_one_server_is_judged_for_the_next(world: World) -> None:
    token = signed(world.one.key, claims(ONE, world.now))
    assert (await world(token)).subject == (await world(token, "one")).subject
    assert len(world.doors.sources) == 2


async def test_an_issuer_with_a_secret_needs_no_keys_to_be_ready(world: World) -> None:
    assert {source.issuer for source in world.doors.sources} == {ONE, TWO}
    token = signed(OctKey.import_key(SECRET), claims(LEGACY, world.now), "HS256", kid="any")
    assert (await world(token, "legacy")).subject == "u1"


@pytest.mark.parametrize("algorithm", ["HS384", "HS512", "none"])
async def test_a_secret_is_for_hs256_and_nothing_else(world: World, algorithm: str) -> None:
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).decode().rstrip("=")
    if algorithm == "none":
        body = base64.urlsafe_b64encode(json.dumps(claims(LEGACY, world.now)).encode()).decode().rstrip("=")
        token = f"{header}.{body}."
    else:
        token = signed(OctKey.import_key(SECRET * 2), claims(LEGACY, world.now), algorithm)
    assert await world.reason(token, "legacy") in ("algorithm", "malformed")


async def test_a_token_of_another_secret_is_refused(world: World) -> None:
    token = signed(OctKey.import_key(SECRET[::-1]), claims(LEGACY, world.now), "HS256")
    assert await world.reason(token, "legacy") == "signature"


async def test_a_legacy_key_of_the_project_is_no_user_though_the_secret_signed_it(world: World) -> None:
    for role in ("anon", "service_role"):
        key = signed(OctKey.import_key(SECRET), claims(LEGACY, world.now, role=role), "HS256")
        assert await world.reason(key, "legacy") == "role"


@pytest.mark.parametrize(
    "change",
    [
        {"secret": SECRET[:31]},
        {"algorithms": ("HS256", "ES256")},
        {"algorithms": ("ES256",)},
        {"jwks_url": "https://one.example/jwks"},
        {"secret": b""},
    ],
)
def test_a_secret_that_could_confuse_is_refused(change: dict[str, Any]) -> None:
    facts: dict[str, Any] = {
        "issuer": LEGACY,
        "jwks_url": "",
        "algorithms": ("HS256",),
        "audiences": ("rowgate",),
        "secret": SECRET,
    }
    assert TrustedIssuer(**facts)
    with pytest.raises(ConfigurationError):
        TrustedIssuer(**(facts | change))


def test_published_keys_never_verify_hs256() -> None:
    with pytest.raises(ConfigurationError):
        TrustedIssuer(ONE, "https://one.example/jwks", ("HS256",), ("rowgate",))


def test_a_secret_is_not_shown() -> None:
    assert SECRET.decode() not in repr(TrustedIssuer(LEGACY, "", ("HS256",), ("rowgate",), secret=SECRET))


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b"{", b'{"iss": 1}', b"[" * 100_000])
def test_reading_whose_a_token_claims_to_be_survives_anything(payload: bytes) -> None:
    token = f"x.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.y"
    assert claimed_issuer(token) is None
