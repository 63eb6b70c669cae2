from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, Key, KeySet, OctKey, OKPKey
from signed_contexts import (
    BODY,
    ISSUER,
    KEY,
    NOW,
    SECRET,
    TOKEN,
    Clock,
    decode,
    encode,
    refused,
    resign,
    sign,
    verifier,
    verify,
)

from rowgate_plugin.contract import (
    CONTEXT_TYPE,
    GATEWAY_METHODS,
    MAX_LIFETIME,
    Actor,
    ContextError,
    ContextSigner,
    digest,
    public_jwks,
    secret_key,
)


def test_a_context_arrives_as_it_was_signed() -> None:
    token = sign(
        client_id="claude",
        scope=["notes:read", "notes:write"],
        email="alice@example.com",
        role="authenticated",
        session_id="s1",
        aal="aal1",
        act=[Actor("agent", client_id="claude"), Actor("host", "https://host.example")],
        trace_id="t1",
        claims={"org": 7},
        grant={"workspace": "w1"},
        run="run1",
    )
    context = verify(token)
    assert context.scope == {"notes:read", "notes:write"}
    assert context.act == (Actor("agent", client_id="claude"), Actor("host", "https://host.example"))
    assert (context.sub, context.client_id, context.email, context.role) == (
        "alice",
        "claude",
        "alice@example.com",
        "authenticated",
    )
    assert (context.session_id, context.aal, context.trace_id, context.run) == ("s1", "aal1", "t1", "run1")
    assert (context.server, context.method, context.name) == ("main", "tools/call", "search_notes")
    assert context.claims == {"org": 7}
    assert context.grant == {"workspace": "w1"}
    assert (context.iat, context.exp) == (NOW, NOW + 60)
    assert context.digest == digest(BODY)
    assert context.ath == digest(TOKEN.encode())


def test_joserfc_reads_what_the_signer_assembles() -> None:
    for key in (KEY, SECRET):
        algorithm = "HS256" if isinstance(key, OctKey) else "Ed25519"
        token = sign(key)
        signed = jws.extract_compact(token.encode())
        assert signed.headers() == {
            "alg": "EdDSA" if algorithm == "Ed25519" else "HS256",
            "kid": key.kid,
            "typ": CONTEXT_TYPE,
        }
        # joserfc warns about the older name of the same algorithm, so it checks the signature under the newer.
        signed.protected["alg"] = algorithm
        assert jws.validate_compact(signed, key, algorithms=[algorithm])


def test_the_act_chain_is_nested_on_the_wire() -> None:
    payload = decode(sign(act=[Actor("now"), Actor("before", "https://i")]).split(".")[1])
    assert payload["act"] == {"sub": "now", "act": {"sub": "before", "iss": "https://i"}}


def test_absent_members_are_not_on_the_wire() -> None:
    payload = decode(sign(credential=None).split(".")[1])
    assert not {"ath", "email", "act", "grant", "claims", "run", "trace_id"} & set(payload)


def test_every_context_has_a_fresh_jti() -> None:
    signer = ContextSigner(KEY, issuer=ISSUER)
    arguments: dict[str, Any] = {
        "audience": "notes",
        "body": b"",
        "credential": None,
        "kind": "public",
        "server": "main",
        "method": "tools/call",
        "request_id": "r",
    }
    tokens = {decode(signer.sign(**arguments).split(".")[1])["jti"] for _ in range(50)}
    assert len(tokens) == 50


def test_a_shared_secret_works_on_both_sides() -> None:
    assert verify(sign(SECRET), verifier(KeySet([secret_key(b"s" * 32)]))).sub == "alice"


def test_during_rotation_both_keys_hold() -> None:
    following = OKPKey.generate_key("Ed25519")
    both = verifier(KeySet([KEY, following]))
    assert verify(sign(KEY), both).sub == verify(sign(following), both).sub == "alice"


@pytest.mark.parametrize("token", [None, ""])
def test_no_context_is_missing(token: str | None) -> None:
    assert refused(token) == "missing"


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "a.b",
        "a.b.c.d",
        "..",
        "e30.e30.e30",
        f"{encode(['alg'])}.e30.e30",
        f"{encode('alg')}.e30.e30",
        "ü.e30.e30",
        "a" * 40_000,
        "e30..x",
    ],
)
def test_what_is_no_compact_jws_is_malformed(token: str) -> None:
    assert refused(token) == "malformed"


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "JWT"},
        {"typ": None},
        {"jku": "https://evil.example/jwks"},
        {"jwk": KEY.as_dict(private=False)},
        {"crit": ["b64"], "b64": False},
        {"x5c": ["x"]},
    ],
)
def test_a_header_that_says_more_than_a_context_needs_is_malformed(header: dict[str, Any]) -> None:
    assert refused(resign(sign(), header)) == "malformed"


@pytest.mark.parametrize(
    "members",
    [
        {"jti": ""},
        {"jti": 1},
        {"sub": 5},
        {"iat": str(NOW)},
        {"exp": NOW + 1.5},
        {"exp": True},
        {"scope": ["a"]},
        {"kind": "root"},
        {"kind": ["user"]},
        {"act": {"iss": "no subject"}},
        {"act": ["x"]},
        {"claims": []},
        {"grant": "w"},
        {"digest": ...},
        {"server": ...},
        {"aud": ["notes"]},
    ],
)
def test_a_member_of_another_shape_is_malformed(members: dict[str, Any]) -> None:
    assert refused(resign(sign(), **members)) == "malformed"


def test_a_signed_payload_that_is_no_object_is_malformed() -> None:
    protected = sign().split(".")[0]
    for payload in (b"[]", b"{", b"\xff", b"[" * 5000):
        signing_input = f"{protected}.{encode(payload)}"
        assert refused(f"{signing_input}.{encode(KEY.private_key.sign(signing_input.encode()))}") == "malformed"


def test_a_stranger_s_key_is_unknown() -> None:
    assert refused(sign(OKPKey.generate_key("Ed25519"))) == "unknown_key"
    assert refused(resign(sign(), {"kid": ["x"]})) == "unknown_key"


def test_a_stranger_s_key_under_a_trusted_kid_does_not_sign() -> None:
    stranger = OKPKey.import_key({**OKPKey.generate_key("Ed25519").as_dict(private=True), "kid": KEY.kid})
    assert refused(sign(stranger)) == "signature"


def test_the_public_key_is_no_shared_secret() -> None:
    public = KEY.public_key.public_bytes_raw()
    protected, payload, _ = sign().split(".")
    signing_input = f"{encode({**decode(protected), 'alg': 'HS256'})}.{payload}"
    forged = f"{signing_input}.{encode(hmac.digest(public, signing_input.encode(), 'sha256'))}"
    assert refused(forged) == "algorithm"


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256", "ES256", "Ed448", "Ed25519", "", None, 5])
def test_the_key_and_not_the_header_chooses_the_algorithm(algorithm: Any) -> None:
    token = resign(sign(), {"alg": algorithm})
    assert refused(token) == "algorithm"
    assert refused(f"{token.rsplit('.', 1)[0]}.") == "algorithm"


def test_a_secret_too_short_verifies_nothing() -> None:
    short = OctKey.import_key(b"k" * 16, {"kid": "short"})
    header = {"alg": "HS256", "kid": "short", "typ": CONTEXT_TYPE}
    signing_input = f"{encode(header)}.{sign().split('.')[1]}"
    forged = f"{signing_input}.{encode(hmac.digest(b'k' * 16, signing_input.encode(), hashlib.sha256))}"
    assert refused(forged, verifier(KeySet([short]))) == "signature"


def test_a_changed_payload_does_not_hold() -> None:
    protected, payload, signature = sign().split(".")
    assert refused(f"{protected}.{encode({**decode(payload), 'sub': 'bob'})}.{signature}") == "signature"
    assert refused(f"{protected}.{payload}.") == "signature"


@pytest.mark.parametrize("version", [0, 2, "1", 1.0, True, None, ...])
def test_another_version_is_refused_before_it_is_read(version: Any) -> None:
    assert refused(resign(sign(), ver=version, kind="something new")) == "version"


def test_another_gateway_is_refused() -> None:
    assert refused(resign(sign(), iss=ISSUER + "/")) == "issuer"


def test_a_context_for_another_plugin_is_refused() -> None:
    assert refused(sign(audience="billing")) == "audience"


def test_a_context_that_lives_too_long_is_refused() -> None:
    assert refused(resign(sign(), exp=NOW + MAX_LIFETIME + 1)) == "lifetime"
    assert refused(resign(sign(), exp=NOW)) == "lifetime"
    assert verify(sign(lifetime=MAX_LIFETIME)).exp == NOW + MAX_LIFETIME


def test_time_has_an_edge_on_both_sides() -> None:
    assert verify(sign(), verifier(clock=Clock(NOW - 5))).iat == NOW
    assert refused(sign(), verifier(clock=Clock(NOW - 5.1))) == "not_yet_valid"
    assert verify(sign(), verifier(clock=Clock(NOW + 64.9))).exp == NOW + 60
    assert refused(sign(), verifier(clock=Clock(NOW + 65))) == "expired"


def test_another_body_is_refused() -> None:
    assert refused(sign(), body=BODY + b" ") == "digest"
    assert refused(sign(), body=b"") == "digest"
    assert refused(resign(sign(), digest="ü"), body=BODY) == "digest"


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", "Bearer other"])
def test_another_credential_is_refused(authorization: str | None) -> None:
    assert refused(sign(), authorization=authorization) == "credential"


def test_a_credential_that_the_context_does_not_name_is_refused() -> None:
    assert refused(sign(credential=None)) == "credential"
    assert verify(sign(credential=None), authorization=None).ath is None


@pytest.mark.parametrize(
    "members",
    [
        {"kind": "gateway", "sub": "alice", "ath": ..., "method": "tools/list"},
        {"kind": "gateway", "sub": ..., "method": "tools/list"},
        {"kind": "gateway", "sub": ..., "ath": ..., "method": "tools/call"},
        {"kind": "gateway", "sub": ..., "ath": ..., "method": "resources/read"},
        {"kind": "user", "sub": ...},
        {"kind": "user", "sub": ""},
        {"kind": "application", "sub": ...},
    ],
)
def test_a_kind_may_only_what_it_is_for(members: dict[str, Any]) -> None:
    assert refused(resign(sign(), **members), authorization=None) == "kind"


@pytest.mark.parametrize("method", sorted(GATEWAY_METHODS))
def test_the_gateway_itself_lists_without_a_subject(method: str) -> None:
    token = sign(kind="gateway", sub=None, credential=None, method=method, name=None)
    assert verify(token, authorization=None).sub is None


@pytest.mark.parametrize(
    "members",
    [
        {"kind": "gateway", "credential": None},
        {"kind": "gateway", "sub": None, "method": "tools/list"},
        {"kind": "gateway", "sub": None, "credential": None},
        {"kind": "user", "sub": None},
        {"kind": "application", "sub": ""},
    ],
)
def test_the_signer_signs_nothing_that_no_verifier_takes(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        sign(**members)


def test_a_context_does_not_show_what_is_personal() -> None:
    context = verify(sign(email="alice@example.com", session_id="sess-1", claims={"phone": "555"}, grant={"w": "g9"}))
    for hidden in ("alice@example.com", "sess-1", "555", "g9", TOKEN):
        assert hidden not in repr(context)


def test_a_refusal_shows_nothing_of_the_token() -> None:
    with pytest.raises(ContextError) as caught:
        verify(sign(audience="billing"))
    assert str(caught.value) == "audience"


@pytest.mark.parametrize(
    "key",
    [
        OKPKey.import_key(KEY.as_dict(private=False)),
        OKPKey.generate_key("Ed448"),
        OKPKey.generate_key("X25519"),
        ECKey.generate_key("P-256"),
        OctKey.generate_key(248),
    ],
)
def test_a_key_that_cannot_sign_contexts_is_refused_at_once(key: Key) -> None:
    with pytest.raises(ValueError):
        ContextSigner(key, issuer=ISSUER)


@pytest.mark.parametrize("lifetime", [0, -1, MAX_LIFETIME + 1])
def test_a_signer_keeps_to_the_longest_life(lifetime: int) -> None:
    with pytest.raises(ValueError):
        ContextSigner(KEY, issuer=ISSUER, lifetime=lifetime)


def test_the_published_keys_hold_nothing_private() -> None:
    document = public_jwks([KEY, SECRET])
    assert [key["kid"] for key in document["keys"]] == [KEY.kid]
    assert set(document["keys"][0]) == {"kty", "crv", "x", "kid", "alg", "use"}


def test_a_secret_has_at_least_32_bytes() -> None:
    with pytest.raises(ValueError, match="32"):
        secret_key("s" * 31)
    with pytest.raises(ValueError):
        secret_key("")


def test_the_contract_loads_neither_the_sdk_nor_supabase() -> None:
    program = (
        "import sys, rowgate_plugin, rowgate_plugin.contract\n"
        "heavy = {'mcp', 'mcp_types', 'supabase', 'postgrest', 'httpx', 'httpx2', 'starlette', 'pydantic', 'rowgate'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
