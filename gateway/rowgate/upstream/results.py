"""Results that are too large for a model are cut, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowgate.protocol import ijson

TRUNCATED_META_KEY = "rowgate/truncated"


def bound_result(result: dict[str, Any], limit: int) -> int | None:
    """Cut the text of a tool result to `limit` characters in place; return the original size if it was cut.

    Structured content cannot be cut without breaking its schema: it is dropped, and the result becomes an error,
    because clients refuse a result that lacks the structured content its tool promises.
    """
    structured = result.get("structuredContent")
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [holder for block in blocks for holder in _text_holders(block)]
    text_size = sum(len(holder["text"]) for holder in texts)
    structured_size = 0 if structured is None else len(ijson.dumps(structured))
    size = max(text_size, structured_size)
    if size <= limit:
        return None
    if structured_size > limit:
        del result["structuredContent"]
        result["isError"] = True
    _cut(texts, limit)
    result["content"] = [*blocks, {"type": "text", "text": _notice(size, limit)}]
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), TRUNCATED_META_KEY: {"characters": size}}
    return size


def _text_holders(block: Any) -> Iterator[dict[str, Any]]:
    """A text block itself, and the resource embedded in a block."""
    for holder in (block, block.get("resource")) if isinstance(block, dict) else ():
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            yield holder


def _cut(texts: list[dict[str, Any]], limit: int) -> None:
    left = limit
    for holder in texts:
        holder["text"] = holder["text"][:left]
        left -= len(holder["text"])


def _notice(size: int, limit: int) -> str:
    return f"[The result had {size} characters; only the first {limit} are shown. Ask for less, or for a part of it.]"
