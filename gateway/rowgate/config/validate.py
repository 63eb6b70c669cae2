"""What is wrong with a configuration although each setting is well-formed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from joserfc.errors import JoseError
from joserfc.jwk import OKPKey, import_key

from rowgate.config.asking import Asking
from rowgate.config.authentication import Auth
from rowgate.config.budgets import ServerBudgets, budgets
from rowgate.config.callers import Callers, project_secret, uses_project
from rowgate.config.defaults import TOKEN_MODES, is_supabase_only, issuable_scopes
from rowgate.config.exposure import exposure
from rowgate.config.limits import ServerLimits
from rowgate.config.models import Config, Entry, Gateway, Server, Supabase
from rowgate.config.plugin import Plugin
from rowgate.config.problems import Finding, Location
from rowgate.config.reach import reach
from rowgate.config.rules import Authorizer, Scopes
from rowgate.config.secret import Secret
from rowgate.config.values import Address
from rowgate.policy.implication import implied
from rowgate.supabase.tokens import ISSUABLE_SCOPES
from rowgate_plugin.contract import check_key

_UNASKED = {
    "offline_access": (
        "must not name offline_access",
        "Clients that keep a refresh token ask for it themselves; a resource never does.",
    ),
    "openid": (
        "must not name openid",
        "It would make Supabase issue ID tokens, and Supabase Auth takes an ID token as a bearer token.",
    ),
}

_SUPABASE_HINT = "It issues email, phone and profile; application scopes need an issuer of your own, or use roles."


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The sections of one server."""

    path: str | None
    auth: Auth | None
    scopes: Scopes | None
    entries: tuple[Entry | None, ...]
    authorizer: Authorizer | None = None
    has_authorizer: bool = False
    has_hook: bool = False
    limits: ServerLimits | None = None

    @classmethod
    def of(cls, server: Server) -> ServerParts:
        return cls(
            server.path,
            server.auth,
            server.scopes,
            server.capabilities,
            server.authorizer,
            server.authorizer is not None,
            server.policy is not None,
            server.limits,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """The sections of a configuration. None stands for one that is not valid by itself, and is judged no further."""

    gateway: Gateway | None
    supabase: Supabase | None
    has_supabase: bool
    plugins: Mapping[str, Plugin | None]
    servers: Mapping[str, ServerParts]

    @classmethod
    def of(cls, config: Config) -> Parts:
        return cls(
            gateway=config.gateway,
            supabase=config.supabase,
            has_supabase=config.supabase is not None,
            plugins=config.plugins,
            servers={name: ServerParts.of(server) for name, server in config.servers.items()},
        )

    @property
    def used(self) -> frozenset[str] | None:
        """The plugins that entries name; None when an entry cannot be read."""
        entries = [entry for server in self.servers.values() for entry in server.entries]
        if not all(server.entries for server in self.servers.values()) or None in entries:
            return None
        return frozenset(entry.plugin for entry in entries if entry)


def validate(parts: Parts) -> list[Finding]:
    findings: list[Finding] = []
    if parts.gateway is not None:
        findings += _listeners(parts.gateway)
        findings += _context(parts.gateway)
    findings += _supabase(parts)
    for name, plugin in parts.plugins.items():
        findings += _use(("plugins", name), parts)
        if plugin is not None:
            findings += _plugin(plugin, ("plugins", name), parts.gateway, parts.supabase)
    findings += _paths(parts.servers)
    names = frozenset(parts.plugins) or None
    for name, server in parts.servers.items():
        at: Location = ("servers", name)
        if server.auth is not None:
            findings += Callers(server.auth, server.scopes, server.entries, parts.supabase, parts.has_supabase).check(
                at
            )
            if server.scopes is not None:
                findings += _Scopes(server.auth, server.scopes, is_supabase_only(server.auth, parts.supabase)).check(
                    server.entries, at
                )
        findings += exposure(server.entries, (*at, "capabilities"), names)
        findings += Asking(
            server.auth,
            server.scopes,
            server.authorizer,
            server.has_authorizer,
            server.has_hook,
            server.entries,
            parts.supabase,
            parts.plugins,
        ).check(at)
    counted = {name: ServerBudgets(it.auth, it.limits, it.entries) for name, it in parts.servers.items()}
    findings += budgets(parts.gateway, parts.plugins, counted)
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
    if parts.supabase is not None:
        yield from project_secret(parts.supabase)
    auths = [server.auth for server in parts.servers.values()]
    if parts.has_supabase and auths and not any(auth is None or uses_project(auth, parts.supabase) for auth in auths):
        yield Finding(("supabase",), "is not used: every server has its own issuer", severity="warning", of_key=True)


def _use(at: Location, parts: Parts) -> Iterator[Finding]:
    used = parts.used
    if used is not None and at[-1] not in used:
        yield Finding(at, "is not used: no server has an entry from it", severity="warning", of_key=True)


def _plugin(plugin: Plugin, at: Location, gateway: Gateway | None, supabase: Supabase | None) -> Iterator[Finding]:
    yield from reach(plugin, at, gateway, supabase)
    if gateway is not None and plugin.timeout > gateway.request.timeout:
        message = "is longer than gateway.request.timeout, which ends buffered answers before"
        yield Finding((*at, "timeout"), message, severity="warning")


# --- servers -----------------------------------------------------------------------------------------------


def _paths(servers: Mapping[str, ServerParts]) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for name, server in servers.items():
        if server.path is None:
            continue
        if server.path in taken:
            yield Finding(("servers", name, "path"), f"is the path of the server {taken[server.path]} already")
        taken.setdefault(server.path, name)
    for path, name in taken.items():
        # The document of each server also stands below its endpoint.
        above = path.removesuffix("/oauth-protected-resource")
        if above != path and above in taken:
            yield Finding(("servers", name, "path"), f"is where the resource metadata of {taken[above]} stands")


@dataclass(frozen=True, slots=True)
class _Scopes:
    """Whether a client can get what the scopes of one server ask for."""

    auth: Auth
    scopes: Scopes
    supabase: bool

    def check(self, entries: Sequence[Entry | None], at: Location) -> Iterator[Finding]:
        where = (*at, "scopes")
        yield from self.announced(where)
        for index, scope in enumerate(self.scopes.required):
            yield from self.required(scope, (*where, "required", index))
        for position, entry in enumerate(entries):
            for index, scope in enumerate(entry.require.scopes if entry else ()):
                yield from self.required(scope, (*at, "capabilities", position, "require", "scopes", index))

    def announced(self, where: Location) -> Iterator[Finding]:
        if self.auth.mode != "oauth" and self.scopes.advertised is not None:
            message = f"does nothing in mode {self.auth.mode}, which has no resource metadata"
            yield Finding((*where, "advertised"), message)
            return
        for key in ("advertised", "issuable"):
            for index, scope in enumerate(getattr(self.scopes, key) or ()):
                at = (*where, key, index)
                if self.unasked(scope):
                    yield Finding(at, *_UNASKED[scope])
                elif self.supabase and scope not in ISSUABLE_SCOPES:
                    yield Finding(at, "is a scope that Supabase cannot issue", _SUPABASE_HINT)
                elif key == "advertised" and scope not in (self.scopes.issuable or (scope,)):
                    yield Finding(at, "is not among issuable", "Clients would ask for it and be refused.")

    def required(self, scope: str, at: Location) -> Iterator[Finding]:
        if self.auth.mode not in TOKEN_MODES:
            held = implied((name for key in self.auth.keys for name in key.scopes), self.scopes.implies)
            if self.auth.keys and self.auth.lookup is None and scope not in held:
                yield Finding(at, "is a scope that no key of this server has, so no call would ever pass")
        elif self.unasked(scope):
            yield Finding(at, *_UNASKED[scope])
        elif self.scopes.source == "token" and scope not in implied(issuable_scopes(self), self.scopes.implies):
            own = "List what the authorization server issues under scopes.issuable."
            hint = _SUPABASE_HINT if self.supabase else own
            yield Finding(at, "is a scope that nobody can issue, so no call would ever pass", hint)

    def unasked(self, scope: str) -> bool:
        return scope == "offline_access" or (scope == "openid" and self.supabase)
