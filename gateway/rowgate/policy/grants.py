"""Scopes from the application's own grants: from a claim, or from a SQL function that is asked as the user."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from cachetools import TTLCache

from rowgate.errors import CredentialRefused, ScopesUnavailable
from rowgate.observe.events import Emit, PolicyAsked, discard
from rowgate.policy.conditions import claim_at
from rowgate.supabase.api import SupabaseApi, SupabaseRefusal, SupabaseUnavailable

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal

MAX_SCOPES = 256
MAX_TOKENS = 4096
"""Tokens whose scopes are kept."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")


class Grants(Protocol):
    async def applied(self, principal: Principal) -> Principal:
        """The principal with the scopes that it was granted, instead of those that its token names."""


class ClaimGrants:
    def __init__(self, path: str) -> None:
        self._path = path

    async def applied(self, principal: Principal) -> Principal:
        """An application keeps the scopes of its key: it has no claims."""
        if principal.kind != "user":
            return principal
        return replace(principal, scopes=_scopes(claim_at(principal.claims, self._path)) or frozenset())


class FunctionGrants:
    """Answers are kept for a short time under the digest of the token; one flight for each token."""

    def __init__(
        self,
        server: str,
        api: SupabaseApi,
        function: str,
        *,
        keep: float,
        clock: Callable[[], float] = time.monotonic,
        emit: Emit = discard,
    ) -> None:
        """`keep`: seconds for which an answer is remembered."""
        self._server = server
        self._api = api
        self._function = function
        self._clock = clock
        self._emit = emit
        self._known: TTLCache[bytes, frozenset[str]] = TTLCache(MAX_TOKENS, max(keep, 0.001), timer=clock)
        self._flights: dict[bytes, asyncio.Task[frozenset[str]]] = {}

    async def applied(self, principal: Principal) -> Principal:
        """Raises ScopesUnavailable, or CredentialRefused when Supabase no longer takes the token."""
        if principal.kind != "user":
            return principal
        if not principal.credential:
            # Nobody whom the function could be asked as: so nothing was granted.
            return replace(principal, scopes=frozenset())
        key = hashlib.sha256(principal.credential.encode()).digest()
        scopes = self._known.get(key)
        if scopes is None:
            scopes = await asyncio.shield(self._asking(key, principal.credential))
        return replace(principal, scopes=scopes)

    async def close(self) -> None:
        for flight in tuple(self._flights.values()):
            flight.cancel()
        await asyncio.gather(*self._flights.values(), return_exceptions=True)

    def _asking(self, key: bytes, token: str) -> asyncio.Task[frozenset[str]]:
        # Shielded from its waiters: one that goes away must not take the answer from the others.
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(self._ask(key, token), name=f"scopes of {self._server}")
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    def _landed(self, key: bytes, flight: asyncio.Task[frozenset[str]]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # whoever waited has it; when all left, nobody has to hear of it

    async def _ask(self, key: bytes, token: str) -> frozenset[str]:
        started = self._clock()
        outcome = "failed"
        try:
            scopes = _scopes(await self._api.rpc(self._function, {}, token=token))
            if scopes is None:
                raise ScopesUnavailable("grants_answer")
            outcome = "ok"
        except SupabaseUnavailable:
            raise ScopesUnavailable("grants_unreachable") from None
        except SupabaseRefusal as refusal:
            outcome = "refused"
            if refusal.status == 401:
                raise CredentialRefused(reason="credential_refused") from None
            raise ScopesUnavailable("grants_refused") from None
        finally:
            self._emit(PolicyAsked(self._server, "scopes", outcome, self._clock() - started))
        self._known[key] = scopes
        return scopes


def _scopes(value: Any) -> frozenset[str] | None:
    """None for what is neither text nor a list of text. What no scope can look like is left out."""
    if value is None:
        return frozenset()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    scopes = frozenset(scope for text in texts for scope in text.split() if _SCOPE.fullmatch(scope))
    return scopes if len(scopes) <= MAX_SCOPES else None
