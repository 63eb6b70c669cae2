"""What the entries of one server say about one plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rowgate.policy.capability import Kind
from rowgate.policy.names import Pattern, compile_pattern
from rowgate.policy.rules import Requirement

if TYPE_CHECKING:
    from rowgate.config.limits import EntryLimits
    from rowgate.config.models import Entry, Hints


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """One entry, compiled."""

    patterns: Mapping[Kind, tuple[Pattern, ...]]
    requirement: Requirement
    prefix: str | None
    hints: Mapping[str, Hints]
    limits: EntryLimits | None
    meta: Mapping[str, Any] = field(repr=False)
    judged: bool
    """Whether a hook or an authorizer sees the arguments of these."""

    @classmethod
    def of(cls, entry: Entry, *, authorizer: bool = False, hook: bool = False) -> Declaration:
        texts: dict[Kind, tuple[str, ...]] = {
            "tool": entry.tools,
            "prompt": entry.prompts,
            "resource": entry.resources,
            "template": entry.templates,
        }
        return cls(
            patterns={
                kind: tuple(compile_pattern(text, uri=kind == "resource") for text in listed)
                for kind, listed in texts.items()
            },
            requirement=Requirement.of(entry.require, authorizer=authorizer),
            prefix=entry.prefix,
            hints=entry.hints,
            limits=entry.limits if entry.limits.counts else None,
            meta=MappingProxyType(entry.meta),
            judged=hook or (authorizer and entry.require.permission is not None),
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry's claim to a name, and the pattern that makes it."""

    declaration: Declaration
    pattern: Pattern


class Declarations:
    """The entries of one server for one plugin. A name belongs to at most one of them."""

    def __init__(self, entries: Iterable[Entry], *, authorizer: bool = False, hook: bool = False) -> None:
        """Whether the server has an authorizer, and a hook."""
        self.all = tuple(Declaration.of(entry, authorizer=authorizer, hook=hook) for entry in entries)

    def claims(self, kind: Kind, name: str) -> tuple[Claim, ...]:
        """None: not declared. Several: the entries contradict each other, and nothing may be served by that name.

        An exact name beats any pattern."""
        matching = [
            Claim(declaration, pattern)
            for declaration in self.all
            if (pattern := _best(declaration.patterns[kind], name)) is not None
        ]
        exact = tuple(claim for claim in matching if claim.pattern.exact)
        return exact or tuple(matching)

    def exact_names(self, kind: Kind) -> list[str]:
        return [pattern.text for declaration in self.all for pattern in declaration.patterns[kind] if pattern.exact]

    def requirements(self, kind: Kind, *, globs: bool = False) -> list[Requirement]:
        """Of the entries that name anything of this kind; with `globs` of those that name it by a pattern."""
        return [
            declaration.requirement
            for declaration in self.all
            if any(not (globs and pattern.exact) for pattern in declaration.patterns[kind])
        ]


def _best(patterns: Iterable[Pattern], name: str) -> Pattern | None:
    found: Pattern | None = None
    for pattern in patterns:
        if pattern.matches(name):
            if pattern.exact:
                return pattern
            found = found or pattern
    return found
