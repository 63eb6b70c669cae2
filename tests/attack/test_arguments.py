"""Arguments that make their check, which runs between everybody's calls, the most expensive part of a call."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings

from attack.test_lying_plugins import SCHEMAS, VALUES
from rowgate.errors import ArgumentsRefused
from rowgate.policy.arguments import ArgumentSchema

NODE = {"type": "object", "properties": {"x": {"$ref": "#/$defs/node"}}}
TREE = {
    "type": "object",
    "$defs": {"node": {"anyOf": [{**NODE, "required": ["y"]}, {**NODE, "required": ["z"]}]}},
    "properties": {"x": {"$ref": "#/$defs/node"}},
}


def argument(schema: dict[str, Any]) -> ArgumentSchema:
    return ArgumentSchema({"type": "object", "properties": {"x": schema}})


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    return reduce(lambda value, _: {"x": value}, range(levels), inner)


COSTLY: dict[str, tuple[ArgumentSchema, Any]] = {
    "a schema that branches at each level": (ArgumentSchema(TREE), nested(60)),
    "more items than can be looked at": (argument({"items": {"type": "integer"}}), {"x": [1] * 200_000}),
    "an error that repeats a large value again and again": (
        argument({"anyOf": [{"type": "string"}] * 500}),
        {"x": ["y" * 1_000_000]},
    ),
}


@pytest.mark.parametrize("case", COSTLY)
def test_what_would_hold_everybody_up_is_refused(case: str) -> None:
    schema, arguments = COSTLY[case]
    with pytest.raises(ArgumentsRefused) as refused:
        schema.check(arguments)
    assert refused.value.reason == "size"


def test_a_check_leaves_the_next_its_whole_budget() -> None:
    schema = argument({"items": {"type": "integer"}})
    for _ in range(5):
        schema.check({"x": [1] * 15_000})


def test_unique_items_are_told_without_comparing_each_with_each_other() -> None:
    """Neither sortable nor hashable, which the library's own rule compares pairwise: five thousand million times."""
    schema = argument({"uniqueItems": True})
    items: list[Any] = [value for number in range(50_000) for value in (number, str(number))]
    schema.check({"x": items})
    with pytest.raises(ArgumentsRefused):
        schema.check({"x": [*items, "7"]})


def test_a_number_beyond_what_a_rule_can_take_is_refused() -> None:
    with pytest.raises(ArgumentsRefused):
        argument({"multipleOf": 0.01}).check({"x": 10**400})


@given(SCHEMAS, VALUES)
@settings(max_examples=300, deadline=None)
def test_no_schema_and_no_argument_raise_anything_else(schema: Any, value: Any) -> None:
    try:
        ArgumentSchema({"type": "object", "properties": {"x": schema}}).check({"x": value})
    except (ValueError, ArgumentsRefused):
        pass
