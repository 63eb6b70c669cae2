"""What is asked before a call goes on, once the rules have said yes: arguments, session, permissions, hook."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cachetools import TTLCache

from rowgate.errors import ApprovalRequired, AuthorizerFailed, PermissionDenied
from rowgate.observe.events import Emit, PolicyAsked, discard
from rowgate.policy.authorizer import Check, Verdict
from rowgate.policy.offer_cache import caller_key

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.policy.authorizer import Authorizer
    from rowgate.policy.catalog import Catalog, Target
    from rowgate.policy.hook import Hook
    from rowgate.protocol.call import Call

A_MOMENT = 30.0
"""Seconds for which a session that lived counts as live."""
MAX_CALLERS = 4096
NOTHING: frozenset[Check] = frozenset()

_MAX_AGE = {"live": A_MOMENT, "fresh": 0.0}


class Liveness(Protocol):
    async def require(self, principal: Principal, max_age: float) -> None:
        """Raises AuthenticationError when the session is over, and a 503 when nobody can say."""


class Authorization:
    """Of one server. Built only where some entry or a hook asks for it."""

    def __init__(
        self,
        server: str,
        *,
        authorizer: Authorizer | None = None,
        hook: Hook | None = None,
        liveness: Liveness | None = None,
        keep: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        emit: Emit = discard,
    ) -> None:
        """`keep`: seconds for which the answers for a list are remembered."""
        self._server = server
        self._authorizer = authorizer
        self._hook = hook
        self._liveness = liveness
        self._emit = emit
        self._clock = clock
        self._permitted: TTLCache[Hashable, frozenset[Check]] | None = (
            TTLCache(MAX_CALLERS, keep, timer=clock) if keep > 0 else None
        )

    async def authorize(self, call: Call, caller: Principal, target: Target) -> None:
        """Raises what stands in the way. Arguments come first, so that nobody judges what is not what it seems."""
        asks = target.decision.asks
        if asks is None and self._hook is None:
            return
        arguments = arguments_of(call, target)
        if call.method == "tools/call" and target.capability.arguments is not None:
            target.capability.arguments.check(arguments)
        if asks is not None and asks.session is not None:
            await self._require_session(caller, _MAX_AGE[asks.session])
        if asks is not None and asks.permissions:
            checks = [
                Check(name, target.capability.kind, target.capability.name, arguments) for name in asks.permissions
            ]
            await self._require_permissions(caller, checks)
        if self._hook is not None:
            await self._hook.authorize(caller, target.capability, arguments)

    async def permitted(self, caller: Principal, catalog: Catalog) -> frozenset[Check]:
        """Of the checks that the catalog's lists need those that hold. An authorizer that fails permits nothing."""
        if not catalog.checks or self._authorizer is None:
            return NOTHING
        key = (hashlib.sha256(caller.credential.encode()).digest(), caller_key(caller), catalog.checks)
        known = None if self._permitted is None else self._permitted.get(key)
        if known is not None:
            return known
        try:
            answers = await self._ask(caller, catalog.checks)
        except AuthorizerFailed:
            return NOTHING
        found = frozenset(check for check, verdict in zip(catalog.checks, answers, strict=True) if verdict == "allowed")
        if self._permitted is not None:
            self._permitted[key] = found
        return found

    async def _require_permissions(self, caller: Principal, checks: list[Check]) -> None:
        try:
            answers = await self._ask(caller, checks)
        except AuthorizerFailed as error:
            raise AuthorizerFailed(checks[0].permission, reason=error.reason) from None
        for check, verdict in zip(checks, answers, strict=True):
            if verdict == "approval":
                raise ApprovalRequired(check.permission)
            if verdict == "denied":
                raise PermissionDenied(check.permission)

    async def _ask(self, caller: Principal, checks: list[Check] | tuple[Check, ...]) -> list[Verdict]:
        started = self._clock()
        outcome = "failed"
        if self._authorizer is None:
            raise AuthorizerFailed(reason="authorizer")
        try:
            answers = await self._authorizer.ask(caller, checks)
            outcome = "ok"
            return answers
        except AuthorizerFailed as error:
            outcome = error.reason
            raise
        finally:
            self._emit(PolicyAsked(self._server, "authorizer", outcome, self._clock() - started))

    async def _require_session(self, caller: Principal, max_age: float) -> None:
        if self._liveness is None:
            raise AuthorizerFailed(reason="session")
        await self._liveness.require(caller, max_age)


def arguments_of(call: Call, target: Target) -> Mapping[str, Any]:
    """What a call is made with: a tool's or prompt's arguments, or the URI of a resource."""
    if call.method == "resources/read":
        return {"uri": target.inner}
    if call.method == "completion/complete":
        argument = call.params.get("argument")
        return {"argument": argument} if isinstance(argument, dict) else {}
    arguments = call.params.get("arguments")
    return arguments if isinstance(arguments, dict) else {}
