"""Who may use what, as the configuration says it: capabilities against kinds of callers, the same decision as calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rowgate.auth.principal import Principal
from rowgate.config.defaults import issuable_scopes
from rowgate.policy.capability import Kind
from rowgate.policy.declarations import Declaration
from rowgate.policy.names import public_name
from rowgate.policy.rules import Decision, ScopePolicy, decide

if TYPE_CHECKING:
    from rowgate.config.models import Config, Entry, Server

Answer = Literal["yes", "asked", "challenge", "grant", "sign-in", "no"]
MEANINGS: Mapping[Answer, str] = {
    "yes": "listed and callable",
    "asked": "allowed by the rules here; an authorizer, the session or a hook decides when it is listed and called",
    "challenge": "not listed; a call is told which scopes to ask for",
    "grant": "not listed; a call is told where the user can grant it",
    "sign-in": "not listed; a call is told that it needs a second factor",
    "no": "does not exist for this caller",
}
_TEXTS: Sequence[tuple[Kind, str]] = (
    ("tool", "tools"),
    ("resource", "resources"),
    ("template", "templates"),
    ("prompt", "prompts"),
)
_CLIENT = "an-agent"


@dataclass(frozen=True, slots=True)
class Row:
    server: str
    kind: Kind
    name: str
    """As clients know it; a glob where the entry has one."""
    plugin: str
    privileged: bool
    answers: Mapping[str, Answer]
    """By caller, in the order of the columns."""


def access(config: Config, offered: Mapping[str, Mapping[Kind, Sequence[str]]] | None = None) -> list[Row]:
    """In the order of the file. `offered`: names by plugin and kind, which then stand in place of globs."""
    return [row for name, server in config.servers.items() for row in _rows(name, server, config, offered or {})]


def callers(server: Server) -> dict[str, Principal | None]:
    """One of each kind that this server's rules can tell apart. None has no credential."""
    if server.auth.mode == "public":
        return {"public": Principal(kind="public", subject="", issuer="public")}
    if server.auth.mode == "api-key":
        return {"nobody": None, **_applications(server)}
    return {"nobody": None, **_users(server)}


def _applications(server: Server) -> dict[str, Principal]:
    found = {
        f"key {key.name}": Principal(
            kind="application",
            subject=key.subject,
            issuer="api-key",
            client_id=key.name,
            scopes=frozenset(key.scopes),
            roles=frozenset(key.roles),
        )
        for key in server.auth.keys
    }
    if server.auth.lookup is not None:
        found["application"] = Principal(kind="application", subject="app", issuer="api-key", client_id=_CLIENT)
    return found


def _users(server: Server) -> dict[str, Principal]:
    """A user's own session and an agent with nothing; with each scope, and with all; with all and a role; and, where an
    entry asks for more than those, with all that it asks."""
    bare = Principal(kind="user", subject="user", issuer="issuer", client_id=_CLIENT, session_id="session", aal="aal1")
    found = {} if server.auth.require_client else {"own session": replace(bare, client_id=None)}
    found["agent"] = bare
    scopes = _scopes(server)
    required = frozenset(server.scopes.required)
    for scope in scopes:
        found[f"scope {scope}"] = replace(bare, scopes=required | {scope})
    full = replace(bare, scopes=frozenset(scopes))
    if len(scopes) > 1:
        found["every scope"] = full
    for role in dict.fromkeys(role for entry in server.capabilities for role in entry.require.roles):
        found[f"role {role}"] = replace(full, roles=frozenset({role}))
    for index, entry in enumerate(server.capabilities):
        if any((entry.require.claims, entry.require.aal, entry.require.client)):
            found[f"meets capabilities[{index}]"] = _meeting(entry, full)
    return found


def _meeting(entry: Entry, principal: Principal) -> Principal:
    """Somebody of whom every rule of the entry holds."""
    require = entry.require
    return replace(
        principal,
        roles=frozenset(require.roles),
        claims={path: values[0] for path, values in require.claims.items()},
        aal=require.aal or principal.aal,
        client_id=require.client[0] if require.client else principal.client_id,
    )


def _scopes(server: Server) -> list[str]:
    named = (*server.scopes.required, *(scope for entry in server.capabilities for scope in entry.require.scopes))
    return list(dict.fromkeys(named))


def _rows(
    name: str, server: Server, config: Config, offered: Mapping[str, Mapping[Kind, Sequence[str]]]
) -> Iterator[Row]:
    scopes = ScopePolicy.of(server.scopes, issuable=issuable_scopes(server))
    everybody = callers(server)
    authorizer, hook = server.authorizer is not None, server.policy is not None
    for entry in server.capabilities:
        declaration = Declaration.of(entry, authorizer=authorizer, hook=hook)
        answers: dict[str, Answer] = {
            caller: "no" if principal is None else _answer(decide(principal, declaration.requirement, scopes), hook)
            for caller, principal in everybody.items()
        }
        for kind, text in _named(entry, declaration, offered.get(entry.plugin)):
            prefix = entry.prefix if kind in ("tool", "prompt") else None
            privileged = config.plugins[entry.plugin].privileged
            yield Row(name, kind, public_name(prefix, text), entry.plugin, privileged, answers)


def _named(
    entry: Entry, declaration: Declaration, offered: Mapping[Kind, Sequence[str]] | None
) -> Iterator[tuple[Kind, str]]:
    for kind, member in _TEXTS:
        if offered is None:
            yield from ((kind, text) for text in getattr(entry, member))
        else:
            patterns = declaration.patterns[kind]
            yield from (
                (kind, text)
                for text in sorted(offered.get(kind, ()))
                if any(pattern.matches(text) for pattern in patterns)
            )


def _answer(decision: Decision, hook: bool) -> Answer:
    if decision.allowed:
        return "asked" if hook or decision.asks is not None else "yes"
    if decision.hides:
        return "no"
    if decision.lacks("sign_in"):
        return "sign-in"
    return "grant" if decision.lacks("grant") else "challenge"
