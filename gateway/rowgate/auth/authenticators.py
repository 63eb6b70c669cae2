"""The authenticators of one configuration, by server, and what they share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiohttp import ClientSession

from rowgate import extension
from rowgate.auth.api_keys import Ask, KeyAuthenticator, KnownKey, ListedKeys, LookedUpKeys
from rowgate.auth.authenticator import Authenticates, Authenticator, Verifies
from rowgate.auth.custom import GROUP, CustomAuthenticator
from rowgate.auth.introspection import Introspector
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.issuers import AnyIssuer
from rowgate.auth.jwks import KeySource
from rowgate.auth.public import PublicAuthenticator
from rowgate.auth.secret import SharedSecret
from rowgate.auth.verifier import TokenVerifier
from rowgate.errors import StartError
from rowgate.observe.events import Emit, discard


@dataclass(frozen=True, slots=True)
class Lookup:
    """A SQL function that knows keys by their hashes. Durations are seconds."""

    function: str
    remembered: float
    refusals_remembered: float


@dataclass(frozen=True, slots=True)
class Tokens:
    """Mode oauth and bearer."""

    issuers: tuple[TrustedIssuer, ...]


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """Mode api-key."""

    listed: tuple[KnownKey, ...]
    lookup: Lookup | None = None


@dataclass(frozen=True, slots=True)
class Public:
    """Mode public."""


@dataclass(frozen=True, slots=True)
class Custom:
    """Mode custom: an object of the builder, by package and name or by entry point."""

    reference: str


Strategy = Tokens | ApiKeys | Public | Custom


class Closes(Protocol):
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Authenticators:
    by_server: Mapping[str, Authenticates]
    sources: tuple[KeySource, ...]
    asking: tuple[Closes, ...] = ()
    """Whoever asks others about callers."""

    async def fetch_keys(self) -> None:
        """Before the first request needs them. A source that fails is tried again by `run` and by whoever does."""
        await asyncio.gather(*(source.refresh() for source in self.sources))

    async def run(self) -> None:
        """Until every source has given keys."""
        await asyncio.gather(*(source.run() for source in self.sources))

    def issuers_without_keys(self) -> tuple[str, ...]:
        return tuple(source.issuer for source in self.sources if not source.available)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in (*self.sources, *self.asking)))


def authenticators(
    strategies: Mapping[str, Strategy],
    session: ClientSession,
    *,
    ask: Ask | None = None,
    clock: Callable[[], float] = time.time,
    emit: Emit = discard,
) -> Authenticators:
    """`strategies` by server name; `ask` calls a function of the project with the gateway's own key."""
    build = _Builder(session, ask, clock, emit)
    by_server = {name: build.authenticator(strategy) for name, strategy in strategies.items()}
    return Authenticators(by_server, tuple(build.sources), tuple(build.asking))


class _Builder:
    """Servers that verify alike share one key source and one cache, and judge apart."""

    def __init__(self, session: ClientSession, ask: Ask | None, clock: Callable[[], float], emit: Emit) -> None:
        self._session = session
        self._ask = ask
        self._clock = clock
        self._emit = emit
        self._verifiers: dict[tuple[object, ...], Verifies] = {}
        self._lookups: dict[Lookup, LookedUpKeys] = {}
        self.sources: list[KeySource] = []
        self.asking: list[Closes] = []

    def authenticator(self, strategy: Strategy) -> Authenticates:
        match strategy:
            case Tokens(issuers):
                return self._tokens(issuers)
            case ApiKeys(listed, lookup):
                looked_up = None if lookup is None else self._lookup(lookup)
                return KeyAuthenticator(ListedKeys(listed), looked_up, clock=self._clock)
            case Public():
                return PublicAuthenticator()
            case Custom(reference):
                return self._custom(reference)

    def _custom(self, reference: str) -> Authenticates:
        try:
            return CustomAuthenticator(extension.load(reference, GROUP), reference, emit=self._emit)
        except TypeError as error:
            raise StartError(f"{error}.") from None

    def _tokens(self, issuers: Sequence[TrustedIssuer]) -> Authenticates:
        each = {issuer.issuer: Authenticator(issuer, self._verifier(issuer)) for issuer in issuers}
        opaque = next((each[issuer.issuer] for issuer in issuers if issuer.introspection is not None), None)
        if len(each) == 1 and opaque is None:
            return each[issuers[0].issuer]
        return AnyIssuer(each, opaque)

    def _verifier(self, issuer: TrustedIssuer) -> Verifies:
        entry = issuer.verification
        if entry not in self._verifiers:
            self._verifiers[entry] = self._made(issuer)
        return self._verifiers[entry]

    def _made(self, issuer: TrustedIssuer) -> Verifies:
        if issuer.introspection is not None:
            asking = Introspector(issuer, issuer.introspection, self._session, clock=self._clock, emit=self._emit)
            self.asking.append(asking)
            return asking
        if issuer.secret:
            return TokenVerifier(issuer, SharedSecret(issuer), clock=self._clock, emit=self._emit)
        source = KeySource(issuer, self._session, emit=self._emit)
        self.sources.append(source)
        return TokenVerifier(issuer, source, clock=self._clock, emit=self._emit)

    def _lookup(self, lookup: Lookup) -> LookedUpKeys:
        if lookup not in self._lookups:
            looked_up = LookedUpKeys(
                self._ask or _nobody,
                lookup.function,
                remembered=lookup.remembered,
                refusals_remembered=lookup.refusals_remembered,
                clock=self._clock,
                emit=self._emit,
            )
            self._lookups[lookup] = looked_up
            self.asking.append(looked_up)
        return self._lookups[lookup]


async def _nobody(function: str, arguments: Mapping[str, object]) -> Awaitable[object]:
    raise ValueError("there is no project to ask")
