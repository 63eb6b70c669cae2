"""What each server of a configuration asks of its callers, built from its sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowgate import extension
from rowgate.config.defaults import issuable_scopes
from rowgate.errors import StartError
from rowgate.observe.events import Emit, discard
from rowgate.policy.authorization import Authorization
from rowgate.policy.authorizer import Authorizer, FunctionAuthorizer, HttpAuthorizer
from rowgate.policy.grants import ClaimGrants, FunctionGrants, Grants
from rowgate.policy.hook import Hook
from rowgate.policy.rules import ScopePolicy
from rowgate.supabase.callers import liveness_of

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from rowgate.auth.liveness import Sessions
    from rowgate.config.models import Config, Server
    from rowgate.supabase.api import SupabaseApi
    from rowgate.upstream.context import ContextIssuer

HOOKS = "rowgate.policy"
"""The entry-point group of hooks."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one server. Members are None where nothing has to be asked."""

    scopes: ScopePolicy
    grants: Grants | None
    hook: Hook | None
    authorization: Authorization | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom rules may ask."""

    session: ClientSession
    api: SupabaseApi | None
    context: ContextIssuer
    sessions: Sessions | None
    emit: Emit = discard


def rules_of(config: Config, asked: Asked) -> dict[str, Rules]:
    """By server. Raises StartError when a hook cannot be loaded."""
    return {name: _rules(name, server, asked) for name, server in config.servers.items()}


def hooks(rules: Mapping[str, Rules]) -> dict[str, Hook]:
    return {name: it.hook for name, it in rules.items() if it.hook is not None}


async def close(rules: Mapping[str, Rules]) -> None:
    for it in rules.values():
        if isinstance(it.grants, FunctionGrants):
            await it.grants.close()


def _rules(name: str, server: Server, asked: Asked) -> Rules:
    hook = hook_of(server, name, asked.emit)
    return Rules(
        scopes=ScopePolicy.of(server.scopes, issuable=issuable_scopes(server)),
        grants=grants_of(server, name, asked.api, asked.emit),
        hook=hook,
        authorization=_authorization(name, server, asked, hook),
    )


def hook_of(server: Server, name: str, emit: Emit = discard) -> Hook | None:
    """Raises StartError."""
    if server.policy is None:
        return None
    reference = server.policy.hook
    try:
        return Hook(extension.load(reference, HOOKS), reference, emit=emit)
    except TypeError as error:
        raise StartError(f"servers.{name}.policy.hook: {error}.") from None


def grants_of(server: Server, name: str, api: SupabaseApi | None, emit: Emit = discard) -> Grants | None:
    scopes = server.scopes
    if scopes.source == "claim" and scopes.claim is not None:
        return ClaimGrants(scopes.claim)
    if scopes.source == "function" and scopes.function is not None and api is not None:
        return FunctionGrants(name, api, scopes.function.name, keep=scopes.function.cache, emit=emit)
    return None


def authorizer_of(server: Server, name: str, asked: Asked) -> Authorizer | None:
    settings = server.authorizer
    if settings is None:
        return None
    if settings.url is not None:
        return HttpAuthorizer(asked.session, settings.url, asked.context, name, settings.timeout)
    if settings.function is not None and asked.api is not None:
        return FunctionAuthorizer(asked.api, settings.function, settings.timeout)
    return None


def _authorization(name: str, server: Server, asked: Asked, hook: Hook | None) -> Authorization | None:
    authorizer = authorizer_of(server, name, asked)
    if authorizer is None and hook is None and not any(entry.require.session for entry in server.capabilities):
        return None
    return Authorization(
        name,
        authorizer=authorizer,
        hook=hook,
        liveness=liveness_of(server.auth, asked.sessions, asked.emit),
        keep=server.authorizer.cache if server.authorizer is not None else 0.0,
        emit=asked.emit,
    )
