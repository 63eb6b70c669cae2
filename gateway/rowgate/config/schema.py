"""The JSON schema of a configuration file, for editors and for the reference page."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from rowgate.config.models import Config


class _Generator(GenerateJsonSchema):
    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        """The default as a file would have it, so `60s` and not the number of seconds."""
        default = super().get_default_value(schema)
        inner: Any = schema["schema"]
        while default is not None and inner:
            serialization = inner.get("serialization", {})
            if serialization.get("type") == "function-plain":
                return serialization["function"](default)
            inner = inner.get("schema")
        return default


def json_schema() -> dict[str, Any]:
    dialect = {"$schema": _Generator.schema_dialect}
    return {**dialect, **Config.model_json_schema(schema_generator=_Generator)}
