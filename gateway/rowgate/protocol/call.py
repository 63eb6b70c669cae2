"""One parsed JSON-RPC message with its era and protocol version."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, Literal

from mcp.shared.inbound import NAME_BEARING_METHODS

from rowgate.value import value

Era = Literal["modern", "legacy"]
CallKind = Literal["own", "list", "read", "call", "notification"]

LIST_METHODS: dict[str, str] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Method to the member of its result that holds the items."""

FORWARDED_METHODS = frozenset(NAME_BEARING_METHODS) | {"completion/complete"}


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")


@value
class Call:
    """`message` is the parsed body: policy judges it and the forwarded bytes are made from it, never from the wire."""

    message: dict[str, Any] = field(repr=False)
    method: str
    id: str | int | None
    params: dict[str, Any] = field(repr=False)
    era: Era
    version: str
    param_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The request's `Mcp-Param-*` headers, as they came."""

    @property
    def kind(self) -> CallKind:
        if self.id is None:
            return "notification"
        if self.method in LIST_METHODS:
            return "list"
        if self.method == "tools/call":
            return "call"
        return "read" if self.method in FORWARDED_METHODS else "own"

    @property
    def modern(self) -> bool:
        return self.era == "modern"

    @property
    def name(self) -> str | None:
        """The tool or prompt name, or the URI, that the call is about."""
        if self.method == "completion/complete":
            ref = self.params.get("ref")
            name = (ref.get("name") or ref.get("uri")) if isinstance(ref, dict) else None
        else:
            name = self.params.get(NAME_BEARING_METHODS.get(self.method, ""))
        return name if isinstance(name, str) else None

    @property
    def trace_id(self) -> str | None:
        """W3C trace context, which MCP carries in `_meta` (SEP-414)."""
        meta = self.params.get("_meta")
        parent = meta.get("traceparent") if isinstance(meta, dict) else None
        match = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
        return match[1] if match else None
