"""The store of counters that the configuration names."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from rowgate.config.limits import GatewayLimits, StoreUrl
from rowgate.errors import StartError
from rowgate.limits.guard import GuardedCounters
from rowgate.limits.pseudonym import Pseudonyms
from rowgate.limits.window import Counters
from rowgate.observe.events import Emit


def shared_counters(store: StoreUrl, limits: GatewayLimits, secret: bytes, emit: Emit) -> GuardedCounters:
    """Counters outside the process; nothing is connected to yet. Raises StartError without the library for them."""
    pseudonyms = Pseudonyms(secret)
    timeout = limits.store_timeout
    counters: Counters
    failures: Iterable[type[Exception]]
    if store.kind == "redis":
        try:
            from redis.exceptions import RedisError

            from rowgate.limits.redis import RedisCounters
        except ImportError:
            raise StartError(_MISSING.format("Redis", "redis")) from None
        counters, failures = RedisCounters(store.url, pseudonyms, timeout=timeout), (RedisError,)
    else:
        try:
            from asyncpg import InterfaceError, PostgresError  # type: ignore[import-untyped]

            from rowgate.limits.postgres import PostgresCounters
        except ImportError:
            raise StartError(_MISSING.format("PostgreSQL", "postgres")) from None
        counters = PostgresCounters(store.url, pseudonyms, timeout=timeout)
        failures = (PostgresError, InterfaceError)
    return GuardedCounters(
        counters,
        (*failures, OSError, TimeoutError),
        closed=limits.on_store_error == "closed",
        timeout=timeout,
        emit=emit,
    )


_MISSING = "The client for {} is not installed: `pip install 'rowgate[{}]'`."


def pseudonym_secret(signing_key: str | None, public_url: str) -> bytes:
    """What replicas share already. The public URL, without a signing key, guards against no guess."""
    return sha256(b"rowgate limits\0" + (signing_key or public_url).strip().encode()).digest()
