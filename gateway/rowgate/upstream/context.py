"""The signed statement of who calls that goes with every request to a plugin, and the keys that it is signed with."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.errors import JoseError
from joserfc.jwk import Key, OctKey, OKPKey, import_key
from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_seed_keypair

from rowgate.auth.principal import Principal
from rowgate.errors import StartError
from rowgate.randomness import Randomness
from rowgate_plugin.contract import Actor, ContextSigner, Statement, check_key, public_jwks


def signing_key(text: str) -> Key:
    """A private JWK, or a PEM file of an Ed25519 private key."""
    key = published_key(text)
    if not key.is_private:
        raise StartError("gateway.context.signing_key is a public key.")
    return key


def published_key(text: str) -> Key:
    """An earlier key: public, or private as it was used."""
    try:
        key: Key = import_key(json.loads(text)) if text.lstrip().startswith("{") else OKPKey.import_key(text)
        check_key(key)
    except (JoseError, ValueError, TypeError):
        # Not chained: the message of a parser may quote a key.
        raise StartError("A key of gateway.context is not a JWK or PEM of an Ed25519 key.") from None
    return key


def ephemeral_key() -> Key:
    return OKPKey.generate_key("Ed25519", auto_kid=True)


class ContextKeys:
    """The key in use and those that are still published, so that two replicas can change theirs one after the other."""

    def __init__(self, signing: Key, previous: Sequence[Key] = ()) -> None:
        self.signing = signing
        published = [key for key in (signing, *previous) if not isinstance(key, OctKey)]
        self.jwks = json.dumps(public_jwks(published)).encode()


class ContextIssuer:
    """States, for one request to one plugin, who calls."""

    def __init__(
        self,
        keys: ContextKeys,
        *,
        issuer: str,
        lifetime: float,
        clock: Callable[[], float] = time.time,
        mint: Callable[[], str] | None = None,
    ) -> None:
        """`mint` makes the `jti`."""
        self._signer = ContextSigner(
            keys.signing,
            issuer=issuer,
            lifetime=int(lifetime),
            clock=clock,
            token=mint or Randomness(),
            encode=_encoded,
            signature=_signature(keys.signing),
        )
        self._bare, self._with_credential = object(), object()

    def sign(
        self,
        principal: Principal | None,
        *,
        plugin: str,
        server: str,
        method: str,
        name: str | None,
        request_id: str,
        trace_id: str | None,
        body: bytes,
        credential: str | None,
    ) -> str:
        """Without a principal the gateway speaks for itself, which is good for discover and the four lists only."""
        return self._signer.sign_stated(
            self._stated(principal, credential),
            audience=plugin,
            body=body,
            server=server,
            method=method,
            name=name,
            request_id=request_id,
            trace_id=trace_id,
        )

    def _stated(self, principal: Principal | None, credential: str | None) -> Statement:
        """Encoded once for each caller, who is remembered as long as the token."""
        if principal is None:
            return self._signer.state(kind="gateway", credential=credential)
        if credential not in (None, principal.credential):
            return self._signer.state(credential=credential, **_caller(principal))
        key = self._bare if credential is None else self._with_credential
        stated: Statement | None = principal.derived.get(key)
        if stated is None:
            stated = principal.derived[key] = self._signer.state(credential=credential, **_caller(principal))
        return stated


def _encoded(statement: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(statement)
    except TypeError:  # a claim with half of a surrogate pair: escaped it is still JSON
        return json.dumps(statement, separators=(",", ":"), allow_nan=False).encode()


def _caller(principal: Principal) -> dict[str, Any]:
    role = principal.claims.get("role")
    return {
        "kind": principal.kind,
        "sub": principal.subject or None,
        "client_id": principal.client_id,
        "scope": principal.scopes,
        "email": principal.email,
        "role": role if isinstance(role, str) else None,
        "session_id": principal.session_id,
        "aal": principal.aal,
        "act": [Actor(sub=a.subject, iss=a.issuer, client_id=a.client_id) for a in principal.actors],
    }


def _signature(key: Key) -> Callable[[bytes], bytes] | None:
    """Ed25519 by libsodium: 24 µs a signature where OpenSSL takes 36, and a signature is the largest part of a call."""
    if not isinstance(key, OKPKey) or not isinstance(key.private_key, Ed25519PrivateKey):
        return None
    _, secret = crypto_sign_seed_keypair(key.private_key.private_bytes_raw())
    return lambda data: crypto_sign(data, secret)[:crypto_sign_BYTES]
