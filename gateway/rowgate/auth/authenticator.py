"""The door: from the Authorization header to a principal, judged for one server."""

from __future__ import annotations

from typing import Protocol

from multidict import MultiMapping

from rowgate.auth.bearer import bearer_token
from rowgate.auth.claims import VerifiedToken, roles_at
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.principal import Principal
from rowgate.auth.refusal import refused
from rowgate.supabase.tokens import API_KEY_PREFIXES, KEY_ROLES


class Authenticates(Protocol):
    """How one server establishes who calls. There is no fall-back from one way to another."""

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        """Raises AuthenticationError, or KeysUnavailable or IdentityUnavailable when nothing can be verified."""
        ...


class Verifies(Protocol):
    """Signed tokens are verified with keys, opaque ones by asking their issuer."""

    async def verify(self, token: str) -> VerifiedToken: ...


class Authenticator:
    """The tokens of one issuer at one server.

    Whatever depends on the server is judged on every request: only signature and claims are remembered.
    """

    def __init__(self, issuer: TrustedIssuer, verifier: Verifies) -> None:
        self._issuer = issuer
        self._verifier = verifier
        self._audiences = frozenset(issuer.audiences)

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        return await self.admit(bearer_token(headers))

    async def admit(self, credential: str) -> Principal:
        """As `authenticate`, for a token that was read already."""
        if credential.startswith(API_KEY_PREFIXES):
            raise refused("api_key")
        token = await self._verifier.verify(credential)
        self._judge(token)
        principal = token.principals.get(self)
        if principal is None:
            principal = token.principals[self] = self._principal(token, credential)
        return principal

    def _judge(self, token: VerifiedToken) -> None:
        self._judge_role(token)
        if self._audiences.isdisjoint(token.audiences) or self._bound_elsewhere(token):
            raise refused("audience")
        if token.anonymous and not self._issuer.anonymous_users:
            raise refused("anonymous_user")
        if token.client_id is None and self._issuer.require_client:
            raise refused("client_missing")

    def _bound_elsewhere(self, token: VerifiedToken) -> bool:
        """By an audience that is another server of ours, or by a `resource` claim that some issuers write instead."""
        others = self._issuer.other_resources
        if not others.isdisjoint(token.audiences) and self._issuer.resource not in token.audiences:
            return True
        named = token.claims.get("resource")
        return named is not None and self._issuer.resource not in (named if isinstance(named, list) else [named])

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
            accepted_until=token.expires_at + self._issuer.leeway,
            claims=token.claims,
            # Supabase knows nothing of an opaque token, and its issuer meant it for this gateway.
            credential="" if self._issuer.introspection else credential,
        )
