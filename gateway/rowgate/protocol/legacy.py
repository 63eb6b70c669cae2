"""Modern results for clients of the 2025 revisions: fields, content types and schemas that they know.

Results are edited as plain dicts, so that what neither era defines survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import SERVER_INFO_META_KEY
from mcp_types import jsonrpc as rpc
from mcp_types.version import LATEST_MODERN_VERSION

from rowgate.protocol.schema07 import to_draft_07

_MODERN_FIELDS = ("resultType", "ttlMs", "cacheScope")
_MODERN_CODES = frozenset(
    {rpc.HEADER_MISMATCH, rpc.MISSING_REQUIRED_CLIENT_CAPABILITY, rpc.UNSUPPORTED_PROTOCOL_VERSION}
)
_DRAFT_2020_SINCE = "2025-11-25"
_LINKS_SINCE = "2025-06-18"

NEEDS_MODERN_CLIENT = (
    f"This needs an answer from the user, which only clients of MCP {LATEST_MODERN_VERSION} can give. "
    "Use such a client, or an argument of the tool that stands for the answer, if it has one."
)


def tool_error(text: str, **members: Any) -> dict[str, Any]:
    """A result that the model reads as a failure of the tool, and can act on."""
    return {"content": [{"type": "text", "text": text}], "isError": True, **members}


def downgrade_result(
    method: str, result: dict[str, Any], version: str, definition: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`definition` is the tool that a `tools/call` was for."""
    for field in _MODERN_FIELDS:
        result.pop(field, None)
    _drop_server_info(result)
    if method == "tools/list":
        result["tools"] = [downgrade_tool(tool, version) for tool in result["tools"]]
    elif method == "tools/call":
        _wrap_structured(result, definition)
    if version < _LINKS_SINCE:
        _links_to_text(method, result)
    return result


def downgrade_code(code: int) -> int:
    """The three modern codes mean nothing to a legacy client; the request was refused as invalid."""
    return rpc.INVALID_REQUEST if code in _MODERN_CODES else code


def downgrade_tool(tool: Mapping[str, Any], version: str) -> dict[str, Any]:
    converted = dict(tool)
    if wraps_output(tool):
        converted["outputSchema"] = _wrapped(tool["outputSchema"])
    if version < _DRAFT_2020_SINCE:
        for schema in ("inputSchema", "outputSchema"):
            if schema in converted:
                converted[schema] = to_draft_07(converted[schema])
    return converted


def wraps_output(tool: Mapping[str, Any] | None) -> bool:
    """Before 2026-07-28 structured content was an object."""
    schema = (tool or {}).get("outputSchema")
    return schema is not None and not (isinstance(schema, dict) and schema.get("type") == "object")


def _wrapped(schema: Any) -> dict[str, Any]:
    """Definitions move to the new root: `#/$defs/…` is resolved from there."""
    inner = dict(schema) if isinstance(schema, dict) else schema
    outer: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    if isinstance(inner, dict):
        outer.update({key: inner.pop(key) for key in ("$schema", "$defs") if key in inner})
    return outer


def _wrap_structured(result: dict[str, Any], definition: Mapping[str, Any] | None) -> None:
    if "structuredContent" not in result:
        return
    value = result["structuredContent"]
    if wraps_output(definition) or not isinstance(value, dict):
        result["structuredContent"] = {"result": value}


def _drop_server_info(result: dict[str, Any]) -> None:
    meta = result.get("_meta")
    if isinstance(meta, dict) and SERVER_INFO_META_KEY in meta:
        rest = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
        if rest:
            result["_meta"] = rest
        else:
            del result["_meta"]


def _links_to_text(method: str, result: dict[str, Any]) -> None:
    if method == "tools/call" and isinstance(result.get("content"), list):
        result["content"] = [_link_to_text(block) for block in result["content"]]
    elif method == "prompts/get" and isinstance(result.get("messages"), list):
        result["messages"] = [
            {**message, "content": _link_to_text(message["content"])}
            if isinstance(message, dict) and "content" in message
            else message
            for message in result["messages"]
        ]


def _link_to_text(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "resource_link":
        return block
    label = block.get("title") or block.get("name") or "Resource"
    return {"type": "text", "text": f"{label}: {block.get('uri', '')}"}
