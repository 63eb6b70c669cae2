"""Arguments against an input schema: refused by place and rule, without a word of what was sent."""

from __future__ import annotations

from typing import Any

import pytest

from rowgate.errors import ArgumentsRefused
from rowgate.policy.arguments import ArgumentSchema

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 3},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'title' is a required property"),
        ({"title": "hunter2"}, "$.title breaks the rule maxLength"),
        ({"title": 7}, "$.title breaks the rule type"),
        ({"title": "x", "tags": ["a", "hunter2"]}, "$.tags[1] breaks the rule enum"),
        ({"title": "x", "hunter2": 1}, "$ breaks the rule additionalProperties"),
    ],
)
def test_a_refusal_names_place_and_rule_and_no_value(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentsRefused) as refusal:
        ArgumentSchema(SCHEMA).check(arguments)
    assert said in refusal.value.message
    assert "hunter2" not in refusal.value.message


def test_arguments_that_fit_pass() -> None:
    ArgumentSchema(SCHEMA).check({"title": "x", "tags": ["a"]})


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"type": "object", "properties": 7}, {"type": "object", "required": "a"}]
)
def test_what_is_no_schema_is_said_at_load(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no JSON Schema"):
        ArgumentSchema(schema)


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/schema.json", "#/$defs/none", "file:///etc/passwd"])
def test_a_reference_that_leads_out_is_followed_nowhere_and_refuses(reference: str) -> None:
    schema = ArgumentSchema({"type": "object", "properties": {"a": {"$ref": reference}}})
    with pytest.raises(ArgumentsRefused) as refusal:
        schema.check({"a": 1})
    assert refusal.value.reason == "schema"


def test_a_schema_without_end_refuses() -> None:
    endless = ArgumentSchema(
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/x"}}}
    )
    with pytest.raises(ArgumentsRefused):
        endless.check({"a": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"type": "string", "pattern": r"^(\w+\s?)*$"}}},
        {"propertyNames": {"pattern": r"^(\w+\s?)*$"}},
        {"patternProperties": {r"^(\w+\s?)*$": {}}, "additionalProperties": False},
    ],
)
def test_no_pattern_holds_the_loop_up_whatever_the_caller_writes(schema: dict[str, Any]) -> None:
    text = "a" * 4000 + "!"
    with pytest.raises(ArgumentsRefused):
        ArgumentSchema({"type": "object", **schema}).check({"x": text, text: 1})


def test_a_pattern_that_cannot_be_searched_in_linear_time_refuses_every_argument() -> None:
    schema = ArgumentSchema({"type": "object", "properties": {"x": {"pattern": r"(?=a)b"}}})
    with pytest.raises(ArgumentsRefused) as refusal:
        schema.check({"x": "b"})
    assert refusal.value.reason == "schema"


def test_patterns_that_the_library_would_search_by_itself_are_no_schema_of_ours() -> None:
    with pytest.raises(ValueError, match="patternProperties"):
        ArgumentSchema({"type": "object", "patternProperties": {"a": {}}, "unevaluatedProperties": False})


def test_additional_properties_are_those_that_neither_name_nor_pattern_covers() -> None:
    schema = ArgumentSchema(
        {
            "type": "object",
            "properties": {"a": {}},
            "patternProperties": {"^x-": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        }
    )
    schema.check({"a": 1, "x-b": 2, "other": "text"})
    for wrong in ({"x-b": "text"}, {"other": 1}):
        with pytest.raises(ArgumentsRefused):
            schema.check(wrong)
