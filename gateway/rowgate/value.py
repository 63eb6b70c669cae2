"""Immutable values of the hot path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass as far as mypy can see, which refuses every assignment. At run time nothing is frozen, because
    Python builds what is three to seven times as slowly, and a call makes six of these: 2 % of its time."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
