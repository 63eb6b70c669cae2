"""What a rule can ask of a caller beside scopes and roles. Each is judged from the principal alone, but for two that
somebody else has to answer when the call comes: a permission, and whether the session still lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal

_LEVELS = {"aal1": 1, "aal2": 2, "aal3": 3}
ClaimValue = str | int | bool
MissingKind = Literal["scope", "role", "claim", "aal", "client", "permission", "session", "hook"]
MendedBy = Literal["token", "grant", "sign_in", "nothing"]
"""What could bring it: a token with more scopes, a grant in the application, a stronger sign-in, or nothing at all."""


@dataclass(frozen=True, slots=True)
class ClaimIs:
    path: str
    values: tuple[ClaimValue, ...]
    """One of these, exactly; where the claim is an array, one of its items."""
    kind: ClassVar[MissingKind] = "claim"

    @property
    def wanted(self) -> tuple[str, ...]:
        return (self.path,)

    def met(self, principal: Principal) -> bool:
        found = claim_at(principal.claims, self.path)
        items = found if isinstance(found, list) else [found]
        return any(_same(item, value) for item in items for value in self.values)

    def mended_by(self, principal: Principal) -> MendedBy:
        return "nothing"


@dataclass(frozen=True, slots=True)
class AalAtLeast:
    level: Literal["aal1", "aal2"]
    kind: ClassVar[MissingKind] = "aal"

    @property
    def wanted(self) -> tuple[str, ...]:
        return (self.level,)

    def met(self, principal: Principal) -> bool:
        return _LEVELS.get(principal.aal or "", 0) >= _LEVELS[self.level]

    def mended_by(self, principal: Principal) -> MendedBy:
        return "sign_in" if principal.kind == "user" else "nothing"


@dataclass(frozen=True, slots=True)
class ClientIn:
    clients: tuple[str, ...]
    kind: ClassVar[MissingKind] = "client"

    @property
    def wanted(self) -> tuple[str, ...]:
        return self.clients

    def met(self, principal: Principal) -> bool:
        return principal.client_id in self.clients

    def mended_by(self, principal: Principal) -> MendedBy:
        return "nothing"


@dataclass(frozen=True, slots=True)
class HasSession:
    """Only a session that is known can be asked about."""

    kind: ClassVar[MissingKind] = "session"

    @property
    def wanted(self) -> tuple[str, ...]:
        return ()

    def met(self, principal: Principal) -> bool:
        return principal.kind == "user" and principal.session_id is not None

    def mended_by(self, principal: Principal) -> MendedBy:
        return "nothing"


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A permission on a server that has no authorizer: nobody could say yes."""

    permission: str
    kind: ClassVar[MissingKind] = "permission"

    @property
    def wanted(self) -> tuple[str, ...]:
        return (self.permission,)

    def met(self, principal: Principal) -> bool:
        return False

    def mended_by(self, principal: Principal) -> MendedBy:
        return "nothing"


Condition = ClaimIs | AalAtLeast | ClientIn | HasSession | Unanswerable


@dataclass(frozen=True, slots=True)
class Asks:
    """What is left to ask when a call comes."""

    permissions: tuple[str, ...] = ()
    session: Literal["live", "fresh"] | None = None
    """live: it lived a moment ago. fresh: it lives now."""

    def joined(self, other: Asks) -> Asks:
        sessions = {self.session, other.session}
        return Asks(
            tuple(dict.fromkeys((*self.permissions, *other.permissions))),
            "fresh" if "fresh" in sessions else self.session or other.session,
        )


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None. A claim whose whole name is the path comes first."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _same(found: object, value: ClaimValue) -> bool:
    # To Python 1 and true are equal, to JSON they are not.
    return type(found) is type(value) and found == value
