"""Test vectors of the context for verifiers in other languages: `python -m rowgate_plugin.vectors` prints them.

The keys are made for this file and protect nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import Key, KeySet, OKPKey

from rowgate_plugin.contract import (
    CONTEXT_HEADER,
    CONTEXT_TYPE,
    CONTEXT_VERSION,
    MAX_LIFETIME,
    Actor,
    Context,
    ContextSigner,
    ContextVerifier,
    Reason,
    digest,
    public_jwks,
    secret_key,
)

PATH = Path(__file__).with_name("vectors.json")
NOW = 1_800_000_000
ISSUER = "https://mcp.example.com"
AUDIENCE = "team-notes"
BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_notes","arguments":{"query":"é"}}}'
CREDENTIAL = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
SECRET = "a-shared-secret-for-test-vectors-only"
LEEWAY = 5

_CLAIMS: dict[str, Any] = {
    "ver": CONTEXT_VERSION,
    "iss": ISSUER,
    "aud": AUDIENCE,
    "iat": NOW,
    "exp": NOW + 60,
    "jti": "vector",
    "kind": "user",
    "sub": "alice",
    "scope": "notes:read",
    "server": "main",
    "method": "tools/call",
    "name": "search_notes",
    "request_id": "0123456789abcdef",
    "digest": digest(BODY.encode()),
    "ath": digest(CREDENTIAL.encode()),
}


def vectors() -> dict[str, Any]:
    signing, stranger = _key(1), _key(2)
    return {
        "header": CONTEXT_HEADER,
        "version": CONTEXT_VERSION,
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "leeway": LEEWAY,
        "jwks": public_jwks([signing]),
        "secret": SECRET,
        "valid": [*_valid(signing)],
        "invalid": [*_invalid(signing, stranger)],
    }


def render() -> str:
    return json.dumps(vectors(), indent=2, ensure_ascii=False) + "\n"


def members(context: Context) -> dict[str, Any]:
    """A verified context as plain JSON, for comparison with a vector."""
    plain = {name: getattr(context, name) for name in Context.__dataclass_fields__}
    plain["scope"] = sorted(context.scope)
    plain["act"] = [asdict(actor) for actor in context.act]
    plain["claims"] = dict(context.claims)
    plain["grant"] = None if context.grant is None else dict(context.grant)
    return plain


def _valid(key: OKPKey) -> list[dict[str, Any]]:
    user: dict[str, Any] = {
        "kind": "user",
        "sub": "alice",
        "method": "tools/call",
        "name": "search_notes",
        "client_id": "claude",
        "scope": ["notes:read", "notes:write"],
        "email": "alice@example.com",
        "role": "authenticated",
        "session_id": "6a8d0f3e",
        "aal": "aal1",
        "act": [Actor("agent", ISSUER, "claude"), Actor("orchestrator")],
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "claims": {"org": "acme"},
        "grant": {"workspace": "w1"},
        "run": "run-1",
    }
    own = {"kind": "gateway", "method": "tools/list"}
    return [
        _signed(key, "a user with everything", CREDENTIAL, user),
        _signed(key, "a user without a credential", None, {"kind": "user", "sub": "alice", "method": "prompts/get"}),
        _signed(key, "an application", None, {"kind": "application", "sub": "key-1", "method": "tools/call"}),
        _signed(key, "the public", None, {"kind": "public", "method": "resources/read", "name": "note://1"}),
        _signed(key, "the gateway itself", None, own),
        _signed(secret_key(SECRET), "HS256 with a shared secret", CREDENTIAL, user),
        {**_signed(key, "just inside the leeway before iat", None, own), "now": NOW - LEEWAY},
        {**_signed(key, "just inside the leeway after exp", None, own), "now": NOW + 60 + LEEWAY - 1},
    ]


def _signed(key: Key, name: str, credential: str | None, said: dict[str, Any]) -> dict[str, Any]:
    signer = ContextSigner(
        key, issuer=ISSUER, clock=lambda: NOW, token=lambda: hashlib.sha256(name.encode()).hexdigest()
    )
    token = signer.sign(
        audience=AUDIENCE,
        body=BODY.encode(),
        credential=credential,
        server="main",
        request_id="0123456789abcdef",
        **said,
    )
    authorization = None if credential is None else f"Bearer {credential}"
    verifier = ContextVerifier(KeySet([key]), audience=AUDIENCE, issuer=ISSUER, clock=lambda: NOW)
    context = verifier.verify(token, body=BODY.encode(), authorization=authorization)
    return {**_request(name, token, authorization), "context": members(context)}


def _invalid(key: OKPKey, stranger: OKPKey) -> list[dict[str, Any]]:
    bearer = f"Bearer {CREDENTIAL}"
    good = _forge(key)
    head, payload, signature = good.split(".")
    as_secret = _forge(key, {"alg": "HS256"}, mac=_public(key))
    lists: dict[str, Any] = {"kind": "gateway", "sub": None, "ath": None, "method": "tools/list"}
    cases: list[tuple[Reason, str, str | None, str | None]] = [
        ("missing", "no header", None, bearer),
        ("malformed", "two segments", f"{head}.{payload}", bearer),
        ("malformed", "another typ", _forge(key, {"typ": "JWT"}), bearer),
        ("malformed", "a key URL in the header", _forge(key, {"jku": "https://evil.example/jwks.json"}), bearer),
        ("malformed", "no jti", _forge(key, jti=None), bearer),
        ("malformed", "exp is text", _forge(key, exp=str(NOW + 60)), bearer),
        ("malformed", "an unknown kind", _forge(key, kind="root"), bearer),
        ("unknown_key", "a stranger's key", _forge(stranger), bearer),
        ("algorithm", "none", f"{_forge(key, {'alg': 'none'}).rsplit('.', 1)[0]}.", bearer),
        ("algorithm", "HS256 with the public key as secret", as_secret, bearer),
        ("signature", "a stranger's signature under the trusted kid", _forge(stranger, {"kid": key.kid}), bearer),
        ("signature", "a changed subject", f"{head}.{_forge(key, sub='bob').split('.')[1]}.{signature}", bearer),
        ("version", "a version from the future", _forge(key, ver=CONTEXT_VERSION + 1), bearer),
        ("issuer", "another gateway", _forge(key, iss=ISSUER + "/"), bearer),
        ("audience", "another plugin", _forge(key, aud="billing"), bearer),
        ("lifetime", "a life too long", _forge(key, exp=NOW + MAX_LIFETIME + 1), bearer),
        ("not_yet_valid", "issued in the future", _forge(key, iat=NOW + LEEWAY + 1), bearer),
        ("expired", "past the leeway", _forge(key, iat=NOW - 65, exp=NOW - LEEWAY), bearer),
        ("kind", "the gateway with a subject", _forge(key, **{**lists, "sub": "alice"}), None),
        ("kind", "the gateway with a credential", _forge(key, **{**lists, "ath": _CLAIMS["ath"]}), bearer),
        ("kind", "the gateway calling a tool", _forge(key, **{**lists, "method": "tools/call"}), None),
        ("kind", "a user without a subject", _forge(key, sub=None), bearer),
        ("digest", "another body", _forge(key, digest=digest(b"{}")), bearer),
        ("credential", "another credential", good, "Bearer other"),
        ("credential", "no credential", good, None),
        ("credential", "a credential that the context does not name", _forge(key, ath=None), bearer),
    ]
    requests = [
        {**_request(name, token, authorization), "reason": reason} for reason, name, token, authorization in cases
    ]
    return [*requests, {**_request("the second use", good, bearer), "verified_before": True, "reason": "replayed"}]


def _request(name: str, token: str | None, authorization: str | None) -> dict[str, Any]:
    return {"name": name, "now": NOW, "body": BODY, "authorization": authorization, "token": token}


def _forge(key: OKPKey, header: dict[str, Any] | None = None, mac: bytes | None = None, **changes: Any) -> str:
    protected = {"alg": "EdDSA", "kid": key.kid, "typ": CONTEXT_TYPE, **(header or {})}
    claims = {name: value for name, value in {**_CLAIMS, **changes}.items() if value is not None}
    signing_input = b".".join(
        _segment(json.dumps(part, separators=(",", ":")).encode()) for part in (protected, claims)
    )
    private = key.private_key
    assert isinstance(private, Ed25519PrivateKey)
    signature = private.sign(signing_input) if mac is None else hmac.digest(mac, signing_input, "sha256")
    return b".".join((signing_input, _segment(signature))).decode()


def _segment(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _public(key: OKPKey) -> bytes:
    private = key.private_key
    assert isinstance(private, Ed25519PrivateKey)
    return private.public_key().public_bytes_raw()


def _key(number: int) -> OKPKey:
    seed = hashlib.sha256(b"rowgate test vectors %d" % number).digest()
    key = OKPKey.import_key(Ed25519PrivateKey.from_private_bytes(seed))
    key.ensure_kid()
    return key


if __name__ == "__main__":
    print(render(), end="")
