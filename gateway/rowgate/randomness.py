"""Identifiers that nobody can guess."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

BITS: Final = 128
_SIZE: Final = BITS // 8
_AT_ONCE: Final = 256


class Randomness:
    """Random identifiers of 128 bits, made of what the operating system gives for 256 of them at once: each call needs
    two, and to ask for each is a system call. No process inherits what is kept: plugins are started with exec."""

    def __init__(self, source: Callable[[int], bytes] = os.urandom) -> None:
        self._source = source
        self._kept: list[str] = []

    def __call__(self) -> str:
        """32 hexadecimal digits."""
        if not self._kept:
            text = self._source(_SIZE * _AT_ONCE).hex()
            self._kept = [text[at : at + 2 * _SIZE] for at in range(0, len(text), 2 * _SIZE)]
        return self._kept.pop()
