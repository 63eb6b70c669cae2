"""The door: the current catalog of a server, for one caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache, TTLCache

from rowgate.observe.events import Emit, discard
from rowgate.policy.binding import Part, bind
from rowgate.policy.capability import Finding
from rowgate.policy.catalog import Catalog
from rowgate.policy.declarations import Declarations
from rowgate.policy.offer_cache import MAX_CALLERS, MAX_STALE, OfferCache, caller_key
from rowgate.policy.offers import Ask, Offer
from rowgate.policy.rules import ScopePolicy

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.models import Server
    from rowgate.config.plugin import Plugin
    from rowgate.policy.hook import Hook

_EVERYBODY: Hashable = ()
_REMEMBERED_FINDINGS = 4096

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    offers: tuple[Offer, ...]
    catalog: Catalog


class _View:
    """One server: its plugins in the order of its entries, and the catalogs made of their offers."""

    def __init__(
        self,
        name: str,
        server: Server,
        plugins: Mapping[str, Plugin],
        scopes: ScopePolicy,
        hook: Hook | None,
        clock: Callable[[], float],
    ) -> None:
        names = tuple(dict.fromkeys(entry.plugin for entry in server.capabilities))
        self.name = name
        self.plugins = {plugin: plugins[plugin] for plugin in names}
        self.scopes = scopes
        self.hook = hook
        self.declarations = {
            plugin: Declarations(
                (entry for entry in server.capabilities if entry.plugin == plugin),
                authorizer=server.authorizer is not None,
                hook=hook is not None,
            )
            for plugin in names
        }
        self.shared = all(settings.lists == "shared" for settings in self.plugins.values())
        self.parts: dict[str, tuple[Offer, Part]] = {}
        kept = max(settings.list_ttl for settings in self.plugins.values()) + MAX_STALE
        self.snapshots: MutableMapping[Hashable, _Snapshot] = (
            {} if self.shared else TTLCache(MAX_CALLERS, kept, timer=clock)
        )


class Catalogs:
    def __init__(
        self,
        *,
        servers: Mapping[str, Server],
        plugins: Mapping[str, Plugin],
        scopes: Mapping[str, ScopePolicy],
        ask: Ask,
        hooks: Mapping[str, Hook] | None = None,
        emit: Emit = discard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`scopes` and `hooks` by server."""
        used = {entry.plugin: plugins[entry.plugin] for server in servers.values() for entry in server.capabilities}
        self._offers = OfferCache(used, ask, emit=emit, clock=clock)
        self._plugins = used
        self._views = {
            name: _View(name, server, plugins, scopes[name], (hooks or {}).get(name), clock)
            for name, server in servers.items()
        }
        self._emit = emit
        self._clock = clock
        self._said: LRUCache[tuple[str, Finding], bool] = LRUCache(_REMEMBERED_FINDINGS)

    async def of(self, server: str, principal: Principal) -> Catalog:
        """Waits only where nothing is known yet of a plugin, or nothing that is young enough. Never raises for a
        plugin that fails: its capabilities are left out."""
        view = self._views[server]
        if view.shared and (known := view.snapshots.get(_EVERYBODY)) and self._clock() < known.catalog.fresh_until:
            return known.catalog
        offers = tuple(offer for plugin in view.plugins if (offer := self._offers.ready(plugin, principal)) is not None)
        if len(offers) < len(view.plugins):
            offers = tuple(await asyncio.gather(*(self._offers.get(plugin, principal) for plugin in view.plugins)))
        return self._catalog(view, offers, _EVERYBODY if view.shared else caller_key(principal))

    async def load(self) -> None:
        """Asks every plugin once, all at the same time."""
        await asyncio.gather(*(self._ask(plugin) for plugin in self._plugins))

    async def reload(self, plugin: str) -> None:
        """Asks a plugin that has just come up."""
        if plugin in self._plugins:
            await self._ask(plugin)

    async def run(self, sleep: Sleep = asyncio.sleep) -> None:
        """Keeps shared lists fresh without traffic, and notices a plugin that comes back. Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for plugin in self._plugins:
                group.create_task(self._keep(plugin, sleep))

    def answered(self, plugin: str) -> bool:
        """Whether the plugin has answered at least once since the start."""
        return self._offers.answered(plugin)

    async def close(self) -> None:
        await self._offers.close()

    async def _keep(self, plugin: str, sleep: Sleep) -> None:
        while (due := self._offers.due(plugin)) != float("inf"):
            pause = due - self._clock()
            if pause > 0:
                await sleep(pause)
            else:
                await self._ask(plugin)

    async def _ask(self, plugin: str) -> None:
        if not self._offers.shared(plugin):
            await self._offers.probe(plugin)
            return
        await self._offers.refresh(plugin)
        for view in self._views.values():
            if view.shared and plugin in view.plugins:
                self._assemble(view)

    def _assemble(self, view: _View) -> None:
        """Ahead of the next call, so that it need not; and so that findings are said without any call."""
        offers = tuple(offer for plugin in view.plugins if (offer := self._offers.kept(plugin)) is not None)
        if len(offers) == len(view.plugins):
            self._catalog(view, offers, _EVERYBODY)

    def _catalog(self, view: _View, offers: tuple[Offer, ...], key: Hashable) -> Catalog:
        snapshot = view.snapshots.get(key)
        if snapshot is not None and snapshot.offers == offers:  # offers compare by identity
            return snapshot.catalog
        catalog = Catalog(
            view.name,
            [self._part(view, offer) for offer in offers],
            view.scopes,
            fresh_until=min(offer.fresh_until for offer in offers),
            complete=not any(offer.failed for offer in offers),
            hook=view.hook,
        )
        self._report(view.name, catalog.findings, again=view.shared)
        view.snapshots[key] = _Snapshot(offers, catalog)
        return catalog

    def _part(self, view: _View, offer: Offer) -> Part:
        settings, declarations = view.plugins[offer.plugin], view.declarations[offer.plugin]
        if settings.lists == "per_caller":
            part = bind(declarations, offer, settings.hints, per_caller=True)
            self._report(view.name, part.findings, again=False)
            return part
        known = view.parts.get(offer.plugin)
        if known is not None and known[0] is offer:
            return known[1]
        if known is not None and known[0].says_the_same_as(offer):
            part = known[1]
        else:
            part = bind(declarations, offer, settings.hints, per_caller=False)
        view.parts[offer.plugin] = (offer, part)
        self._report(view.name, part.findings, again=True)
        return part

    def _report(self, server: str, findings: Iterable[Finding], *, again: bool) -> None:
        """Quarantines are said at each load; what only some callers meet, and warnings, once."""
        for finding in findings:
            said = (server, finding) in self._said
            self._said[server, finding] = True
            if not said or (again and finding.reason != "hints_defaulted"):
                self._emit(finding.event(server))
