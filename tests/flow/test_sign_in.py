"""From no token to a challenge that leads somewhere, and every token that must not open anything."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from flow.client import envelope, mirrored
from flow.conftest import Running

PING = envelope("tools/list")


async def test_no_token_gets_a_challenge_whose_pointer_answers_with_this_very_resource(running: Running) -> None:
    reply = await running.client.send(PING, headers=mirrored(PING))
    assert reply.status == 401
    challenge = reply.headers["WWW-Authenticate"]
    assert challenge.startswith("Bearer ")
    assert "error=" not in challenge
    pointer = re.search(r'resource_metadata="([^"]+)"', challenge)
    assert pointer is not None
    document = await running.client.send(None, method="GET", url=pointer[1])
    assert document.status == 200
    assert document.json["resource"] == running.client.url
    assert document.json["authorization_servers"] == [running.issuer.url]
    assert document.json["scopes_supported"] == ["email"]
    assert document.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource/mcp",
        "/mcp/.well-known/oauth-protected-resource",
        "/mcp/oauth-protected-resource",
    ],
)
async def test_the_document_stands_at_all_its_urls_for_anyone_and_any_token(running: Running, path: str) -> None:
    plain = await running.client.send(None, method="GET", url=running.public_url + path)
    wrong = await running.client.send(None, method="GET", url=running.public_url + path, token="rubbish")
    assert plain.status == wrong.status == 200
    assert plain.body == wrong.body


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/favicon.ico", "/"]
)
async def test_unknown_paths_are_404_json_and_never_a_page(running: Running, path: str) -> None:
    reply = await running.client.send(None, method="GET", url=running.public_url + path)
    assert reply.status == 404
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json["code"] == "RG101"


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("body", [b"", b"{", b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'])
async def test_whoever_has_no_token_is_challenged_before_anything_else_is_judged(
    running: Running, method: str, body: bytes
) -> None:
    reply = await running.client.send(
        body, method=method, headers={"Content-Type": "text/plain", "Accept": "image/png"}
    )
    assert reply.status == 401
    assert "resource_metadata=" in reply.headers["WWW-Authenticate"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_a_signed_in_client_is_told_that_there_is_only_post(running: Running, method: str) -> None:
    reply = await running.client.send(None, method=method, token=running.issuer.token())
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")


Forge = Callable[[Running], str]


def _other_key(it: Running) -> str:
    stranger = ECKey.generate_key("P-256", parameters={"kid": it.issuer.key.kid})
    return it.issuer.token(key=stranger)


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _claims(it: Running) -> str:
    return it.issuer.token().split(".")[1]


def _symmetric(it: Running) -> str:
    """Algorithm confusion: the public key as an HMAC secret."""
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': it.issuer.key.kid})}.{_claims(it)}"
    mac = hmac.digest(it.issuer.key.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _unsigned(it: Running) -> str:
    return f"{_part({'alg': 'none', 'typ': 'JWT', 'kid': it.issuer.key.kid})}.{_claims(it)}."


def _api_key(it: Running) -> str:
    claims = {"iss": "supabase", "ref": "x", "role": "service_role", "iat": 1, "exp": int(time.time()) + 60}
    return jwt.encode({"alg": "ES256", "kid": it.issuer.key.kid}, claims, it.issuer.key, algorithms=["ES256"])


REFUSED: dict[str, tuple[Forge, str]] = {
    "another key under the same kid": (_other_key, "signature"),
    "the public key as a secret": (_symmetric, "algorithm"),
    "no signature": (_unsigned, "algorithm"),
    "no kid of ours": (lambda it: it.issuer.token(header={"kid": "unknown"}), "unknown_key"),
    "another issuer": (lambda it: it.issuer.token(iss="https://evil.example/auth/v1"), "issuer"),
    "another audience": (lambda it: it.issuer.token(aud="https://other.example/mcp"), "audience"),
    "no expiry": (lambda it: it.issuer.token(exp=None), "no_expiry"),
    "not yet valid": (lambda it: it.issuer.token(nbf=int(time.time()) + 600), "not_yet_valid"),
    "no subject": (lambda it: it.issuer.token(sub=None), "subject"),
    "the anon key": (lambda it: it.issuer.token(role="anon"), "role"),
    "the service role": (lambda it: it.issuer.token(role="service_role"), "role"),
    "a service key": (_api_key, "issuer"),
    "an anonymous user": (lambda it: it.issuer.token(is_anonymous=True), "anonymous_user"),
    "a first-party session": (lambda it: it.issuer.token(client_id=None), "client_missing"),
    "an ID token": (
        lambda it: it.issuer.token(role=None, session_id=None, aud="c11e0000-0000-4000-8000-000000000001"),
        "id_token",
    ),
    "a token that a gateway minted": (lambda it: it.issuer.token(mcp={"server": "main"}), "minted"),
    "a malformed act chain": (lambda it: it.issuer.token(act="someone"), "actor"),
    "a publishable key": (lambda it: "sb_publishable_0123456789abcdef", "api_key"),
    "a secret key": (lambda it: "sb_secret_0123456789abcdef", "api_key"),
    "rubbish": (lambda it: "not.a.token", "malformed"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_token_that_is_no_users_oauth_token_is_refused_with_its_reason_in_log_and_metric_only(
    running: Running, case: str
) -> None:
    forge, reason = REFUSED[case]
    token = forge(running)
    reply = await running.client.send(PING, token=token, headers=mirrored(PING))
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
    assert (running.last.outcome, running.last.reason) == ("unauthenticated", reason)
    assert f'"{reason}"' not in reply.body.decode()
    _, metrics = await running.internal("/metrics")
    assert f'reason="{reason}"' in metrics
    audit = [line for line in running.log.lines if line.get("stream") == "audit"]
    assert (audit[-1]["outcome"], audit[-1]["reason"]) == ("denied", reason)
    assert not running.plugin.calls


async def test_an_expired_token_says_so_because_clients_refresh_on_it(running: Running) -> None:
    token = running.issuer.token(exp=int(time.time()) - 3600)
    reply = await running.client.send(PING, token=token, headers=mirrored(PING))
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
    assert reply.json["code"] == "RG204"


@pytest.mark.parametrize("value", ["Bearer", "Bearer ", "Basic YTpi", "Token x", "Bearer a b", "Bearer Bearer x", "x"])
async def test_any_other_authorization_header_gets_the_same_challenge(running: Running, value: str) -> None:
    reply = await running.client.send(PING, headers=mirrored(PING) | {"Authorization": value})
    assert reply.status == 401
    assert "resource_metadata=" in reply.headers["WWW-Authenticate"]


async def test_the_scheme_is_case_insensitive(running: Running) -> None:
    headers = mirrored(PING) | {"Authorization": f"bearer {running.issuer.token()}"}
    assert (await running.client.send(PING, headers=headers)).status == 200


async def test_a_flood_of_unknown_keys_costs_the_issuer_one_request(running: Running) -> None:
    before = running.issuer.fetches
    for number in range(50):
        token = running.issuer.token(header={"kid": f"random-{number}"})
        assert (await running.client.send(PING, token=token, headers=mirrored(PING))).status == 401
    assert running.issuer.fetches - before <= 1


async def test_keys_that_were_never_had_are_503_and_not_ready(start: Any, tokens: Any) -> None:
    tokens.published = False
    running = await start()
    reply = await running.client.send(PING, token=running.issuer.token(), headers=mirrored(PING))
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) >= 1
    assert (await running.internal("/readyz"))[0] == 503
    assert (await running.internal("/healthz"))[0] == 200


async def test_bearer_mode_takes_a_users_own_session_and_advertises_no_sign_in(start: Any) -> None:
    def bearer(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["auth"]["mode"] = "bearer"
        del tree["servers"]["main"]["scopes"]["advertised"]

    running = await start(bearer)
    first_party = running.issuer.token(client_id=None, scope=None)
    assert (await running.client.send(PING, token=first_party, headers=mirrored(PING))).status == 200
    reply = await running.client.send(PING, headers=mirrored(PING))
    assert reply.status == 401
    assert "resource_metadata" not in reply.headers["WWW-Authenticate"]
    url = running.public_url + "/.well-known/oauth-protected-resource/mcp"
    assert (await running.client.send(None, method="GET", url=url)).status == 404


async def test_a_token_bound_to_one_server_does_not_open_another(start: Any) -> None:
    def second(tree: dict[str, Any]) -> None:
        tree["servers"]["other"] = {**tree["servers"]["main"], "path": "/other"}

    running = await start(second)
    other = running.public_url + "/other"
    for audience, here, there in ((other, 401, 200), (running.client.url, 200, 401)):
        token = running.issuer.token(aud=["authenticated", audience])
        assert (await running.client.send(PING, token=token, headers=mirrored(PING))).status == here
        assert (await running.client.send(PING, token=token, headers=mirrored(PING), url=other)).status == there


async def test_no_byte_of_a_token_is_ever_logged(running: Running) -> None:
    good = running.issuer.token()
    await running.client.call("echo", {"text": "x"}, token=good)
    await running.client.send(PING, token=good[:-4] + "AAAA", headers=mirrored(PING))
    await running.client.send(b"{", token="eyJ" + "x" * 60_000)
    log = bytes(running.log.data).decode()
    assert good.rpartition(".")[2][:20] not in log
    assert good.split(".")[1][:20] not in log
    assert "xxxxx" not in log


async def test_a_header_that_is_too_large_is_answered_by_us_and_quoted_nowhere(running: Running) -> None:
    reply = await running.client.send(PING, token="e" * 40_000, headers=mirrored(PING))
    assert reply.status == 431
    assert reply.json["code"] == "RG109"
    assert b"eeee" not in reply.body
    assert b"eeee" not in bytes(running.log.data)


async def test_a_token_of_nine_kilobytes_works(running: Running) -> None:
    token = running.issuer.token(app_metadata={"roles": ["member"], "padding": "p" * 9000})
    assert (await running.client.send(PING, token=token, headers=mirrored(PING))).status == 200


@pytest.mark.parametrize("resource", ["https://other.example/mcp", ["https://other.example/mcp"], 7])
async def test_a_token_whose_resource_claim_names_another_server_is_refused(running: Running, resource: Any) -> None:
    token = running.issuer.token(resource=resource)
    reply = await running.client.send(PING, token=token, headers=mirrored(PING))
    assert reply.status == 401
    assert running.last.reason == "audience"
    own = running.issuer.token(resource=running.client.url)
    assert (await running.client.send(PING, token=own, headers=mirrored(PING))).status == 200
