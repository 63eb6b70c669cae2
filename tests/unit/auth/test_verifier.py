"""Attacks on tokens. Each names what the attacker controls, and why it does not help."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowgate.auth.bearer import MAX_TOKEN_BYTES
from rowgate.errors import KeysUnavailable, TokenExpired, TokenRefused


def encoded(value: bytes | dict[str, Any]) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forged(token: str, header: dict[str, Any], signature: bytes = b"") -> str:
    return f"{encoded(header)}.{token.split('.')[1]}.{encoded(signature)}"


async def reason(door: Any, token: str) -> str:
    with pytest.raises((TokenRefused, TokenExpired)) as caught:
        await door.verifier.verify(token)
    assert caught.value.detail == ""
    return caught.value.reason


async def test_a_good_token_is_verified(door: Any, local: Any, signing: Any) -> None:
    token = local.mint(signing.ec)
    verified = await door().verifier.verify(token)
    assert verified.scopes == {"email", "profile"}
    assert verified.audiences == {"authenticated"}


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", ""])
@pytest.mark.parametrize("signature", [b"", b"x" * 64])
async def test_an_unsigned_token_is_refused_however_it_spells_none(
    door: Any, local: Any, signing: Any, algorithm: str, signature: bytes
) -> None:
    token = forged(local.mint(signing.ec), {"alg": algorithm, "kid": "ec-1"}, signature)
    assert await reason(door(), token) == "algorithm"


@pytest.mark.parametrize("algorithms", [("ES256",), ("RS256",)])
async def test_a_public_key_is_never_an_hmac_secret(
    door: Any, local: Any, signing: Any, algorithms: tuple[str, ...]
) -> None:
    key = signing.ec if algorithms == ("ES256",) else signing.rsa
    local.publish(key)
    header = {"alg": "HS256", "kid": key.kid}
    public = key.as_dict(private=False)
    secrets = [
        key.as_pem(private=False),
        key.as_der(private=False),
        json.dumps(public).encode(),
        json.dumps(public, separators=(",", ":")).encode(),
        *(base64.urlsafe_b64decode(public[name] + "==") for name in ("x", "n") if name in public),
        b"",
    ]
    opened = door(algorithms=algorithms)
    for secret in secrets:
        unsigned = forged(local.mint(key), header)
        signed_part = unsigned.rpartition(".")[0]
        signature = hmac.new(secret, signed_part.encode(), hashlib.sha256).digest()
        assert await reason(opened, f"{signed_part}.{encoded(signature)}") == "algorithm"


async def test_an_algorithm_that_is_not_configured_is_refused_even_with_a_good_key(
    door: Any, local: Any, signing: Any
) -> None:
    local.publish(signing.rsa, signing.ec)
    token = local.mint(signing.rsa, header={"alg": "PS256"})
    assert await reason(door(), token) == "algorithm"
    assert await reason(door(algorithms=("ES256",)), local.mint(signing.rsa)) == "algorithm"


async def test_a_key_verifies_no_algorithm_of_another_key_type(door: Any, local: Any, signing: Any) -> None:
    token = forged(local.mint(signing.ec), {"alg": "RS256", "kid": "ec-1"}, b"x" * 256)
    assert await reason(door(), token) == "unknown_key"


@pytest.mark.parametrize("algorithm", [None, 7, ["ES256"], {"alg": "ES256"}])
async def test_an_algorithm_that_is_no_string_is_refused(door: Any, local: Any, signing: Any, algorithm: Any) -> None:
    token = forged(local.mint(signing.ec), {"alg": algorithm, "kid": "ec-1"}, b"x" * 64)
    assert await reason(door(), token) == "malformed"


async def test_edwards_signatures_verify_without_a_warning(door: Any, local: Any, signing: Any) -> None:
    local.publish(signing.ed)
    opened = door(algorithms=("EdDSA",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await opened.verifier.verify(local.mint(signing.ed))
    assert await reason(door(algorithms=("Ed25519",)), local.mint(signing.ed)) == "algorithm"


async def test_keys_that_the_token_brings_along_are_ignored(door: Any, local: Any, signing: Any) -> None:
    attacker = signing.renamed(signing.other_ec, "ec-1")
    elsewhere = local.url.replace("jwks.json", "elsewhere.json")
    brought = {"jku": elsewhere, "x5u": elsewhere, "jwk": attacker.as_dict(private=False), "x5c": ["AAAA"]}
    opened = door()
    for name, value in brought.items():
        assert await reason(opened, local.mint(attacker, header={name: value})) == "signature"
        assert await opened.verifier.verify(local.mint(signing.ec, header={name: value}))
    assert local.elsewhere == 0


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"], "exp": 1},
        {"crit": ["b64"], "b64": True},
        {"crit": ["unknown"]},
        {"crit": []},
        {"crit": "kid"},
        {"crit": None},
        {"crit": 7},
        {"b64": True},
    ],
)
async def test_a_critical_extension_is_refused_because_none_is_understood(
    door: Any, local: Any, signing: Any, header: dict[str, Any]
) -> None:
    token = forged(local.mint(signing.ec), {"alg": "ES256", "kid": "ec-1", **header}, b"x" * 64)
    assert await reason(door(), token) == "critical_header"


async def test_an_unknown_header_that_is_not_critical_is_ignored(door: Any, local: Any, signing: Any) -> None:
    assert await door().verifier.verify(local.mint(signing.ec, header={"x-issuer": "anything"}))


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt", None])
async def test_access_tokens_name_their_type_or_none(door: Any, local: Any, signing: Any, kind: str | None) -> None:
    assert await door().verifier.verify(local.mint(signing.ec, header={"typ": kind}))


@pytest.mark.parametrize("kind", ["dpop+jwt", "logout+jwt", "secevent+jwt", "kb+jwt", ""])
async def test_a_token_that_was_signed_for_something_else_is_refused(
    door: Any, local: Any, signing: Any, kind: str
) -> None:
    assert await reason(door(), local.mint(signing.ec, header={"typ": kind})) == "token_type"


async def test_a_missing_kid_is_good_only_while_one_key_can_be_meant(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    token = local.mint(signing.ec, header={"kid": None})
    local.publish(signing.ec, signing.rsa)
    assert await opened.verifier.verify(token)
    local.publish(signing.ec, signing.other_ec)
    await opened.source.refresh()
    assert await reason(opened, token) == "unknown_key"


async def test_a_foreign_key_under_an_unknown_kid_is_refused(door: Any, local: Any, signing: Any) -> None:
    assert await reason(door(), local.mint(signing.other_ec)) == "unknown_key"


async def test_random_kids_cost_one_fetch_in_each_cool_down(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    await opened.source.refresh()
    for number in range(100):
        assert await reason(opened, local.mint(signing.other_ec, header={"kid": f"k{number}"})) == "unknown_key"
    assert local.fetches == 2


async def test_bad_signatures_cost_one_fetch_in_each_cool_down(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    await opened.source.refresh()
    attacker = signing.renamed(signing.other_ec, "ec-1")
    for number in range(100):
        assert await reason(opened, local.mint(attacker, {"jti": str(number)})) == "signature"
    assert local.fetches == 2


async def test_key_material_that_was_swapped_under_one_kid_is_found(
    door: Any, local: Any, signing: Any, clock: Any
) -> None:
    opened = door()
    old = local.mint(signing.ec)
    await opened.verifier.verify(old)
    swapped = signing.renamed(signing.other_ec, "ec-1")
    local.publish(swapped)
    assert await opened.verifier.verify(local.mint(swapped))
    assert local.fetches == 2
    clock.advance(30)
    assert await reason(opened, old) == "signature"


async def test_a_token_is_forgotten_when_its_key_vanishes(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    token = local.mint(signing.ec)
    await opened.verifier.verify(token)
    local.publish(signing.other_ec)
    await opened.source.refresh()
    assert await reason(opened, token) == "unknown_key"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"iss": "https://other.supabase.co/auth/v1"}, "issuer"),
        ({"iss": "https://project.supabase.co/auth/v1/"}, "issuer"),
        ({"iss": "HTTPS://project.supabase.co/auth/v1"}, "issuer"),
        ({"iss": ["https://project.supabase.co/auth/v1"]}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"exp": None}, "no_expiry"),
        ({"exp": "1900000000"}, "no_expiry"),
        ({"exp": True}, "no_expiry"),
        ({"exp": float("nan")}, "no_expiry"),
        ({"exp": float("inf")}, "no_expiry"),
        ({"exp": 10**400}, "no_expiry"),
        ({"exp": -1}, "no_expiry"),
        ({"nbf": "soon"}, "claims"),
        ({"sub": None}, "subject"),
        ({"sub": ""}, "subject"),
        ({"sub": 7}, "subject"),
        ({"sub": "a\nb"}, "subject"),
        ({"sub": "a" * 513}, "subject"),
        ({"aud": {"authenticated": 1}}, "claims"),
        ({"aud": ["authenticated", 7]}, "claims"),
        ({"scope": 7}, "claims"),
        ({"scope": [7]}, "claims"),
        ({"scope": " ".join(str(n) for n in range(300))}, "claims"),
        ({"client_id": 7}, "claims"),
        ({"client_id": "a" * 513}, "claims"),
        ({"mcp": {"server": "main"}}, "minted"),
        ({"mcp": False}, "minted"),
        ({"nonce": "n"}, "id_token"),
        ({"at_hash": "h"}, "id_token"),
        ({"c_hash": "h"}, "id_token"),
        ({"typ": "ID"}, "id_token"),
        ({"token_use": "id"}, "id_token"),
        ({"typ": "Refresh"}, "token_type"),
        ({"act": None, "sub": "u"}, "actor"),
    ],
)
async def test_claims_that_no_access_token_for_us_has_are_refused(
    door: Any, local: Any, signing: Any, claims: dict[str, Any], expected: str
) -> None:
    token = local.mint(signing.ec, claims)
    if claims.get("act", "") is None:  # the minting helper leaves None out
        payload = encoded({"act": None, **json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))})
        token = resigned(signing.ec, token.split(".")[0], payload)
    assert await reason(door(), token) == expected


def resigned(key: Any, header: str, payload: str) -> str:
    from joserfc.jws import JWSRegistry

    signature = JWSRegistry.algorithms["ES256"].sign(f"{header}.{payload}".encode(), key)
    return f"{header}.{payload}.{encoded(signature)}"


@pytest.mark.parametrize(
    "act",
    [
        "agent",
        [],
        7,
        {},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\r\nb"},
        {"sub": "a", "iss": 7},
        {"sub": "a", "client_id": []},
        {"sub": "a", "act": "b"},
        {"sub": "a", "act": {"iss": "https://i"}},
    ],
)
async def test_a_malformed_act_chain_is_refused(door: Any, local: Any, signing: Any, act: Any) -> None:
    assert await reason(door(), local.mint(signing.ec, {"act": act})) == "actor"


async def test_the_act_chain_has_a_bounded_depth(door: Any, local: Any, signing: Any) -> None:
    act: dict[str, Any] = {"sub": "first"}
    for number in range(8):
        act = {"sub": f"agent-{number}", "act": act}
    opened = door()
    assert await reason(opened, local.mint(signing.ec, {"act": act})) == "actor"
    assert len((await opened.verifier.verify(local.mint(signing.ec, {"act": act["act"]}))).actors) == 8


async def test_time_is_judged_with_leeway_and_without_mercy_beyond_it(
    door: Any, local: Any, signing: Any, clock: Any
) -> None:
    opened = door(leeway=60)
    now = int(clock.now)
    assert await opened.verifier.verify(local.mint(signing.ec, {"exp": now - 30}))
    assert await reason(opened, local.mint(signing.ec, {"exp": now - 60})) == "expired"
    assert await opened.verifier.verify(local.mint(signing.ec, {"nbf": now + 30}))
    assert await reason(opened, local.mint(signing.ec, {"nbf": now + 90})) == "not_yet_valid"
    assert await opened.verifier.verify(local.mint(signing.ec, {"iat": now + 30}))


async def test_an_expired_token_is_answered_as_expired(door: Any, local: Any, signing: Any, clock: Any) -> None:
    with pytest.raises(TokenExpired):
        await door().verifier.verify(local.mint(signing.ec, {"exp": int(clock.now) - 31}))


async def test_what_is_remembered_does_not_outlive_the_token(door: Any, local: Any, signing: Any, clock: Any) -> None:
    opened = door(leeway=0)
    token = local.mint(signing.ec, {"exp": int(clock.now) + 10})
    for _ in range(3):
        await opened.verifier.verify(token)
    clock.advance(9)
    await opened.verifier.verify(token)
    assert opened.lookups == [False, True, True, True]
    clock.advance(1)
    assert await reason(opened, token) == "expired"


async def test_within_the_leeway_after_expiry_nothing_is_remembered(
    door: Any, local: Any, signing: Any, clock: Any
) -> None:
    opened = door(leeway=30)
    token = local.mint(signing.ec, {"exp": int(clock.now) + 10})
    await opened.verifier.verify(token)
    clock.advance(20)
    await opened.verifier.verify(token)
    await opened.verifier.verify(token)
    assert opened.lookups == [False, False, False]


async def test_a_token_is_verified_again_after_a_minute(door: Any, local: Any, signing: Any, clock: Any) -> None:
    opened = door()
    token = local.mint(signing.ec)
    await opened.verifier.verify(token)
    clock.advance(59)
    await opened.verifier.verify(token)
    clock.advance(1)
    await opened.verifier.verify(token)
    assert opened.lookups == [False, True, False]


async def test_the_cache_is_bounded_and_bad_tokens_push_nothing_out(door: Any, local: Any, signing: Any) -> None:
    opened = door(capacity=2)
    good = local.mint(signing.ec)
    await opened.verifier.verify(good)
    attacker = signing.renamed(signing.other_ec, "ec-1")
    for number in range(10):
        await reason(opened, local.mint(attacker, {"jti": str(number)}))
    await opened.verifier.verify(good)
    assert opened.lookups[-1] is True
    for number in range(2):
        await opened.verifier.verify(local.mint(signing.ec, {"jti": str(number)}))
    await opened.verifier.verify(good)
    assert opened.lookups[-1] is False


async def test_a_remembered_payload_does_not_vouch_for_another_signature(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    token = local.mint(signing.ec)
    await opened.verifier.verify(token)
    header, payload, _ = token.split(".")
    assert await reason(opened, f"{header}.{payload}.{encoded(b'x' * 64)}") == "signature"


@pytest.mark.parametrize(
    "token",
    [
        "abc",
        "a.b.c",
        "..",
        "a.b.c.d.e",
        "eyJhbGciOiJFUzI1NiJ9..",
        f"{encoded(b'[1]')}.e30.AAAA",
        f"{encoded(b'7')}.e30.AAAA",
        f"{encoded(b'null')}.e30.AAAA",
        f'{encoded(b"""["alg"]""")}.e30.AAAA',
        f'{encoded(b"""{"kid":"ec-1"}""")}.e30.AAAA',
        f'{encoded(b"""{"alg":"ES256","kid":7}""")}.e30.AAAA',
        f'{encoded(b"""{"alg":"ES256","b64":false}""")}.e30.AAAA',
        f'{encoded(b"""{"alg":"ES256","jku":"file:///etc/passwd"}""")}.e30.AAAA',
        f"{encoded(b'[' * 2000)}.e30.AAAA",
        "\u00e4.\u00e4.\u00e4",
    ],
)
async def test_what_is_no_jws_is_refused_before_any_key_is_asked_for(door: Any, local: Any, token: str) -> None:
    assert await reason(door(), token) == "malformed"
    assert local.fetches == 0


async def test_oversize_parts_are_refused_before_they_are_decoded(door: Any, local: Any, signing: Any) -> None:
    opened = door()
    header, payload, signature = local.mint(signing.ec).split(".")
    assert await reason(opened, "a" * (MAX_TOKEN_BYTES + 1)) == "oversize"
    assert await reason(opened, f"{encoded({'alg': 'ES256', 'x': 'x' * 4096})}.{payload}.{signature}") == "oversize"
    assert await reason(opened, f"{header}.{payload}.{'A' * 2000}") == "oversize"
    assert local.fetches == 0


@pytest.mark.parametrize("payload", [b"[]", b"7", b"not json", b"", b"[" * 5000, b"\xff\xfe"])
async def test_a_signed_payload_that_is_no_object_is_refused(
    door: Any, local: Any, signing: Any, payload: bytes
) -> None:
    token = resigned(signing.ec, local.mint(signing.ec).split(".")[0], encoded(payload))
    assert await reason(door(), token) == "malformed"


async def test_without_keys_nothing_is_refused_and_nothing_accepted(door: Any, local: Any, signing: Any) -> None:
    local.keys = []
    with pytest.raises(KeysUnavailable):
        await door().verifier.verify(local.mint(signing.ec))


@given(st.lists(st.text(max_size=80), min_size=1, max_size=5), st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
async def test_no_bytes_raise_anything_but_a_refusal(door: Any, parts: list[str], raw: bytes) -> None:
    opened = door()
    for token in (".".join(parts), f"{encoded(raw)}.e30.AAAA", f"{encoded(b'{' + raw)}.{encoded(raw)}.{encoded(raw)}"):
        with pytest.raises(TokenRefused):
            await opened.verifier.verify(token)
