"""Answers of somebody who is asked over the network about a caller: asked once for everybody, kept a bounded time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

from rowgate.errors import GatewayError

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

CAPACITY = 4096

NOT_NOW: ContextVar[GatewayError | None] = ContextVar("not_now", default=None)
"""Why nobody is to be asked for the sake of the present request, where something speaks against it."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[A]):
    answer: A
    at: float


class Answers(Generic[K, A]):
    """Good answers and refusals are kept apart, so that whoever sends bad credentials pushes no good one out.

    `clock` counts seconds. An exception of whoever is asked is nobody's answer: it is kept for no one.
    """

    def __init__(
        self,
        good: Callable[[A], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = CAPACITY,
    ) -> None:
        self._is_good = good
        self._clock = clock
        self._good: LRUCache[K, _Kept[A]] = LRUCache(capacity)
        self._bad: LRUCache[K, _Kept[A]] = LRUCache(capacity)
        self._flights: dict[K, asyncio.Task[A]] = {}

    def recall(self, key: K, max_age: float, max_age_of_refusal: float) -> A | None:
        """The last answer, if it is not older than that. 0 recalls nothing."""
        for kept, age in ((self._good.get(key), max_age), (self._bad.get(key), max_age_of_refusal)):
            if kept is not None and self._clock() - kept.at < age:
                return kept.answer
        return None

    async def ask(self, key: K, question: Callable[[], Awaitable[A]], *, join: bool = True) -> A:
        """Ask, or with `join` wait for whoever is asking the same already.

        An answer that is on its way may be older than the question, so whoever needs a fresh one does not join."""
        if (refusal := NOT_NOW.get()) is not None:
            raise refusal
        flight = self._flights.get(key) if join else None
        if flight is None:
            flight = asyncio.create_task(self._fly(key, question))
            if join:
                self._flights[key] = flight
            flight.add_done_callback(lambda done: self._landed(key, done))
        # Shielded: a caller that goes away must not take the others' answer with it.
        return await asyncio.shield(flight)

    async def _fly(self, key: K, question: Callable[[], Awaitable[A]]) -> A:
        # As old as the question: what happens while the answer travels is not in it.
        asked_at = self._clock()
        answer = await question()
        kept, other = (self._good, self._bad) if self._is_good(answer) else (self._bad, self._good)
        if (known := kept.get(key) or other.get(key)) is None or known.at <= asked_at:
            kept[key] = _Kept(answer, asked_at)
            other.pop(key, None)
        return answer

    def _landed(self, key: K, flight: asyncio.Task[A]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # whoever waited has it; nobody may have

    async def close(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
