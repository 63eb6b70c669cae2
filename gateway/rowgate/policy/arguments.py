"""Arguments of a tool against its input schema, before somebody other than the plugin judges them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from rowgate.errors import ArgumentsRefused

MAX_PATH = 200
"""Characters of the place that a refusal names."""
MAX_STEPS = 20_000
"""Rules that one call's arguments may take: a schema that refers to itself below `anyOf` takes twice as many for each
level of them, and everybody's calls would wait for one."""
_STEP = 1024
"""Characters of an error that count as a step, because it repeats the value that it is about."""

Rule = Callable[[Any, Any, Any, Any], Any]


class ArgumentSchema:
    """One input schema, compiled. References lead nowhere but into the schema itself."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises ValueError when it is no JSON Schema."""
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except (SchemaError, RecursionError):
            raise ValueError("no JSON Schema") from None
        self._budget = _Budget()
        rules = {**kind.VALIDATORS, "uniqueItems": _distinct}
        counted = {name: self._budget.counted(rule) for name, rule in rules.items()}
        bounded: Any = extend(kind, counted)  # type: ignore[no-untyped-call]
        # A registry of our own: the library's would fetch what a reference names.
        self._validator: Validator = bounded(schema, registry=Registry())

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raises ArgumentsRefused, which names a place and a rule and repeats no value."""
        self._budget.left = MAX_STEPS
        try:
            error = next(self._validator.iter_errors(arguments), None)
        except _Exhausted:
            raise ArgumentsRefused("The arguments are too many or too deep to be checked.", reason="size") from None
        except (Unresolvable, RecursionError, OverflowError):
            raise ArgumentsRefused("The input schema of this tool cannot be applied.", reason="schema") from None
        if error is not None:
            raise ArgumentsRefused(_explained(error), reason="arguments")


class _Exhausted(Exception):
    pass


class _Budget:
    """What is left to one check. Nothing is awaited during it, so one schema checks one call at a time."""

    def __init__(self) -> None:
        self.left = 0

    def counted(self, rule: Rule) -> Rule:
        def applied(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            self._spend(1)
            for error in rule(validator, value, instance, schema) or ():
                self._spend(len(error.message) // _STEP)
                yield error

        return applied

    def _spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _Exhausted


def _distinct(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The library compares each item with each other."""
    if not wanted or not isinstance(instance, list):
        return
    if len({json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield ValidationError("items are not unique")


def _explained(error: ValidationError) -> str:
    place = error.json_path[:MAX_PATH]
    if error.validator == "required":
        return f"The arguments do not fit the input schema of this tool: {place}: {error.message}."
    return f"The arguments do not fit the input schema of this tool: {place} breaks the rule {error.validator}."
