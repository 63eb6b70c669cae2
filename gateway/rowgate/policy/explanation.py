"""One decision, step by step: the same judgement that a call meets, told instead of acted on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rowgate.errors import GatewayError, InsufficientScope, ScopeNotGranted, UnknownCapability
from rowgate.policy.authorizer import Check
from rowgate.policy.capability import Capability, Kind
from rowgate.policy.conditions import ClaimIs
from rowgate.policy.declarations import Declarations
from rowgate.policy.names import public_name
from rowgate.policy.rules import bound_by_scopes, decide, require

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.models import Entry, Server
    from rowgate.policy.assembly import Rules
    from rowgate.policy.authorizer import Authorizer
    from rowgate.policy.declarations import Claim

State = Literal["ok", "no", "open", "info"]
"""open: decided only when the call comes."""


@dataclass(frozen=True, slots=True)
class Step:
    what: str
    state: State
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    kind: Kind
    name: str
    """As clients know it."""
    arguments: Mapping[str, Any] | None = None
    """With them, an authorizer and a hook are asked as for a call."""


class Explanation:
    """Of one question to one server. Nothing is forwarded to a plugin."""

    def __init__(self, server: Server, rules: Rules, authorizer: Authorizer | None) -> None:
        self._server = server
        self._rules = rules
        self._authorizer = authorizer

    async def steps(self, caller: Principal, question: Question) -> list[Step]:
        """The last one is the outcome."""
        told = [*self._of_caller(caller)]
        found = self._find(question)
        if found is None:
            told.append(Step("capability", "no", f"no entry names the {question.kind} {question.name}"))
            return [*told, refused(UnknownCapability())]
        plugin, inner, claim = found
        requirement = claim.declaration.requirement
        told.append(Step("capability", "ok", f"plugin {plugin}, by the entry's {claim.pattern.text}"))
        decision = decide(caller, requirement, self._rules.scopes)
        told += self._judged(caller, claim)
        try:
            require(decision, self._rules.scopes.grant_url)
            capability = Capability(
                kind=question.kind,
                plugin=plugin,
                name=question.name,
                inner=inner,
                requirement=requirement,
                definition={},
                meta=claim.declaration.meta,
            )
            told += [step async for step in self._asked(caller, capability, question)]
        except GatewayError as error:
            return [*told, refused(error)]
        failed = any(step.state == "no" for step in told)
        still = any(step.state == "open" for step in told)
        if failed:
            return [*told, Step("outcome", "no", "refused")]
        return [*told, Step("outcome", "open" if still else "ok", "allowed" + " so far" * still)]

    def _of_caller(self, caller: Principal) -> Iterator[Step]:
        who = f"{caller.kind} {caller.subject}".strip()
        client = f", through client {caller.client_id}" if caller.client_id else ""
        actors = "".join(f", for whom {actor.subject} acts" for actor in caller.actors)
        yield Step("caller", "info", f"{who}{client}{actors}")
        held = sorted(self._rules.scopes.held(caller.scopes))
        yield Step("scopes", "info", f"from the {self._server.scopes.source}: {' '.join(held) or 'none'}")
        if not bound_by_scopes(caller, self._rules.scopes):
            yield Step("scopes", "info", "the user's own session: required scopes do not bind it")
        yield Step("roles", "info", " ".join(sorted(caller.roles)) or "none")

    def _find(self, question: Question) -> tuple[str, str, Claim] | None:
        found: list[tuple[str, str, Claim]] = []
        for plugin in dict.fromkeys(entry.plugin for entry in self._server.capabilities):
            entries = [entry for entry in self._server.capabilities if entry.plugin == plugin]
            for inner in _inner_names(question, entries):
                declarations = Declarations(
                    entries, authorizer=self._server.authorizer is not None, hook=self._rules.hook is not None
                )
                claims = declarations.claims(question.kind, inner)
                found += [
                    (plugin, inner, claim) for claim in claims if _public(question.kind, claim, inner) == question.name
                ]
        exact = [it for it in found if it[2].pattern.exact]
        return next(iter(exact or found), None)

    def _judged(self, caller: Principal, claim: Claim) -> Iterator[Step]:
        scopes, requirement = self._rules.scopes, claim.declaration.requirement
        held, bound = scopes.held(caller.scopes), bound_by_scopes(caller, scopes)
        for scope in dict.fromkeys((*scopes.required, *requirement.scopes)):
            yield _step(f"scope {scope}", scope in held or not bound)
        for group in requirement.roles:
            yield _step(f"role {' or '.join(group)}", not caller.roles.isdisjoint(group))
        for condition in requirement.conditions:
            wanted = " or ".join(condition.wanted)
            if isinstance(condition, ClaimIs):
                wanted = f"{condition.path} is {' or '.join(map(str, condition.values))}"
            yield _step(f"{condition.kind} {wanted}".strip(), condition.met(caller))

    async def _asked(self, caller: Principal, capability: Capability, question: Question) -> AsyncIterator[Step]:
        hook, asks = self._rules.hook, capability.requirement.asks
        if hook is not None:
            yield _step("hook visible", hook.shows(caller, capability))
        if asks is not None and asks.session is not None:
            yield Step(f"session {asks.session}", "open", "Supabase Auth is asked at the call")
        for permission in asks.permissions if asks is not None else ():
            yield await self._permission(caller, permission, capability, question)
        if hook is not None and question.arguments is None:
            yield Step("hook authorize", "open", "asked at the call; give --arguments to ask it here")
        elif hook is not None and question.arguments is not None:
            await hook.authorize(caller, capability, question.arguments)
            yield Step("hook authorize", "ok")

    async def _permission(self, caller: Principal, permission: str, capability: Capability, question: Question) -> Step:
        if question.arguments is None or self._authorizer is None:
            return Step(f"permission {permission}", "open", "asked at the call; give --arguments to ask it here")
        check = Check(permission, capability.kind, capability.name, question.arguments)
        (verdict,) = await self._authorizer.ask(caller, [check])
        return Step(f"permission {permission}", "ok" if verdict == "allowed" else "no", f"the authorizer: {verdict}")


def refused(error: GatewayError) -> Step:
    """The outcome that a client would meet."""
    detail = f"{error.code} {error.message}"
    if isinstance(error, InsufficientScope):
        detail += f" Challenge: {' '.join(error.scopes)}."
    elif isinstance(error, UnknownCapability):
        detail += " It is not listed, and answered like one that does not exist."
    elif not isinstance(error, ScopeNotGranted) and error.reason:
        detail += f" Reason: {error.reason}."
    return Step("outcome", "no", detail)


def _step(what: str, met: bool) -> Step:
    return Step(what, "ok" if met else "no")


def _inner_names(question: Question, entries: list[Entry]) -> list[str]:
    """What a plugin may call it, whose entries have prefixes or none."""
    if question.kind not in ("tool", "prompt"):
        return [question.name]
    prefixes = dict.fromkeys(entry.prefix for entry in entries)
    names = [question.name.removeprefix(f"{prefix}_") if prefix else question.name for prefix in prefixes]
    return list(dict.fromkeys(names))


def _public(kind: Kind, claim: Claim, inner: str) -> str:
    return public_name(claim.declaration.prefix if kind in ("tool", "prompt") else None, inner)
