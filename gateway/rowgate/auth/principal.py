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
    """Empty for the public."""
    issuer: str
    """Whoever vouches for the subject: the `iss` of a token, else `api-key` or `public`."""
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
    accepted_until: float = float("inf")
    """`expires_at` with the clock difference that its issuer is allowed."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credential: str = field(default="", repr=False)
    """The verified token itself; it leaves the gateway only towards a plugin with `credential: user_token`, and towards
    Supabase when the gateway asks it as the user. Empty for whoever has no token that Supabase could take:
    applications, the public, and holders of opaque tokens."""

    derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What others made of this very principal and keep with it. One that is made from it begins without."""

    @property
    def delegated(self) -> bool:
        """Whether somebody other than the user in person holds the credential: an OAuth client, an actor, an
        application. Required scopes bind these; a session that the user began in the application itself has none."""
        return self.client_id is not None or bool(self.actors) or self.kind != "user"
