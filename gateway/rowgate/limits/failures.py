"""Refused credentials by client address.

Only what was refused is counted, so that a flood of bad tokens from an address that many people share costs nobody a
good one: signatures are verified as before. What an exhausted address loses is the 401 that begins a new sign-in, and
that others are asked in its name (introspection, key lookup) about credentials that nobody has vouched for yet.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import LRUCache

from rowgate.auth.answers import NOT_NOW
from rowgate.auth.principal import Principal
from rowgate.config.limits import Rate
from rowgate.errors import (
    ApiKeyRefused,
    CredentialsMalformed,
    LimitsUnavailable,
    TokenRefused,
    TooManyFailures,
)
from rowgate.limits.address import address_block
from rowgate.limits.window import Charge, Counters
from rowgate.observe.events import Emit, Limit, LimitsDecided

LIMIT: Final[Limit] = "failed_authentications"
CAPACITY: Final = 10_000
"""Addresses that are remembered. Anybody can fail, so these never push out the budgets of callers."""
_COUNTED: Final = (CredentialsMalformed, TokenRefused, ApiKeyRefused)
"""Not a missing token, with which every client begins; nor an expired one or a session that is over: they were good."""

_ALLOWED: Final = LimitsDecided((LIMIT,))
_REFUSED: Final = LimitsDecided((LIMIT,), refused=LIMIT)


class FailedAuthentications:
    def __init__(
        self, rate: Rate, counters: Counters, emit: Emit, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._counters = counters
        self._emit = emit
        self._monotonic = monotonic
        self._until: LRUCache[str, float] = LRUCache(CAPACITY)

    async def counted(self, asked: Awaitable[Principal], address: str) -> Principal:
        """Who calls. Raises TooManyFailures instead of a refusal when the address has had its share of those."""
        block = address_block(address)
        exhausted = NOT_NOW.set(TooManyFailures(LIMIT, wait)) if (wait := self._wait(block)) > 0 else None
        try:
            return await asked
        except _COUNTED as error:
            await self._count(block)
            raise error from None
        except TooManyFailures:
            self._emit(_REFUSED)
            raise
        finally:
            if exhausted is not None:
                NOT_NOW.reset(exhausted)

    def _wait(self, block: str) -> float:
        return self._until.get(block, 0.0) - self._monotonic() if self._until else 0.0

    async def _count(self, block: str) -> None:
        try:
            exhausted = await self._counters.charge([Charge(LIMIT, (block,), self._rate)])
        except LimitsUnavailable:
            return  # the credential is refused anyway
        if exhausted is None:
            self._emit(_ALLOWED)
            return
        self._emit(_REFUSED)
        self._until[block] = self._monotonic() + exhausted.wait
        raise TooManyFailures(LIMIT, exhausted.wait)
