"""`rowgate config`: validate a configuration, show what it comes to, print its schema."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from rowgate.cli.exits import CONFIGURATION, FINDINGS
from rowgate.config.load import Checked, check
from rowgate.config.schema import json_schema

_path = click.argument("path", required=False, metavar="[PATH]")


@click.group()
def config() -> None:
    """Validate and show the configuration. PATH is by default the file that --config names."""


@config.command()
@_path
@click.option("--strict", is_flag=True, help="Exit with 1 when there are warnings.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
@click.pass_obj
def validate(default_path: str, path: str | None, strict: bool, as_json: bool) -> None:
    """Report every problem with its path and line. Exits with 0, with 78 on an error, with 1 on findings."""
    file = path or default_path
    checked = check(Path(file), os.environ)
    if as_json:
        click.echo(json.dumps(_report(file, checked), indent=2))
    else:
        _tell(file, checked)
        click.echo(_summary(file, checked), err=True)
    if checked.config is None:
        raise SystemExit(CONFIGURATION)
    if strict and checked.problems:
        raise SystemExit(FINDINGS)


@config.command()
@_path
@click.pass_obj
def show(default_path: str, path: str | None) -> None:
    """Print the effective configuration as YAML: defaults filled in, variables replaced, secrets by their origin."""
    file = path or default_path
    checked = check(Path(file), os.environ)
    _tell(file, checked)
    if checked.config is None:
        raise SystemExit(CONFIGURATION)
    effective = checked.config.model_dump(mode="json", by_alias=True)
    click.echo(yaml.safe_dump(effective, sort_keys=False, allow_unicode=True, width=120), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON schema of the configuration file."""
    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def _tell(file: str, checked: Checked) -> None:
    for problem in checked.problems:
        click.echo(problem.render(file), err=True)


def _summary(file: str, checked: Checked) -> str:
    warnings = sum(problem.severity == "warning" for problem in checked.problems)
    errors = len(checked.problems) - warnings
    counts = [
        f"{count} {word}{'s' * (count != 1)}" for count, word in ((errors, "error"), (warnings, "warning")) if count
    ]
    return f"{file}: {', '.join(counts) or 'valid'}"


def _report(file: str, checked: Checked) -> dict[str, Any]:
    return {
        "report": "rowgate-config-1",
        "file": file,
        "valid": checked.config is not None,
        "problems": [asdict(problem) for problem in checked.problems],
    }
