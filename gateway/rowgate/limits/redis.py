"""Counters that replicas share through Redis or Valkey.

Connection, URL forms and the layout of a window (two keys, whose remaining life says how far it has gone) are the
library's; its script is written anew for several budgets, so that a request asks once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from limits.aio.storage import RedisStorage
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.window import Charge, Exhausted, Window, verdict

PREFIX: Final = "{rowgate-limits}"
"""In braces, so that a cluster keeps the budgets of one request together."""

_CHARGE: Final = """
-- KEYS: current and previous window of each budget. ARGV: amount, period in milliseconds and cost of each.
-- Answers nothing when all were charged, else of each budget: current count, previous count, milliseconds that remain.
local answer, fit = {}, true
for i = 1, #KEYS / 2 do
    local current_key, previous_key = KEYS[2 * i - 1], KEYS[2 * i]
    local amount, period, cost = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    local life = redis.call('pttl', current_key)
    if life > 0 and life < period then
        redis.call('rename', current_key, previous_key)
        life = life + period
        redis.call('set', current_key, 0, 'px', life)
    end
    local remaining = life > 0 and life - period or period
    local current = tonumber(redis.call('get', current_key)) or 0
    local previous = tonumber(redis.call('get', previous_key)) or 0
    if math.floor(previous * remaining / period) + current + cost > amount then fit = false end
    answer[#answer + 1] = current
    answer[#answer + 1] = previous
    answer[#answer + 1] = remaining
end
if not fit then return answer end
for i = 1, #KEYS / 2 do
    local current_key, period, cost = KEYS[2 * i - 1], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    if redis.call('exists', current_key) == 1 then
        redis.call('incrby', current_key, cost)
    else
        redis.call('set', current_key, cost, 'px', 2 * period)
    end
end
return false
"""


class RedisCounters:
    """Raises RedisError, OSError or TimeoutError: see `FAILURES` of the guard."""

    def __init__(self, url: str, pseudonyms: Pseudonyms, *, timeout: float) -> None:
        """`timeout`: seconds for each step on the connection."""
        self._storage = RedisStorage(
            f"async+{url}",
            implementation="redispy",
            key_prefix=PREFIX,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            # One more attempt, because the server may have closed the connection since it was last used.
            retry=Retry(NoBackoff(), 1),  # type: ignore[arg-type]
        )
        # Typed for three clients at once, of which this is redis-py.
        bridge: Any = self._storage.bridge
        self._client = bridge.get_connection()
        self._script = self._client.register_script(_CHARGE)
        self._pseudonyms = pseudonyms

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        keys: list[str] = []
        arguments: list[int] = []
        for charge in charges:
            key = f"{PREFIX}:{self._pseudonyms.of(charge)}"
            keys += (key, f"{key}/-1")
            arguments += (charge.rate.amount, charge.rate.period * 1000, charge.cost)
        states = await self._script(keys, arguments)
        return None if states is None else verdict(charges, _windows(states))

    async def close(self) -> None:
        await self._client.aclose()


def _windows(states: Sequence[int]) -> list[Window]:
    return [
        Window(current, previous, remaining / 1000)
        for current, previous, remaining in zip(states[::3], states[1::3], states[2::3], strict=True)
    ]
