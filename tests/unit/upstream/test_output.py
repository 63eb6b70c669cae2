"""What plugins write becomes events: bounded, and without what looks like a credential."""

from __future__ import annotations

import asyncio
import json

from rowgate.observe.events import Event, PluginOutput
from rowgate.upstream.output import LINE, RATE, Output


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def read(*chunks: bytes, clock: Clock | None = None) -> list[PluginOutput]:
    events: list[Event] = []
    stream = asyncio.StreamReader()
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    await Output("notes", events.append, monotonic=clock or Clock()).read(stream)
    return [event for event in events if isinstance(event, PluginOutput)]


def told(events: list[PluginOutput]) -> list[str]:
    return [event.text for event in events]


async def test_each_line_is_an_event_however_it_arrives() -> None:
    assert told(await read(b"one\ntw", b"o\n\n  \nthree")) == ["one", "two", "three"]


async def test_bytes_that_are_no_text_are_told_as_such() -> None:
    assert told(await read(b"a\xffb\n")) == ["a\ufffdb"]


async def test_an_endless_line_is_cut_and_costs_no_memory() -> None:
    (event,) = await read(*([b"word " * 20_000] * 20))
    assert len(event.text) == LINE


async def test_lines_beyond_the_rate_are_counted_and_not_told() -> None:
    events = await read(b"line\n" * (RATE + 50))
    assert len(events) == RATE + 1
    assert (events[-1].dropped, events[-1].level) == (50, "warning")


async def test_the_next_second_tells_lines_again() -> None:
    class Ticking(Clock):
        def __call__(self) -> float:
            self.now += 0.02
            return self.now

    assert not any(event.dropped for event in await read(b"line\n" * (5 * RATE), clock=Ticking()))


async def test_no_credential_that_a_plugin_prints_reaches_an_event() -> None:
    token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
    line = json.dumps({"level": "error", "message": f"401 for Bearer {token}", "exception": f"E: {token}"})
    for event in await read(f"Authorization: Bearer {token}\n".encode(), line.encode()):
        assert "eyJ" not in event.text
        assert token not in repr(event)


async def test_json_lines_keep_their_level_and_their_request() -> None:
    line = {"time": "now", "level": "WARNING", "logger": "notes", "message": "slow", "request_id": "abc"}
    (event,) = await read(json.dumps({**line, "exception": "Traceback"}).encode())
    assert event == PluginOutput("notes", "slow\nTraceback", "warning", request_id="abc")


async def test_json_that_is_no_log_line_is_told_as_it_stands() -> None:
    for line in ('{"a":1}', '{"message":7}', "{", '{"message":"x","level":["y"]}', "[" * 5000):
        (event,) = await read(line.encode())
        assert event.level == "info"
        assert event.text in (line[:LINE], "x")
