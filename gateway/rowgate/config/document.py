"""YAML as this configuration understands it: no types but null, true, false and numbers, no tags, no surprises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from rowgate.config.problems import Finding, Location, Problem, dotted

MAX_BYTES = 2**20
MAX_DEPTH = 32
MAX_NODES = 50_000
"""Counted after aliases are followed, so that a few lines cannot become a million."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?")
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inner>[^}]*)(?P<closed>\}?)")
_INNER = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.ASCII | re.DOTALL)
_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
Mark = tuple[int, int]


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """Composes nodes and constructs nothing, so no tag of the file can name a type."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)


class _Broken:
    """Stands for a value that was already reported."""


@dataclass(frozen=True, slots=True)
class Document:
    """The parsed file. `tree` has every `${NAME}` replaced."""

    tree: Any = field(default=None, repr=False)
    problems: tuple[Problem, ...] = ()
    broken: frozenset[Location] = frozenset()
    """Locations of values that could not be read; what is said about them is in `problems`."""
    _keys: Mapping[Location, Mark] = field(default_factory=dict, repr=False)
    _values: Mapping[Location, Mark] = field(default_factory=dict, repr=False)

    def place(self, finding: Finding) -> Problem:
        """The finding with the line of its value, or of the nearest thing around it that the file has."""
        where = finding.location
        while where and where not in self._values:
            where = where[:-1]
        marks = self._keys if finding.of_key and where in self._keys else self._values
        line, column = marks.get(where, (1, 1))
        return Problem(dotted(finding.location), line, column, finding.message, finding.hint, finding.severity)


def parse(text: str, env: Mapping[str, str]) -> Document:
    """Never raises: what is wrong with the text is in `problems`."""
    try:
        root = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        return Document(problems=(_syntax(error),))
    except ReaderError as error:
        # Its position counts characters: `str(error)` would repeat the character itself.
        before = text[: error.position]
        place = (before.count("\n") + 1, error.position - before.rfind("\n"))
        return Document(problems=(Problem("", *place, "contains a character that YAML does not allow"),))
    except RecursionError:
        return Document(problems=(Problem("", 1, 1, f"is nested deeper than {MAX_DEPTH} levels"),))
    except (ValueError, OverflowError):
        return Document(problems=(Problem("", 1, 1, "contains an escape that is not a character"),))
    reader = _TreeReader(env)
    try:
        tree = reader.value(root, ()) if root is not None else None
    except _TooMuch as error:
        return Document(problems=(Problem("", *_mark(error.node), str(error)),))
    return Document(
        tree,
        tuple(Problem(dotted(path), *mark, message, hint) for path, mark, message, hint in reader.problems),
        frozenset(reader.broken),
        reader.keys,
        reader.values,
    )


def _syntax(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # The parser quotes what it found, which may be a secret that was pasted here.
    said = re.sub(r"'([^']*)'", lambda quoted: quoted[0] if len(quoted[1]) < 2 else "…", error.problem or "")
    hint = "Quote text that begins with * & ! % @ or `, or contains ': ', and ${NAME} between braces or brackets."
    return Problem("", *place, f"is not valid YAML: {said.splitlines()[0]}" if said else "is not valid YAML", hint)


class _TooMuch(Exception):
    def __init__(self, message: str, node: yaml.Node) -> None:
        super().__init__(message)
        self.node = node


def _mark(node: yaml.Node) -> Mark:
    return (node.start_mark.line + 1, node.start_mark.column + 1)


@dataclass(slots=True)
class _TreeReader:
    env: Mapping[str, str]
    keys: dict[Location, Mark] = field(default_factory=dict)
    values: dict[Location, Mark] = field(default_factory=dict)
    problems: list[tuple[Location, Mark, str, str]] = field(default_factory=list)
    broken: set[Location] = field(default_factory=set)
    nodes: int = 0

    def value(self, node: yaml.Node, at: Location) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooMuch(f"holds more than {MAX_NODES} values", node)
        if len(at) > MAX_DEPTH:
            raise _TooMuch(f"is nested deeper than {MAX_DEPTH} levels", node)
        if node.tag not in _TAGS:
            return self.refuse(node, at, "must not have a YAML tag", "Quote text that begins with !.")
        if isinstance(node, yaml.ScalarNode):
            self.values[at] = _mark(node)
            return self.scalar(node, at)
        # A block begins below its key, and people look at the key.
        self.values[at] = self.keys.get(at) or _mark(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*at, index)) for index, item in enumerate(node.value)]
        return dict(self.members(node, at))

    def members(self, node: yaml.Node, at: Location) -> Iterator[tuple[str, Any]]:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _TAGS or _unpaired(key.value):
                self.problems.append((at, _mark(key), "has a key that is not text", ""))
                continue
            here = (*at, key.value)
            if here in self.keys:
                first = self.keys[here][0]
                self.problems.append((here, _mark(key), f"stands here a second time; the first is on line {first}", ""))
                continue
            self.keys[here] = _mark(key)
            yield key.value, self.value(value, here)

    def scalar(self, node: yaml.ScalarNode, at: Location) -> Any:
        text: str = node.value
        if _unpaired(text):
            return self.refuse(node, at, "contains half of a surrogate pair")
        if "${" not in text:
            return _resolve(text) if node.style is None else text
        try:
            text = _REFERENCE.sub(self.reference, text)
        except _BadReference as error:
            return self.refuse(node, at, str(error), error.hint)
        # What a variable holds is text, whatever it looks like; an optional setting may be switched off by a blank.
        return None if node.style is None and not text.strip() else text

    def reference(self, match: re.Match[str]) -> str:
        if match["inner"] is None:
            return "${"
        inner = _INNER.fullmatch(match["inner"])
        if inner is None or not match["closed"]:
            raise _BadReference("has a ${…} that is not ${NAME} or ${NAME:-default}", "Write $${ for a literal ${.")
        found = self.env.get(inner["name"], "")
        if found.strip():
            return found
        if inner["default"] is None:
            state = "empty" if inner["name"] in self.env else "not set"
            raise _BadReference(
                f"needs the environment variable {inner['name']}, which is {state}",
                f"Set it, or write ${{{inner['name']}:-default}}.",
            )
        return inner["default"]

    def refuse(self, node: yaml.Node, at: Location, message: str, hint: str = "") -> _Broken:
        self.values[at] = _mark(node)
        self.problems.append((at, _mark(node), message, hint))
        self.broken.add(at)
        return _Broken()


class _BadReference(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _unpaired(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _resolve(text: str) -> Any:
    """A plain scalar by YAML's core schema, without octal, hexadecimal, infinite and zero-padded numbers."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
