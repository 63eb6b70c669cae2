"""JSON Schema 2020-12 to draft-07, for clients of revisions before 2025-11-25, which assume the older dialect.

Only keywords that mean something else there are rewritten; what draft-07 does not know it ignores.
"""

from __future__ import annotations

from typing import Any

DRAFT_07 = "http://json-schema.org/draft-07/schema#"

_DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


def to_draft_07(schema: Any) -> Any:
    """A copy in draft-07. `$dynamicRef` and `unevaluated*` have no counterpart and are dropped: the copy then
    accepts more than the original, and the plugin still validates."""
    converted = _convert(schema)
    if isinstance(converted, dict) and isinstance(schema, dict) and "$schema" in schema:
        converted["$schema"] = DRAFT_07
    return converted


def _convert(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_convert(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        _convert_keyword(out, key, value, schema)
    if "$ref" in out and len(out) > 1:
        # Draft-07 ignores every sibling of $ref.
        return {"allOf": [{"$ref": out.pop("$ref")}], **out}
    return out


def _convert_keyword(out: dict[str, Any], key: str, value: Any, schema: dict[str, Any]) -> None:
    if key in _DATA_KEYWORDS:
        out[key] = value
    elif key in _SCHEMA_MAPS and isinstance(value, dict):
        target = {"$defs": "definitions", "dependentSchemas": "dependencies"}.get(key, key)
        out[target] = {**_members(out.get(target)), **{name: _convert(sub) for name, sub in value.items()}}
    elif key == "dependentRequired" and isinstance(value, dict):
        out["dependencies"] = {**value, **_members(out.get("dependencies"))}
    elif key == "prefixItems":
        out["items"] = _convert(value)
    elif key == "items" and "prefixItems" in schema:
        out["additionalItems"] = _convert(value)
    elif key == "$anchor":
        out["$id"] = f"#{value}"
    elif key == "$ref" and isinstance(value, str):
        out[key] = value.replace("#/$defs/", "#/definitions/", 1)
    elif key not in ("$schema", "$dynamicRef", "$dynamicAnchor", "$vocabulary") and not key.startswith("unevaluated"):
        out[key] = _convert(value)


def _members(value: Any) -> dict[str, Any]:
    """Of what both names of a keyword hold; a schema is a plugin's to write, and need not be one."""
    return value if isinstance(value, dict) else {}
