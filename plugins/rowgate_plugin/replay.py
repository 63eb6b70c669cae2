"""Which contexts this process has already accepted."""

from __future__ import annotations

import heapq
from typing import Literal

Outcome = Literal["fresh", "replayed", "capacity"]


class ReplayGuard:
    """A bounded set of `jti`. Only expired ones leave it.

    Full of unexpired ones, it refuses (`capacity`): dropping one would let it be replayed. Only contexts that a
    trusted key signed are spent here, so a stranger cannot fill it.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a replay guard holds at least one jti")
        self._capacity = capacity
        self._seen: set[str] = set()
        self._expiries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._seen)

    def spend(self, jti: str, *, until: float, now: float) -> Outcome:
        """`until` is the moment, in seconds since the epoch, after which the verifier refuses this context anyway."""
        while self._expiries and self._expiries[0][0] <= now:
            self._seen.discard(heapq.heappop(self._expiries)[1])
        if jti in self._seen:
            return "replayed"
        if len(self._seen) >= self._capacity:
            return "capacity"
        self._seen.add(jti)
        heapq.heappush(self._expiries, (until, jti))
        return "fresh"
