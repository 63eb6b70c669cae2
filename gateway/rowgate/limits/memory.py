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

_Key = tuple[str, tuple[str, ...], int]


class MemoryCounters:
    def __init__(self, *, capacity: int = CAPACITY, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._monotonic = monotonic
        self._windows: OrderedDict[_Key, tuple[int, int, int]] = OrderedDict()
        """Index of the current window since the epoch of the clock, its count, and the count of the one before."""

    def __len__(self) -> int:
        return len(self._windows)

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        now = self._monotonic()
        found = [self._window(charge, now) for charge in charges]
        if not all(map(Window.fits, found, charges)):
            return verdict(charges, found)
        for charge, window in zip(charges, found, strict=True):
            self._keep(charge, int(now // charge.rate.period), window)
        return None

    async def close(self) -> None:
        self._windows.clear()

    def _window(self, charge: Charge, now: float) -> Window:
        period = charge.rate.period
        index = int(now // period)
        remaining = (index + 1) * period - now
        known = self._windows.get(key := _key(charge))
        if known is None:
            return Window(0, 0, remaining)
        self._windows.move_to_end(key)
        last, current, previous = known
        if last == index:
            return Window(current, previous, remaining)
        return Window(0, current if last == index - 1 else 0, remaining)

    def _keep(self, charge: Charge, index: int, window: Window) -> None:
        self._windows[_key(charge)] = (index, window.current + charge.cost, window.previous)
        if len(self._windows) > self._capacity:
            self._windows.popitem(last=False)


def _key(charge: Charge) -> _Key:
    return charge.limit, charge.identity, charge.rate.period
