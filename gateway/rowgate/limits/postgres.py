"""Counters that replicas share through PostgreSQL, for who has no Redis. See `sql/counters.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg  # type: ignore[import-untyped]

from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.window import Charge, Exhausted, Window, verdict

CONNECTIONS: Final = 8
_CHARGE: Final = "select used, remaining, charged from rowgate.charge_limits($1, $2, $3, $4)"


class PostgresCounters:
    def __init__(self, url: str, pseudonyms: Pseudonyms, *, timeout: float) -> None:
        """`timeout`: seconds for each step on a connection."""
        self._pool = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=timeout,
            command_timeout=timeout,
            # A pooler in transaction mode, such as Supabase's on port 6543, knows no prepared statements.
            statement_cache_size=0,
            server_settings={"application_name": "rowgate limits"},
        )
        self._pseudonyms = pseudonyms

    async def charge(self, charges: Sequence[Charge]) -> Exhausted | None:
        await self._pool
        rows = await self._pool.fetch(
            _CHARGE,
            [self._pseudonyms.of(charge) for charge in charges],
            [charge.rate.amount for charge in charges],
            [charge.rate.period for charge in charges],
            [charge.cost for charge in charges],
        )
        if all(row["charged"] for row in rows):
            return None
        return verdict(charges, [Window(row["used"], 0, row["remaining"]) for row in rows])

    async def close(self) -> None:
        self._pool.terminate()
