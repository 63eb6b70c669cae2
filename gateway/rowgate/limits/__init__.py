"""How often, and how many at once. The door: everything of it that one configuration asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowgate.config.models import Config, Server
from rowgate.limits.budgets import Budgets
from rowgate.limits.failures import CAPACITY, FailedAuthentications
from rowgate.limits.memory import MemoryCounters
from rowgate.limits.occupancy import Occupancy
from rowgate.limits.store import pseudonym_secret, shared_counters
from rowgate.limits.window import Counters
from rowgate.observe.events import Emit

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """None stands for what nothing limits, so that it costs nothing."""

    budgets: Mapping[str, Budgets | None]
    """By server."""
    occupancy: Occupancy | None
    failures: FailedAuthentications | None
    counters: tuple[Counters, ...]

    @classmethod
    def of(cls, config: Config, emit: Emit) -> Limits:
        """Nothing is connected to yet. Raises StartError when the client for the store is not installed."""
        gateway = config.gateway
        shared: Counters | None = None
        if gateway.limits_store.kind != "memory":
            key = gateway.context.signing_key
            secret = pseudonym_secret(None if key is None else key.reveal(), gateway.public_url)
            shared = shared_counters(gateway.limits_store, gateway.limits, secret, emit)
        of_callers = shared or MemoryCounters()
        of_failures = shared or MemoryCounters(capacity=CAPACITY)
        rate = gateway.limits.failed_authentications
        plugins = {name: it.concurrency for name, it in config.plugins.items() if it.concurrency is not None}
        occupied = plugins or any(
            server.limits.concurrency or server.limits.streams for server in config.servers.values()
        )
        return cls(
            budgets={
                name: Budgets(name, server.limits, of_callers, emit) if _counts(server) else None
                for name, server in config.servers.items()
            },
            occupancy=Occupancy(plugins, emit) if occupied else None,
            failures=None if rate is None else FailedAuthentications(rate, of_failures, emit),
            counters=(of_callers, of_failures),
        )

    async def close(self) -> None:
        for counters in dict.fromkeys(self.counters):
            await counters.close()


def _counts(server: Server) -> bool:
    limits = server.limits
    return any((limits.address, limits.subject, limits.lists, limits.reads)) or any(
        entry.limits.counts for entry in server.capabilities
    )
