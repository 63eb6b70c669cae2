"""Offers, kept: one for each plugin with `lists: shared`, one for each caller of a plugin with `lists: per_caller`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cachetools import TTLCache

from rowgate.errors import GatewayError, PluginTimeout
from rowgate.observe.events import CatalogLoaded, Defect, Emit
from rowgate.policy.offers import DISCOVER, Ask, Fetched, Listing, Offer, discover, fetch

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.plugin import Plugin

MAX_STALE = 300.0
"""Seconds that a list outlives the plugin that offered it."""
MAX_CALLERS = 2048
"""Callers whose own lists are kept, for each plugin."""
FIRST_RETRY = 1.0
LAST_RETRY = 30.0
"""Seconds between attempts while a plugin fails: the first doubles up to the last."""

_EVERYBODY: Hashable = ()


def caller_key(principal: Principal) -> Hashable:
    """Everything by which a plugin could tell callers apart that outlives one token."""
    role = principal.claims.get("role")
    return (
        principal.kind,
        principal.issuer,
        principal.subject,
        principal.client_id,
        principal.scopes,
        principal.roles,
        principal.actors,
        principal.aal,
        role if isinstance(role, str) else None,
    )


@dataclass(slots=True)
class _Slot:
    offer: Offer | None = None
    failures: int = 0
    flight: asyncio.Task[Offer] | None = None


class _Shelf:
    """The slots of one plugin."""

    def __init__(self, settings: Plugin, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.shared = settings.lists == "shared"
        self.answered = False
        self.probe_at = 0.0
        self.probe_failures = 0
        self.slots: MutableMapping[Hashable, _Slot] = (
            {} if self.shared else TTLCache(MAX_CALLERS, settings.list_ttl + MAX_STALE, timer=clock)
        )

    def key(self, principal: Principal | None) -> Hashable:
        if self.shared:
            return _EVERYBODY
        if principal is None:
            raise ValueError("lists that depend on the caller are never fetched without one")
        return caller_key(principal)


class OfferCache:
    """Fresh offers are answered without waiting; stale ones too, while one flight a slot asks again behind them."""

    def __init__(self, plugins: dict[str, Plugin], ask: Ask, *, emit: Emit, clock: Callable[[], float]) -> None:
        self._shelves = {name: _Shelf(settings, clock) for name, settings in plugins.items()}
        self._ask = ask
        self._emit = emit
        self._clock = clock
        self._flights: set[asyncio.Task[Offer]] = set()

    def answered(self, plugin: str) -> bool:
        """Whether the plugin has answered at least once."""
        return self._shelves[plugin].answered

    def shared(self, plugin: str) -> bool:
        return self._shelves[plugin].shared

    def kept(self, plugin: str) -> Offer | None:
        """The shared offer, however old."""
        slot = self._shelves[plugin].slots.get(_EVERYBODY)
        return slot.offer if slot else None

    def ready(self, plugin: str, principal: Principal | None) -> Offer | None:
        """The offer to go on with, or None when one has to be waited for."""
        shelf = self._shelves[plugin]
        slot = shelf.slots.get(shelf.key(principal))
        if slot is None or slot.offer is None:
            return None
        late = self._clock() - slot.offer.fresh_until
        if late < 0:
            return slot.offer
        # Nobody asked for long, so this is too old. While the plugin fails, waiting for it would help less.
        if late > MAX_STALE or (late > shelf.settings.list_ttl and not slot.failures):
            return None
        self._fly(plugin, shelf, slot, principal)
        return slot.offer

    async def get(self, plugin: str, principal: Principal | None) -> Offer:
        return self.ready(plugin, principal) or await self.refresh(plugin, principal)

    async def refresh(self, plugin: str, principal: Principal | None = None) -> Offer:
        """Asks the plugin now, or joins whoever is already asking for this slot."""
        shelf = self._shelves[plugin]
        key = shelf.key(principal)
        slot = shelf.slots.get(key)
        if slot is None:
            slot = shelf.slots[key] = _Slot()
        # Shielded: the first caller may leave, the others still wait for the same answer.
        return await asyncio.shield(self._fly(plugin, shelf, slot, principal))

    async def probe(self, plugin: str) -> None:
        """Whether a plugin answers whose lists only callers can ask for."""
        shelf = self._shelves[plugin]
        try:
            async with asyncio.timeout(shelf.settings.timeout):
                await discover(plugin, self._ask)
        except Exception as error:
            shelf.probe_failures += 1
            shelf.probe_at = self._clock() + _pause(shelf.probe_failures)
            self._emit(CatalogLoaded(plugin, "failed", detail=_words(error)))
            if not isinstance(error, GatewayError | TimeoutError):
                self._emit(Defect(where=f"probe of {plugin}", error=error))
        else:
            shelf.answered = True

    def due(self, plugin: str) -> float:
        """When to ask next without being told to; infinite when only callers make us ask."""
        shelf = self._shelves[plugin]
        if not shelf.shared:
            return float("inf") if shelf.answered else shelf.probe_at
        slot = shelf.slots.get(_EVERYBODY)
        return slot.offer.fresh_until if slot and slot.offer else 0.0

    async def close(self) -> None:
        for flight in tuple(self._flights):
            flight.cancel()
        await asyncio.gather(*self._flights, return_exceptions=True)

    def _fly(self, plugin: str, shelf: _Shelf, slot: _Slot, principal: Principal | None) -> asyncio.Task[Offer]:
        if slot.flight is None:
            asker = None if shelf.shared else principal
            # An empty context: nothing of the request that happens to be first may stick to a shared answer.
            slot.flight = asyncio.create_task(
                self._load(plugin, shelf, slot, asker), context=contextvars.Context(), name=f"offer of {plugin}"
            )
            self._flights.add(slot.flight)
            slot.flight.add_done_callback(self._flights.discard)
        return slot.flight

    async def _load(self, plugin: str, shelf: _Shelf, slot: _Slot, principal: Principal | None) -> Offer:
        try:
            fetched = await self._fetch(plugin, shelf, principal)
            slot.failures = slot.failures + 1 if fetched.failures else 0
            shelf.answered = shelf.answered or DISCOVER not in fetched.failures
            slot.offer = self._merged(plugin, shelf, slot, fetched)
            if principal is not None:
                shelf.slots[caller_key(principal)] = slot  # its time starts again
            self._tell(slot.offer, fetched)
            return slot.offer
        finally:
            slot.flight = None

    async def _fetch(self, plugin: str, shelf: _Shelf, principal: Principal | None) -> Fetched:
        try:
            async with asyncio.timeout(shelf.settings.timeout):
                return await fetch(plugin, self._ask, principal, self._clock)
        except TimeoutError:
            return Fetched.failing(PluginTimeout(reason="timeout"))
        except Exception as error:
            self._emit(Defect(where=f"offer of {plugin}", error=error))
            return Fetched.failing(GatewayError(reason="defect"))

    def _merged(self, plugin: str, shelf: _Shelf, slot: _Slot, fetched: Fetched) -> Offer:
        """What came now, and for what did not come the last good list while it is young enough."""
        now = self._clock()
        earlier = slot.offer.listings if slot.offer else {}
        kept: dict[str, Listing] = {
            method: listing
            for method, listing in earlier.items()
            if (DISCOVER in fetched.failures or method in fetched.failures) and now - listing.fetched_at <= MAX_STALE
        }
        unknown = DISCOVER in fetched.failures
        pause = _pause(slot.failures) if fetched.failures else shelf.settings.list_ttl
        return Offer(
            plugin=plugin,
            fresh_until=now + min(pause, shelf.settings.list_ttl),
            capabilities=slot.offer.capabilities if unknown and slot.offer else fetched.capabilities,
            listings={**kept, **fetched.listings},
            failed=tuple(fetched.failures),
        )

    def _tell(self, offer: Offer, fetched: Fetched) -> None:
        complaints = [listing.complaint for listing in fetched.listings.values() if listing.complaint]
        complaints += [f"{method}: {_words(error)}" for method, error in fetched.failures.items()]
        outcome: Literal["ok", "partial", "failed"]
        outcome = "failed" if DISCOVER in fetched.failures else "partial" if complaints else "ok"
        count = sum(len(listing.items) for listing in offer.listings.values())
        self._emit(CatalogLoaded(offer.plugin, outcome, count, "; ".join(complaints)))


def _pause(failures: int) -> float:
    return min(FIRST_RETRY * 2.0 ** min(failures - 1, 16), LAST_RETRY)


def _words(error: BaseException) -> str:
    """Never the text of a foreign exception: nobody knows what stands in it."""
    return f"{error.code} {error.reason}".rstrip() if isinstance(error, GatewayError) else type(error).__name__
