"""Whether the entries of a server say clearly what it exposes: every capability belongs to exactly one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from rowgate.config.models import Entry
from rowgate.config.problems import Finding, Location, nearest
from rowgate.policy.names import (
    MAX_PREFIXED_NAME_LENGTH,
    compile_pattern,
    opaque_uri,
    plain_uri,
    public_name,
)

KINDS = ("tools", "resources", "templates", "prompts")
PREFIXED = frozenset({"tools", "prompts"})
_TOOL = re.compile(r"[A-Za-z0-9_.*-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Named:
    """One name or glob of one entry."""

    location: Location
    kind: str
    entry: int
    plugin: str
    prefix: str | None
    text: str

    @property
    def exact(self) -> bool:
        return "*" not in self.text

    @property
    def public(self) -> str:
        return public_name(self.prefix, self.text) if self.kind in PREFIXED else self.text


def exposure(entries: Sequence[Entry | None], at: Location, plugins: frozenset[str] | None) -> Iterator[Finding]:
    """None stands for an entry that is not valid by itself, or for the names of the plugins when they are not known."""
    named = [*_names(entries, at)]
    for index, entry in enumerate(entries):
        if entry is not None:
            yield from _entry(entry, (*at, index), plugins)
    for name in named:
        yield from _name(name)
    yield from _overlaps(named)


def _names(entries: Sequence[Entry | None], at: Location) -> Iterator[_Named]:
    for index, entry in enumerate(entries):
        if entry is None:
            continue
        for kind in KINDS:
            for position, text in enumerate(getattr(entry, kind)):
                yield _Named((*at, index, kind, position), kind, index, entry.plugin, entry.prefix, text)


def _entry(entry: Entry, at: Location, plugins: frozenset[str] | None) -> Iterator[Finding]:
    if plugins is not None and entry.plugin not in plugins:
        yield Finding((*at, "from"), "names a plugin that is not configured", nearest(entry.plugin, plugins))
    if not any(getattr(entry, kind) for kind in KINDS):
        yield Finding(at, "names no capability", "List some under tools, resources, templates or prompts.")
    if entry.prefix is not None and not (entry.tools or entry.prompts):
        yield Finding((*at, "prefix"), "does nothing: only tools and prompts have a prefix")
    for tool, hints in entry.hints.items():
        where = (*at, "hints", tool)
        if "*" in tool or not any(compile_pattern(text).matches(tool) for text in entry.tools):
            yield Finding(where, "is not a tool that this entry names", nearest(tool, entry.tools), of_key=True)
        if not hints.model_fields_set:
            yield Finding(where, "says nothing about the tool", of_key=True)
        if hints.read_only and hints.destructive:
            yield Finding(where, "says both read_only and destructive", of_key=True)


def _name(name: _Named) -> Iterator[Finding]:
    if name.kind == "tools" and not _TOOL.fullmatch(name.text):
        yield Finding(name.location, "is not a tool name: those have letters, digits, _, - and . only")
    elif name.kind in PREFIXED and name.prefix and len(name.public) > MAX_PREFIXED_NAME_LENGTH:
        yield Finding(name.location, f"is longer than {MAX_PREFIXED_NAME_LENGTH} characters with its prefix")
    elif name.kind == "resources" and not _can_match(name.text):
        hint = "Globs match no URI with dot segments or encoded separators."
        yield Finding(name.location, "matches no URI", "" if name.exact else hint)


def _can_match(text: str) -> bool:
    if "*" not in text:
        return opaque_uri(text)
    # A URI that the glob would match, were it not for what the policy refuses in every URI.
    sample = re.sub(r"\*+", "x", text) if ":" in text else re.sub(r"\*+", "x", re.sub(r"\*+", "x:x", text, count=1))
    return plain_uri(sample)


def _overlaps(named: list[_Named]) -> Iterator[Finding]:
    owners: dict[tuple[str, str, str], _Named] = {}
    names: dict[tuple[str, str], _Named] = {}
    for name in named:
        if not name.exact:
            continue
        owner = owners.setdefault((name.kind, name.plugin, name.text), name)
        same = names.setdefault((name.kind, name.public), name)
        if owner is not name:
            yield Finding(name.location, f"is named already by {_place(owner)}")
        elif same is not name:
            hint = "Set or change a prefix." if name.kind in PREFIXED else "Expose it from one plugin only."
            yield Finding(name.location, f"is exposed under the same name by {_place(same)}", hint)
    for one, other in combinations([name for name in named if not name.exact], 2):
        rivals = (one.kind, one.plugin) == (other.kind, other.plugin) and one.entry != other.entry
        if rivals and overlap(one.text, other.text):
            hint = "Two rules would govern what both match: make the globs disjoint, or name it exactly."
            yield Finding(other.location, f"overlaps with {_place(one)}", hint)


def _place(name: _Named) -> str:
    return f"capabilities[{name.location[-3]}].{name.kind}[{name.location[-1]}]"


def overlap(one: str, other: str) -> bool:
    """Whether some name matches both globs. Exact, by walking both at once over every pair of positions."""
    first, second = _steps(one), _steps(other)
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        at = i, j = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if at == (len(first), len(second)):
            return True
        left = first[i] if i < len(first) else ""
        right = second[j] if j < len(second) else ""
        if left[:1] == "*":
            waiting.append((i + 1, j))
        if right[:1] == "*":
            waiting.append((i, j + 1))
        if left and right:
            waiting += _together(left, right, i, j)
    return False


def _together(left: str, right: str, i: int, j: int) -> Iterator[tuple[int, int]]:
    """Where one character that both sides accept leads."""
    if left[0] != "*" and right[0] != "*":
        if left == right:
            yield i + 1, j + 1
    elif left[0] != "*":
        if right == "**" or left != "/":
            yield i + 1, j
    elif right[0] != "*" and (left == "**" or right != "/"):
        yield i, j + 1


def _steps(text: str) -> list[str]:
    return [step if len(step) < 3 else "**" for step in re.findall(r"\*+|[^*]", text, re.DOTALL)]
