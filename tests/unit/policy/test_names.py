"""The pattern language: what a pattern matches, and what no pattern may match."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowgate.policy.names import MAX_URI_LENGTH, compile_pattern, opaque_uri, plain_uri, public_name


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("search", "search", True),
        ("search", "Search", False),
        ("search", "search_notes", False),
        ("search*", "search", True),
        ("search*", "search_notes", True),
        ("*_notes", "search_notes", True),
        ("*_notes", "search_notes_", False),
        ("a*b*c", "a-b-b-c", True),
        ("*", "anything", True),
        ("*", "a/b", False),
        ("**", "a/b", True),
        ("a/*/c", "a/b/c", True),
        ("a/*/c", "a/b/b/c", False),
        ("a/**/c", "a/b/b/c", True),
        ("a/**c", "a/c", True),
        ("***", "a/b", True),
        ("a?c", "abc", False),
        ("a?c", "a?c", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("{a,b}", "a", False),
        ("a.c", "abc", False),
        ("a\\*", "a\\bc", True),
    ],
)
def test_only_stars_are_special(pattern: str, name: str, matches: bool) -> None:
    assert compile_pattern(pattern).matches(name) is matches


@pytest.mark.parametrize("text", ["", "a\nb", "a\x00", "a\x7fb", "x" * 1025])
def test_text_that_can_match_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a pattern has"):
        compile_pattern(text)


def test_a_pattern_knows_whether_it_is_exact() -> None:
    assert compile_pattern("note://a").exact
    assert not compile_pattern("note://*").exact


@pytest.mark.parametrize(
    "uri",
    [
        "note://1",
        "note://1/",
        "note://a/b?c=d#e",
        "file:///public/report.txt",
        "file:///public/.hidden/a..b/...",
        "urn:isbn:0451450523",
        "note://caf%C3%A9%20noir",
        "note://100%25",
        "note://a~.b",
        "web://https://example.com/x",
    ],
)
def test_an_ordinary_uri_is_matched(uri: str) -> None:
    assert plain_uri(uri)
    assert compile_pattern("**", uri=True).matches(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///public/../secret",
        "file:///public/..",
        "file:///public/./x",
        "file:..",
        "file:///public/..?x",
        "file:///public/..#x",
        "file:///public/..;x/secret",
        "file:///public?path=../secret",
        "file:///public/%2e%2e/secret",
        "file:///public/%2E./secret",
        "file:///public/.%2e/secret",
        "file:///public/..%2fsecret",
        "file:///public%2Fx",
        "file:///public%5cx",
        "file:///public\\..\\x",
        "file:///public/%252e%252e/secret",
        "file:///public/%25252fsecret",
        "file:///public/%c0%ae%c0%ae/secret",
        "file:///public/%e0%80%af",
        "file:///public/%00",
        "file:///public/%0a",
        "file:///public/%0d%0aX: y",
        "file:///public/%7f",
        "file:///public/%c2%85",
        "file:///public/%e2%80%a8",
        "file:///public/%2500",
        "file:///public/a\nb",
        "file:///public/a b",
        "file:///public/\u202e",
        "file:///public/ä",
        "file:///public/%zz",
        "file:///public/%",
        "/public/x",
        "public",
        "file:",
        "",
        "1file:///x",
        "file:///" + "a" * MAX_URI_LENGTH,
    ],
)
def test_no_glob_matches_a_uri_that_reads_otherwise_than_it_is_written(uri: str) -> None:
    assert not plain_uri(uri)
    assert not compile_pattern("**", uri=True).matches(uri)
    assert not compile_pattern("file:**", uri=True).matches(uri)


def test_an_exact_uri_is_compared_and_not_judged() -> None:
    assert compile_pattern("odd://a/../b", uri=True).matches("odd://a/../b")
    assert not compile_pattern("odd://a/../b", uri=True).matches("odd://b")


@pytest.mark.parametrize("uri", ["", "no-scheme", "a:\n", "a:\x00", "a:\ud800", "a:" + "b" * MAX_URI_LENGTH])
def test_what_cannot_be_a_uri_is_none(uri: str) -> None:
    assert not opaque_uri(uri)


def test_a_hostile_pattern_does_not_make_matching_slow() -> None:
    """A backtracking matcher would need longer than the age of the universe."""
    assert not compile_pattern("*a" * 200 + "b").matches("a" * MAX_URI_LENGTH)
    assert not compile_pattern("**a" * 200 + "b").matches("a/" * (MAX_URI_LENGTH // 2))
    assert not compile_pattern("x:" + "**/*" * 200 + "#", uri=True).matches("x:" + "a/" * 4000)


def _as_regex(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+)", pattern)
    return re.compile(
        "".join({0: "", 1: "[^/]*"}.get(len(part), ".*") if set(part) <= {"*"} else re.escape(part) for part in parts),
        re.DOTALL,
    )


@given(st.text("ab/*", min_size=1, max_size=8), st.text("ab/", max_size=10))
def test_globs_mean_what_their_regular_expression_means(pattern: str, name: str) -> None:
    expected = name == pattern if "*" not in pattern else _as_regex(pattern).fullmatch(name) is not None
    assert compile_pattern(pattern).matches(name) is expected


@given(st.text(min_size=1, max_size=40), st.text(max_size=40))
def test_matching_never_raises(pattern: str, name: str) -> None:
    try:
        compiled = compile_pattern(pattern, uri=True)
    except ValueError:
        return
    assert compiled.matches(name) in (True, False)


_PIECES = ["a", "b", ".", "..", "/", "%2e", "%2E", "%2f", "%252e", "%5c", "\\", "%00", ";", "?", "#", "%41", "%c3%a9"]


@given(st.lists(st.sampled_from(_PIECES), max_size=8))
def test_what_a_glob_matches_stays_in_its_folder_however_often_it_is_decoded(pieces: list[str]) -> None:
    uri = "file:///public/" + "".join(pieces)
    if not compile_pattern("file:///public/**", uri=True).matches(uri):
        return
    for _ in range(4):
        path = re.split("[?#]", uri.replace("\\", "/"))[0].removeprefix("file://")
        assert posixpath.normpath(path).startswith("/public")
        assert not {".", ".."} & set(re.split("[/;]", path))
        uri = unquote(uri)


def test_a_prefix_is_joined_with_an_underscore() -> None:
    assert public_name("notes", "search") == "notes_search"
    assert public_name(None, "search") == "search"
