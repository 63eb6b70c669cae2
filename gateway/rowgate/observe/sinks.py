"""Event sinks of the builder: each gets every event on a thread of its own, and can hold up nobody."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from rowgate.observe.events import Defect, Event

GROUP = "rowgate.event_sinks"
"""The entry-point group of sinks."""
CAPACITY = 10_000
"""Events that wait for a slow sink; later ones are lost and counted."""


def ignore(sink: str) -> None:
    """Whoever does not count lost events."""


class EventSink:
    """Hands events to a callable, in order. What it raises costs it that event and nothing else."""

    def __init__(
        self,
        sink: Callable[[Event], Any],
        name: str,
        *,
        capacity: int = CAPACITY,
        on_loss: Callable[[str], None] = ignore,
        on_error: Callable[[Defect], None] | None = None,
    ) -> None:
        """`on_error` hears the first exception of a row, from the sink's thread."""
        self._sink = sink
        self._name = name
        self._on_loss = on_loss
        self._on_error = on_error
        self._failing = False
        self._waiting: queue.Queue[Event | None] = queue.Queue(capacity)
        self._thread = threading.Thread(target=self._run, name=f"rowgate-sink {name}", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._on_loss(self._name)

    def close(self, timeout: float = 2.0) -> None:
        """Lets the sink finish what waits, for at most `timeout` seconds."""
        try:
            self._waiting.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._sink(event)
                self._failing = False
            except Exception as error:
                self._lost(error)

    def _lost(self, error: Exception) -> None:
        self._on_loss(self._name)
        if not self._failing and self._on_error is not None:
            self._failing = True
            self._on_error(Defect(f"event sink {self._name}", error))
