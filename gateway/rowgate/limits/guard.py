"""A store of counters that may fail: what happens to requests then is a setting, and is counted either way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from rowgate.errors import LimitsUnavailable
from rowgate.limits.window import Charge, Counters, Exhausted
from rowgate.observe.events import Emit, LimitStoreFailed

PAUSE: Final = 1.0
"""Seconds for which a store that failed is not asked again: a request would only wait for it."""
QUIET: Final = 30.0
"""Seconds between two events of one outage that the log takes notice of."""


class GuardedCounters:
    def __init__(
        self,
        counters: Counters,
        failures: tuple[type[Exception], ...],
        *,
        closed: bool,
        timeout: float,
        emit: Emit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`failures`: what the store raises. `closed`: refuse while it fails. `timeout`: seconds for one question."""
        self._counters = counters
        self._failures = failures
        self._closed = closed
        self._timeout = timeout
        self._emit = emit
        self._monotonic = monotonic
        self._asked_again = self._said_again = float("-inf")

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        """Raises LimitsUnavailable when the store fails and that closes the gateway."""
        if self._monotonic() < self._asked_again:
            self._uncounted("paused")
            return None
        try:
            async with asyncio.timeout(self._timeout):
                return await self._counters.charge(charges)
        except self._failures as error:
            self._asked_again = self._monotonic() + PAUSE
            self._uncounted(type(error).__name__)
            return None

    async def close(self) -> None:
        await self._counters.close()

    def _uncounted(self, detail: str) -> None:
        now = self._monotonic()
        loud = now >= self._said_again
        if loud:
            self._said_again = now + QUIET
        self._emit(LimitStoreFailed("refused" if self._closed else "allowed", detail, loud))
        if self._closed:
            raise LimitsUnavailable
