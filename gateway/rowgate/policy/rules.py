"""May they: one structured decision that lists, calls and explanations share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rowgate.errors import AssuranceTooLow, InsufficientScope, ScopeNotGranted, UnknownCapability
from rowgate.policy.conditions import (
    AalAtLeast,
    Asks,
    ClaimIs,
    ClientIn,
    Condition,
    HasSession,
    MendedBy,
    MissingKind,
    Unanswerable,
)
from rowgate.policy.implication import implied

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.rules import Require, Scopes

_REMEMBERED_SCOPE_SETS = 1024


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a capability asks of its caller, beside what its server asks of everybody."""

    scopes: tuple[str, ...] = ()
    """All of these."""
    roles: tuple[tuple[str, ...], ...] = ()
    """At least one of each group."""
    conditions: tuple[Condition, ...] = ()
    asks: Asks | None = None
    """What remains to be asked of somebody else when the call comes, if anything does."""

    @classmethod
    def of(cls, require: Require, *, authorizer: bool = False) -> Requirement:
        """`authorizer`: whether the server has somebody to ask about permissions."""
        asked = require.permission if authorizer else None
        asks = Asks((asked,) if asked else (), require.session)
        return cls(
            scopes=tuple(require.scopes),
            roles=(tuple(require.roles),) if require.roles else (),
            conditions=tuple(_conditions(require, authorizer)),
            asks=asks if asks != Asks() else None,
        )

    @classmethod
    def all_of(cls, requirements: Iterable[Requirement]) -> Requirement:
        """Whoever meets this meets each of them."""
        scopes: dict[str, None] = {}
        roles: dict[tuple[str, ...], None] = {}
        conditions: dict[Condition, None] = {}
        asks = Asks()
        for requirement in requirements:
            scopes |= dict.fromkeys(requirement.scopes)
            roles |= dict.fromkeys(requirement.roles)
            conditions |= dict.fromkeys(requirement.conditions)
            asks = asks.joined(requirement.asks or Asks())
        return cls(tuple(scopes), tuple(roles), tuple(conditions), asks if asks != Asks() else None)


def _conditions(require: Require, authorizer: bool) -> Iterable[Condition]:
    for path, values in require.claims.items():
        yield ClaimIs(path, values)
    if require.aal is not None:
        yield AalAtLeast(require.aal)
    if require.client:
        yield ClientIn(tuple(require.client))
    if require.session is not None:
        yield HasSession()
    if require.permission is not None and not authorizer:
        yield Unanswerable(require.permission)


@dataclass(frozen=True, slots=True)
class Missing:
    kind: MissingKind
    wanted: tuple[str, ...]
    """Scopes that all are missing, roles or clients of which one would do, the path of a claim."""
    mended_by: MendedBy


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    missing: tuple[Missing, ...] = ()
    challenge: tuple[str, ...] = ()
    """When a new token would mend it: every scope to ask for, held ones included, because the new token replaces the
    old one (RFC 6750 §3.1)."""
    asks: Asks | None = None
    """For one that is allowed so far: what still has to be asked."""

    @property
    def hides(self) -> bool:
        """Nothing that the caller can do would mend it, so the capability does not exist for this caller."""
        return any(missing.mended_by == "nothing" for missing in self.missing)

    def lacks(self, mended_by: MendedBy) -> tuple[str, ...]:
        return tuple(name for missing in self.missing if missing.mended_by == mended_by for name in missing.wanted)


_ALLOWED = Decision(allowed=True)
HIDDEN_BY_HOOK = Decision(allowed=False, missing=(Missing("hook", (), "nothing"),))


class ScopePolicy:
    """The scopes of one server: what every call needs, what its authorization server can issue, what implies what."""

    def __init__(
        self,
        *,
        required: Iterable[str] = (),
        issuable: Collection[str] = (),
        implies: Mapping[str, Iterable[str]] | None = None,
        granted: bool = False,
        grant_url: str | None = None,
    ) -> None:
        """`granted`: scopes come from the application's grants and not from the token, so no new token brings one."""
        self.granted = granted
        self.grant_url = grant_url
        self.required = tuple(dict.fromkeys(required))
        self.issuable = frozenset(() if granted else issuable)
        self._closure = _closure({scope: tuple(brought) for scope, brought in (implies or {}).items()})
        self._bringers = self._cheapest_bringers()
        self._held = lru_cache(maxsize=_REMEMBERED_SCOPE_SETS)(self._expand)

    @classmethod
    def of(cls, scopes: Scopes, *, issuable: Collection[str]) -> ScopePolicy:
        """`issuable` is what the server's authorization server issues where the configuration does not say."""
        listed = scopes.issuable
        return cls(
            required=scopes.required,
            issuable=issuable if listed is None else listed,
            implies=dict(scopes.implies),
            granted=scopes.source != "token",
            grant_url=scopes.grant_url,
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
            for brought in self._closure.get(scope, ()):
                bringers.setdefault(brought, scope)
        return bringers


def bound_by_scopes(principal: Principal, scopes: ScopePolicy) -> bool:
    """Scopes say what somebody else may do for a user. A user's own session at Supabase has none and needs none; a
    token that names scopes, or that belongs to no session, is held to them whatever else it is."""
    return (
        principal.delegated
        or principal.session_id is None
        or (bool(principal.scopes) and not scopes.granted)
        or not principal.claims.keys().isdisjoint(("scope", "scp"))
    )


def decide(principal: Principal, requirement: Requirement, scopes: ScopePolicy) -> Decision:
    held = scopes.held(principal.scopes)
    scoped = held.issuperset(scopes.required) and held.issuperset(requirement.scopes)
    if (
        (scoped or not bound_by_scopes(principal, scopes))
        and not any(map(principal.roles.isdisjoint, requirement.roles))
        and (not requirement.conditions or all(condition.met(principal) for condition in requirement.conditions))
    ):
        return _ALLOWED if requirement.asks is None else Decision(allowed=True, asks=requirement.asks)
    return _denied(principal, requirement, scopes, held)


def require(decision: Decision, grant_url: str | None = None) -> None:
    """Raises UnknownCapability where nothing would help, and otherwise what says how it can be mended."""
    if decision.allowed:
        return
    if decision.hides:
        raise UnknownCapability(reason="hidden")
    # First what no new token of this client brings: a challenge would only send it round in a circle.
    if decision.lacks("sign_in"):
        raise AssuranceTooLow
    if granted := decision.lacks("grant"):
        raise ScopeNotGranted(granted, grant_url)
    raise InsufficientScope(decision.challenge)


def require_token(decision: Decision) -> None:
    """For every request, before it is read: raises InsufficientScope when only a new token would help.

    What is missing otherwise is said by the call that needs it, in a form that the model gets to read."""
    if decision.allowed:
        return
    if decision.lacks("token") and not decision.hides and not decision.lacks("grant"):
        raise InsufficientScope(decision.challenge)


def _denied(principal: Principal, requirement: Requirement, scopes: ScopePolicy, held: frozenset[str]) -> Decision:
    wanted = tuple(dict.fromkeys((*scopes.required, *requirement.scopes)))
    missing = [Missing("role", group, "nothing") for group in requirement.roles if principal.roles.isdisjoint(group)]
    missing += [
        Missing(condition.kind, condition.wanted, condition.mended_by(principal))
        for condition in requirement.conditions
        if not condition.met(principal)
    ]
    lacking = [scope for scope in wanted if scope not in held] if bound_by_scopes(principal, scopes) else []
    by_means: dict[MendedBy, list[str]] = {}
    for scope in lacking:
        means: MendedBy = "grant" if scopes.granted else "token" if scopes.bringer(scope) else "nothing"
        by_means.setdefault(means, []).append(scope)
    missing += [Missing("scope", tuple(named), means) for means, named in by_means.items()]
    # A held scope that cannot be asked for is not named: the authorization server would refuse the whole request.
    brought = dict.fromkeys(bringer for scope in wanted if (bringer := scopes.bringer(scope)))
    return Decision(allowed=False, missing=tuple(missing), challenge=tuple(brought) if "token" in by_means else ())


def _closure(implies: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Everything that each scope brings beside itself."""
    return {scope: implied((scope,), implies) - {scope} for scope in implies}
