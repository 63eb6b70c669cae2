"""An event sink of the builder: it gets events in order, holds up nobody, and fails alone."""

from __future__ import annotations

import threading

from rowgate.observe.events import Defect, Event, TokenLookup
from rowgate.observe.sinks import EventSink


def test_events_come_in_order_and_closing_waits_for_them() -> None:
    got: list[Event] = []
    sink = EventSink(got.append, "s")
    sent = [TokenLookup(hit=bool(n % 2)) for n in range(100)]
    for event in sent:
        sink.emit(event)
    sink.close()
    assert got == sent


def test_a_sink_that_hangs_costs_its_events_and_holds_up_nobody() -> None:
    lost: list[str] = []
    began, released = threading.Event(), threading.Event()

    def hang(event: Event) -> None:
        began.set()
        released.wait()

    sink = EventSink(hang, "slow", capacity=2, on_loss=lost.append)
    sink.emit(TokenLookup(hit=True))
    assert began.wait(30)
    for _ in range(5):
        sink.emit(TokenLookup(hit=True))
    assert lost == ["slow"] * 3
    released.set()
    sink.close()


def test_an_exception_is_told_once_in_a_row_and_the_next_event_still_comes() -> None:
    got: list[Event] = []
    lost: list[str] = []
    told: list[Defect] = []

    def moody(event: Event) -> None:
        if event == TokenLookup(hit=False):
            raise RuntimeError("a defect of the builder's")
        got.append(event)

    sink = EventSink(moody, "moody", on_loss=lost.append, on_error=told.append)
    for hit in (False, False, True, False):
        sink.emit(TokenLookup(hit=hit))
    sink.close()
    assert (len(got), len(lost), len(told)) == (1, 3, 2)
