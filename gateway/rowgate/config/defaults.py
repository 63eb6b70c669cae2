"""What a server uses where its section leaves a choice open."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import urlsplit

from rowgate.config.authentication import Auth, Issuer
from rowgate.config.models import Config, Server, Supabase
from rowgate.config.rules import Scopes
from rowgate.errors import ConfigurationError
from rowgate.supabase.tokens import (
    ISSUABLE_SCOPES,
    SIGNING_ALGORITHMS,
    USER_AUDIENCE,
    USER_ROLE,
)

NEVER_ASKED = frozenset({"openid", "offline_access"})
"""Supabase issues these too, but no challenge and no document of ours asks for them."""


TOKEN_MODES = frozenset({"oauth", "bearer"})
"""The modes in which somebody issues tokens."""


def is_supabase_issuer(issuer: Issuer, project: Supabase | None) -> bool:
    """Whether this is Supabase Auth, also where its issuer is spelt out."""
    host = urlsplit(issuer.issuer).hostname or ""
    return (project is not None and issuer.issuer == project.issuer) or host.endswith(".supabase.co")


def own_issuers(auth: Auth) -> tuple[Issuer, ...]:
    """Those that the server names itself."""
    return auth.issuers if auth.issuer is None else (auth.issuer, *auth.issuers)


def is_supabase(auth: Auth, project: Supabase | None) -> bool:
    """Whether some of the tokens come from Supabase Auth."""
    if auth.mode not in TOKEN_MODES:
        return False
    return auth.supabase or any(is_supabase_issuer(issuer, project) for issuer in own_issuers(auth))


def is_supabase_only(auth: Auth, project: Supabase | None) -> bool:
    """Whether all of the tokens come from Supabase Auth."""
    return is_supabase(auth, project) and all(is_supabase_issuer(issuer, project) for issuer in own_issuers(auth))


def supabase_issuer(project: Supabase) -> Issuer:
    """A project as an issuer: it signs for one audience and puts users into one role."""
    legacy = project.jwt_secret is not None
    return Issuer(
        issuer=project.issuer,
        jwks_url=None if legacy else project.jwks_url,
        secret=project.jwt_secret,
        audience=(USER_AUDIENCE,),
        algorithms=SIGNING_ALGORITHMS,
        token_role=(USER_ROLE,),
    )


def issuers_of(config: Config, server: Server) -> tuple[Issuer, ...]:
    """Whose tokens the server takes, the project first; none in the modes without tokens.

    Raises ConfigurationError where a server needs an issuer and has none; a loaded configuration is not so."""
    if server.auth.mode not in TOKEN_MODES:
        return ()
    own = own_issuers(server.auth)
    if server.auth.supabase and config.supabase is not None:
        return (supabase_issuer(config.supabase), *own)
    if not own or server.auth.supabase:
        raise ConfigurationError("A server has no issuer and there is no Supabase project.")
    return own


class Scoped(Protocol):
    """A server, or what of it decides about scopes."""

    @property
    def auth(self) -> Auth: ...
    @property
    def scopes(self) -> Scopes: ...


def issuable_scopes(server: Scoped) -> tuple[str, ...]:
    """What this server may challenge for: the authorization server can issue it."""
    if server.scopes.issuable is not None:
        return server.scopes.issuable
    if server.auth.mode not in TOKEN_MODES:
        return ()
    if not own_issuers(server.auth):
        return tuple(sorted(ISSUABLE_SCOPES - NEVER_ASKED))
    return server.scopes.advertised or ()
