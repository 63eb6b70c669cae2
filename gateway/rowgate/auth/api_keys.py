"""API keys: an application calls, no user does. Only hashes of keys are kept, and only hashes are asked about."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from multidict import MultiMapping

from rowgate.auth.answers import Answers
from rowgate.auth.bearer import bearer_token
from rowgate.auth.principal import Principal
from rowgate.auth.refusal import key_refused
from rowgate.errors import CredentialsMissing, IdentityUnavailable
from rowgate.observe.events import Emit, IdentityAsked, discard
from rowgate.supabase.api import SupabaseRefusal, SupabaseUnavailable

MIN_KEY_LENGTH: Final = 32
"""Characters. A key is random, so its plain SHA-256 can be kept; a short or chosen one could be found from that."""
MIN_DISTINCT: Final = 8
"""Different characters that even hexadecimal digits of a random key have."""
MAX_NAME: Final = 255
_SENTENCE: Final = "Send an API key as a bearer token to use this server."
_RETRY: Final = {"Retry-After": "5"}

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a SQL function with named arguments, with the gateway's own key."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What a key stands for. The key itself is nowhere."""

    digest: bytes
    name: str
    subject: str
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    expires_at: float = float("inf")


def digest_of(key: str) -> bytes:
    return sha256(key.encode()).digest()


def is_strong(key: str) -> bool:
    """Whether it can be a random key."""
    return len(key) >= MIN_KEY_LENGTH and len(set(key)) >= MIN_DISTINCT


class ListedKeys:
    """The keys of the configuration."""

    def __init__(self, keys: Iterable[KnownKey]) -> None:
        self._keys = tuple(keys)

    def find(self, digest: bytes) -> KnownKey | None:
        """Compares with every key, so that the time tells nothing about any of them."""
        found = None
        for known in self._keys:
            if compare_digest(known.digest, digest):
                found = known
        return found


class LookedUpKeys:
    """The keys of the application's own table, behind one SQL function."""

    def __init__(
        self,
        ask: Ask,
        function: str,
        *,
        remembered: float,
        refusals_remembered: float,
        clock: Callable[[], float] = time.time,
        emit: Emit = discard,
    ) -> None:
        self._ask = ask
        self._function = function
        self._remembered = remembered
        self._refusals_remembered = refusals_remembered
        self._emit = emit
        self._answers: Answers[bytes, KnownKey | bool] = Answers(
            lambda answer: isinstance(answer, KnownKey), clock=clock
        )

    async def find(self, digest: bytes) -> KnownKey | None:
        """Raises IdentityUnavailable."""
        answer = self._answers.recall(digest, self._remembered, self._refusals_remembered)
        if answer is None:
            answer = await self._answers.ask(digest, lambda: self._look_up(digest))
        return answer if isinstance(answer, KnownKey) else None

    async def close(self) -> None:
        await self._answers.close()

    async def _look_up(self, digest: bytes) -> KnownKey | bool:
        try:
            found = _known(digest, await self._ask(self._function, {"key_sha256": digest.hex()}))
        except (SupabaseUnavailable, SupabaseRefusal, ValueError, OverflowError):
            self._emit(IdentityAsked("lookup", "failed"))
            raise IdentityUnavailable(reason="lookup", headers=_RETRY) from None
        self._emit(IdentityAsked("lookup", "ok" if found else "refused"))
        return found or False


class KeyAuthenticator:
    """Mode api-key. The key comes as a bearer token, and from no other header: proxies and logs know to hide that."""

    def __init__(
        self, listed: ListedKeys, looked_up: LookedUpKeys | None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._listed = listed
        self._looked_up = looked_up
        self._clock = clock

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        """Raises AuthenticationError or IdentityUnavailable."""
        try:
            key = bearer_token(headers)
        except CredentialsMissing:
            raise CredentialsMissing(_SENTENCE, reason="missing") from None
        if not is_strong(key):
            raise key_refused("key_weak")
        digest = digest_of(key)
        known = self._listed.find(digest)
        if known is None and self._looked_up is not None:
            known = await self._looked_up.find(digest)
        if known is None:
            raise key_refused("key_unknown")
        if self._clock() >= known.expires_at:
            raise key_refused("key_expired")
        return _principal(known)


def _principal(known: KnownKey) -> Principal:
    return Principal(
        kind="application",
        subject=known.subject,
        issuer="api-key",
        client_id=known.name,
        scopes=known.scopes,
        roles=known.roles,
        expires_at=known.expires_at,
        accepted_until=known.expires_at,
    )


def _known(digest: bytes, answer: Any) -> KnownKey | None:
    """Raises ValueError for an answer that is not the function's to give: nobody gets in by a mistake in SQL."""
    if isinstance(answer, list):
        if len(answer) > 1:
            raise ValueError("more than one row")
        answer = answer[0] if answer else None
    # A function that returns a row and found none gives one of nulls.
    if answer is None or (isinstance(answer, dict) and not any(answer.values())):
        return None
    if not isinstance(answer, dict):
        raise ValueError("not a row")
    return KnownKey(
        digest,
        _name(answer.get("name")),
        _name(answer.get("subject")),
        _names(answer.get("scopes")),
        _names(answer.get("roles")),
        _end(answer.get("expires_at")),
    )


def _name(value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable():
        return value
    raise ValueError("no name")


def _names(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or len(value) > 256:
        raise ValueError("no list of names")
    return frozenset(_name(item) for item in value)


def _end(value: Any) -> float:
    if value is None:
        return float("inf")
    if not isinstance(value, str):
        raise ValueError("no time")
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return moment.timestamp()
