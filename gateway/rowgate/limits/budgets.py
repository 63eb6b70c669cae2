"""How often: the budgets of one server, charged in the order in which a request meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rowgate.config.limits import Rate, ServerLimits
from rowgate.errors import AddressLimitReached, CapabilityLimitReached, LimitReached, SubjectLimitReached
from rowgate.limits.address import address_block
from rowgate.limits.window import Charge, Counters
from rowgate.observe.events import Emit, Limit, LimitsDecided

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.policy.catalog import Target
    from rowgate.protocol.call import Call

_REFUSALS: Final[dict[Limit, type[LimitReached]]] = {
    "address": AddressLimitReached,
    "subject": SubjectLimitReached,
    "lists": SubjectLimitReached,
    "reads": SubjectLimitReached,
    "capability": CapabilityLimitReached,
}
_LIST_LIKE: Final = frozenset({"initialize", "server/discover"})
"""Answered from the caller's lists, so they cost what lists cost."""
_USES: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""A completion only prepares a use."""


class Budgets:
    def __init__(self, server: str, limits: ServerLimits, counters: Counters, emit: Emit) -> None:
        self._server = server
        self._limits = limits
        self._counters = counters
        self._emit = emit
        self._allowed: dict[tuple[Limit, ...], LimitsDecided] = {}

    async def admit(self, call: Call, caller: Principal, address: str) -> None:
        """What any request takes, before anything is asked in its name. Raises LimitReached."""
        charges = []
        limits = self._limits
        if limits.address is not None:
            charges.append(Charge("address", (self._server, address_block(address)), limits.address))
        if caller.kind != "public" and (own := self._own(call)) is not None:
            charges.append(Charge(own[0], (self._server, caller.issuer, caller.subject), own[1]))
        if charges:
            await self._charge(charges)

    async def charge(self, call: Call, caller: Principal, target: Target) -> None:
        """What this capability takes beyond that. Raises LimitReached."""
        own = target.capability.limits
        if own is None or caller.kind == "public" or call.method not in _USES:
            return
        charges = []
        whose = (self._server, caller.issuer, caller.subject)
        if own.subject is not None:
            what = (target.capability.kind, target.capability.name)
            charges.append(Charge("capability", whose + what, own.subject))
        if own.cost > 1 and self._limits.subject is not None and call.kind == "call":
            # One of it is paid: this call was admitted.
            charges.append(Charge("subject", whose, self._limits.subject, own.cost - 1))
        if charges:
            await self._charge(charges)

    def _own(self, call: Call) -> tuple[Limit, Rate] | None:
        limits = self._limits
        owed: tuple[Limit, Rate | None]
        if call.kind == "call":
            owed = "subject", limits.subject
        elif call.kind == "read":
            owed = "reads", limits.reads
        elif call.kind == "list" or call.method in _LIST_LIKE:
            owed = "lists", limits.lists
        else:
            return None
        limit, rate = owed
        return None if rate is None else (limit, rate)

    async def _charge(self, charges: Sequence[Charge]) -> None:
        exhausted = await self._counters.charge(charges)
        names = tuple(charge.limit for charge in charges)
        if exhausted is None:
            allowed = self._allowed.get(names)
            if allowed is None:
                allowed = self._allowed[names] = LimitsDecided(names)
            self._emit(allowed)
            return
        reached = exhausted.charge.limit
        self._emit(LimitsDecided(names, refused=reached))
        raise _REFUSALS[reached](reached, exhausted.wait)
