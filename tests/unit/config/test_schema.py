"""The JSON schema, which editors read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from rowgate.config.schema import json_schema

ROOT = Path(__file__).parents[3]


def test_the_schema_in_the_repository_is_not_stale() -> None:
    written = (ROOT / "config.schema.json").read_text()
    assert written == json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", "run: rowgate config schema"


def test_the_example_satisfies_the_schema_and_points_to_it(example: str) -> None:
    Draft202012Validator.check_schema(json_schema())
    Draft202012Validator(json_schema()).validate(yaml.safe_load(example))
    assert example.startswith("# yaml-language-server: $schema=./config.schema.json\n")


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("gateway", "listne", "x"),
        ("gateway", "listen", "x"),
        ("supabase", "url", 1),
        ("plugins", "Notes", {"url": "http://notes"}),
        ("servers", "other", {}),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(example: str, section: str, key: str, value: object) -> None:
    tree = yaml.safe_load(example)
    tree[section][key] = value
    assert not Draft202012Validator(json_schema()).is_valid(tree)


def _properties(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in {"": node, **node["$defs"]}.items():
        for key, value in definition.get("properties", {}).items():
            yield f"{name}.{key}", value


def test_every_setting_has_one_plain_sentence() -> None:
    for name, setting in _properties(json_schema()):
        sentence = setting.get("description", "")
        assert sentence.endswith("."), name
        assert ". " not in sentence, name


def test_defaults_stand_as_a_file_would_have_them() -> None:
    plugin = json_schema()["$defs"]["Plugin"]["properties"]
    assert (plugin["timeout"]["default"], plugin["max_answer_bytes"]["default"]) == ("30s", "4MiB")
