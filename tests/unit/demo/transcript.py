"""Compares answers with a recording of a real Supabase Auth.

Names that the server chose (ids, codes, tokens, times) differ from run to run. Each recorded name is bound to the one
that came in its place when first met, must be the same one ever after, and is replaced in what is sent.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parents[2] / "data" / "gotrue-transcript.json"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
_AUTHORIZATION_ID = r"(?<=authorization_id=)[a-z0-9]{32}|(?<=/authorizations/)[a-z0-9]{32}"
_CHOSEN = re.compile(f"({_UUID}|{_TIME}|{_AUTHORIZATION_ID})")
_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")
_FORMATS = {
    "refresh_token": re.compile(r"[a-z0-9]{12}"),
    "client_secret": re.compile(r"[\w-]{43}"),
    "authorization_id": re.compile(r"[a-z0-9]{32}"),
}
_CLOCKS = frozenset({"exp", "iat", "auth_time", "timestamp", "expires_at"})
HEADERS = (
    "content-type",
    "location",
    "x-sb-error-code",
    "sb-auth-user-id",
    "sb-auth-session-id",
    "sb-auth-refresh-token-reuse",
)


def recording() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(RECORDING.read_text())
    return entries


@dataclass
class Names:
    bound: dict[str, str] = field(default_factory=dict)

    def translate(self, value: Any) -> Any:
        """The recorded value with every name that is known replaced."""
        if isinstance(value, dict):
            return {key: self.translate(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        if not isinstance(value, str):
            return value
        if value in self.bound:
            return self.bound[value]
        return _CHOSEN.sub(lambda found: self.bound.get(found[0], found[0]), value)

    def compare(self, recorded: Any, answered: Any, where: str, key: str = "") -> None:
        assert type(answered) is type(recorded), f"{where}: {answered!r} for {recorded!r}"
        if isinstance(recorded, dict):
            assert sorted(answered) == sorted(recorded), where
            for name, value in recorded.items():
                self.compare(value, answered[name], f"{where}.{name}", name)
        elif isinstance(recorded, list):
            assert len(answered) == len(recorded), where
            for place, (one, other) in enumerate(zip(recorded, answered, strict=True)):
                self.compare(one, other, f"{where}[{place}]")
        elif isinstance(recorded, str):
            self._compare_text(recorded, answered, where, key)
        elif key in _CLOCKS:
            assert abs(answered - recorded) < 60, where
        else:
            assert answered == recorded, where

    def _compare_text(self, recorded: str, answered: str, where: str, key: str) -> None:
        if recorded == "<JWT>":
            assert _JWT.fullmatch(answered), where
        elif form := _FORMATS.get(key):
            assert form.fullmatch(recorded) and form.fullmatch(answered), where  # noqa: PT018
            self._bind(recorded, answered, where)
        else:
            theirs, ours = _CHOSEN.split(recorded), _CHOSEN.split(answered)
            assert ours[::2] == theirs[::2], f"{where}: {answered!r} for {recorded!r}"
            for one, other in zip(theirs[1::2], ours[1::2], strict=True):
                self._bind(one, other, where)

    def _bind(self, recorded: str, answered: str, where: str) -> None:
        if re.fullmatch(_TIME, recorded):
            assert re.fullmatch(_TIME, answered), where
            return
        assert self.bound.setdefault(recorded, answered) == answered, f"{where}: another name than before"
