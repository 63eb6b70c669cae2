"""Whether somebody can answer what the rules of a server ask, and whether every rule asks something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowgate.config.authentication import Auth
from rowgate.config.defaults import is_supabase, is_supabase_only
from rowgate.config.problems import Finding, Location
from rowgate.config.rules import Authorizer, Require, Scopes

if TYPE_CHECKING:
    from rowgate.config.models import Entry, Supabase
    from rowgate.config.plugin import Plugin

MANY_SCOPES = 10
"""Clients ask for everything that is advertised, and some forward no more than a few."""


@dataclass(frozen=True, slots=True)
class Asking:
    """One server. None stands for what is not valid by itself."""

    auth: Auth | None
    scopes: Scopes | None
    authorizer: Authorizer | None
    has_authorizer: bool
    has_hook: bool
    entries: Sequence[Entry | None]
    supabase: Supabase | None
    plugins: Mapping[str, Plugin | None]

    def check(self, at: Location) -> Iterator[Finding]:
        if self.scopes is not None:
            yield from self._source(self.scopes, (*at, "scopes"))
        if self.authorizer is not None:
            yield from self._authorizer(self.authorizer, (*at, "authorizer"))
        for index, entry in enumerate(self.entries):
            if entry is not None:
                yield from self._entry(entry, (*at, "capabilities", index))

    def _source(self, scopes: Scopes, at: Location) -> Iterator[Finding]:
        for source in ("claim", "function"):
            given = getattr(scopes, source) is not None
            if given and scopes.source != source:
                yield Finding((*at, source), f"does nothing without source: {source}", of_key=True)
            elif not given and scopes.source == source:
                yield Finding((*at, "source"), f"needs {source} beside it")
        if scopes.source == "token" and scopes.grant_url is not None:
            yield Finding((*at, "grant_url"), "does nothing with source: token: clients are challenged", of_key=True)
        if scopes.source != "token" and scopes.issuable is not None:
            hint = "No token brings a scope that comes from a grant, so no call is answered with a challenge."
            yield Finding((*at, "issuable"), f"does nothing with source: {scopes.source}", hint, of_key=True)
        if scopes.source != "token" and self.auth is not None and self.auth.mode in ("api-key", "public"):
            yield Finding((*at, "source"), f"does nothing in mode {self.auth.mode}")
        elif scopes.source == "function":
            yield from self._as_user((*at, "function"))
        if len(scopes.advertised or ()) > MANY_SCOPES:
            hint = "Clients ask users for all of them, and some forward none of so many: advertise a few coarse ones."
            yield Finding((*at, "advertised"), f"has more than {MANY_SCOPES} scopes", hint, "warning")

    def _authorizer(self, authorizer: Authorizer, at: Location) -> Iterator[Finding]:
        if (authorizer.url is None) == (authorizer.function is None):
            yield Finding(at, "needs exactly one of url and function")
        if None not in self.entries and not any(entry and entry.require.permission for entry in self.entries):
            yield Finding(at, "is never asked: no entry requires a permission", of_key=True)
        if authorizer.function is not None:
            yield from self._as_user((*at, "function"))

    def _entry(self, entry: Entry, at: Location) -> Iterator[Finding]:
        plugin = self.plugins.get(entry.plugin)
        if plugin is not None and plugin.privileged and not is_rule(entry.require):
            hint = f"The plugin {entry.plugin} is privileged: what it does passes Row Level Security."
            yield Finding((*at, "require"), "is missing a rule", hint, of_key=True)
        if entry.meta and not self.has_hook:
            message = "is seen by nobody: this server has no policy.hook"
            yield Finding((*at, "meta"), message, severity="warning", of_key=True)
        yield from self._require(entry.require, (*at, "require"))

    def _require(self, require: Require, at: Location) -> Iterator[Finding]:
        if require.permission is not None and not self.has_authorizer:
            hint = "Set authorizer on this server; until then these are hidden from everybody."
            yield Finding((*at, "permission"), "is asked of nobody", hint, "warning")
        if self.auth is None:
            return
        if self.auth.mode in ("api-key", "public"):
            for rule in ("claims", "aal", "session"):
                if getattr(require, rule):
                    message = f"is never met in mode {self.auth.mode}: such callers have no token"
                    yield Finding((*at, rule), message, of_key=True)
        elif require.session is not None and self.auth.mode != "custom":
            yield from self._as_user((*at, "session"))
        if self.auth.mode == "oauth" and require.aal == "aal2" and is_supabase_only(self.auth, self.supabase):
            message = "is never met: OAuth tokens of Supabase are always aal1"
            yield Finding((*at, "aal"), message, severity="warning")

    def _as_user(self, at: Location) -> Iterator[Finding]:
        """Whether Supabase can be asked as the caller."""
        if self.auth is not None and not is_supabase(self.auth, self.supabase):
            yield Finding(at, "is asked as the user of a Supabase project, and this server takes no such tokens")
        elif self.supabase is not None and self.supabase.publishable_key is None:
            yield Finding(at, "needs supabase.publishable_key")


def is_rule(require: Require) -> bool:
    """Whether this keeps anybody out who was let in. That a session lives is no right."""
    return any(
        (require.scopes, require.roles, require.claims, require.aal, require.client, require.permission is not None)
    )
