"""What is wrong with a configuration although each setting is well-formed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import OKPKey, import_key

from rowgate.config.defaults import implied, issuable_scopes
from rowgate.config.exposure import exposure
from rowgate.config.models import Config, Gateway, Plugin, Server, Supabase
from rowgate.config.problems import Finding, Location
from rowgate.config.secret import Secret
from rowgate.config.values import Address, is_loopback
from rowgate.supabase.tokens import ISSUABLE_SCOPES
from rowgate_plugin.contract import check_key

_BAD_SCOPES = {
    "offline_access": (
        "must not name offline_access",
        "Clients that keep a refresh token ask for it themselves; a resource never does.",
    ),
    "openid": (
        "must not name openid",
        "It would make Supabase issue ID tokens, and Supabase Auth takes an ID token as a bearer token.",
    ),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The sections of a configuration that are valid by themselves; None and gaps stand for those that are not."""

    gateway: Gateway | None
    supabase: Supabase | None
    has_supabase: bool
    plugins: Mapping[str, Plugin]
    plugin_names: frozenset[str] | None
    servers: Mapping[str, Server]
    complete: bool
    """Whether `servers` holds all of them."""

    @classmethod
    def of(cls, config: Config) -> Parts:
        return cls(
            gateway=config.gateway,
            supabase=config.supabase,
            has_supabase=config.supabase is not None,
            plugins=config.plugins,
            plugin_names=frozenset(config.plugins),
            servers=config.servers,
            complete=True,
        )


def validate(parts: Parts) -> list[Finding]:
    findings: list[Finding] = []
    if parts.gateway is not None:
        findings += _listeners(parts.gateway)
        findings += _context(parts.gateway)
    findings += _supabase(parts)
    for name, plugin in parts.plugins.items():
        findings += _plugin(plugin, ("plugins", name), parts)
    findings += _paths(parts.servers)
    for name, server in parts.servers.items():
        at: Location = ("servers", name)
        findings += _auth(server, at, parts)
        findings += _scopes(server, at, parts)
        findings += exposure(server, at, parts.plugin_names)
    return findings


# --- the gateway -------------------------------------------------------------------------------------------


def _listeners(gateway: Gateway) -> Iterator[Finding]:
    public, internal = gateway.listen, gateway.internal_listen
    if (
        public.port
        and public.port == internal.port
        and (public.host == internal.host or _any(public) or _any(internal))
    ):
        yield Finding(
            ("gateway", "internal_listen"),
            "must not be the same as listen",
            "Health, metrics and keys stand on a port that clients cannot reach.",
        )


def _any(address: Address) -> bool:
    try:
        return ip_address(address.host).is_unspecified
    except ValueError:
        return False


def _context(gateway: Gateway) -> Iterator[Finding]:
    context = gateway.context
    at: Location = ("gateway", "context")
    if context.signing_key is not None:
        yield from _key(context.signing_key, (*at, "signing_key"), private=True)
    elif context.previous_keys:
        yield Finding(
            (*at, "previous_keys"),
            "does nothing without signing_key",
            "A gateway that makes a new key at each start has no previous one.",
        )
    for index, key in enumerate(context.previous_keys):
        yield from _key(key, (*at, "previous_keys", index), private=False)


def _key(secret: Secret, at: Location, *, private: bool) -> Iterator[Finding]:
    text = secret.reveal()
    try:
        key = import_key(json.loads(text)) if text.lstrip().startswith("{") else OKPKey.import_key(text)
        check_key(key)
    except (JoseError, ValueError, TypeError, RecursionError):
        yield Finding(at, "must be an Ed25519 key as a JWK or PEM")
        return
    if private and isinstance(key, OKPKey) and not key.is_private:
        yield Finding(at, "is a public key: signing needs the private one")


# --- the project and the plugins ---------------------------------------------------------------------------


def _supabase(parts: Parts) -> Iterator[Finding]:
    if parts.has_supabase and parts.complete and all(server.auth.issuer for server in parts.servers.values()):
        yield Finding(("supabase",), "is not used: every server has its own issuer", severity="warning", of_key=True)


def _plugin(plugin: Plugin, at: Location, parts: Parts) -> Iterator[Finding]:
    url = urlsplit(plugin.url)
    if plugin.credential == "user_token" and url.scheme == "http" and not is_loopback(url.hostname):
        yield Finding(
            (*at, "url"),
            "sends users' tokens over clear http",
            "Use https, or make sure that nobody else is on this network.",
            "warning",
        )
    if parts.gateway is not None:
        if (url.scheme, url.netloc.lower()) == tuple(urlsplit(parts.gateway.public_url))[:2]:
            yield Finding((*at, "url"), "points at this gateway itself", "Name the plugin's own address.")
        if plugin.timeout > parts.gateway.request.timeout:
            yield Finding(
                (*at, "timeout"),
                "is longer than gateway.request.timeout, which ends buffered answers before",
                severity="warning",
            )
    if parts.complete and not any(entry.plugin == at[-1] for s in parts.servers.values() for entry in s.capabilities):
        yield Finding(at, "is not used: no server has an entry from it", severity="warning", of_key=True)


# --- servers -----------------------------------------------------------------------------------------------


def _paths(servers: Mapping[str, Server]) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for name, server in servers.items():
        if server.path in taken:
            yield Finding(("servers", name, "path"), f"is the path of the server {taken[server.path]} already")
        taken.setdefault(server.path, name)
    for name, server in servers.items():
        # The document of each server also stands below its endpoint.
        above = server.path.removesuffix("/oauth-protected-resource")
        if above != server.path and above in taken:
            yield Finding(("servers", name, "path"), f"is where the resource metadata of {taken[above]} stands")


def _auth(server: Server, at: Location, parts: Parts) -> Iterator[Finding]:
    auth = server.auth
    if auth.issuer is None and not parts.has_supabase:
        yield Finding((*at, "auth"), "has nobody who issues tokens", "Set supabase.url, or auth.issuer on this server.")
    if auth.mode == "oauth" and not auth.require_client:
        yield Finding(
            (*at, "auth", "require_client"),
            "accepts tokens of ordinary sign-in sessions, which no user has granted to an agent",
            "mode: bearer says this openly.",
            "warning",
        )


def _scopes(server: Server, at: Location, parts: Parts) -> Iterator[Finding]:
    where: Location = (*at, "scopes")
    scopes = server.scopes
    if server.auth.mode == "bearer" and scopes.advertised is not None:
        yield Finding((*where, "advertised"), "does nothing in mode bearer, which has no resource metadata")
    for key in ("advertised", "issuable"):
        for index, scope in enumerate(getattr(scopes, key) or ()):
            yield from _askable(scope, (*where, key, index), server)
    if scopes.advertised and scopes.issuable is not None and server.auth.issuer is not None:
        for index, scope in enumerate(scopes.advertised):
            if scope not in (*scopes.issuable, *_BAD_SCOPES):
                yield Finding((*where, "advertised", index), "is not issuable", "Clients would ask for it and fail.")
    for index, scope in enumerate(scopes.required):
        yield from _required(scope, (*where, "required", index), server)
    for entry, capabilities in enumerate(server.capabilities):
        for index, scope in enumerate(capabilities.require.scopes):
            yield from _required(scope, (*at, "capabilities", entry, "require", "scopes", index), server)
    if server.auth.mode == "bearer" and server.auth.issuer is None and scopes.required:
        yield Finding(
            (*where, "required"),
            "shuts out ordinary sign-in sessions: Supabase puts scopes into OAuth tokens only",
            severity="warning",
        )


def _askable(scope: str, at: Location, server: Server) -> Iterator[Finding]:
    """A scope that clients are told to ask for."""
    ours = server.auth.issuer is None
    if scope == "offline_access" or (scope == "openid" and ours):
        yield Finding(at, *_BAD_SCOPES[scope])
    elif ours and scope not in ISSUABLE_SCOPES:
        yield Finding(at, "is a scope that Supabase cannot issue", _SUPABASE_HINT)


def _required(scope: str, at: Location, server: Server) -> Iterator[Finding]:
    if scope == "offline_access" or (scope == "openid" and server.auth.issuer is None):
        yield Finding(at, *_BAD_SCOPES[scope])
    elif scope not in implied(issuable_scopes(server), server.scopes):
        ours = server.auth.issuer is None
        hint = _SUPABASE_HINT if ours else "List what the authorization server issues under scopes.issuable."
        yield Finding(at, "is a scope that nobody can issue, so no call would ever pass", hint)


_SUPABASE_HINT = "It issues email, phone and profile; application scopes need an issuer of your own, or use roles."
