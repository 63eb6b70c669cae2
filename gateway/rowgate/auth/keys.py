"""From a published JWK set (RFC 7517) to keys that may verify a signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.util import base64_to_int

from rowgate.auth.issuer import ALGORITHMS

MAX_KEYS: Final = 64
# Members that make a public key. Nothing else of a JWK is imported: no private part, no certificate, no URL.
_PUBLIC_MEMBERS: Final = {"EC": ("crv", "x", "y"), "RSA": ("n", "e"), "OKP": ("crv", "x")}
_RSA_BITS: Final = range(2048, 8193)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    kid: str | None
    algorithms: frozenset[str]
    thumbprint: str
    """RFC 7638: tells whether the material under one `kid` changed."""
    key: Key = field(repr=False, compare=False)


def verification_keys(document: object, algorithms: Iterable[str]) -> tuple[VerificationKey, ...]:
    """Keys of other types, uses or algorithms are left out. Raises ValueError when it is no JWK set."""
    published = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(published, list):
        raise ValueError("not a JWK set")
    if len(published) > MAX_KEYS:
        raise ValueError(f"more than {MAX_KEYS} keys")
    allowed = frozenset(algorithms)
    found = (_verification_key(jwk, allowed) for jwk in published if isinstance(jwk, dict))
    return tuple(key for key in found if key is not None)


def _verification_key(jwk: Mapping[str, Any], allowed: frozenset[str]) -> VerificationKey | None:
    suited = frozenset(name for name in allowed if _suits(jwk, name))
    kid = jwk.get("kid")
    if not suited or not _verifies(jwk) or not isinstance(kid, str | None):
        return None
    try:
        members = {name: jwk[name] for name in _PUBLIC_MEMBERS[jwk["kty"]]}
        if jwk["kty"] == "RSA" and base64_to_int(members["n"]).bit_length() not in _RSA_BITS:
            return None
        key = JWKRegistry.import_key({"kty": jwk["kty"], **members})
    except (JoseError, KeyError, TypeError, ValueError):
        return None
    return VerificationKey(kid, suited, key.thumbprint(), key)


def _suits(jwk: Mapping[str, Any], algorithm: str) -> bool:
    key_type, curve = ALGORITHMS[algorithm]
    return (
        jwk.get("kty") == key_type
        and (curve is None or jwk.get("crv") == curve)
        and jwk.get("alg") in (None, algorithm)
    )


def _verifies(jwk: Mapping[str, Any]) -> bool:
    operations = jwk.get("key_ops")
    return jwk.get("use") in (None, "sig") and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
