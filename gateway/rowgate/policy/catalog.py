"""The declared capabilities of one server joined with what its plugins offer: an immutable snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rowgate.errors import HookFailed, InvalidParams, UnknownCapability
from rowgate.policy.authorizer import Check
from rowgate.policy.capability import ADVERTISED, KINDS, Capability, Finding, Kind
from rowgate.policy.resources import Owner, ResourceIndex
from rowgate.policy.rules import HIDDEN_BY_HOOK, Decision, Requirement, ScopePolicy, decide
from rowgate.value import value

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.policy.binding import Part
    from rowgate.policy.hook import Hook
    from rowgate.protocol.call import Call

UNSURE_TTL_MS = 5000
"""A list that lacks something, or may, is not kept longer by clients."""

Definitions = list[dict[str, Any]]

_KIND_OF_METHOD: Mapping[str, Kind] = {"tools/call": "tool", "prompts/get": "prompt"}


@value
class Target:
    """What a call is about, once resolved: the only thing that is forwarded."""

    capability: Capability
    method: str
    inner: str
    """The name or URI that the plugin knows."""
    decision: Decision

    @property
    def plugin(self) -> str:
        return self.capability.plugin

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The call's params with the plugin's own name in them."""
        if self.method == "resources/read":
            return {**params, "uri": self.inner}
        if self.method != "completion/complete":
            return {**params, "name": self.inner}
        member = "name" if self.capability.kind == "prompt" else "uri"
        return {**params, "ref": {"type": params["ref"]["type"], member: self.inner}}


class Catalog:
    """`complete`: every plugin answered for everything."""

    def __init__(
        self,
        server: str,
        parts: Iterable[Part],
        scopes: ScopePolicy,
        *,
        fresh_until: float,
        complete: bool,
        hook: Hook | None = None,
    ) -> None:
        """`parts` in the order of the configuration; the order in which they were loaded means nothing."""
        self.server = server
        self.fresh_until = fresh_until
        self.complete = complete
        self._scopes = scopes
        self._hook = hook
        self._parts = tuple(parts)
        self._listed, collisions = _by_public_name(self._parts)
        self.findings = tuple(_collision(capability) for capability in collisions)
        closed = frozenset(capability.name for capability in collisions)
        self._resources = ResourceIndex(self._parts, self._listed["resource"], closed)
        self.checks = tuple(dict.fromkeys(check for capability in self for check in _checks(capability)))
        """What an authorizer is asked before anything is listed; empty where nothing needs a permission."""

    def list(self, method: str, principal: Principal, permitted: frozenset[Check] = frozenset()) -> Definitions:
        """The definitions that this caller may use. They are shared by all callers: copy before changing one.

        `permitted`: those of `checks` that the authorizer answered with yes."""
        return [
            capability.definition
            for capability in self._listed[KINDS[method]].values()
            if (decision := self._seen(principal, capability, capability.requirement)).allowed
            and (decision.asks is None or permitted.issuperset(_checks(capability)))
        ]

    def resolve(self, call: Call, principal: Principal) -> Target:
        """Raises UnknownCapability for what is unknown, undeclared or hidden from this caller, in the same words.

        `require(target.decision)` still has to follow: a scope may be missing that a new token could bring."""
        if call.method == "resources/read":
            return self._read(call.method, _text(call.params.get("uri"), "uri"), principal)
        if call.method == "completion/complete":
            return self._complete(call, principal)
        kind = _KIND_OF_METHOD[call.method]
        return self._named(call.method, kind, _text(call.params.get("name"), "name"), principal)

    def offered(self, principal: Principal) -> frozenset[str]:
        """What discover and initialize advertise to this caller: `tools`, `resources`, `prompts`, `completions`.

        What a new token could open counts, and so does what is declared of a plugin that is away: clients ask once."""
        found: set[str] = set()
        for part in self._parts:
            for kind, requirement, capability in _servable(part):
                if ADVERTISED[kind] not in found and not self._seen(principal, capability, requirement).hides:
                    found.add(ADVERTISED[kind])
            if part.completes and "completions" not in found and self._completable(part, principal):
                found.add("completions")
        return frozenset(found)

    def ttl_ms(self, now: float) -> int:
        """How long a client may keep what this catalog answers."""
        remaining = max(0, int((self.fresh_until - now) * 1000))
        return remaining if self.complete else min(remaining, UNSURE_TTL_MS)

    def __iter__(self) -> Iterator[Capability]:
        for listed in self._listed.values():
            yield from listed.values()

    def _named(self, method: str, kind: Kind, name: str, principal: Principal) -> Target:
        capability = self._listed[kind].get(name)
        if capability is None:
            raise _unknown(kind, name, "unknown")
        decision = self._decide(principal, capability, capability.requirement)
        if decision.hides:
            raise _unknown(kind, name, "hidden")
        return Target(capability, method, capability.inner, decision)

    def _read(self, method: str, uri: str, principal: Principal) -> Target:
        owner = self._resources.owner(uri)
        if owner is None:
            raise _unknown("resource", uri, "unknown")
        return self._owned(method, uri, owner, principal)

    def _owned(self, method: str, uri: str, owner: Owner, principal: Principal) -> Target:
        decision = self._decide(principal, owner.capability, owner.requirement)
        if decision.hides:
            raise _unknown("resource", uri, "hidden")
        return Target(owner.capability, method, uri, decision)

    def _complete(self, call: Call, principal: Principal) -> Target:
        """A completion may tell what its prompt or resource holds, so it takes the same right."""
        ref = call.params.get("ref")
        if not isinstance(ref, dict):
            raise InvalidParams("ref must be an object.")
        kind = ref.get("type")
        if kind == "ref/prompt":
            return self._named(call.method, "prompt", _text(ref.get("name"), "ref.name"), principal)
        if kind != "ref/resource":
            raise InvalidParams("ref.type must be ref/prompt or ref/resource.")
        uri = _text(ref.get("uri"), "ref.uri")
        template = self._listed["template"].get(uri)
        owner = Owner(template, template.requirement) if template else self._resources.owner(uri)
        if owner is None:
            raise _unknown("resource", uri, "unknown")
        return self._owned(call.method, uri, owner, principal)

    def _decide(self, principal: Principal, capability: Capability | None, requirement: Requirement) -> Decision:
        """The one decision, for lists and calls. Raises HookFailed."""
        decision = decide(principal, requirement, self._scopes)
        if self._hook is None or capability is None or decision.hides or self._hook.shows(principal, capability):
            return decision
        return HIDDEN_BY_HOOK

    def _seen(self, principal: Principal, capability: Capability | None, requirement: Requirement) -> Decision:
        """The same for lists: one capability on which the hook fails does not take the others with it."""
        if self._hook is None:
            return decide(principal, requirement, self._scopes)
        try:
            return self._decide(principal, capability, requirement)
        except HookFailed:
            return HIDDEN_BY_HOOK

    def _completable(self, part: Part, principal: Principal) -> bool:
        return any(
            not self._seen(principal, capability, capability.requirement).hides
            for capability in part.capabilities
            if capability.kind in ("prompt", "template")
        )


def _checks(capability: Capability) -> Iterable[Check]:
    asks = capability.requirement.asks
    if asks is None:
        return ()
    return (Check(permission, capability.kind, capability.name) for permission in asks.permissions)


def _servable(part: Part) -> Iterable[tuple[Kind, Requirement, Capability | None]]:
    """The capability is None where nobody knows yet what the entry stands for: no hook can judge that."""
    for kind in part.absent:
        yield from ((kind, requirement, None) for requirement in part.declarations.requirements(kind))
    yield from ((capability.kind, capability.requirement, capability) for capability in part.capabilities)
    if part.reads:
        for requirement in part.declarations.requirements("resource", globs=True):
            yield "resource", requirement, None


def _by_public_name(parts: Iterable[Part]) -> tuple[dict[Kind, dict[str, Capability]], list[Capability]]:
    """What a name stands for, and apart from it everything whose name would stand for more than one thing."""
    offered = [capability for part in parts for capability in part.capabilities]
    times = Counter((capability.kind, capability.name) for capability in offered)
    listed: dict[Kind, dict[str, Capability]] = {kind: {} for kind in KINDS.values()}
    collisions: list[Capability] = []
    for capability in offered:
        if times[capability.kind, capability.name] > 1:
            collisions.append(capability)
        else:
            listed[capability.kind][capability.name] = capability
    return listed, collisions


def _unknown(kind: Kind, name: str, reason: str) -> UnknownCapability:
    """The bytes depend on what was asked for and never on why it is refused; `reason` stays in the log."""
    if kind == "resource":
        return UnknownCapability("Resource not found", reason=reason, data={"uri": name})
    return UnknownCapability(f"Unknown {kind}", reason=reason)


def _collision(capability: Capability) -> Finding:
    return Finding(capability.plugin, capability.name, "collision", "another capability has the same public name")


def _text(value: Any, member: str) -> str:
    if not isinstance(value, str):
        raise InvalidParams(f"{member} must be a string.")
    return value
