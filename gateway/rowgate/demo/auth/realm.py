"""Everything that this authorization server knows, in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from rowgate.demo.auth.authorizations import SCOPES, Authorization, Consent
from rowgate.demo.auth.clients import Client
from rowgate.demo.auth.keys import SigningKeys
from rowgate.demo.auth.sessions import Sessions
from rowgate.demo.auth.users import User

TokenHook = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Supabase's Custom Access Token hook: takes `{"user_id", "claims", "authentication_method"}`, gives `{"claims"}`."""

UserSink = Callable[[User], Awaitable[None]]
"""Told of each user who signs up, before the answer leaves."""


async def ignore_user(user: User) -> None:
    """The sink of whoever keeps no users elsewhere."""


@dataclass(frozen=True, slots=True)
class Settings:
    issuer: str
    site_url: str
    """The application's origin. The consent page stands at `consent_path` under it and is the only origin that may
    read or decide authorization requests."""
    consent_path: str = "/oauth/consent"
    token_lifetime: int = 3600
    """Seconds."""
    extra_scopes: tuple[str, ...] = ()
    """NOT SUPABASE: application scopes that this server issues and a real one refuses."""
    token_hook: TokenHook | None = None
    on_sign_up: UserSink = ignore_user

    @property
    def scopes(self) -> tuple[str, ...]:
        return SCOPES + self.extra_scopes


@dataclass(slots=True)
class Realm:
    settings: Settings
    clock: Callable[[], float]
    keys: SigningKeys = field(default_factory=SigningKeys)
    users: dict[str, User] = field(default_factory=dict)
    """By id."""
    clients: dict[str, Client] = field(default_factory=dict)
    authorizations: dict[str, Authorization] = field(default_factory=dict)
    consents: dict[tuple[str, str], Consent] = field(default_factory=dict)
    """By (user, client)."""
    dynamic_registration: bool = True
    jwks_fault: Literal["fail", "empty"] | None = None
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.clock)

    def user_by_email(self, email: str) -> User | None:
        wanted = email.strip().lower()
        return next((user for user in self.users.values() if user.email == wanted and wanted), None)

    def client(self, client_id: str) -> Client | None:
        known = self.clients.get(client_id)
        return known if known is not None and not known.deleted else None

    def authorization_by_code(self, code: str) -> Authorization | None:
        return next((one for one in self.authorizations.values() if one.code == code and code), None)

    def revoke(self, user_id: str, client_id: str) -> None:
        """Forget the consent, and end the sessions that stood on it."""
        del self.consents[user_id, client_id]
        self.sessions.end(lambda session: (session.user_id, session.client_id) == (user_id, client_id))


REALM = web.AppKey("realm", Realm)
