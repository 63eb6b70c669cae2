"""What is wrong with a configuration, and where."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rowgate.errors import ConfigurationError

Location = tuple[str | int, ...]
Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before it is known where in the file it stands."""

    location: Location
    message: str
    hint: str = ""
    severity: Severity = "error"
    of_key: bool = False
    """Whether the key is meant and not its value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Lines and columns count from 1. No message repeats a value that the file or the environment gave."""

    path: str
    """Dotted, such as `servers.main.capabilities[1].require.scopes[0]`; empty for the file as a whole."""
    line: int
    column: int
    message: str
    hint: str = ""
    severity: Severity = "error"

    def render(self, file: str) -> str:
        place = f"{file}:{self.line}:{self.column}: "
        warning = "warning: " if self.severity == "warning" else ""
        path = f"{self.path}: " if self.path else ""
        return f"{place}{warning}{path}{self.message}" + (f" ({self.hint})" if self.hint else "")


class ConfigurationProblems(ConfigurationError):
    """Every problem of one file, in file order."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(problem.render(file) for problem in problems))
        self.file = file
        self.problems = tuple(problems)


def dotted(location: Location) -> str:
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]{1,64}", step, re.ASCII):
            path += f".{step}" if path else step
        else:
            path += f'["{_shown(step)}"]'
    return path


def _shown(key: str) -> str:
    text = key.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return text if len(text) <= 64 else f"{text[:61]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word that was probably meant, or all of them when they are few."""
    words = sorted(known)
    if match := difflib.get_close_matches(word[:64], words, n=1, cutoff=0.6):
        return f"Did you mean {match[0]}?"
    return f"Known here: {', '.join(words)}." if 0 < len(words) <= 16 else ""
