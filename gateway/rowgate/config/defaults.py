"""What a server uses where its section leaves a choice open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from urllib.parse import urlsplit

from rowgate.config.models import Auth, Config, Issuer, Scopes, Server, Supabase
from rowgate.errors import ConfigurationError
from rowgate.supabase.tokens import (
    ISSUABLE_SCOPES,
    SIGNING_ALGORITHMS,
    USER_AUDIENCE,
    USER_ROLE,
)

NEVER_ASKED = frozenset({"openid", "offline_access"})
"""Supabase issues these too, but no challenge and no document of ours asks for them."""


def is_supabase(auth: Auth, project: Supabase | None) -> bool:
    """Whether the tokens come from Supabase Auth, also where its issuer is spelt out."""
    if auth.issuer is None:
        return True
    named = auth.issuer.issuer
    host = urlsplit(named).hostname or ""
    return (project is not None and named == project.issuer) or host.endswith(".supabase.co")


def supabase_issuer(project: Supabase) -> Issuer:
    """A project as an issuer: it signs for one audience and puts users into one role."""
    return Issuer(
        issuer=project.issuer,
        jwks_url=project.jwks_url,
        audience=(USER_AUDIENCE,),
        algorithms=SIGNING_ALGORITHMS,
        token_role=(USER_ROLE,),
    )


def issuer_of(config: Config, server: Server) -> Issuer:
    """Raises ConfigurationError where there is neither an issuer nor a project; a loaded configuration has one."""
    if server.auth.issuer is not None:
        return server.auth.issuer
    if config.supabase is None:
        raise ConfigurationError("A server has no issuer and there is no Supabase project.")
    return supabase_issuer(config.supabase)


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
    if server.auth.issuer is None:
        return tuple(sorted(ISSUABLE_SCOPES - NEVER_ASKED))
    return server.scopes.advertised or ()


def implied(scopes: Iterable[str], policy: Scopes) -> frozenset[str]:
    """The scopes with everything they include, at any number of steps."""
    reached: set[str] = set()
    waiting = list(scopes)
    while waiting:
        scope = waiting.pop()
        if scope not in reached:
            reached.add(scope)
            waiting += policy.implies.get(scope, ())
    return frozenset(reached)
