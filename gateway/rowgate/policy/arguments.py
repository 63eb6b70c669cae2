"""Arguments of a tool against its input schema, before somebody other than the plugin judges them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]
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
        if {"patternProperties", "unevaluatedProperties"} <= _words(schema):
            # The library searches the patterns for the second with Python's engine.
            raise ValueError("patternProperties beside unevaluatedProperties")
        self._budget = _Budget()
        rules = {**kind.VALIDATORS, **_LINEAR}
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
        except (Unresolvable, RecursionError, OverflowError, re2.error):
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


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Any:
    """Patterns are the plugin's and the text is the caller's, so the search has to be linear: Python's engine takes
    twice as long for each character of some texts. What RE2 does not have (look-around, back-references) raises."""
    return re2.compile(pattern)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _searcher(pattern).search(instance):
        yield ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        search = _searcher(pattern).search
        for name, value in instance.items():
            if search(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name not in known and not any(_searcher(pattern).search(name) for pattern in patterns):
            if allowed is False:
                yield ValidationError("an additional property")
            elif isinstance(allowed, dict):
                yield from validator.descend(value, allowed, path=name)


_LINEAR: dict[str, Rule] = {
    "uniqueItems": _distinct,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
"""Rules of the library whose time grows faster than what they look at."""


def _words(schema: Any) -> set[str]:
    """Every member name anywhere in the schema."""
    words: set[str] = set()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            words.update(node)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return words


def _explained(error: ValidationError) -> str:
    place = error.json_path[:MAX_PATH]
    if error.validator == "required":
        return f"The arguments do not fit the input schema of this tool: {place}: {error.message}."
    return f"The arguments do not fit the input schema of this tool: {place} breaks the rule {error.validator}."
