"""The fast way to read a message and the strict one must not differ, whatever the bytes."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowgate.protocol import ijson

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
PIECES = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\n",
            '"',
            "a",
            "\u00e9",
            "\u2028",
            "\U0001f600",
            "\x7f",
            "\x00",
            "\ufeff",
        ),
        *(
            '"a"',
            '"a":',
            '"b":1',
            '"a":1',
            '"\\u0061":',
            '"\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\/"',
            '"\\u001f"',
            '"\\u001F"',
        ),
        *(
            "0",
            "-0",
            "-0.0",
            "1.0",
            "1",
            "1e2",
            "1E2",
            "1e22",
            "1e+22",
            "1e16",
            "1e400",
            "-1e400",
            "5e-324",
            "01",
            ".5",
        ),
        *("9007199254740993", "18446744073709551615", "18446744073709551616", "-9223372036854775809", "0.1", "100.0"),
        *("true", "null", "NaN", "Infinity", "-Infinity"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def read(loads: Any, data: bytes) -> tuple[str, str]:
    """The value with the types and signs of its numbers, or the refusal."""
    try:
        return "value", repr(loads(data))
    except ijson.NotIJson as refusal:
        return "refusal", str(refusal)


def layouts(value: Any) -> list[bytes]:
    def text(**style: Any) -> bytes:
        return json.dumps(value, **style).encode(errors="surrogatepass")

    return [text(), text(separators=(",", ":")), text(separators=(",", ":"), ensure_ascii=False), text(indent=1)]


@given(VALUES)
@example({"id": 2**53 + 1, "big": 2**64, "small": -(2**63) - 1, "zero": -0.0})
@example({"a": "\ud800"})
def test_every_value_is_read_alike_however_it_is_laid_out(value: Any) -> None:
    for data in layouts(value):
        assert read(ijson.loads, data) == read(ijson.loads_strictly, data)


@given(TEXTS)
@example('{"a":1,"a":1}')
@example('{"a":{"b":1,"b":2}}')
@example('{"a":1,"\\u0061":1}')
@example("1e400")
@example("-0")
@example(' {"a":1}')
@example('\ufeff{"a":1}')
@example("[" * 65 + "]" * 65)
@example("[" * 64 + "]" * 64)
@example("[" * 300 + "]" * 300)
@example("[" * 100_000 + "]" * 100_000)
@example('"' + "[" * 70 + '"')
def test_every_text_is_read_or_refused_alike(text: str) -> None:
    data = text.encode()
    assert read(ijson.loads, data) == read(ijson.loads_strictly, data)


@given(st.binary(max_size=40))
@example(b'"\xff"')
@example(b'"\xed\xa0\x80"')
def test_every_sequence_of_bytes_is_read_or_refused_alike(data: bytes) -> None:
    assert read(ijson.loads, data) == read(ijson.loads_strictly, data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":1,"a":1}', "duplicate key"),
        ('["\\ud800"]', "unpaired surrogate"),
        ("[1e400]", "beyond the range"),
        ("[NaN]", "JSON does not have"),
        ("[" * 66 + "]" * 66, "nested deeper"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper"),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(text: str, words: str) -> None:
    with pytest.raises(ijson.NotIJson, match=words):
        ijson.loads(text.encode())


def test_the_fast_reader_alone_would_let_a_duplicate_key_pass() -> None:
    """Why its word is taken only for bytes that it would write itself."""
    assert orjson.loads(b'{"a":1,"a":2}') == {"a": 2}
