"""Arguments of a tool against its input schema, before somebody other than the plugin judges them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from rowgate.errors import ArgumentsRefused

MAX_PATH = 200
"""Characters of the place that a refusal names."""


class ArgumentSchema:
    """One input schema, compiled. References lead nowhere but into the schema itself."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises ValueError when it is no JSON Schema."""
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except (SchemaError, RecursionError):
            raise ValueError("no JSON Schema") from None
        # A registry of our own: the library's would fetch what a reference names.
        self._validator: Validator = kind(schema, registry=Registry())

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raises ArgumentsRefused, which names a place and a rule and repeats no value."""
        try:
            error = next(self._validator.iter_errors(arguments), None)
        except (Unresolvable, RecursionError):
            raise ArgumentsRefused("The input schema of this tool cannot be applied.", reason="schema") from None
        if error is not None:
            raise ArgumentsRefused(_explained(error), reason="arguments")


def _explained(error: ValidationError) -> str:
    place = error.json_path[:MAX_PATH]
    if error.validator == "required":
        return f"The arguments do not fit the input schema of this tool: {place}: {error.message}."
    return f"The arguments do not fit the input schema of this tool: {place} breaks the rule {error.validator}."
