"""The wire contract between the gateway and a plugin: the signed, per-request context.

The gateway signs with `ContextSigner`, a plugin verifies with `ContextVerifier`. Nothing here imports the MCP SDK
or Supabase, so the gateway pays for neither.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import Key, KeySet, OctKey, OKPKey

from rowgate_plugin.claims import (
    ACCEPTED_VERSIONS,
    CONTEXT_VERSION,
    Actor,
    Context,
    ContextError,
    ContextKind,
    Reason,
    Statement,
    nest,
    read_context,
    read_object,
)
from rowgate_plugin.replay import ReplayGuard

__all__ = [
    "ACCEPTED_VERSIONS",
    "CONTEXT_HEADER",
    "CONTEXT_TYPE",
    "CONTEXT_VERSION",
    "CREDENTIAL_HEADER",
    "CREDENTIAL_REFUSED",
    "GATEWAY_METHODS",
    "HEADER_NAMESPACE",
    "JWKS_PATH",
    "MAX_LIFETIME",
    "MAX_TOKEN_BYTES",
    "MIN_SECRET_BYTES",
    "Actor",
    "Context",
    "ContextError",
    "ContextKind",
    "ContextSigner",
    "ContextVerifier",
    "Reason",
    "Statement",
    "check_key",
    "digest",
    "public_jwks",
    "secret_key",
]

HEADER_NAMESPACE = "rowgate-"
"""Prefix, in lower case, of every header that belongs to this contract. None of them crosses from a client."""
CONTEXT_HEADER = "Rowgate-Context"
CONTEXT_TYPE = "rowgate-context+jwt"
"""The JOSE `typ` (RFC 8725 §3.11): no other token that the same key may sign passes for a context."""
JWKS_PATH = "/context/jwks.json"

CREDENTIAL_HEADER = "Rowgate-Credential"
CREDENTIAL_REFUSED = "refused"
"""A plugin's answer carries `Rowgate-Credential: refused` when Supabase refused the caller's credential during the
request, so that the gateway can challenge its client instead of reporting a failed tool."""

MAX_LIFETIME = 300
"""Seconds between `iat` and `exp` that a verifier accepts at most."""
MAX_TOKEN_BYTES = 32 * 1024
MIN_SECRET_BYTES = 32

GATEWAY_METHODS = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)
"""What a context of kind `gateway` may ask."""

_ALGORITHMS = {"OKP": "EdDSA", "oct": "HS256"}
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_HEADER_MEMBERS = frozenset({"alg", "kid", "typ"})


def digest(data: bytes) -> str:
    """SHA-256 as base64url without padding."""
    return _segment(hashlib.sha256(data).digest()).decode()


def secret_key(secret: str | bytes) -> OctKey:
    """The HS256 key of a shared secret; `ValueError` below 32 bytes. Both sides derive the same `kid` from it."""
    raw = secret.encode() if isinstance(secret, str) else secret
    if len(raw) < MIN_SECRET_BYTES:
        raise ValueError(f"a context secret needs at least {MIN_SECRET_BYTES} bytes")
    key = OctKey.import_key(raw)
    key.ensure_kid()
    return key


def check_key(key: Key) -> None:
    """`ValueError` unless the key is one that contexts are signed with: OKP on Ed25519, or oct of 32 bytes and more."""
    if isinstance(key, OKPKey) and key.curve_name == "Ed25519":
        return
    if isinstance(key, OctKey) and len(key.raw_value) >= MIN_SECRET_BYTES:
        return
    raise ValueError("a context key is an OKP key on Ed25519, or an oct key of at least 32 bytes")


def public_jwks(keys: Iterable[Key]) -> dict[str, list[dict[str, Any]]]:
    """The document served at `JWKS_PATH`: public members only, and no symmetric key at all."""
    published: list[dict[str, Any]] = []
    for key in keys:
        if isinstance(key, OKPKey):
            key.ensure_kid()
            published.append({**key.as_dict(private=False), "alg": "EdDSA", "use": "sig"})
    return {"keys": published}


class ContextSigner:
    """Signs one context a request. It is on the hot path of the gateway, so the key is read once, and what it says of a
    caller may be kept."""

    def __init__(
        self,
        key: Key,
        *,
        issuer: str,
        lifetime: int = 60,
        clock: Callable[[], float] = time.time,
        token: Callable[[], str] = lambda: secrets.token_urlsafe(16),
        encode: Callable[[Mapping[str, Any]], bytes] | None = None,
        signature: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`token` makes a new `jti` of at least 128 random bits each time. `encode` writes compact JSON and
        `signature` signs with this very key, where the ways of the library itself are too slow."""
        check_key(key)
        if not 0 < lifetime <= MAX_LIFETIME:
            raise ValueError(f"a context lives for 1 to {MAX_LIFETIME} seconds")
        key.ensure_kid()
        self.issuer = issuer
        self._lifetime = lifetime
        self._clock = clock
        self._token = token
        self._encode = encode or _compact_json
        self._signature = signature or _signature_of(key)
        header = {"alg": _ALGORITHMS[key.key_type], "kid": key.kid, "typ": CONTEXT_TYPE}
        self._header = _segment(_compact_json(header)) + b"."

    def state(
        self,
        *,
        kind: ContextKind,
        credential: str | None,
        sub: str | None = None,
        client_id: str | None = None,
        scope: Iterable[str] = (),
        email: str | None = None,
        role: str | None = None,
        session_id: str | None = None,
        aal: str | None = None,
        act: Iterable[Actor] = (),
        claims: Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Statement:
        """What stays the same in all requests of one caller with one bearer token; `ValueError` for what no verifier
        takes."""
        ath = None if credential is None else digest(credential.encode())
        _check_kind(kind, sub=sub, ath=ath)
        members = {
            "ver": CONTEXT_VERSION,
            "iss": self.issuer,
            "kind": kind,
            "sub": sub,
            "client_id": client_id,
            "scope": " ".join(sorted(scope)),
            "email": email,
            "role": role,
            "session_id": session_id,
            "aal": aal,
            "act": nest(act),
            "claims": dict(claims) if claims else None,
            "grant": dict(grant) if grant is not None else None,
            "ath": ath,
        }
        return Statement(kind, self._encode({member: value for member, value in members.items() if value is not None}))

    def sign(self, *, audience: str, body: bytes, server: str, method: str, request_id: str, **said: Any) -> str:
        """Both halves at once: beside these what `state` and `sign_stated` take."""
        half = {member: said.pop(member) for member in ("name", "trace_id", "run") if member in said}
        return self.sign_stated(
            self.state(**said),
            audience=audience,
            body=body,
            server=server,
            method=method,
            request_id=request_id,
            **half,
        )

    def sign_stated(
        self,
        caller: Statement,
        *,
        audience: str,
        body: bytes,
        server: str,
        method: str,
        request_id: str,
        name: str | None = None,
        trace_id: str | None = None,
        run: str | None = None,
    ) -> str:
        """The header's value for this very body; `ValueError` for what no verifier takes."""
        _check_method(caller.kind, method)
        issued = int(self._clock())
        members: dict[str, Any] = {
            "aud": audience,
            "iat": issued,
            "exp": issued + self._lifetime,
            "jti": self._token(),
            "server": server,
            "method": method,
            "request_id": request_id,
            "digest": digest(body),
        }
        optional = {"name": name, "trace_id": trace_id, "run": run}
        members |= {member: value for member, value in optional.items() if value is not None}
        # One object of two halves: most of it is the caller's, and was encoded when the caller came.
        payload = caller.members[:-1] + b"," + self._encode(members)[1:]
        # Assembled here because joserfc encodes the constant header and looks the key up again for every token;
        # a test decodes what comes out with joserfc.
        signing_input = self._header + _segment(payload)
        return (signing_input + b"." + _segment(self._signature(signing_input))).decode()


class ContextVerifier:
    """Verifies the contexts that reach one plugin process; keeps the `jti` of those that it accepted."""

    def __init__(
        self,
        keys: KeySet | Callable[[], KeySet],
        *,
        audience: str,
        issuer: str | None = None,
        clock: Callable[[], float] = time.time,
        leeway: int = 5,
        replay_capacity: int = 131_072,
    ) -> None:
        if not audience:
            raise ValueError("a verifier needs the name of its plugin")
        self.audience = audience
        self._keys: Callable[[], KeySet] = (lambda: keys) if isinstance(keys, KeySet) else keys
        self._issuer = issuer
        self._clock = clock
        self._leeway = leeway
        self._seen = ReplayGuard(replay_capacity)

    def verify(self, token: str | None, *, body: bytes, authorization: str | None) -> Context:
        """The context of a request; `ContextError` when anything about it does not hold.

        `authorization` is the value of that header. The `jti` is spent last, so that a tampered copy of a context
        cannot use up the original.
        """
        now = self._clock()
        context = read_context(self._open(token))
        self._check_parties(context)
        self._check_times(context, now)
        try:
            _check_kind(context.kind, sub=context.sub, ath=context.ath)
            _check_method(context.kind, context.method)
        except ValueError:
            raise ContextError("kind") from None
        if not hmac.compare_digest(context.digest.encode(), digest(body).encode()):
            raise ContextError("digest")
        if not _credential_matches(context.ath, authorization):
            raise ContextError("credential")
        self._spend(context, now)
        return context

    def _open(self, token: str | None) -> dict[str, Any]:
        if not token:
            raise ContextError("missing")
        if len(token) > MAX_TOKEN_BYTES:
            raise ContextError("malformed")
        try:
            signed = jws.extract_compact(token.encode("ascii"))
        except (JoseError, ValueError, TypeError, AttributeError):
            raise ContextError("malformed") from None
        header = signed.headers()
        # joserfc lets a list or string pass that contains the word `alg`.
        if not isinstance(header, dict) or set(header) - _HEADER_MEMBERS or header.get("typ") != CONTEXT_TYPE:
            raise ContextError("malformed")
        key = self._key(header.get("kid"))
        if header["alg"] != _ALGORITHMS.get(key.key_type):
            raise ContextError("algorithm")
        if not _signature_holds(signed, key):
            raise ContextError("signature")
        return read_object(signed.payload)

    def _key(self, kid: object) -> Key:
        for key in self._keys():
            if key.kid == kid:
                return key
        raise ContextError("unknown_key")

    def _check_parties(self, context: Context) -> None:
        if self._issuer is not None and context.iss != self._issuer:
            raise ContextError("issuer")
        if context.aud != self.audience:
            raise ContextError("audience")

    def _check_times(self, context: Context, now: float) -> None:
        if not 0 < context.exp - context.iat <= MAX_LIFETIME:
            raise ContextError("lifetime")
        if context.iat > now + self._leeway:
            raise ContextError("not_yet_valid")
        if context.exp <= now - self._leeway:
            raise ContextError("expired")

    def _spend(self, context: Context, now: float) -> None:
        outcome = self._seen.spend(context.jti, until=context.exp + self._leeway, now=now)
        if outcome != "fresh":
            raise ContextError(outcome)


class _Registry(jws.JWSRegistry):
    """Only our two algorithms, chosen by the caller; without the warning that joserfc gives for the name `EdDSA`.

    RFC 9864 prefers `Ed25519`, but the JOSE libraries of other languages know `EdDSA`, and the key fixes the curve.
    """

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in _ALGORITHMS.values():
            raise UnsupportedAlgorithmError(name)
        return self.algorithms[name]


_REGISTRY = _Registry()


def _signature_holds(signed: jws.CompactSignature, key: Key) -> bool:
    try:
        check_key(key)
        return jws.validate_compact(signed, key, registry=_REGISTRY)
    except (JoseError, ValueError):
        return False


def _credential_matches(ath: str | None, authorization: str | None) -> bool:
    if ath is None or authorization is None:
        return ath is None and authorization is None
    scheme, _, credential = authorization.partition(" ")
    if scheme.lower() != "bearer" or not credential:
        return False
    return hmac.compare_digest(ath.encode(), digest(credential.encode()).encode())


def _check_kind(kind: ContextKind, *, sub: str | None, ath: str | None) -> None:
    if kind == "gateway" and (sub is not None or ath is not None):
        raise ValueError("a gateway's own context names no subject and carries no credential")
    if kind in ("user", "application") and not sub:
        raise ValueError(f"a context of kind {kind} names its subject")


def _check_method(kind: ContextKind, method: str) -> None:
    if kind == "gateway" and method not in GATEWAY_METHODS:
        raise ValueError("a gateway's own context only lists")


def _signature_of(key: Key) -> Callable[[bytes], bytes]:
    if isinstance(key, OctKey):
        secret = key.raw_value
        return lambda data: hmac.digest(secret, data, "sha256")
    if isinstance(key, OKPKey) and isinstance(key.private_key, Ed25519PrivateKey):
        return key.private_key.sign
    raise ValueError("a context is signed with a private key")


def _segment(data: bytes) -> bytes:
    # What base64.urlsafe_b64encode does, without its three calls: four segments are made for each request.
    return binascii.b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=")


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _compact_json(value: Any) -> bytes:
    return _encode(value).encode()
