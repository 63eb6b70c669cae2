"""Whether the limits of a configuration can do what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowgate.config.authentication import Auth
from rowgate.config.limits import GatewayLimits, ServerLimits
from rowgate.config.models import Entry, Gateway
from rowgate.config.plugin import Plugin
from rowgate.config.problems import Finding, Location

OF_CALLERS = ("subject", "lists", "reads", "concurrency", "streams")
"""Limits that need to know who calls."""
_STORED = ("address", "subject", "lists", "reads")


@dataclass(frozen=True, slots=True)
class ServerBudgets:
    """None stands for a section that is not valid by itself."""

    auth: Auth | None
    limits: ServerLimits | None
    entries: Sequence[Entry | None]

    @property
    def public(self) -> bool:
        return self.auth is not None and self.auth.mode == "public"

    @property
    def counts(self) -> bool:
        """Whether anything of this server is counted in the store, as far as one can see."""
        limits = self.limits
        return (
            limits is None
            or any(getattr(limits, name) is not None for name in _STORED)
            or any(entry is None or entry.limits.subject is not None for entry in self.entries)
        )

    def check(self, at: Location) -> Iterator[Finding]:
        if self.limits is not None:
            yield from self._of_server(self.limits, (*at, "limits"))
        for index, entry in enumerate(self.entries):
            if entry is not None and entry.limits.counts:
                yield from self._of_entry(entry, (*at, "capabilities", index, "limits"))

    def _of_server(self, limits: ServerLimits, at: Location) -> Iterator[Finding]:
        if not self.public:
            return
        if limits.address is None:
            hint = "Nobody signs in here, so an address is all that can be limited: set address."
            yield Finding(at[:-1], "is public and sets no limit", hint, of_key=True)
        for name in OF_CALLERS:
            if name in limits.model_fields_set and getattr(limits, name) is not None:
                yield Finding((*at, name), "does nothing on a public server, which knows no callers", of_key=True)

    def _of_entry(self, entry: Entry, at: Location) -> Iterator[Finding]:
        limits = entry.limits
        if self.public:
            yield Finding(at, "does nothing on a public server, which knows no callers", of_key=True)
            return
        if limits.cost == 1 or self.limits is None:
            return
        budget = self.limits.subject
        if not entry.tools:
            yield Finding((*at, "cost"), "does nothing: only calls of tools have a cost", of_key=True)
        elif budget is None:
            hint = f"Set limits.subject on the server: that is what a call takes {limits.cost} of."
            yield Finding((*at, "cost"), "does nothing without limits.subject", hint, of_key=True)
        elif limits.cost > budget.amount:
            yield Finding((*at, "cost"), "is more than limits.subject ever has, so no call would pass")


def budgets(
    gateway: Gateway | None, plugins: Mapping[str, Plugin | None], servers: Mapping[str, ServerBudgets]
) -> Iterator[Finding]:
    for name, server in servers.items():
        yield from server.check(("servers", name))
    for name, plugin in plugins.items():
        if plugin is not None and plugin.concurrency is not None and plugin.concurrency > plugin.max_connections:
            yield Finding(
                ("plugins", name, "concurrency"),
                "is more than max_connections, which makes calls wait before they are refused",
                severity="warning",
            )
    if gateway is not None:
        yield from _gateway(gateway, servers)


def _gateway(gateway: Gateway, servers: Mapping[str, ServerBudgets]) -> Iterator[Finding]:
    limits = gateway.limits
    counting = limits.failed_authentications is not None or any(server.counts for server in servers.values())
    if gateway.limits_store.kind == "memory":
        for name in ("on_store_error", "store_timeout"):
            if getattr(limits, name) != GatewayLimits.model_fields[name].default:
                yield Finding(("gateway", "limits", name), "does nothing: memory does not fail", of_key=True)
    elif not counting:
        yield Finding(("gateway", "limits_store"), "is not used: nothing is limited", of_key=True)
    elif gateway.context.signing_key is None:
        hint = "Replicas share a key: set gateway.context.signing_key, from which the names of counters are made too."
        yield Finding(("gateway", "limits_store"), "is shared, but this gateway can only run alone", hint, "warning")
    if limits.failed_authentications is not None and servers and all(server.public for server in servers.values()):
        where: Location = ("gateway", "limits", "failed_authentications")
        yield Finding(where, "does nothing: nobody signs in at any server", of_key=True)
