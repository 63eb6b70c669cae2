"""Whom a server trusts and what it advertises, derived from the configured Supabase project or from its own issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowgate.auth.issuer import TrustedIssuer
from rowgate.config.defaults import is_supabase, issuer_of
from rowgate.supabase.tokens import ADVERTISED_SCOPES, USER_ROLE

if TYPE_CHECKING:
    from rowgate.config.models import Config, Server


def trusted_issuer(config: Config, server: Server) -> TrustedIssuer:
    """Raises ConfigurationError when the server has no issuer, or one that nobody should trust so."""
    issuer = issuer_of(config, server)
    role_of_users = (USER_ROLE,) if is_supabase(server.auth, config.supabase) else None
    resources = {name: config.gateway.public_url + other.path for name, other in config.servers.items()}
    own = config.gateway.public_url + server.path
    return TrustedIssuer(
        issuer=issuer.issuer,
        jwks_url=issuer.jwks_url,
        algorithms=tuple(issuer.algorithms),
        audiences=issuer.audience,
        resource=own,
        other_resources=frozenset(resources.values()) - {own},
        token_roles=issuer.token_role or role_of_users,
        roles_claim=issuer.roles_claim,
        leeway=issuer.leeway,
        require_client=server.auth.require_client,
        anonymous_users=server.auth.anonymous_users,
        refresh=issuer.key_refresh,
        max_stale=issuer.key_max_stale,
    )


def advertised_scopes(config: Config, server: Server) -> tuple[str, ...]:
    """What clients are told to ask for. They ask for all of it, so it stays small and safe."""
    supabase = is_supabase(server.auth, config.supabase)
    scopes = server.scopes.advertised
    if scopes is None:
        scopes = ADVERTISED_SCOPES if supabase else server.scopes.issuable or ()
    # Refresh tokens are between the client and the authorization server; an ID token of Supabase is a full credential.
    never = {"offline_access", "openid"} if supabase else {"offline_access"}
    return tuple(scope for scope in scopes if scope not in never)
