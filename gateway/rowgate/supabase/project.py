"""Whom a server trusts and what it advertises, derived from the configured Supabase project or from its own issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowgate.auth.issuer import IntrospectionEndpoint, TrustedIssuer
from rowgate.config.defaults import is_supabase, is_supabase_issuer, is_supabase_only, issuers_of
from rowgate.supabase.api import SupabaseApi
from rowgate.supabase.tokens import ADVERTISED_SCOPES, USER_ROLE

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from rowgate.config.authentication import Introspection, Issuer
    from rowgate.config.models import Config, Server

HS256 = ("HS256",)


def trusted_issuers(config: Config, server: Server) -> tuple[TrustedIssuer, ...]:
    """Raises ConfigurationError when the server needs an issuer and has none, or one that nobody should trust so."""
    return tuple(_trusted(config, server, issuer) for issuer in issuers_of(config, server))


def _trusted(config: Config, server: Server, issuer: Issuer) -> TrustedIssuer:
    role_of_users = (USER_ROLE,) if is_supabase_issuer(issuer, config.supabase) else None
    resources = {name: config.gateway.public_url + other.path for name, other in config.servers.items()}
    own = config.gateway.public_url + server.path
    return TrustedIssuer(
        issuer=issuer.issuer,
        jwks_url=issuer.jwks_url or "",
        secret=b"" if issuer.secret is None else issuer.secret.reveal().encode(),
        introspection=None if issuer.introspection is None else _endpoint(issuer.introspection),
        algorithms=tuple(issuer.algorithms) if issuer.jwks_url else HS256 if issuer.secret else (),
        audiences=issuer.audience,
        resource=own,
        other_resources=frozenset(resources.values()) - {own},
        token_roles=issuer.token_role or role_of_users,
        roles_claim=issuer.roles_claim,
        scope_claim=issuer.scope_claim,
        leeway=issuer.leeway,
        require_client=server.auth.require_client,
        anonymous_users=server.auth.anonymous_users,
        refresh=issuer.key_refresh,
        max_stale=issuer.key_max_stale,
    )


def supabase_api(config: Config, session: ClientSession) -> SupabaseApi | None:
    """None without a project."""
    project = config.supabase
    if project is None:
        return None
    return SupabaseApi(
        session,
        project.url,
        publishable_key="" if project.publishable_key is None else project.publishable_key.reveal(),
        secret_key=None if project.secret_key is None else project.secret_key.reveal(),
    )


def _endpoint(settings: Introspection) -> IntrospectionEndpoint:
    return IntrospectionEndpoint(
        url=settings.url,
        client_id=settings.client_id,
        client_secret=settings.client_secret.reveal(),
        in_header=settings.auth == "basic",
        remembered=settings.cache,
        refusals_remembered=settings.negative_cache,
    )


def advertised_scopes(config: Config, server: Server) -> tuple[str, ...]:
    """What clients are told to ask for. They ask for all of it, so it stays small and safe."""
    supabase = is_supabase(server.auth, config.supabase)
    scopes = server.scopes.advertised
    if scopes is None:
        only = is_supabase_only(server.auth, config.supabase)
        scopes = ADVERTISED_SCOPES if only else server.scopes.issuable or ()
    # Refresh tokens are between the client and the authorization server; an ID token of Supabase is a full credential.
    never = {"offline_access", "openid"} if supabase else {"offline_access"}
    return tuple(scope for scope in scopes if scope not in never)
