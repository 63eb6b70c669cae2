"""Whether the sign-in behind a token still lives. Supabase Auth knows; a token, once signed, does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from rowgate.auth.answers import Answers
from rowgate.auth.principal import Principal
from rowgate.auth.refusal import session_over
from rowgate.errors import IdentityUnavailable
from rowgate.observe.events import Emit, IdentityAsked, discard
from rowgate.supabase.api import SupabaseApi, SupabaseRefusal, SupabaseUnavailable

Verdict = Literal["alive", "unconfirmed", "session_over", "banned", "deleted"]
"""`unconfirmed` lives too, but has not confirmed the address."""

_ALIVE: Final = frozenset({"alive", "unconfirmed"})
_DECIDED: Final[Mapping[str, Verdict]] = {
    "session_not_found": "session_over",
    "session_expired": "session_over",
    "user_banned": "banned",
    "user_not_found": "deleted",
}
"""Whatever else Auth refuses with is about the gateway (its key, its rate) and decides nothing about the session."""
_RETRY: Final = {"Retry-After": "5"}


class Sessions:
    """What Supabase Auth last said about each session, shared by the servers of one gateway."""

    def __init__(
        self,
        api: SupabaseApi,
        issuer: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        emit: Emit = discard,
    ) -> None:
        """`issuer` of the tokens that this project can be asked about."""
        self._api = api
        self._issuer = issuer
        self._clock = clock
        self._emit = emit
        self._answers: Answers[object, Verdict] = Answers(_ALIVE.__contains__, clock=monotonic)

    async def verdict(self, principal: Principal, max_age: float) -> Verdict:
        """`max_age` in seconds; 0 asks anew. Raises IdentityUnavailable, or SessionOver for the token itself.

        A caller whom this project cannot be asked about has no session here."""
        if principal.issuer != self._issuer or not principal.credential:
            return "session_over"
        key = _key(principal)
        known = self._answers.recall(key, max_age, max_age)
        if known is None:
            known = await self._answers.ask(key, lambda: self._ask(principal), join=max_age > 0)
        return known

    def last(self, principal: Principal) -> Verdict | None:
        """What was last heard of the session, however long ago."""
        return self._answers.recall(_key(principal), float("inf"), float("inf"))

    async def close(self) -> None:
        await self._answers.close()

    async def _ask(self, principal: Principal) -> Verdict:
        try:
            verdict = self._read(await self._api.user(principal.credential), principal)
        except SupabaseRefusal as refusal:
            if refusal.code == "bad_jwt":
                # Said of this token and not of its session, so it is kept for no other.
                self._emit(IdentityAsked("session", "refused"))
                raise session_over("token") from None
            decided = _DECIDED.get(refusal.code)
            if decided is None:
                raise self._unavailable() from None
            verdict = decided
        except (SupabaseUnavailable, TypeError, ValueError):
            raise self._unavailable() from None
        self._emit(IdentityAsked("session", "ok" if verdict in _ALIVE else "refused"))
        return verdict

    def _unavailable(self) -> IdentityUnavailable:
        self._emit(IdentityAsked("session", "failed"))
        return IdentityUnavailable(reason="session", headers=_RETRY)

    def _read(self, user: Mapping[str, Any], principal: Principal) -> Verdict:
        if user.get("id") != principal.subject:
            raise ValueError("somebody else")
        # Auth before 2.195 answers for banned users as well.
        banned = user.get("banned_until")
        if isinstance(banned, str) and datetime.fromisoformat(banned).timestamp() > self._clock():
            return "banned"
        return "alive" if user.get("email_confirmed_at") else "unconfirmed"


@dataclass(frozen=True, slots=True)
class Liveness:
    """What one server asks of the sessions of its callers."""

    sessions: Sessions
    max_age: float | None
    """Seconds for which an answer is good enough for every call; None where only single capabilities ask."""
    confirmed_email: bool = False
    accept_unknown: bool = False
    """Whether callers are let in while Auth gives no answer."""
    emit: Emit = discard

    async def require(self, principal: Principal, max_age: float) -> None:
        """Raises SessionOver, or IdentityUnavailable."""
        try:
            verdict = await self.sessions.verdict(principal, max_age)
        except IdentityUnavailable:
            # A session that is known to be over does not come back because Auth falls silent.
            if not self.accept_unknown or self.sessions.last(principal) not in (None, *_ALIVE):
                raise
            self.emit(IdentityAsked("session", "accepted"))
            return
        if verdict != "alive" and (verdict != "unconfirmed" or self.confirmed_email):
            raise session_over(verdict)


def _key(principal: Principal) -> object:
    """A token without a session stands for itself."""
    session = principal.session_id or sha256(principal.credential.encode()).digest()
    return (principal.subject, session)
