"""What one plugin offers: its discover result and its four lists, every page of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rowgate.errors import GatewayError, MethodNotFound, PluginProtocolError
from rowgate.policy.capability import ADVERTISED, KINDS
from rowgate.policy.inspection import MAX_DEPTH, too_deep
from rowgate.protocol import ijson
from rowgate.protocol.call import LIST_METHODS

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal

DISCOVER = "server/discover"
MAX_PAGES = 100
MAX_ITEMS = 5000
"""Of one list."""
MAX_BYTES = 16 * 2**20
"""Of one list as JSON: pages are bounded by themselves, and a hundred of them would fill the memory."""

Ask = Callable[[str, str, dict[str, Any], "Principal | None"], Awaitable[dict[str, Any]]]
"""`ask(plugin, method, params, principal)` gives the `result` member of the plugin's answer. Without a principal the
gateway asks in its own name. Raises MethodNotFound when the plugin says -32601, and another GatewayError when it fails
otherwise."""

_NOTHING: Mapping[str, Listing] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Listing:
    """One list, every page of it."""

    items: tuple[dict[str, Any], ...]
    fetched_at: float
    complaint: str = ""
    """What was wrong with the list as a whole although it was taken: cut off at a limit, or a circle of cursors."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """`failed` names the methods that could not be had this time: their lists are absent, or older and still good."""

    plugin: str
    fresh_until: float
    capabilities: frozenset[str] = frozenset()
    """The members of `capabilities` in its discover result."""
    listings: Mapping[str, Listing] = field(default_factory=lambda: _NOTHING, repr=False)
    failed: tuple[str, ...] = ()

    def items(self, method: str) -> tuple[dict[str, Any], ...] | None:
        """None when the list could not be had, which is not the same as an empty one."""
        listing = self.listings.get(method)
        return listing.items if listing else None

    def whole(self, method: str) -> bool:
        """Whether nothing of the list is missing: not cut off, and no item left out of it."""
        listing = self.listings.get(method)
        return listing is not None and not listing.complaint

    def says_the_same_as(self, other: Offer) -> bool:
        return self.capabilities == other.capabilities and all(
            self.items(method) == other.items(method) and self.whole(method) == other.whole(method)
            for method in LIST_METHODS
        )


@dataclass(frozen=True, slots=True)
class Fetched:
    """One attempt to have everything from a plugin."""

    capabilities: frozenset[str]
    listings: Mapping[str, Listing]
    failures: Mapping[str, GatewayError]

    @classmethod
    def failing(cls, error: GatewayError) -> Fetched:
        return cls(frozenset(), _NOTHING, {DISCOVER: error})


async def fetch(plugin: str, ask: Ask, principal: Principal | None, now: Callable[[], float]) -> Fetched:
    """Never raises for a failing plugin: what failed is said in the result."""
    try:
        capabilities = await _discover(plugin, ask, principal)
    except GatewayError as error:
        return Fetched.failing(error)
    async with asyncio.TaskGroup() as group:
        tasks = {
            method: group.create_task(_listing(plugin, method, capabilities, ask, principal, now))
            for method in LIST_METHODS
        }
    by_method = {method: task.result() for method, task in tasks.items()}
    return Fetched(
        capabilities=capabilities or frozenset(),
        listings={method: got for method, got in by_method.items() if isinstance(got, Listing)},
        failures={method: got for method, got in by_method.items() if isinstance(got, GatewayError)},
    )


async def discover(plugin: str, ask: Ask) -> None:
    """Whether the plugin answers at all. Raises GatewayError."""
    await _discover(plugin, ask, None)


async def _discover(plugin: str, ask: Ask, principal: Principal | None) -> frozenset[str] | None:
    """None when the plugin does not say what it has, so that all four lists are asked for."""
    try:
        result = await ask(plugin, DISCOVER, {}, principal)
    except MethodNotFound:
        return None
    capabilities = result.get("capabilities")
    if not isinstance(capabilities, dict):
        raise PluginProtocolError(reason="discover")
    return frozenset(name for name, settings in capabilities.items() if settings is not None)


async def _listing(
    plugin: str,
    method: str,
    capabilities: frozenset[str] | None,
    ask: Ask,
    principal: Principal | None,
    now: Callable[[], float],
) -> Listing | GatewayError:
    if capabilities is not None and ADVERTISED[KINDS[method]] not in capabilities:
        return Listing((), now())
    try:
        items, complaint = await _pages(plugin, method, ask, principal)
    except MethodNotFound:
        return Listing((), now())
    except GatewayError as error:
        return error
    return Listing(tuple(items), now(), complaint)


async def _pages(plugin: str, method: str, ask: Ask, principal: Principal | None) -> tuple[list[dict[str, Any]], str]:
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    complaint = ""
    size = 0
    for _ in range(MAX_PAGES):
        page, cursor = _page(await ask(plugin, method, params, principal), LIST_METHODS[method])
        usable = [item for item in page if isinstance(item, dict) and not too_deep(item)]
        size += len(ijson.dumps(usable))
        if size > MAX_BYTES:
            return items, f"{method} was cut off after {MAX_BYTES} bytes"
        items += usable
        if len(items) > MAX_ITEMS:
            return items[:MAX_ITEMS], f"{method} was cut off after {MAX_ITEMS} items"
        if len(usable) < len(page):
            complaint = f"{method} has items that are no objects, or nested deeper than {MAX_DEPTH} levels"
        if cursor is None:
            return items, complaint
        if cursor in seen:
            return items, f"{method} repeats a cursor"
        seen.add(cursor)
        params = {"cursor": cursor}
    return items, f"{method} was cut off after {MAX_PAGES} pages"


def _page(result: Mapping[str, Any], member: str) -> tuple[list[Any], str | None]:
    """An empty cursor is a cursor (MCP 2026-07-28, pagination); only an absent one ends the list."""
    items, cursor = result.get(member), result.get("nextCursor")
    if not isinstance(items, list):
        raise PluginProtocolError(reason="list")
    if cursor is not None and not isinstance(cursor, str):
        raise PluginProtocolError(reason="cursor")
    return items, cursor
