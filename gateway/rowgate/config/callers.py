"""What is wrong with how a server establishes who calls. A security setting that does nothing is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rowgate.config.authentication import ACKNOWLEDGEMENT, ApiKey, Auth, Issuer
from rowgate.config.defaults import TOKEN_MODES, is_supabase, own_issuers
from rowgate.config.models import Entry, Supabase
from rowgate.config.problems import Finding, Location
from rowgate.config.rules import Require, Scopes
from rowgate.config.section import Section

_TOKENS: Final = ("oauth", "bearer")
_WORKS_IN: Final = {
    **dict.fromkeys(
        (
            "issuer",
            "issuers",
            "supabase",
            "require_client",
            "clients",
            "anonymous_users",
            "min_aal",
            "session",
            "challenge",
        ),
        _TOKENS,
    ),
    **dict.fromkeys(("keys", "lookup"), ("api-key",)),
    "acknowledge": ("public",),
    "authenticator": ("custom",),
}
_MIN_SECRET_BYTES: Final = 32
_SECRET_HINT: Final = "HS256 needs 32 bytes (RFC 7518 section 3.2)."
_KEY_HINT: Final = "A key is random, such as from `openssl rand -hex 32`: only its hash is kept."
_MIN_KEY_LENGTH: Final = 32
_MIN_DISTINCT: Final = 8


@dataclass(frozen=True, slots=True)
class Callers:
    """The sections of one server that say who calls."""

    auth: Auth
    scopes: Scopes | None
    entries: Sequence[Entry | None]
    project: Supabase | None
    has_project: bool

    def check(self, at: Location) -> Iterator[Finding]:
        where = (*at, "auth")
        yield from self._idle(where)
        if self.auth.mode in TOKEN_MODES:
            yield from self._issuers(where)
            yield from self._sessions(where)
            yield from self._levels(where)
        elif self.auth.mode == "api-key":
            yield from self._keys(where)
        elif self.auth.mode == "public":
            yield from self._public(at)
        elif self.auth.authenticator is None:
            yield Finding(where, "has nobody who says who calls", "Name an object under authenticator.")
        if self.auth.mode not in TOKEN_MODES and self.scopes is not None and self.scopes.issuable is not None:
            yield Finding((*at, "scopes", "issuable"), f"does nothing in mode {self.auth.mode}: nobody issues tokens")

    def _idle(self, where: Location) -> Iterator[Finding]:
        usual = Auth(mode=self.auth.mode)
        for key, modes in _WORKS_IN.items():
            written = key in self.auth.model_fields_set and getattr(self.auth, key) != getattr(usual, key)
            if written and self.auth.mode not in modes:
                yield Finding((*where, key), f"does nothing in mode {self.auth.mode}", of_key=True)

    # --- tokens --------------------------------------------------------------------------------------------

    def _issuers(self, where: Location) -> Iterator[Finding]:
        own = own_issuers(self.auth)
        if (self.auth.supabase and not self.has_project) or not (own or self.auth.supabase):
            yield Finding(where, "has nobody who issues tokens", "Set supabase.url, or auth.issuer on this server.")
        if self.auth.issuer is not None and self.auth.issuers:
            yield Finding((*where, "issuers"), "stands beside issuer", "List every issuer under issuers.", of_key=True)
            return
        named = {self.project.issuer} if self.auth.supabase and self.project is not None else set()
        places = [(*where, "issuer")] if self.auth.issuer else [(*where, "issuers", i) for i in range(len(own))]
        opaque = 0
        for issuer, place in zip(own, places, strict=True):
            yield from _issuer(issuer, place)
            if issuer.issuer in named:
                yield Finding((*place, "issuer"), "is an issuer of this server already")
            named.add(issuer.issuer)
            opaque += issuer.introspection is not None
            if issuer.introspection is not None and opaque > 1:
                hint = "An opaque token does not say whose it is, so only one issuer can be asked about it."
                yield Finding((*place, "introspection"), "is the second of this server", hint, of_key=True)
        if self.auth.mode == "oauth" and not self.auth.require_client:
            yield Finding(
                (*where, "require_client"),
                "accepts tokens of ordinary sign-in sessions, which no user has granted to an agent",
                "mode: bearer says this openly.",
                "warning",
            )

    def _sessions(self, where: Location) -> Iterator[Finding]:
        session = self.auth.session
        at = (*where, "session")
        if session.check.max_age is None:
            if not any(entry is not None and entry.require.session for entry in self.entries):
                for key in ("confirmed_email", "on_error"):
                    if _changed(session, key):
                        yield Finding((*at, key), "does nothing while check is never", of_key=True)
            return
        if self.project is not None and self.project.publishable_key is None:
            hint = "Supabase Auth answers only requests that carry it."
            yield Finding((*at, "check"), "needs supabase.publishable_key", hint)
        others = [
            issuer for issuer in own_issuers(self.auth) if not self.project or issuer.issuer != self.project.issuer
        ]
        if not self.has_project or (others and self.project is not None):
            hint = "Only the project knows its sessions: give other issuers a server of their own."
            yield Finding((*at, "check"), "cannot be answered for tokens of other issuers", hint)

    def _levels(self, where: Location) -> Iterator[Finding]:
        if self.auth.min_aal == "aal2" and self.auth.mode == "oauth" and is_supabase(self.auth, self.project):
            message = "shuts out every OAuth client: the OAuth tokens of Supabase are always aal1"
            yield Finding((*where, "min_aal"), message, severity="warning")

    # --- keys, and nobody ----------------------------------------------------------------------------------

    def _keys(self, where: Location) -> Iterator[Finding]:
        if not self.auth.keys and self.auth.lookup is None:
            yield Finding(where, "has no API keys", "List some under keys, or name a function under lookup.")
        names: set[str] = set()
        for index, key in enumerate(self.auth.keys):
            at = (*where, "keys", index)
            yield from _key(key, at)
            if key.name in names:
                yield Finding((*at, "name"), "is the name of another key of this server")
            names.add(key.name)
        secret = None if self.project is None else self.project.secret_key
        judged = self.project is not None or not self.has_project
        if self.auth.lookup is not None and secret is None and judged:
            hint = "The function must be closed to everybody but the gateway."
            yield Finding((*where, "lookup"), "needs supabase.secret_key", hint, of_key=True)

    def _public(self, at: Location) -> Iterator[Finding]:
        if self.auth.acknowledge != ACKNOWLEDGEMENT:
            yield Finding(
                (*at, "auth"),
                "makes this server public, which needs an acknowledgement",
                f"Write acknowledge: {ACKNOWLEDGEMENT}",
            )
        if self.scopes is not None and self.scopes.required:
            yield Finding((*at, "scopes", "required"), "shuts everybody out: nobody has scopes on a public server")
        for index, entry in enumerate(self.entries):
            if entry is not None and entry.require != Require():
                where = (*at, "capabilities", index, "require")
                yield Finding(where, "can be met by nobody on a public server", of_key=True)


def _changed(section: Section, key: str) -> bool:
    """A default that is written out says nothing."""
    return bool(getattr(section, key) != type(section).model_fields[key].default)


def _issuer(issuer: Issuer, at: Location) -> Iterator[Finding]:
    sources = [key for key in ("jwks_url", "secret", "introspection") if getattr(issuer, key) is not None]
    if not sources:
        hint = "Where its public keys stand; or set secret or introspection."
        yield Finding((*at, "jwks_url"), "is missing", hint, of_key=True)
    for key in sources[1:]:
        yield Finding((*at, key), f"stands beside {sources[0]}: tokens are verified in one way", of_key=True)
    if "jwks_url" not in sources and sources:
        for key in ("algorithms", "key_refresh", "key_max_stale"):
            if _changed(issuer, key):
                yield Finding((*at, key), f"does nothing with {sources[0]}", of_key=True)
    if issuer.secret is not None and len(issuer.secret.reveal().encode()) < _MIN_SECRET_BYTES:
        yield Finding((*at, "secret"), "is too short", _SECRET_HINT)


def _key(key: ApiKey, at: Location) -> Iterator[Finding]:
    if (key.secret is None) == (key.hash is None):
        yield Finding(at, "must have either secret or hash", "hash: sha256:… keeps the key itself out of the gateway.")
    if key.secret is not None:
        text = key.secret.reveal()
        if len(text) < _MIN_KEY_LENGTH or len(set(text)) < _MIN_DISTINCT or not text.isascii() or " " in text:
            yield Finding((*at, "secret"), "must be at least 32 random characters without blanks", _KEY_HINT)


def project_secret(project: Supabase) -> Iterator[Finding]:
    """Of a project that still signs with its legacy secret."""
    if project.jwt_secret is None:
        return
    if len(project.jwt_secret.reveal().encode()) < _MIN_SECRET_BYTES:
        yield Finding(("supabase", "jwt_secret"), "is too short", _SECRET_HINT)
    if project.jwks_url != Supabase(url=project.url, issuer=project.issuer).jwks_url:
        message = "does nothing with jwt_secret: a project that signs with keys needs no secret here"
        yield Finding(("supabase", "jwks_url"), message, of_key=True)


def uses_project(auth: Auth, project: Supabase | None) -> bool:
    """Whether the server needs the Supabase project at all."""
    return auth.lookup is not None or is_supabase(auth, project)
