"""What is counted, and what a store of counters has to do.

A sliding window counter, as in the library `limits`: the count of the last window weighs as much as of it still
overlaps with the period that ends now. All charges of one request are made together or not at all, so that a request
that one budget refuses does not use up another, which may be other people's too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowgate.config.limits import Rate
from rowgate.observe.events import Limit


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request takes from one budget."""

    limit: Limit
    identity: tuple[str, ...]
    """Whose budget it is, beside the word. A store outside the process gets to see a keyed hash of it only."""
    rate: Rate
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Exhausted:
    charge: Charge
    wait: float
    """Seconds until the charge would fit if nobody else made one."""


class Counters(Protocol):
    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        """All of them or, with an answer, none. The answer is the one that takes longest to fit."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Window:
    """The state of one budget."""

    current: int
    previous: int
    remaining: float
    """Seconds until the current window becomes the previous one."""

    def fits(self, charge: Charge) -> bool:
        return self.used(charge.rate.period) + charge.cost <= charge.rate.amount

    def used(self, period: int) -> int:
        return int(self.previous * self.remaining / period) + self.current

    def wait(self, charge: Charge) -> float:
        """Seconds until the charge fits: as the previous window fades, else as the current one does after its end."""
        period, cost = charge.rate.period, charge.cost
        room = charge.rate.amount - self.current - cost
        if room >= 0:
            return max(0.0, self.remaining - _fading(self.previous, room, period))
        room = charge.rate.amount - cost
        return self.remaining + max(0.0, period - _fading(self.current, room, period))


def _fading(count: int, room: int, period: int) -> float:
    """With how many seconds left a window of `count` weighs no more than `room`."""
    return period * (room + 1) / count if count else float(period)


def verdict(charges: Sequence[Charge], windows: Sequence[Window]) -> Exhausted | None:
    """Of charges that were refused: the one that takes longest to fit."""
    refused = [
        Exhausted(charge, window.wait(charge))
        for charge, window in zip(charges, windows, strict=True)
        if not window.fits(charge)
    ]
    return max(refused, key=lambda one: one.wait, default=None)
