"""How many at once: places that a call holds while it runs. Counted in this process; nobody waits for one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from rowgate.errors import LimitReached, PluginBusy, TooManyAtOnce, TooManyStreams
from rowgate.observe.events import Emit, Limit, LimitsDecided

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.config.limits import ServerLimits

RETRY = 1.0
"""Seconds. Nobody knows when a place becomes free; clients take this for a start and back off."""

_REFUSALS: dict[Limit, type[LimitReached]] = {
    "plugin": PluginBusy,
    "concurrency": TooManyAtOnce,
    "streams": TooManyStreams,
}


class Places:
    """Who holds how many. Somebody who holds none leaves nothing behind."""

    def __init__(self) -> None:
        self._held: dict[Hashable, int] = {}

    def held(self, whose: Hashable) -> int:
        return self._held.get(whose, 0)

    def take(self, whose: Hashable, most: int) -> bool:
        held = self._held.get(whose, 0)
        if held >= most:
            return False
        self._held[whose] = held + 1
        return True

    def give_back(self, whose: Hashable) -> None:
        if self._held[whose] == 1:
            del self._held[whose]
        else:
            self._held[whose] -= 1


class Occupancy:
    """`plugins`: the most calls at once by plugin, for those that have a limit."""

    def __init__(self, plugins: Mapping[str, int], emit: Emit) -> None:
        self._plugins = plugins
        self._places = Places()
        self._emit = emit

    def place(self, server: str, limits: ServerLimits, caller: Principal, plugin: str) -> Place | None:
        """What a call has to hold while it runs, or None when nothing is limited."""
        most = self._plugins.get(plugin)
        of_caller = caller.kind != "public" and (limits.concurrency is not None or limits.streams is not None)
        if most is None and not of_caller:
            return None
        return Place(
            self._places,
            self._emit,
            (server, caller.issuer, caller.subject) if of_caller else None,
            limits,
            plugin,
            most,
        )


class Place:
    """Entering raises LimitReached; leaving gives everything back, whatever ended the call."""

    __slots__ = ("_emit", "_limits", "_most", "_places", "_plugin", "_taken", "_whose")

    def __init__(
        self,
        places: Places,
        emit: Emit,
        whose: tuple[str, str, str] | None,
        limits: ServerLimits,
        plugin: str,
        most: int | None,
    ) -> None:
        self._places = places
        self._emit = emit
        self._whose = whose
        self._limits = limits
        self._plugin = plugin
        self._most = most
        self._taken: list[Hashable] = []

    def __enter__(self) -> Place:
        try:
            if self._whose is not None:
                self._take("concurrency", self._whose, self._limits.concurrency)
            self._take("plugin", self._plugin, self._most)
        except LimitReached:
            self._give_back()
            raise
        return self

    def stream(self) -> None:
        """The call becomes an event stream. Raises TooManyStreams."""
        if self._whose is not None:
            self._take("streams", self._whose, self._limits.streams)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give_back()

    def _take(self, limit: Limit, whose: Hashable, most: int | None) -> None:
        if most is None:
            return
        if not self._places.take((limit, whose), most):
            self._emit(LimitsDecided((limit,), refused=limit))
            raise _REFUSALS[limit](limit, RETRY)
        self._taken.append((limit, whose))
        self._emit(LimitsDecided((limit,)))

    def _give_back(self) -> None:
        while self._taken:
            self._places.give_back(self._taken.pop())
