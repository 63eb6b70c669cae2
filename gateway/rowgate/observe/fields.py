"""The fields of a request's own lines that a client had a hand in, made fit to be logged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from rowgate.observe.events import RequestFinished
from rowgate.observe.redaction import LONG, may_hold_secret, redact

Fields = dict[str, Any]

NAME_LENGTH: Final = 200
"""Characters of a name that a client chose."""
_REMEMBERED: Final = 4096
_REMEMBERED_LENGTH: Final = 512
"""Characters of all the words of a request that are remembered, so that no client fills the memory with long ones."""


def client_text(value: str) -> str:
    """A name as a client or plugin wrote it, cut to a length that a line can bear."""
    if len(value) < LONG and not may_hold_secret(value):
        return value
    return redact(value if len(value) <= NAME_LENGTH else value[: 4 * NAME_LENGTH])[:NAME_LENGTH]


class ClientFields:
    """All other fields are the gateway's own words. Log and audit ask for the same one after the other, so what was
    made last is kept: whoever is given it copies it."""

    def __init__(self) -> None:
        self._last: RequestFinished | None = None
        self._fields: Mapping[str, Any] = {}

    def __call__(self, event: RequestFinished) -> Mapping[str, Any]:
        if event is not self._last:
            self._fields = {"request_id": client_text(event.request_id), **_fields(event)}
            self._last = event
        return self._fields


def _fields(event: RequestFinished) -> Fields:
    words = (event.method, event.name, event.subject, event.client_id, event.actor, event.version, event.http_method)
    # Callers repeat themselves, and to look at their words for credentials costs more than to write the line.
    if sum(map(len, filter(None, words))) <= _REMEMBERED_LENGTH:
        return _remembered(words)
    return _made(words)


def _made(words: tuple[str | None, ...]) -> Fields:
    names = ("method", "name", "subject", "client_id", "actor", "version", "http_method")
    return {name: client_text(word) for name, word in zip(names, words, strict=True) if word}


_remembered = lru_cache(_REMEMBERED)(_made)
