"""One YAML file to a `Config`, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rowgate.config.authentication import Auth
from rowgate.config.document import MAX_BYTES, Document, parse
from rowgate.config.limits import ServerLimits
from rowgate.config.models import Config, Entry, Gateway, ServerPath, Supabase
from rowgate.config.plugin import Plugin
from rowgate.config.problems import ConfigurationProblems, Finding, Location, Problem, nearest
from rowgate.config.rules import Authorizer, Scopes
from rowgate.config.schema import json_schema
from rowgate.config.secret import Sources
from rowgate.config.validate import Parts, ServerParts, validate

_EMPTY = "Give it a value or remove the line."


@dataclass(frozen=True, slots=True)
class Loaded:
    config: Config
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file says, good or bad."""

    config: Config | None
    """None when there is an error among `problems`."""
    problems: tuple[Problem, ...] = field(default=())
    """Errors and warnings in file order."""


def load(path: Path, env: Mapping[str, str]) -> Config:
    """Raises ConfigurationProblems with every error of the file."""
    return load_with_warnings(path, env).config


def load_with_warnings(path: Path, env: Mapping[str, str]) -> Loaded:
    """Raises ConfigurationProblems with every error of the file."""
    checked = check(path, env)
    if checked.config is None:
        errors = [problem for problem in checked.problems if problem.severity == "error"]
        raise ConfigurationProblems(str(path), errors)
    return Loaded(checked.config, checked.problems)


def check(path: Path, env: Mapping[str, str]) -> Checked:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        return _unreadable(f"cannot be read: {reason}")
    if len(raw) > MAX_BYTES:
        return _unreadable(f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return _unreadable("is not UTF-8 text", line)
    return check_text(text, env, path.parent)


def check_text(text: str, env: Mapping[str, str], directory: Path) -> Checked:
    document = parse(text, env)
    if document.tree is None:
        return Checked(None, document.problems) if document.problems else _unreadable("is empty")
    sources = Sources(env, directory)
    config: Config | None = None
    findings: list[Finding] = []
    try:
        config = Config.model_validate(document.tree, context=sources, by_name=False, by_alias=True)
        findings += validate(Parts.of(config))
    except ValidationError as error:
        invalid = _findings(error.errors(include_url=False))
        findings += [finding for finding in invalid if not _reported(finding, document)]
        findings += validate(_parts(document.tree, sources))
    problems = sorted(
        dict.fromkeys([*document.problems, *map(document.place, findings)]),
        key=lambda problem: (problem.line, problem.column),
    )
    failed = any(problem.severity == "error" for problem in problems)
    return Checked(None if failed else config, tuple(problems))


def _unreadable(message: str, line: int = 1) -> Checked:
    return Checked(None, (Problem("", line, 1, message),))


def _reported(finding: Finding, document: Document) -> bool:
    """Whether the finding only repeats that a value below or at its place could not be read."""
    if finding.of_key:
        return False
    size = len(finding.location)
    return any(
        broken[:size] == finding.location or finding.location[: len(broken)] == broken for broken in document.broken
    )


def _parts(tree: Any, sources: Sources) -> Parts:
    """The sections that are valid by themselves, so that one mistake does not hide those of other sections."""
    top = _section(tree)

    def valid(kind: Any, value: Any) -> Any:
        try:
            return TypeAdapter(kind).validate_python(value, context=sources, by_name=False, by_alias=True)
        except ValidationError:
            return None

    def server(value: Any) -> ServerParts:
        section = _section(value)
        entries = section.get("capabilities")
        return ServerParts(
            path=valid(ServerPath, section.get("path")),
            auth=valid(Auth, section.get("auth")),
            scopes=valid(Scopes, section.get("scopes", {})),
            entries=tuple(valid(Entry, entry) for entry in entries) if isinstance(entries, list) else (),
            authorizer=valid(Authorizer, section.get("authorizer")),
            has_authorizer=section.get("authorizer") is not None,
            has_hook=section.get("policy") is not None,
            limits=valid(ServerLimits, section.get("limits", {})),
        )

    return Parts(
        gateway=valid(Gateway, top.get("gateway")),
        supabase=valid(Supabase, top.get("supabase")),
        has_supabase=top.get("supabase") is not None,
        plugins={name: valid(Plugin, value) for name, value in _section(top.get("plugins")).items()},
        servers={name: server(value) for name, value in _section(top.get("servers")).items()},
    )


def _section(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _findings(errors: Iterable[ErrorDetails]) -> Iterator[Finding]:
    for error in errors:
        location = tuple(step for step in error["loc"] if step != "[key]")
        kind = error["type"]
        if kind == "default_factory_not_called" or (kind == "too_short" and error["input"]):
            continue  # it only follows from another error
        if kind == "extra_forbidden":
            hint = nearest(str(location[-1]), _known_keys(location[:-1]))
            yield Finding(location, "is not a known setting", hint, of_key=True)
        elif kind == "missing":
            yield Finding(location, "is missing", of_key=True)
        else:
            message, hint = _sentence(error)
            yield Finding(location, message, hint, of_key="[key]" in error["loc"])


def _sentence(error: ErrorDetails) -> tuple[str, str]:
    """Our own words, because the library's repeat values and speak of types."""
    context = error.get("ctx", {})
    value = error["input"]
    match error["type"]:
        case _ if value is None:
            return "is empty", _EMPTY
        case "refused":
            return context["message"], context["hint"]
        case "literal_error":
            words = [word.strip("' ") for word in context["expected"].replace(" or ", ",").split(",")]
            hint = nearest(value, words) if isinstance(value, str) else ""
            return f"must be {' or '.join(words)}", hint if hint.startswith("Did") else ""
        case "string_type":
            number = isinstance(value, int | float)
            return "must be text", "Put it in quotes." if number else ""
        case "model_type" | "dict_type":
            return "must be a section of settings", ""
        case "tuple_type":
            return "must be a list", "Write [a, b], or one item a line after a dash."
        case "too_short":
            return "must not be empty", ""
        case "greater_than_equal":
            return f"must be at least {context['ge']}", ""
        case "less_than_equal":
            return f"must be at most {context['le']}", ""
    return "is not valid", ""


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    return json_schema()


def _known_keys(location: Location) -> list[str]:
    definitions = _schema()["$defs"]
    node = _resolved(_schema(), definitions)
    for step in location:
        node = _resolved(_member(node, step), definitions)
    return [*node.get("properties", {})]


def _member(node: dict[str, Any], step: str | int) -> dict[str, Any]:
    if isinstance(step, int):
        found = node.get("items")
    else:
        named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        found = node.get("properties", {}).get(step) or next(filter(None, named), None)
    return found if isinstance(found, dict) else {}


def _resolved(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    while True:
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[1]]
        elif "anyOf" in node:
            node = next(option for option in node["anyOf"] if option.get("type") != "null")
        else:
            return node
