"""Counters of this process.

Not the library's: its memory storage starts a task at every hit that walks through all keys, and keeps every key that
anybody makes up until then.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from rowgate.limits.window import Charge, Exhausted, Window, verdict

CAPACITY = 50_000
"""Budgets that are remembered; those that were asked least recently are forgotten first."""


class MemoryCounters:
    def __init__(self, *, capacity: int = CAPACITY, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._monotonic = monotonic
        self._budgets: OrderedDict[tuple[str, int, tuple[str, ...]], _Budget] = OrderedDict()

    def __len__(self) -> int:
        return len(self._budgets)

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        now = self._monotonic()
        found = [self._budget(charge, now) for charge in charges]
        for charge, budget in zip(charges, found, strict=True):
            if budget.used(now) + charge.cost > charge.rate.amount:
                return verdict(charges, [budget.window(now) for budget in found])
        for charge, budget in zip(charges, found, strict=True):
            budget.current += charge.cost
        return None

    async def close(self) -> None:
        self._budgets.clear()

    def _budget(self, charge: Charge, now: float) -> _Budget:
        """As it is now, and the last to be forgotten."""
        period = charge.rate.period
        key = (charge.limit, period, charge.identity)
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = _Budget(period, now)
            if len(self._budgets) > self._capacity:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(key)
            if now >= budget.ends:
                budget.turn(now)
        return budget


class _Budget:
    """A window that is changed in place, because it is on the way of every request."""

    __slots__ = ("current", "ends", "period", "previous")

    def __init__(self, period: int, now: float) -> None:
        self.period = period
        self.ends = now + period
        self.current = self.previous = 0

    def turn(self, now: float) -> None:
        """The window is over, and perhaps the next one too."""
        late = now - self.ends
        self.previous = self.current if late < self.period else 0
        self.current = 0
        self.ends = now + self.period - late % self.period

    def used(self, now: float) -> int:
        if not self.previous:
            return self.current
        return int(self.previous * (self.ends - now) / self.period) + self.current

    def window(self, now: float) -> Window:
        return Window(self.current, self.previous, self.ends - now)
