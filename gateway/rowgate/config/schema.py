"""The JSON schema of a configuration file, for editors and for the reference page."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from rowgate.config.models import Config

_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_ANNOTATIONS = ("description", "default")


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # they only repeat the key

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        """The default as a file would have it, so `60s` and not the number of seconds."""
        default = super().get_default_value(schema)
        inner: Any = schema["schema"] if "default" in schema else None
        while default is not None and inner:
            serialization = inner.get("serialization", {})
            if serialization.get("type") == "function-plain":
                return serialization["function"](default)
            inner = inner.get("schema")
        return default


def json_schema() -> dict[str, Any]:
    schema = Config.model_json_schema(schema_generator=_Generator)
    schema = _as_written(schema)
    schema["$defs"]["Reference"] = {**_REFERENCE, "description": "Text with environment variables, ${NAME}."}
    return {"$schema": _Generator.schema_dialect, **schema}


def _as_written(node: Any) -> Any:
    """The schema of a file before its variables are replaced: `${NAME}` may stand for any scalar."""
    if isinstance(node, list):
        return [_as_written(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "enum" in node or "const" in node or "pattern" in node or node.get("type") in ("integer", "boolean"):
        annotations = {key: node[key] for key in _ANNOTATIONS if key in node}
        rule = {key: value for key, value in node.items() if key not in _ANNOTATIONS}
        return {**annotations, "anyOf": [rule, {"$ref": "#/$defs/Reference"}]}
    written = {key: value if key == "default" else _as_written(value) for key, value in node.items()}
    if "patternProperties" in written:
        written["additionalProperties"] = False
    return written
