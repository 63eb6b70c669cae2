"""What the recording does not show: attacks, the passing of time, and the levers for tests."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from auth_browser import ALICE, BOB, CALLBACK, PASSWORD, Browser, Clock
from joserfc import jwt
from joserfc.jwk import KeySet

from rowgate.demo.auth import AuthServer

VERIFIER = secrets.token_urlsafe(48)


def claims(auth: AuthServer, token: str) -> dict[str, Any]:
    return jwt.decode(token, KeySet.import_key_set(auth.jwks()), algorithms=["ES256"]).claims


async def test_one_code_gives_one_session_however_many_ask_at_once(browser: Browser) -> None:
    client_id = (await browser.register())["client_id"]
    asked = await browser.ask(client_id, VERIFIER)
    code = await browser.approve(asked.location["authorization_id"], await browser.sign_in())
    answers = await asyncio.gather(*(browser.redeem(client_id, code, VERIFIER) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 400, 400, 400, 400]


async def test_a_code_is_worth_nothing_to_another_client_or_after_ten_minutes(browser: Browser, clock: Clock) -> None:
    client_id, other = [(await browser.register())["client_id"] for _ in range(2)]
    asked = await browser.ask(client_id, VERIFIER)
    code = await browser.approve(asked.location["authorization_id"], await browser.sign_in())
    stolen = await browser.redeem(other, code, VERIFIER)
    assert stolen.body["error_description"] == "Authorization code was not issued for this client"
    clock.now += 601
    late = await browser.redeem(client_id, code, VERIFIER)
    assert late.body["error_description"] == "Authorization code has expired"


@pytest.mark.parametrize("method", ["S256", "plain"])
async def test_a_code_needs_its_verifier(browser: Browser, method: str) -> None:
    client_id = (await browser.register())["client_id"]
    more = {"code_challenge_method": method} | ({"code_challenge": VERIFIER} if method == "plain" else {})
    asked = await browser.ask(client_id, VERIFIER, **more)
    code = await browser.approve(asked.location["authorization_id"], await browser.sign_in())
    for wrong in ("", VERIFIER[:-1], VERIFIER + "x"):
        assert (await browser.redeem(client_id, code, wrong)).body["error"] == "invalid_grant"
    assert (await browser.redeem(client_id, code, VERIFIER)).status == 200


async def test_the_first_user_who_sees_a_request_owns_it(browser: Browser) -> None:
    client_id = (await browser.register())["client_id"]
    asked = await browser.ask(client_id, VERIFIER)
    path = f"/oauth/authorizations/{asked.location['authorization_id']}"
    alice, bob = await browser.sign_in(ALICE), await browser.sign_in(BOB)
    blind = await browser.send("POST", f"{path}/consent", alice, json={"action": "approve"})
    assert blind.status == 404
    assert (await browser.send("GET", path, alice)).status == 200
    for method, there in (("GET", path), ("POST", f"{path}/consent")):
        answer = await browser.send(method, there, bob, json={"action": "approve"} if method == "POST" else None)
        assert (answer.status, answer.body["error_code"]) == (404, "oauth_authorization_not_found")


async def test_a_used_refresh_token_revokes_its_family_after_the_reuse_interval(browser: Browser, clock: Clock) -> None:
    client_id, first = await browser.connect()
    second = await browser.refresh(client_id, first["refresh_token"])
    third = await browser.refresh(client_id, second.body["refresh_token"])
    clock.now += 11
    replayed = await browser.refresh(client_id, first["refresh_token"])
    assert replayed.body["error_code"] == "refresh_token_already_used"
    # As with the real one, a revoked token has the interval too.
    clock.now += 11
    assert (await browser.refresh(client_id, third.body["refresh_token"])).status == 400


async def test_a_client_that_lost_the_answer_gets_the_same_refresh_token_again(browser: Browser, clock: Clock) -> None:
    client_id, first = await browser.connect()
    second = await browser.refresh(client_id, first["refresh_token"])
    clock.now += 3600
    again = await browser.refresh(client_id, first["refresh_token"])
    assert again.body["refresh_token"] == second.body["refresh_token"]


async def test_a_refresh_token_is_bound_to_its_client(browser: Browser) -> None:
    _, tokens = await browser.connect()
    other = (await browser.register())["client_id"]
    answer = await browser.refresh(other, tokens["refresh_token"])
    assert answer.body["error"] == "invalid_client"


async def test_a_confidential_client_needs_its_secret_by_its_method(browser: Browser) -> None:
    client = await browser.register(token_endpoint_auth_method="client_secret_post")
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": client["client_id"]}
    for secret in ({}, {"client_secret": "guess"}):
        answer = await browser.send("POST", "/oauth/token", data=form | secret)
        assert answer.body["error_code"] == "invalid_credentials"
    known = await browser.send("POST", "/oauth/token", data=form | {"client_secret": client["client_secret"]})
    assert known.body["error_code"] == "refresh_token_not_found"


@pytest.mark.parametrize(
    "uri", ["javascript://x/%0aalert(1)", "data://x", "http://example.com/", "https://a/#f", "/cb", "https://a/\n"]
)
async def test_a_dangerous_redirect_uri_is_not_registered(browser: Browser, uri: str) -> None:
    answer = await browser.send("POST", "/oauth/clients/register", json={"redirect_uris": [uri]})
    assert (answer.status, answer.body["error_code"]) == (400, "validation_failed")


async def test_an_error_is_never_sent_to_an_address_that_is_not_registered(browser: Browser) -> None:
    client_id = (await browser.register())["client_id"]
    answer = await browser.ask(client_id, VERIFIER, redirect_uri=CALLBACK + "/", scope="nonsense")
    assert answer.status == 400
    assert "Location" not in answer.headers


async def test_application_scopes_are_refused_as_by_supabase(browser: Browser, auth: AuthServer) -> None:
    client_id = (await browser.register())["client_id"]
    answer = await browser.ask(client_id, VERIFIER, scope="email notes:write")
    assert answer.location["error_description"] == "unsupported scope: notes:write"
    assert "notes:write" not in auth.metadata()["scopes_supported"]


class TestExtraScopes:
    """The switch that Supabase does not have."""

    @pytest.fixture
    def extra_scopes(self) -> tuple[str, ...]:
        return ("notes:read", "notes:write")

    async def test_they_reach_the_token_and_step_up_asks_anew(self, browser: Browser, auth: AuthServer) -> None:
        client_id = (await browser.register())["client_id"]
        user = await browser.sign_in()
        for scope in ("email notes:read", "email notes:read notes:write"):
            asked = await browser.ask(client_id, VERIFIER, scope=scope)
            path = f"/oauth/authorizations/{asked.location['authorization_id']}"
            assert (await browser.send("GET", path, user)).body["scope"] == scope
            code = await browser.approve(asked.location["authorization_id"], user)
            tokens = (await browser.redeem(client_id, code, VERIFIER)).body
            assert claims(auth, tokens["access_token"])["scope"] == scope
        assert set(auth.metadata()["scopes_supported"]) >= {"notes:read", "notes:write"}

    async def test_no_other_scope_comes_with_them(self, browser: Browser) -> None:
        client_id = (await browser.register())["client_id"]
        answer = await browser.ask(client_id, VERIFIER, scope="notes:admin")
        assert answer.location["error"] == "invalid_request"


async def test_dynamic_registration_can_be_turned_off(browser: Browser, auth: AuthServer) -> None:
    auth.allow_dynamic_registration(False)
    answer = await browser.send("POST", "/oauth/clients/register", json={"redirect_uris": [CALLBACK]})
    assert (answer.status, answer.body["error_code"]) == (403, "oauth_dynamic_client_registration_disabled")
    metadata = await browser.send("GET", "/.well-known/oauth-authorization-server")
    assert "registration_endpoint" not in metadata.body


async def test_the_key_endpoint_fails_and_mends_on_demand(browser: Browser, auth: AuthServer) -> None:
    path = "/.well-known/jwks.json"
    auth.break_jwks("fail")
    assert (await browser.send("GET", path)).status == 500
    auth.break_jwks("empty")
    assert (await browser.send("GET", path)).body == {"keys": []}
    auth.break_jwks(None)
    (key,) = (await browser.send("GET", path)).body["keys"]
    assert key.keys() == {"alg", "crv", "key_ops", "kid", "kty", "use", "x", "y"}


async def test_the_private_key_is_not_published(auth: AuthServer) -> None:
    auth.rotate_keys()
    assert all("d" not in key for key in auth.jwks()["keys"])


async def test_a_ban_and_a_sign_out_are_seen_at_once(browser: Browser, auth: AuthServer) -> None:
    token = await browser.sign_in()
    auth.ban(ALICE)
    assert (await browser.send("GET", "/user", token)).body["error_code"] == "user_banned"
    auth.unban(ALICE)
    assert (await browser.send("GET", "/user", token)).status == 200
    auth.sign_out(ALICE)
    assert (await browser.send("GET", "/user", token)).body["error_code"] == "session_not_found"


async def test_a_minted_token_says_what_it_was_told(auth: AuthServer) -> None:
    said = {"iss": "https://elsewhere.example", "aud": ["a", "b"], "n": 1}
    assert claims(auth, auth.mint(said)) == said


async def test_a_token_made_for_a_test_is_what_the_whole_flow_gives(browser: Browser, auth: AuthServer) -> None:
    client_id, tokens = await browser.connect()
    flow = claims(auth, tokens["access_token"])
    made = claims(auth, await auth.access_token(ALICE, client_id=client_id, scope="openid email"))
    assert made | {"session_id": 0} == flow | {"session_id": 0}


async def test_tokens_expire(browser: Browser, clock: Clock) -> None:
    token = await browser.sign_in()
    clock.now += 3600
    answer = await browser.send("GET", "/user", token)
    assert (answer.status, answer.body["error_code"]) == (403, "bad_jwt")


@pytest.mark.parametrize("email", ["nobody@example.com", ALICE])
async def test_an_unknown_user_is_answered_like_a_wrong_password(browser: Browser, email: str) -> None:
    answer = await browser.send("POST", "/token?grant_type=password", json={"email": email, "password": "wrong"})
    assert answer.body == {"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"}


async def test_a_client_of_the_newer_api_gets_its_errors(browser: Browser) -> None:
    answer = await browser.send("GET", "/user", headers={"X-Supabase-Api-Version": "2024-01-01"})
    assert answer.body["code"] == "no_authorization"
    assert answer.headers["X-Supabase-Api-Version"] == "2024-01-01"


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000, b'{"email": 1}'])
async def test_a_malformed_body_is_refused(browser: Browser, body: bytes) -> None:
    for path in ("/signup", "/token?grant_type=password", "/oauth/clients/register"):
        answer = await browser.send("POST", path, data=body)
        assert answer.status == 400, path


@pytest.mark.parametrize("token", ["a.b.c", "x", "..", "a" * 9000, "e30.e30.e30", "bnVsbA.e30.e30", "bm8.e30.e30"])
async def test_a_malformed_token_is_refused(browser: Browser, token: str) -> None:
    answer = await browser.send("GET", "/user", token)
    assert (answer.status, answer.body["error_code"]) == (403, "bad_jwt")


async def test_an_administrator_is_not_a_user_who_says_so(browser: Browser) -> None:
    answer = await browser.send(
        "POST", "/signup", json={"email": "eve@example.com", "password": PASSWORD, "data": {"role": "service_role"}}
    )
    refused = await browser.send("GET", "/admin/oauth/clients", answer.body["access_token"])
    assert refused.body["error_code"] == "not_admin"


def test_no_secret_is_in_a_representation(auth: AuthServer) -> None:
    shown = repr(auth.user(ALICE))
    assert "digest" not in shown
    assert "salt" not in shown
