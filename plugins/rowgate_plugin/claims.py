"""What a context says: its members on the wire, read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

CONTEXT_VERSION = 1
ACCEPTED_VERSIONS = frozenset(range(max(1, CONTEXT_VERSION - 1), CONTEXT_VERSION + 1))

ContextKind = Literal["user", "application", "public", "gateway"]
Reason = Literal[
    "missing",
    "malformed",
    "unknown_key",
    "algorithm",
    "signature",
    "version",
    "issuer",
    "audience",
    "lifetime",
    "not_yet_valid",
    "expired",
    "kind",
    "digest",
    "credential",
    "replayed",
    "capacity",
]
"""In the order in which a verifier decides."""

_KINDS = frozenset(get_args(ContextKind))


def _no_claims() -> Mapping[str, Any]:
    return MappingProxyType({})


class ContextError(Exception):
    """A context was refused. `reason` is the whole story: nothing of the token is in it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts for the subject (RFC 8693 §4.1)."""

    sub: str
    iss: str | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Who calls, what and through which server, as the gateway established it. Names are those of the wire."""

    iss: str
    aud: str
    kind: ContextKind
    sub: str | None
    """None only for kinds `gateway` and `public`."""
    server: str
    method: str
    request_id: str
    iat: int
    exp: int
    jti: str
    digest: str
    """SHA-256 of the request body, base64url without padding."""
    ath: str | None = None
    """SHA-256 of the bearer token in `Authorization`; None when the request carries no credential."""
    name: str | None = None
    client_id: str | None = None
    scope: frozenset[str] = frozenset()
    email: str | None = field(default=None, repr=False)
    role: str | None = None
    session_id: str | None = field(default=None, repr=False)
    aal: str | None = None
    act: tuple[Actor, ...] = ()
    """The current actor first."""
    trace_id: str | None = None
    claims: Mapping[str, Any] = field(default_factory=_no_claims, repr=False)
    grant: Mapping[str, Any] | None = field(default=None, repr=False)
    run: str | None = None
    ver: int = CONTEXT_VERSION


@dataclass(frozen=True, slots=True)
class Statement:
    """Half of a context: who calls."""

    kind: ContextKind
    members: bytes = field(repr=False)
    """As one JSON object, which is never empty."""


def nest(chain: Iterable[Actor]) -> dict[str, Any] | None:
    nested: dict[str, Any] | None = None
    for actor in reversed(tuple(chain)):
        members = {"sub": actor.sub, "iss": actor.iss, "client_id": actor.client_id, "act": nested}
        nested = {member: value for member, value in members.items() if value is not None}
    return nested


def unnest(value: Any) -> tuple[Actor, ...]:
    chain: list[Actor] = []
    while value is not None:
        members = _expect(value, dict)
        chain.append(Actor(_text(members, "sub"), _optional(members, "iss"), _optional(members, "client_id")))
        value = members.get("act")
    return tuple(chain)


def read_object(data: bytes) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", _expect(json.loads(data), dict))
    except (ValueError, RecursionError):
        raise ContextError("malformed") from None


def read_context(members: dict[str, Any]) -> Context:
    # Another version may mean anything by its members, so the version is judged before they are read.
    if type(members.get("ver")) is not int or members["ver"] not in ACCEPTED_VERSIONS:
        raise ContextError("version")
    if _text(members, "kind") not in _KINDS:
        raise ContextError("malformed")
    grant = members.get("grant")
    return Context(
        ver=members["ver"],
        iss=_text(members, "iss"),
        aud=_text(members, "aud"),
        kind=members["kind"],
        sub=_optional(members, "sub"),
        server=_text(members, "server"),
        method=_text(members, "method"),
        request_id=_text(members, "request_id"),
        iat=_expect(members.get("iat"), int),
        exp=_expect(members.get("exp"), int),
        jti=_text(members, "jti"),
        digest=_text(members, "digest"),
        ath=_optional(members, "ath"),
        name=_optional(members, "name"),
        client_id=_optional(members, "client_id"),
        scope=frozenset(_expect(members.get("scope", ""), str).split()),
        email=_optional(members, "email"),
        role=_optional(members, "role"),
        session_id=_optional(members, "session_id"),
        aal=_optional(members, "aal"),
        act=unnest(members.get("act")),
        trace_id=_optional(members, "trace_id"),
        claims=MappingProxyType(_expect(members.get("claims", {}), dict)),
        grant=None if grant is None else MappingProxyType(_expect(grant, dict)),
        run=_optional(members, "run"),
    )


def _expect(value: Any, kind: type[Any]) -> Any:
    # An exact type: bool is a subclass of int.
    if type(value) is not kind:
        raise ContextError("malformed")
    return value


def _text(members: dict[str, Any], member: str) -> str:
    value: str = _expect(members.get(member), str)
    if not value:
        raise ContextError("malformed")
    return value


def _optional(members: dict[str, Any], member: str) -> str | None:
    value = members.get(member)
    return None if value is None else cast("str", _expect(value, str))
