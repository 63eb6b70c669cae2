"""The keys of one issuer: fetched once for everybody, kept through failures, never fetched at an attacker's pace."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.keys import VerificationKey, verification_keys
from rowgate.download import AnswerTooLarge, whole
from rowgate.errors import KeysUnavailable
from rowgate.observe.events import Emit, KeysRefreshed, discard

MAX_DOCUMENT_BYTES: Final = 256 * 1024
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
_NO_KEYS: Final = (
    "The issuer publishes no key that may be used here. A Supabase project that still signs with the legacy HS256 "
    "secret publishes none: migrate it to asymmetric signing keys."
)


class KeySource:
    """`clock` counts seconds and need not be wall-clock time.

    A set older than `issuer.refresh` is fetched again behind the requests that find it so; one that nobody renewed
    for two periods holds the request up, unless the source is known to fail. `cooldown` bounds the fetches that a
    token can provoke, `retry` those of a source that never answered.
    """

    def __init__(
        self,
        issuer: TrustedIssuer,
        session: ClientSession,
        *,
        clock: Callable[[], float] = time.monotonic,
        emit: Emit = discard,
        cooldown: float = 30.0,
        retry: float = 5.0,
        timeout: float = 5.0,
    ) -> None:
        self._issuer = issuer
        self._session = session
        self._clock = clock
        self._emit = emit
        self._cooldown = cooldown
        self._retry = retry
        self._timeout = ClientTimeout(total=timeout)
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched_at = self._attempted_at = self._provoked_at = float("-inf")
        self._failing = False
        self._flight: asyncio.Task[None] | None = None
        self.generation = 0
        """Changes whenever the set does: what was verified with an older set must be verified again."""

    @property
    def issuer(self) -> str:
        return self._issuer.issuer

    @property
    def available(self) -> bool:
        age = self._clock() - self._fetched_at
        return bool(self._keys) and age <= max(self._issuer.max_stale, self._issuer.refresh)

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """The one key that `kid` and the algorithm name. Raises KeysUnavailable."""
        await self._keep_fresh()
        found = self._match(kid, algorithm)
        if found is None and kid is not None and await self._provoke():
            found = self._match(kid, algorithm)
        return found

    async def replacement(self, failed: VerificationKey, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Another key under the same name, if the issuer swapped the material after ours was fetched."""
        if not await self._provoke():
            return None
        found = self._match(kid, algorithm)
        return None if found is None or found.thumbprint == failed.thumbprint else found

    async def refresh(self) -> bool:
        """Fetch now, together with whoever is fetching already. Says whether there are keys."""
        await asyncio.shield(self._fetching())
        return self.available

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Try until there are keys. Nobody else would: a replica without keys is not ready, and gets no requests."""
        while not self.available and not await self.refresh():
            await sleep(self._retry)

    async def close(self) -> None:
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait([self._flight])

    def _match(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        found = [key for key in self._keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
        return found[0] if len(found) == 1 else None

    async def _keep_fresh(self) -> None:
        age = self._clock() - self._fetched_at
        if age < self._issuer.refresh:
            return
        pause = self._cooldown if self.available else self._retry
        if self._flight is not None or self._clock() - self._attempted_at >= pause:
            flight = self._fetching()
            overdue = age > 2 * self._issuer.refresh and not self._failing
            if overdue or not self.available:
                await asyncio.shield(flight)
        if not self.available:
            raise KeysUnavailable(headers={"Retry-After": str(round(self._retry) or 1)})

    async def _provoke(self) -> bool:
        """A fetch on the word of a token that nobody has verified: at most one in each cool-down."""
        if self._flight is None:
            if self._clock() - self._provoked_at < self._cooldown:
                return False
            self._provoked_at = self._clock()
        await asyncio.shield(self._fetching())
        return True

    def _fetching(self) -> asyncio.Task[None]:
        # Its own task, shielded from its waiters: a caller that goes away must not take the others' keys with it.
        if self._flight is None:
            self._attempted_at = self._clock()
            self._flight = asyncio.create_task(self._fetch(), name=f"jwks {self.issuer}")
            self._flight.add_done_callback(self._landed)
        return self._flight

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flight = None

    async def _fetch(self) -> None:
        started = self._clock()
        try:
            keys = verification_keys(json.loads(await self._download()), self._issuer.algorithms)
        except (ClientError, TimeoutError, OSError, ValueError, RecursionError) as error:
            self._failing = True
            self._emit(KeysRefreshed(self.issuer, "failed", detail=_explained(error)))
            return
        self._failing = not keys
        if not keys:
            self._emit(KeysRefreshed(self.issuer, "empty", detail=_NO_KEYS))
            return
        self._adopt(keys, started)

    def _adopt(self, keys: tuple[VerificationKey, ...], fetched_at: float) -> None:
        if set(keys) != set(self._keys):
            self.generation += 1
        self._keys = keys
        self._fetched_at = fetched_at
        self._emit(KeysRefreshed(self.issuer, "ok", keys=len(keys)))

    async def _download(self) -> bytes:
        request = self._session.get(
            self._issuer.jwks_url,
            allow_redirects=False,
            timeout=self._timeout,
            headers=_HEADERS,
            raise_for_status=False,
        )
        async with request as response:
            if response.status != 200:
                raise _UnusableAnswer(f"status {response.status}")
            return await whole(response, at_most=MAX_DOCUMENT_BYTES)


class _UnusableAnswer(ValueError):
    """Written by us, so fit for a log."""


def _explained(error: BaseException) -> str:
    return str(error) if isinstance(error, _UnusableAnswer | AnswerTooLarge) else type(error).__name__
