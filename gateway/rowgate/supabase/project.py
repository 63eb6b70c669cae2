"""Whom a server trusts and what it advertises, derived from the configured Supabase project or from its own issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowgate.auth.issuer import TrustedIssuer
from rowgate.errors import ConfigurationError
from rowgate.supabase.tokens import ADVERTISED_SCOPES, SIGNING_ALGORITHMS, USER_AUDIENCE, USER_ROLE

if TYPE_CHECKING:
    from rowgate.config.models import Config, Server


def is_project_issuer(config: Config, server: Server) -> bool:
    """Whether the tokens of this server come from Supabase Auth, also when its issuer is spelt out."""
    if server.auth.issuer is None:
        return config.supabase is not None
    return config.supabase is not None and server.auth.issuer.issuer == config.supabase.issuer


def trusted_issuer(config: Config, server: Server) -> TrustedIssuer:
    """Raises ConfigurationError when the server has no issuer, or one that nobody should trust so."""
    issuer, project = server.auth.issuer, config.supabase
    role_of_users = (USER_ROLE,) if is_project_issuer(config, server) else None
    if issuer is not None:
        return TrustedIssuer(
            issuer=issuer.issuer,
            jwks_url=issuer.jwks_url,
            algorithms=tuple(issuer.algorithms),
            audiences=issuer.audience,
            token_roles=issuer.token_role or role_of_users,
            roles_claim=issuer.roles_claim,
            leeway=issuer.leeway,
            require_client=server.auth.require_client,
            anonymous_users=server.auth.anonymous_users,
            refresh=issuer.key_refresh,
            max_stale=issuer.key_max_stale,
        )
    if project is None:
        raise ConfigurationError(f"The server at {server.path} has no issuer and there is no Supabase project.")
    return TrustedIssuer(
        issuer=project.issuer,
        jwks_url=project.jwks_url,
        algorithms=SIGNING_ALGORITHMS,
        audiences=(USER_AUDIENCE,),
        token_roles=role_of_users,
        require_client=server.auth.require_client,
        anonymous_users=server.auth.anonymous_users,
    )


def advertised_scopes(config: Config, server: Server) -> tuple[str, ...]:
    """What clients are told to ask for. They ask for all of it, so it stays small and safe."""
    project = is_project_issuer(config, server)
    scopes = server.scopes.advertised
    if scopes is None:
        scopes = ADVERTISED_SCOPES if project else server.scopes.issuable or ()
    # Refresh tokens are between the client and the authorization server; an ID token of Supabase is a full credential.
    never = {"offline_access", "openid"} if project else {"offline_access"}
    return tuple(scope for scope in scopes if scope not in never)
