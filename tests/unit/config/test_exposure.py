"""A capability belongs to exactly one entry, and everything an entry says has an effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowgate.config.exposure import exposure, overlap
from rowgate.config.load import Checked
from rowgate.config.models import Entry, Hints
from rowgate.policy.names import compile_pattern

Check = Callable[..., Checked]


def findings(*entries: Entry) -> list[tuple[str, str]]:
    found = exposure(entries, (), frozenset({"notes", "weather"}))
    return [(".".join(map(str, finding.location)), finding.message) for finding in found]


def test_two_globs_of_two_entries_must_not_overlap() -> None:
    (finding,) = findings(Entry(plugin="notes", tools=("get_*",)), Entry(plugin="notes", tools=("*_note",)))
    assert finding == ("1.tools.0", "overlaps with capabilities[0].tools[0]")


@pytest.mark.parametrize(
    "entries",
    [
        (Entry(plugin="notes", tools=("get_*",)), Entry(plugin="notes", tools=("set_*",))),
        (Entry(plugin="notes", tools=("*",)), Entry(plugin="notes", tools=("delete_note",))),
        (Entry(plugin="notes", tools=("get_*", "get_a*")),),
        (Entry(plugin="notes", tools=("*",)), Entry(plugin="notes", prompts=("*",))),
        (Entry(plugin="notes", tools=("*",)), Entry(plugin="weather", tools=("*",))),
        (Entry(plugin="notes", resources=("note://*",)), Entry(plugin="notes", resources=("note://*/raw",))),
        (Entry(plugin="notes", tools=("a",), prefix="x"), Entry(plugin="weather", tools=("a",), prefix="y")),
        (Entry(plugin="notes", resources=("**",)),),
        (Entry(plugin="notes", resources=("*:note",)),),
        (Entry(plugin="notes", templates=("note://{id}",)),),
    ],
)
def test_a_clear_division_is_accepted(entries: tuple[Entry, ...]) -> None:
    assert findings(*entries) == []


@pytest.mark.parametrize(
    ("entries", "place", "message"),
    [
        ((Entry(plugin="other", tools=("a",)),), "0.from", "names a plugin that is not configured"),
        ((Entry(plugin="notes"),), "0", "names no capability"),
        ((Entry(plugin="notes", resources=("a:b",), prefix="x"),), "0.prefix", "does nothing"),
        ((Entry(plugin="notes", tools=("a", "a")),), "0.tools.1", "is named already by capabilities[0].tools[0]"),
        (
            (Entry(plugin="notes", tools=("a",), prefix="x"), Entry(plugin="notes", tools=("a",))),
            "1.tools.0",
            "is named already",
        ),
        (
            (Entry(plugin="notes", tools=("a",)), Entry(plugin="weather", tools=("a",))),
            "1.tools.0",
            "is exposed under the same name by capabilities[0].tools[0]",
        ),
        (
            (Entry(plugin="notes", tools=("c",), prefix="a_b"), Entry(plugin="weather", tools=("b_c",), prefix="a")),
            "1.tools.0",
            "is exposed under the same name",
        ),
        (
            (Entry(plugin="notes", resources=("a:b",)), Entry(plugin="weather", resources=("a:b",))),
            "1.resources.0",
            "is exposed under the same name",
        ),
        ((Entry(plugin="notes", tools=("a/b",)),), "0.tools.0", "is not a tool name"),
        ((Entry(plugin="notes", tools=("a" * 60,), prefix="prefix"),), "0.tools.0", "is longer than 64 characters"),
        ((Entry(plugin="notes", resources=("no-uri",)),), "0.resources.0", "matches no URI"),
        ((Entry(plugin="notes", resources=("note://%2e%2e/*",)),), "0.resources.0", "matches no URI"),
        (
            (Entry(plugin="notes", tools=("a",), hints={"b": Hints(title="B")}),),
            "0.hints.b",
            "is not",
        ),
        (
            (Entry(plugin="notes", tools=("*",), hints={"*": Hints(title="B")}),),
            "0.hints.*",
            "is not",
        ),
        ((Entry(plugin="notes", tools=("a",), hints={"a": Hints()}),), "0.hints.a", "says nothing"),
    ],
)
def test_what_is_unclear_or_without_effect_is_refused(entries: tuple[Entry, ...], place: str, message: str) -> None:
    ((where, said),) = findings(*entries)
    assert where == place
    assert said.startswith(message)


GLOBS = st.text(alphabet="ab/*", min_size=1, max_size=7)


@settings(deadline=None)
@given(GLOBS, GLOBS, st.text(alphabet="ab/", max_size=6))
def test_globs_that_share_a_name_overlap(one: str, other: str, name: str) -> None:
    if compile_pattern(one).matches(name) and compile_pattern(other).matches(name):
        assert overlap(one, other)
        assert overlap(other, one)


def _names(length: int) -> list[str]:
    return [""] if length == 0 else [name + char for name in _names(length - 1) for char in "ab/"]


EVERY_NAME = [name for length in range(7) for name in _names(length)]
SHORT_GLOBS = st.text(alphabet="ab/*", min_size=1, max_size=3)


@settings(deadline=None)
@given(SHORT_GLOBS, SHORT_GLOBS)
def test_globs_that_overlap_share_a_name(one: str, other: str) -> None:
    # Two globs of three characters that share any name share one of at most six.
    first, second = compile_pattern(one), compile_pattern(other)
    assert overlap(one, other) == any(first.matches(name) and second.matches(name) for name in EVERY_NAME)


def test_long_globs_are_compared_without_delay() -> None:
    assert overlap("*a" * 250, "*b" * 250 + "*") is True
    assert overlap("*a" * 250, "*b" * 250) is False
