"""Whether an offered capability can be listed without harm: one bad item makes some clients drop the whole list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.tool_name_validation import TOOL_NAME_REGEX
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from pydantic import BaseModel, ValidationError

from rowgate.policy.capability import IDENTITY, Kind
from rowgate.policy.names import MAX_NAME_LENGTH, opaque_uri

if TYPE_CHECKING:
    from rowgate.config.models import Hints

MAX_DESCRIPTION = 16 * 1024
"""Characters."""
MAX_DEFINITION = 256 * 1024
"""Characters of the whole definition as JSON: it is sent to every caller and read by models."""
MAX_DEPTH = 64

_SHAPES: Mapping[Kind, type[BaseModel]] = {
    "tool": Tool,
    "prompt": Prompt,
    "resource": Resource,
    "template": ResourceTemplate,
}
_REFERENCES = ("$ref", "$dynamicRef")
# MCP 2026-07-28, ToolAnnotations: what a client has to assume where a tool says nothing.
_CONSERVATIVE = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


def problem(kind: Kind, item: Mapping[str, Any]) -> str | None:
    """Why this definition, not `too_deep`, must not be listed. Nothing that the plugin wrote is in it."""
    try:
        _SHAPES[kind].model_validate(item, strict=True)
    except ValidationError as error:
        members = sorted({str(detail["loc"][0]) for detail in error.errors(include_input=False) if detail["loc"]})
        return f"these members do not fit the protocol: {', '.join(members)}"
    if len(item.get("description") or "") > MAX_DESCRIPTION:
        return f"the description is longer than {MAX_DESCRIPTION} characters"
    if len(json.dumps(item, ensure_ascii=False)) > MAX_DEFINITION:
        return f"the definition is larger than {MAX_DEFINITION} characters"
    return _identity_problem(kind, item[IDENTITY[kind]]) or (_tool_problem(item) if kind == "tool" else None)


def _identity_problem(kind: Kind, identity: str) -> str | None:
    if kind == "tool" and not TOOL_NAME_REGEX.fullmatch(identity):
        return f"a tool name has 1 to {MAX_NAME_LENGTH} letters, digits, -, _ and ."
    if kind == "prompt" and not (0 < len(identity) <= MAX_NAME_LENGTH and identity.isprintable()):
        return f"a prompt name has 1 to {MAX_NAME_LENGTH} printable characters"
    if kind == "resource" and not opaque_uri(identity):
        return "the URI has no scheme, has control characters or is too long"
    if kind == "template":
        try:
            UriTemplate.parse(identity)
        except InvalidUriTemplate:
            return "the URI template is none that can be matched (RFC 6570, one variable for several segments)"
    return None


def _tool_problem(tool: Mapping[str, Any]) -> str | None:
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "the root of inputSchema must have the type object"
    if any(_remote_reference(part) for part in (schema, tool.get("outputSchema"))):
        return "a schema refers to another document"
    if find_invalid_x_mcp_header(schema):
        return "an x-mcp-header annotation is not valid"
    return None


def _remote_reference(schema: Any) -> bool:
    for node in _nodes(schema):
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#"):
                return True
    return False


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object, those that are only data (`default`, `enum`) included: a property may be called `default`, too."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def too_deep(value: Any) -> bool:
    """Whether comparing, checking or writing it could exhaust the stack; told without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Any) -> list[Any]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [child for child in children if isinstance(child, dict | list)]


# --- titles and hints --------------------------------------------------------------------------------------


def with_hints(tool: dict[str, Any], hints: Hints | None) -> dict[str, Any]:
    """The definition with what the configuration says about it; the configuration outranks the plugin."""
    annotations = dict(tool.get("annotations") or {})
    title = tool.get("title") or annotations.get("title")
    if hints is not None:
        title = hints.title or title
        said = {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        }
        annotations |= {name: value for name, value in said.items() if value is not None}
        if hints.title and "title" in annotations:
            annotations["title"] = hints.title
    described = dict(tool)
    if title:
        described["title"] = title
    if annotations:
        described["annotations"] = annotations
    return described


def says_enough(tool: Mapping[str, Any]) -> bool:
    """Whether a person asked to approve a call can be told what it is and whether it changes anything."""
    annotations = tool.get("annotations") or {}
    hinted = any(annotations.get(hint) is not None for hint in ("readOnlyHint", "destructiveHint"))
    return bool(tool.get("title")) and hinted


def with_defaults(tool: dict[str, Any]) -> dict[str, Any]:
    annotations = {name: value for name, value in (tool.get("annotations") or {}).items() if value is not None}
    if "readOnlyHint" not in annotations and "destructiveHint" not in annotations:
        annotations = {**_CONSERVATIVE, **annotations}
    return {**tool, "title": tool.get("title") or _title(tool["name"]), "annotations": annotations}


def _title(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ").replace(".", " ").split()
    return " ".join(words).capitalize() or name
