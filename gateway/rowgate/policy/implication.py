"""Which scopes come with which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def implied(scopes: Iterable[str], implies: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The scopes with everything they include, at any number of steps; circles are harmless."""
    reached: set[str] = set()
    waiting = list(scopes)
    while waiting:
        scope = waiting.pop()
        if scope not in reached:
            reached.add(scope)
            waiting += implies.get(scope, ())
    return frozenset(reached)
