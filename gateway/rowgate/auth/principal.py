"""The verified caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["user", "application", "public"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts for the subject (RFC 8693 §4.1)."""

    subject: str
    issuer: str | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, as the verifier established it. `repr` hides whatever could be replayed or is personal."""

    kind: Kind
    subject: str
    issuer: str
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    email: str | None = field(default=None, repr=False)
    session_id: str | None = field(default=None, repr=False)
    aal: str | None = None
    actors: tuple[Actor, ...] = ()
    """The act chain, the current actor first. Empty when the subject acts in person."""
    expires_at: float = float("inf")
    """Seconds since the epoch after which the credential is worth nothing."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credential: str = field(default="", repr=False)
    """The verified token itself; it leaves the gateway only towards a plugin with `credential: user_token`."""
