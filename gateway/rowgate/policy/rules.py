"""May they: one structured decision that lists, calls and explanations share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rowgate.errors import InsufficientScope, UnknownCapability

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.models import Require, Scopes

_REMEMBERED_SCOPE_SETS = 1024


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a capability asks of its caller, beside what its server asks of everybody."""

    scopes: tuple[str, ...] = ()
    """All of these."""
    roles: tuple[tuple[str, ...], ...] = ()
    """At least one of each group."""

    @classmethod
    def of(cls, require: Require) -> Requirement:
        return cls(scopes=tuple(require.scopes), roles=(tuple(require.roles),) if require.roles else ())

    @classmethod
    def all_of(cls, requirements: Iterable[Requirement]) -> Requirement:
        """Whoever meets this meets each of them."""
        scopes: dict[str, None] = {}
        roles: dict[tuple[str, ...], None] = {}
        for requirement in requirements:
            scopes |= dict.fromkeys(requirement.scopes)
            roles |= dict.fromkeys(requirement.roles)
        return cls(tuple(scopes), tuple(roles))


@dataclass(frozen=True, slots=True)
class Missing:
    kind: Literal["scope", "role"]
    wanted: tuple[str, ...]
    """Scopes that all are missing, or roles of which one would do."""
    issuable: bool
    """Whether a new token could bring it."""


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    missing: tuple[Missing, ...] = ()
    challenge: tuple[str, ...] = ()
    """When a new token would mend it: every scope to ask for, held ones included, because the new token replaces the
    old one (RFC 6750 §3.1)."""

    @property
    def hides(self) -> bool:
        """No new token could mend it, so the capability does not exist for this caller."""
        return any(not missing.issuable for missing in self.missing)


_ALLOWED = Decision(allowed=True)


class ScopePolicy:
    """The scopes of one server: what every call needs, what its authorization server can issue, what implies what."""

    def __init__(
        self,
        *,
        required: Iterable[str] = (),
        issuable: Collection[str] = (),
        implies: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.required = tuple(dict.fromkeys(required))
        self.issuable = frozenset(issuable)
        self._closure = _closure({scope: tuple(implied) for scope, implied in (implies or {}).items()})
        self._bringers = self._cheapest_bringers()
        self._held = lru_cache(maxsize=_REMEMBERED_SCOPE_SETS)(self._expand)

    @classmethod
    def of(cls, scopes: Scopes, *, issuable: Collection[str]) -> ScopePolicy:
        """`issuable` is what the server's authorization server issues where the configuration does not say."""
        listed = scopes.issuable
        return cls(
            required=scopes.required, issuable=issuable if listed is None else listed, implies=dict(scopes.implies)
        )

    def held(self, scopes: frozenset[str]) -> frozenset[str]:
        """The scopes of a token with everything they imply."""
        return self._held(scopes) if self._closure else scopes

    def bringer(self, scope: str) -> str | None:
        """What to ask the authorization server for to get `scope`: itself, else the narrowest that implies it."""
        return scope if scope in self.issuable else self._bringers.get(scope)

    def _expand(self, scopes: frozenset[str]) -> frozenset[str]:
        return scopes.union(*(self._closure.get(scope, ()) for scope in scopes))

    def _cheapest_bringers(self) -> dict[str, str]:
        by_width = sorted(self.issuable, key=lambda scope: (len(self._closure.get(scope, ())), scope))
        bringers: dict[str, str] = {}
        for scope in by_width:
            for implied in self._closure.get(scope, ()):
                bringers.setdefault(implied, scope)
        return bringers


def decide(principal: Principal, requirement: Requirement, scopes: ScopePolicy) -> Decision:
    held = scopes.held(principal.scopes)
    scoped = held.issuperset(scopes.required) and held.issuperset(requirement.scopes)
    if scoped and not any(map(principal.roles.isdisjoint, requirement.roles)):
        return _ALLOWED
    return _denied(principal, requirement, scopes, held)


def require(decision: Decision) -> None:
    """Raises InsufficientScope where a new token would help, and UnknownCapability where nothing would."""
    if decision.hides:
        raise UnknownCapability(reason="hidden")
    if not decision.allowed:
        raise InsufficientScope(decision.challenge)


def _denied(principal: Principal, requirement: Requirement, scopes: ScopePolicy, held: frozenset[str]) -> Decision:
    wanted = tuple(dict.fromkeys((*scopes.required, *requirement.scopes)))
    lacking = [scope for scope in wanted if scope not in held]
    mendable = tuple(scope for scope in lacking if scopes.bringer(scope))
    hopeless = tuple(scope for scope in lacking if not scopes.bringer(scope))
    missing = [Missing("role", group, False) for group in requirement.roles if principal.roles.isdisjoint(group)]
    if hopeless:
        missing.append(Missing("scope", hopeless, False))
    if mendable:
        missing.append(Missing("scope", mendable, True))
    # A held scope that cannot be asked for is not named: the authorization server would refuse the whole request.
    brought = dict.fromkeys(bringer for scope in wanted if (bringer := scopes.bringer(scope)))
    return Decision(allowed=False, missing=tuple(missing), challenge=tuple(brought))


def _closure(implies: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Everything each scope implies, at any distance; circles are harmless."""
    closure: dict[str, frozenset[str]] = {}
    for scope in implies:
        reached: set[str] = set()
        frontier = [scope]
        while frontier:
            for implied in implies.get(frontier.pop(), ()):
                if implied not in reached:
                    reached.add(implied)
                    frontier.append(implied)
        closure[scope] = frozenset(reached - {scope})
    return closure
