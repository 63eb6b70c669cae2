"""JSON as RFC 7493 (I-JSON) has it: what two readers could understand differently is refused.

The gateway judges the parsed value and forwards its serialisation, so nothing that a later parser might read
in another way (duplicate keys, unpaired surrogates, numbers beyond range) may survive.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

MAX_DEPTH = 64


class NotIJson(ValueError):
    """The message says what is wrong and never quotes the input."""


def loads(data: bytes) -> Any:
    """What `loads_strictly` would say, in little more than half the time for compact JSON."""
    try:
        value = orjson.loads(data)
        # orjson alone lets duplicate keys and rounded integers pass. But if it writes the very bytes that it read, they
        # name each key once and each number exactly, so that no other reader can understand them differently.
        if orjson.dumps(value) == data and data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
            return value
    except (ValueError, TypeError):  # it cannot read them, or they are nested too deeply for it
        pass
    return loads_strictly(data)


def loads_strictly(data: bytes) -> Any:
    """Raises NotIJson."""
    try:
        text = data.decode("utf-8")
        value = _DECODER.decode(text)
    except NotIJson:
        raise
    except UnicodeDecodeError:
        raise NotIJson("The body is not UTF-8.") from None
    except RecursionError:
        raise NotIJson(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError:
        raise NotIJson("The body is not valid JSON.") from None
    # Both checks walk the value, so they run only where the text gives a reason to.
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise NotIJson(f"The body is nested deeper than {MAX_DEPTH} levels.")
    if "\\u" in text and not _encodable(value):
        raise NotIJson("The body has an unpaired surrogate.")
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8. Integers stay exact."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or what no encoder takes
        return _ENCODER.encode(value).encode("utf-8")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotIJson("The body has an object with a duplicate key.")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise NotIJson("The body has a number beyond the range of IEEE 754 double precision.")
    return number


def _no_constant(text: str) -> Any:
    raise NotIJson("The body has a number that JSON does not have.")


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _encodable(value: Any) -> bool:
    try:
        dumps(value)
    except UnicodeEncodeError:
        return False
    return True


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
