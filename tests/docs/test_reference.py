"""Whatever the code has, the reference names; and it names nothing that the code no longer has."""

from __future__ import annotations

import ast
import re
from typing import get_args

import pytest
from generator import commands, configuration, errors, events, metrics, samples
from generator.page import Page
from generator.pages import PAGES
from markdown_pages import ROOT, documents, read

from rowgate.cli import exits
from rowgate.errors import InsufficientScope
from rowgate.observe.events import Event
from rowgate.protocol.render import error_status

REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_not_stale(page: Page) -> None:
    assert page.path.read_text(encoding="utf-8") == page.text(), "run `make docs`"


def test_every_error_has_an_anchor_of_its_own() -> None:
    anchors = read(REFERENCE / "errors.md").anchors
    assert {error.code.lower() for error in errors.refusals()} <= anchors


def test_the_errors_page_names_exactly_those_that_keep_their_status_for_legacy_callers() -> None:
    head = read(REFERENCE / "errors.md").text.partition("Once a stream has begun")[0].partition("Exceptions are")[2]
    every = [InsufficientScope(()) if error is InsufficientScope else error() for error in errors.refusals()]
    after_reading = [error for error in every if error.code in ("RG110", "RG111", "RG112", "RG113", "RG114", "RG115")]
    kept = {error.code for error in after_reading if error_status(error, "legacy") != 200}
    assert set(re.findall(r"RG\d{3}", head)) == kept


def test_every_setting_is_in_the_reference() -> None:
    text = read(REFERENCE / "configuration.md").text
    for path, section in configuration.sections():
        part = text.partition(f"## {f'`{path}`' if path else 'Top level'}\n")[2].partition("\n## ")[0]
        for setting in configuration.settings(path, section):
            assert f"| `{setting.key}` | {setting.type} | {setting.default} |" in part, setting.path


def test_every_metric_is_in_the_reference() -> None:
    named = set(read(REFERENCE / "metrics.md").code)
    for family in metrics.families():
        assert {family.name, f"{family.name}_total"} & named, family.name


def test_every_metric_that_a_query_names_exists() -> None:
    known = {sample.name for family in metrics.families() for sample in family.samples}
    queries = [block.text for document in documents() for block in document.blocks if block.language == "promql"]
    named = {name for query in queries for name in re.findall(r"rowgate_\w+", query)}
    assert named
    assert named <= known


def test_every_event_is_logged_and_described_or_only_counted() -> None:
    assert {type(event) for event in samples.EVENTS} == set(get_args(Event)), "an event without a sample"
    logged = {type(event) for event in samples.EVENTS if samples.lines(event)}
    assert logged == set(events.MEANINGS)


def test_every_field_of_a_log_line_is_described() -> None:
    head = read(REFERENCE / "logs.md").text.partition("## The log\n")[0]
    assert set(events.fields()) <= set(re.findall(r"`([a-z_]+)`", head))


def test_every_command_is_in_the_reference() -> None:
    headings = re.findall(r"^## `(.+)`$", read(REFERENCE / "cli.md").text, re.MULTILINE)
    assert headings == [path for path, _ in commands.commands()]


def test_every_exit_code_is_in_the_reference() -> None:
    text = read(REFERENCE / "cli.md").text
    for name, number in vars(exits).items():
        if name.isupper():
            assert f"\n| {number} | " in text, name


def test_settings_that_prose_and_hints_name_exist() -> None:
    known = {path for path, _ in configuration.sections()}
    known |= {
        setting.path for path, section in configuration.sections() for setting in configuration.settings(path, section)
    }
    texts = {str(document): document.code for document in documents()}
    texts |= {error.code: re.findall(r"`([^`]+)`", error.hint) for error in errors.refusals()}
    for place, code in texts.items():
        for word in code:
            if re.fullmatch(r"(gateway|supabase|plugins|servers)\.[A-Za-z_.*\[\]]+", word):
                assert word.replace("*", "NAME") in known, f"{place}: {word}"


def test_every_test_that_a_page_names_exists() -> None:
    existing = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for document in documents():
        named = {word for word in document.code if re.fullmatch(r"test_[a-z0-9_]+", word)}
        assert named <= existing, str(document)
