"""The pattern language of `capabilities`: exact names, `*` that stops at `/`, and `**` that does not.

Everything else is literal: `?`, `[`, `{` and `\\` mean themselves. A pattern is compared with the whole raw name or
URI, case-sensitively and without any normalisation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

MAX_PATTERN_LENGTH = 1024
MAX_NAME_LENGTH = 128
MAX_PREFIXED_NAME_LENGTH = 64
"""Some model APIs take no longer function names, and a prefix is ours."""
MAX_URI_LENGTH = 8192

_STARS = re.compile(r"\*+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# RFC 3986 §2 and §3.1: a scheme, something after it, and no character that a URI cannot have.
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
# `.` or `..` standing alone between delimiters of any kind: `;` and `\` count, because some servers split there.
_DOT_SEGMENT = re.compile(r"(?<![A-Za-z0-9\-._~%])\.{1,2}(?![A-Za-z0-9\-._~%])")
# Encoded `.`, `/` and `\`, at any depth of encoding.
_ENCODED_SEPARATOR = re.compile(r"%(?:25)*(?:2[ef]|5c)", re.IGNORECASE)
_NESTED_ENCODING = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")


def plain_uri(uri: str) -> bool:
    """Whether a pattern may judge this URI as a string.

    A plugin that decodes or normalises would read something else in dot segments, in encoded separators or in
    encoded control characters than a string comparison does; such a URI is never what a pattern meant.
    """
    if len(uri) > MAX_URI_LENGTH or not _ABSOLUTE_URI.fullmatch(uri):
        return False
    if _DOT_SEGMENT.search(uri) or _ENCODED_SEPARATOR.search(uri):
        return False
    try:
        decoded = unquote_to_bytes(_NESTED_ENCODING.sub("%", uri)).decode()  # strict: overlong forms are no UTF-8
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(decoded)


def opaque_uri(uri: str) -> bool:
    """Whether this can be a resource's URI at all: compared as it is, never interpreted."""
    return 0 < len(uri) <= MAX_URI_LENGTH and ":" in uri and not _CONTROL.search(uri)


def public_name(prefix: str | None, name: str) -> str:
    """What clients call a plugin's tool or prompt when its entry has a prefix."""
    return f"{prefix}_{name}" if prefix else name


@dataclass(frozen=True, slots=True)
class Pattern:
    text: str
    exact: bool
    uri: bool
    """Compared with URIs: as a glob it matches only what `plain_uri` admits."""
    _head: str = field(repr=False, compare=False)
    _program: _Program | None = field(repr=False, compare=False)

    def matches(self, name: str) -> bool:
        if self._program is None:
            return name == self.text
        if len(name) > MAX_URI_LENGTH or not name.startswith(self._head):
            return False
        return (not self.uri or plain_uri(name)) and self._program.accepts(name)


@dataclass(frozen=True, slots=True)
class _Program:
    """A bit-parallel automaton, one bit a position of the pattern: no input makes it slower than its length."""

    literal: Mapping[str, int]
    star: int
    """Positions that stay on every character but `/`."""
    double: int
    """Positions that stay on every character."""
    final: int

    def accepts(self, name: str) -> bool:
        wild = self.star | self.double
        states = self._past_stars(1, wild)
        for character in name:
            stay = states & (self.double if character == "/" else wild)
            states = self._past_stars(stay | ((states & self.literal.get(character, 0)) << 1), wild)
            if not states:
                return False
        return bool(states & self.final)

    @staticmethod
    def _past_stars(states: int, wild: int) -> int:
        """A star matches nothing, too. Neighbouring stars were merged, so one step is enough."""
        return states | ((states & wild) << 1)


@lru_cache(maxsize=4096)
def compile_pattern(text: str, *, uri: bool = False) -> Pattern:
    """Raises ValueError for text that can match nothing."""
    if not text or len(text) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a pattern has 1 to {MAX_PATTERN_LENGTH} characters")
    if _CONTROL.search(text):
        raise ValueError("a pattern has no control characters")
    head = text.partition("*")[0]
    exact = "*" not in text
    return Pattern(text=text, exact=exact, uri=uri, _head=head, _program=None if exact else _program(text))


def _program(text: str) -> _Program:
    literal: dict[str, int] = {}
    star = double = 0
    position = 1
    for token in _tokens(text):
        if token == "*":
            star |= position
        elif token == "**":
            double |= position
        else:
            literal[token] = literal.get(token, 0) | position
        position <<= 1
    return _Program(MappingProxyType(literal), star, double, final=position)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    end = 0
    for stars in _STARS.finditer(text):
        tokens += text[end : stars.start()]
        tokens.append("*" if len(stars.group()) == 1 else "**")
        end = stars.end()
    return tokens + list(text[end:])
