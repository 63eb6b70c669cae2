"""Results that are too large for a model are cut, and say so."""

from __future__ import annotations

from typing import Any

from rowgate.protocol import ijson

TRUNCATED_META_KEY = "rowgate/truncated"


def bound_result(result: dict[str, Any], limit: int) -> int | None:
    """Cut the text of a tool result to `limit` characters in place; return the original size if it was cut.

    Structured content cannot be cut without breaking its schema: it is dropped, and the result becomes an error,
    because clients refuse a result that lacks the structured content its tool promises.
    """
    structured = result.get("structuredContent")
    texts = [block for block in result.get("content") or () if isinstance(block, dict) and "text" in block]
    text_size = sum(len(block["text"]) for block in texts if isinstance(block["text"], str))
    structured_size = 0 if structured is None else len(ijson.dumps(structured))
    size = max(text_size, structured_size)
    if size <= limit:
        return None
    if structured_size > limit:
        del result["structuredContent"]
        result["isError"] = True
    _cut(texts, limit)
    result["content"] = [*result.get("content", ()), {"type": "text", "text": _notice(size, limit)}]
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), TRUNCATED_META_KEY: {"characters": size}}
    return size


def _cut(texts: list[dict[str, Any]], limit: int) -> None:
    left = limit
    for block in texts:
        if isinstance(block["text"], str):
            block["text"] = block["text"][:left]
            left -= len(block["text"])


def _notice(size: int, limit: int) -> str:
    return f"[The result had {size} characters; only the first {limit} are shown. Ask for less, or for a part of it.]"
