"""The door: from the Authorization header to a principal, judged for one server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import ClientSession
from multidict import MultiMapping

from rowgate.auth.bearer import bearer_token
from rowgate.auth.claims import VerifiedToken, roles_at
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.jwks import KeySource
from rowgate.auth.principal import Principal
from rowgate.auth.refusal import refused
from rowgate.auth.verifier import TokenVerifier
from rowgate.observe.events import Emit, discard
from rowgate.supabase.tokens import API_KEY_PREFIXES, KEY_ROLES


class Authenticator:
    """Whatever depends on the server is judged on every request: only signature and claims are remembered."""

    def __init__(self, issuer: TrustedIssuer, verifier: TokenVerifier) -> None:
        self._issuer = issuer
        self._verifier = verifier
        self._audiences = frozenset(issuer.audiences)

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        """Raises AuthenticationError, or KeysUnavailable when nothing can be verified."""
        credential = bearer_token(headers)
        if credential.startswith(API_KEY_PREFIXES):
            raise refused("api_key")
        token = await self._verifier.verify(credential)
        self._judge(token)
        return self._principal(token, credential)

    def _judge(self, token: VerifiedToken) -> None:
        self._judge_role(token)
        if self._audiences.isdisjoint(token.audiences) or self._bound_elsewhere(token):
            raise refused("audience")
        if token.anonymous and not self._issuer.anonymous_users:
            raise refused("anonymous_user")
        if token.client_id is None and self._issuer.require_client:
            raise refused("client_missing")

    def _bound_elsewhere(self, token: VerifiedToken) -> bool:
        others = self._issuer.other_resources
        return not others.isdisjoint(token.audiences) and self._issuer.resource not in token.audiences

    def _judge_role(self, token: VerifiedToken) -> None:
        if token.role in KEY_ROLES:
            raise refused("role")
        accepted = self._issuer.token_roles
        if accepted is None or token.role in accepted:
            return
        # Supabase's access tokens always have both; its ID tokens have neither.
        raise refused("id_token" if token.role is None and token.session_id is None else "role")

    def _principal(self, token: VerifiedToken, credential: str) -> Principal:
        return Principal(
            kind="user",
            subject=token.subject,
            issuer=token.issuer,
            client_id=token.client_id,
            scopes=token.scopes,
            roles=roles_at(token.claims, self._issuer.roles_claim),
            email=token.email,
            session_id=token.session_id,
            aal=token.aal,
            actors=token.actors,
            expires_at=token.expires_at,
            claims=token.claims,
            credential=credential,
        )


@dataclass(frozen=True, slots=True)
class Authenticators:
    """The authenticators of one configuration, by server, and the key sources that they share."""

    by_server: Mapping[str, Authenticator]
    sources: tuple[KeySource, ...]

    async def fetch_keys(self) -> None:
        """Before the first request needs them. A source that fails is tried again by `run` and by whoever does."""
        await asyncio.gather(*(source.refresh() for source in self.sources))

    async def run(self) -> None:
        """Until every source has given keys."""
        await asyncio.gather(*(source.run() for source in self.sources))

    def issuers_without_keys(self) -> tuple[str, ...]:
        return tuple(source.issuer for source in self.sources if not source.available)

    async def close(self) -> None:
        await asyncio.gather(*(source.close() for source in self.sources))


def authenticators(
    issuers: Mapping[str, TrustedIssuer],
    session: ClientSession,
    *,
    clock: Callable[[], float] = time.time,
    emit: Emit = discard,
) -> Authenticators:
    """`issuers` by server name. Servers that verify alike share one key source and one cache, and judge apart."""
    sources: dict[tuple[object, ...], KeySource] = {}
    verifiers: dict[tuple[object, ...], TokenVerifier] = {}
    by_server: dict[str, Authenticator] = {}
    for name, issuer in issuers.items():
        entry = issuer.verification
        if entry not in verifiers:
            sources[entry] = KeySource(issuer, session, emit=emit)
            verifiers[entry] = TokenVerifier(issuer, sources[entry], clock=clock, emit=emit)
        by_server[name] = Authenticator(issuer, verifiers[entry])
    return Authenticators(by_server, tuple(sources.values()))
