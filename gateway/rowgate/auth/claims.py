"""What a token says, once its signature is known to be good: parsed once, strictly, and judged by nobody yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from rowgate.auth.principal import Actor, Principal
from rowgate.auth.refusal import Reason, refused
from rowgate.supabase.tokens import KEY_ROLES

MAX_NAME: Final = 512
"""Characters of a subject, an issuer or a client id. OpenID Connect bounds `sub` at 255; a client id may be a URL."""
MAX_ACTORS: Final = 8
MAX_SCOPES: Final = 256
_LATEST: Final = 2**53

_ID_TOKEN_CLAIMS: Final = ("nonce", "at_hash", "c_hash")
_TYPES: Final[Mapping[str, Reason]] = {"ID": "id_token", "Refresh": "token_type", "Offline": "token_type"}


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """Signature, issuer and shape are good. Whether it opens a given server is the authenticator's to judge."""

    issuer: str
    subject: str
    expires_at: float
    not_before: float
    audiences: frozenset[str]
    client_id: str | None
    scopes: frozenset[str]
    role: str | None
    anonymous: bool
    actors: tuple[Actor, ...]
    email: str | None = field(repr=False)
    session_id: str | None = field(repr=False)
    aal: str | None
    claims: Mapping[str, Any] = field(repr=False)
    principals: dict[object, Principal] = field(default_factory=dict, repr=False, compare=False)
    """What each authenticator made of this token, so that it does so once: all of it is immutable."""


def read_claims(payload: bytes, issuer: str, scope_claim: str | None = None) -> VerifiedToken:
    """Raises TokenRefused."""
    return token_of(_object(payload), issuer, scope_claim)


def token_of(claims: dict[str, Any], issuer: str, scope_claim: str | None = None) -> VerifiedToken:
    """Raises TokenRefused. `claims` must not change any more."""
    if claims.get("iss") != issuer:
        raise refused("issuer")
    _refuse_other_tokens(claims)
    return VerifiedToken(
        issuer=issuer,
        subject=_subject(claims.get("sub")),
        expires_at=_time(claims.get("exp"), "no_expiry"),
        not_before=_time(claims["nbf"], "claims") if "nbf" in claims else 0.0,
        audiences=frozenset(_strings(claims.get("aud"))),
        client_id=_optional_name(claims, "client_id") or _optional_name(claims, "azp"),
        scopes=_scopes(claims, scope_claim),
        role=_role(claims.get("role")),
        anonymous=claims.get("is_anonymous") not in (None, False),
        actors=_actors(claims),
        email=_optional_text(claims, "email"),
        session_id=_optional_text(claims, "session_id"),
        aal=_optional_text(claims, "aal"),
        claims=MappingProxyType(claims),
    )


def roles_at(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """The string or array of strings at a dotted path."""
    value = claim_at(claims, path)
    named = value if isinstance(value, list) else [value]
    return frozenset(role for role in named if isinstance(role, str) and role)


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where there is none. A claim whose whole name is the path comes first."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _object(payload: bytes) -> dict[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise refused("malformed") from None
    if not isinstance(claims, dict):
        raise refused("malformed")
    return claims


def _refuse_other_tokens(claims: Mapping[str, Any]) -> None:
    if "mcp" in claims:
        raise refused("minted")
    if claims.get("token_use") == "id" or any(name in claims for name in _ID_TOKEN_CLAIMS):
        raise refused("id_token")
    declared = claims.get("typ")
    if isinstance(declared, str) and declared in _TYPES:
        raise refused(_TYPES[declared])


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def _subject(value: object) -> str:
    if isinstance(value, str) and _is_name(value):
        return value
    raise refused("subject")


def _optional_name(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and _is_name(value):
        return value
    raise refused("claims")


def _optional_text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value if isinstance(value, str) and value else None


def _time(value: object, reason: Reason) -> float:
    # The bounds also keep out NaN, which compares false with everything, and integers that no float holds.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LATEST:
        return float(value)
    raise refused(reason)


def _strings(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise refused("claims")


def _scopes(claims: Mapping[str, Any], path: str | None) -> frozenset[str]:
    named = path or ("scope" if "scope" in claims else "scp")
    value = claim_at(claims, named) if path else claims.get(named)
    scopes = frozenset(scope for text in _strings(value) for scope in text.split())
    if len(scopes) > MAX_SCOPES:
        raise refused("claims")
    return scopes


def _role(value: object) -> str | None:
    if isinstance(value, list) and any(isinstance(role, str) and role in KEY_ROLES for role in value):
        raise refused("role")
    return value if isinstance(value, str) else None


def _actors(claims: Mapping[str, Any]) -> tuple[Actor, ...]:
    """RFC 8693 §4.1: each `act` may hold the one who acted before."""
    actors: list[Actor] = []
    holder: Mapping[str, Any] = claims
    while "act" in holder:
        act = holder["act"]
        if not isinstance(act, dict) or len(actors) == MAX_ACTORS:
            raise refused("actor")
        actors.append(_actor(act))
        holder = act
    return tuple(actors)


def _actor(act: Mapping[str, Any]) -> Actor:
    subject, *others = (act.get(name) for name in ("sub", "iss", "client_id"))
    if not isinstance(subject, str) or not all(_is_name(name) for name in (subject, *others) if name is not None):
        raise refused("actor")
    return Actor(subject, *others)
