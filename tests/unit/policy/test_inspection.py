"""What is not listed although it is offered and declared, and what titles and hints become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowgate.config.models import Hints
from rowgate.policy.binding import bind
from rowgate.policy.capability import Kind
from rowgate.policy.declarations import Declarations
from rowgate.policy.inspection import problem, says_enough, with_defaults, with_hints
from rowgate.policy.offers import Listing, Offer

from .conftest import prompt, resource, server, template, tool


def _schema(**members: Any) -> dict[str, Any]:
    return tool("t", inputSchema={"type": "object", **members})


@pytest.mark.parametrize(
    ("kind", "item", "phrase"),
    [
        ("tool", tool(""), "1 to 128 letters"),
        ("tool", tool("a" * 129), "1 to 128 letters"),
        ("tool", tool("a b"), "1 to 128 letters"),
        ("tool", tool("a/b"), "1 to 128 letters"),
        ("tool", tool("täst"), "1 to 128 letters"),
        ("tool", tool("a\n"), "1 to 128 letters"),
        ("tool", {"name": "t"}, "inputSchema"),
        ("tool", {"name": "t", "input_schema": {"type": "object"}}, "type object"),
        ("tool", tool("t", inputSchema={}), "type object"),
        ("tool", tool("t", inputSchema={"type": "string"}), "type object"),
        ("tool", tool("t", inputSchema={"type": ["object"]}), "type object"),
        ("tool", tool("t", inputSchema=True), "inputSchema"),
        ("tool", tool("t", title=5), "title"),
        ("tool", tool("t", description=["x"]), "description"),
        ("tool", tool("t", annotations={"readOnlyHint": "yes"}), "annotations"),
        ("tool", tool("t", annotations=[]), "annotations"),
        ("tool", tool("t", description="x" * 20_000), "description is longer"),
        ("tool", _schema(description="x" * 300_000), "definition is larger"),
        ("tool", _schema(properties={"a": {"$ref": "https://example.com/s"}}), "another document"),
        ("tool", _schema(properties={"default": {"$ref": "https://example.com/s"}}), "another document"),
        ("tool", _schema(allOf=[{"$dynamicRef": "other.json#x"}]), "another document"),
        ("tool", tool("t", outputSchema={"items": {"$ref": "file:///etc/passwd"}}), "another document"),
        ("tool", _schema(properties={"a": {"type": "number", "x-mcp-header": "A"}}), "x-mcp-header"),
        ("tool", _schema(properties={"a": {"type": "string", "x-mcp-header": "a b"}}), "x-mcp-header"),
        ("tool", _schema(items={"type": "string", "x-mcp-header": "A"}), "x-mcp-header"),
        ("prompt", prompt(""), "printable"),
        ("prompt", prompt("a\nb"), "printable"),
        ("prompt", prompt("p", arguments=[{}]), "arguments"),
        ("resource", {"uri": "note://1"}, "name"),
        ("resource", resource("no scheme"), "no scheme"),
        ("resource", resource("note://\x00"), "control characters"),
        ("template", template("note://{id"), "URI template"),
        ("template", template("note://{id:3}"), "URI template"),
        ("template", {"uriTemplate": "note://{id}"}, "name"),
    ],
)
def test_a_definition_that_would_harm_is_refused(kind: Kind, item: dict[str, Any], phrase: str) -> None:
    assert phrase in (problem(kind, item) or "nothing")


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("tool", tool("a.b-c_9")),
        ("tool", tool("t", unknown={"x": 1}, _meta={"vendor/x": True})),
        ("tool", tool("t", outputSchema={"type": "array"})),
        (
            "tool",
            _schema(
                **{
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "$defs": {"a": {"type": "string"}},
                    "properties": {"a": {"$ref": "#/$defs/a"}, "$ref": {"type": "string"}},
                }
            ),
        ),
        ("tool", _schema(properties={"region": {"type": "string", "x-mcp-header": "Region"}})),
        ("prompt", prompt("Weekly review", arguments=[{"name": "week", "required": True}])),
        ("resource", resource("note://1", size=3, mimeType="text/plain")),
        ("template", template("note://{id}{?q}")),
    ],
)
def test_an_ordinary_definition_passes(kind: Kind, item: dict[str, Any]) -> None:
    assert problem(kind, item) is None


def test_no_complaint_repeats_what_the_plugin_wrote() -> None:
    secret = "eyJhbGciOi"
    bad = _schema(properties={"a": {"type": "number", "x-mcp-header": secret}})
    assert secret not in (problem("tool", bad) or "")
    assert secret not in (problem("tool", tool("t", title=[secret])) or "")


def test_the_configuration_outranks_the_plugin() -> None:
    offered = tool("t", title="Theirs", annotations={"readOnlyHint": True, "openWorldHint": True, "title": "Theirs"})
    described = with_hints(offered, Hints(title="Ours", read_only=False, destructive=True))
    assert described["title"] == described["annotations"]["title"] == "Ours"
    assert described["annotations"] | {"title": ""} == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "openWorldHint": True,
        "title": "",
    }
    assert offered["title"] == "Theirs"


def test_a_title_in_the_annotations_is_a_title() -> None:
    item = {"name": "t", "annotations": {"title": "Old style", "readOnlyHint": False}}
    assert with_hints(item, None)["title"] == "Old style"
    assert says_enough(with_hints(item, None))


@pytest.mark.parametrize(
    "item",
    [
        {"name": "t"},
        {"name": "t", "title": "T"},
        {"name": "t", "title": "", "annotations": {"readOnlyHint": True}},
        {"name": "t", "title": "T", "annotations": {"openWorldHint": True}},
        {"name": "t", "title": "T", "annotations": {"readOnlyHint": None}},
        {"name": "t", "annotations": {"destructiveHint": True}},
    ],
)
def test_a_tool_without_title_or_hints_does_not_say_enough(item: dict[str, Any]) -> None:
    assert not says_enough(with_hints(item, None))


def test_defaults_are_the_protocols_conservative_ones() -> None:
    described = with_defaults({"name": "delete_all-notes", "annotations": {"openWorldHint": False}})
    assert described["title"] == "Delete all notes"
    assert described["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_defaults_do_not_call_a_read_only_tool_destructive() -> None:
    described = with_defaults({"name": "read", "annotations": {"readOnlyHint": True}})
    assert described["annotations"] == {"readOnlyHint": True}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(["a", "a b", "", "x://1", "x://{id}", "x://{", "{a}{b}"]) | st.text(max_size=6)
_SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "properties", "$ref", "x-mcp-header", "items", "$defs", "allOf"]),
    _JSON | st.just("object") | st.dictionaries(st.text(max_size=3), st.just({"type": "string", "x-mcp-header": "A"})),
)
_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "name": _NAMES | _JSON,
        "uri": _NAMES | _JSON,
        "uriTemplate": _NAMES | _JSON,
        "title": st.text(max_size=3) | _JSON,
        "annotations": st.dictionaries(st.sampled_from(["title", "readOnlyHint", "destructiveHint"]), _JSON) | _JSON,
        "inputSchema": _SCHEMAS | _JSON,
        "outputSchema": _SCHEMAS | _JSON,
        "arguments": _JSON,
        "_meta": _JSON,
    },
)


@given(st.lists(_ITEMS, max_size=4), st.sampled_from(["require", "default"]))
def test_nothing_that_a_plugin_offers_can_break_the_catalog(items: list[dict[str, Any]], hints: Any) -> None:
    everything = {"from": "notes", "tools": ["**"], "prompts": ["**"], "resources": ["**"], "templates": ["**"]}
    methods = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    offer = Offer("notes", 0.0, frozenset(), {method: Listing(tuple(items), 0.0) for method in methods})
    part = bind(Declarations(server(everything).capabilities), offer, hints, per_caller=False)
    for capability in part.capabilities:
        assert problem(capability.kind, capability.definition) is None
