"""How each server of a configuration establishes who calls, built from its `auth` section."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rowgate.auth.admission import Admission
from rowgate.auth.api_keys import KnownKey, digest_of
from rowgate.auth.authenticators import ApiKeys, Custom, Lookup, Public, Strategy, Tokens
from rowgate.auth.liveness import Liveness, Sessions
from rowgate.config.defaults import TOKEN_MODES
from rowgate.observe.events import Emit, discard
from rowgate.supabase.project import trusted_issuers

if TYPE_CHECKING:
    from rowgate.config.authentication import ApiKey, Auth, KeyLookup
    from rowgate.config.models import Config, Server
    from rowgate.supabase.api import SupabaseApi


def strategy_of(config: Config, server: Server) -> Strategy:
    auth = server.auth
    if auth.mode in TOKEN_MODES:
        return Tokens(trusted_issuers(config, server))
    if auth.mode == "public":
        return Public()
    if auth.mode == "custom" and auth.authenticator is not None:
        return Custom(auth.authenticator)
    return ApiKeys(tuple(map(_known, auth.keys)), None if auth.lookup is None else _lookup(auth.lookup))


def sessions_of(
    config: Config, api: SupabaseApi | None, *, clock: Callable[[], float] = time.time, emit: Emit = discard
) -> Sessions | None:
    """None without a project that can be asked."""
    if api is None or config.supabase is None or config.supabase.publishable_key is None:
        return None
    return Sessions(api, config.supabase.issuer, clock=clock, emit=emit)


def admissions(config: Config, sessions: Sessions | None, emit: Emit) -> Mapping[str, Admission | None]:
    """By server; None where nothing more is asked."""
    built = {name: _admission(server.auth, sessions, emit) for name, server in config.servers.items()}
    return {name: None if admission.idle else admission for name, admission in built.items()}


def liveness_of(auth: Auth, sessions: Sessions | None, emit: Emit) -> Liveness | None:
    if sessions is None:
        return None
    return Liveness(
        sessions,
        auth.session.check.max_age,
        confirmed_email=auth.session.confirmed_email,
        accept_unknown=auth.session.on_error == "accept",
        emit=emit,
    )


def _admission(auth: Auth, sessions: Sessions | None, emit: Emit) -> Admission:
    clients = None if auth.clients is None else frozenset(auth.clients)
    return Admission(clients, auth.min_aal, liveness_of(auth, sessions, emit))


def _lookup(settings: KeyLookup) -> Lookup:
    return Lookup(settings.function, settings.cache, settings.negative_cache)


def _known(key: ApiKey) -> KnownKey:
    # A loaded configuration has one of the two.
    digest = bytes.fromhex(key.hash.removeprefix("sha256:")) if key.hash else b""
    return KnownKey(
        digest_of(key.secret.reveal()) if key.secret else digest,
        key.name,
        key.subject,
        frozenset(key.scopes),
        frozenset(key.roles),
        float("inf") if key.expires is None else key.expires,
    )
