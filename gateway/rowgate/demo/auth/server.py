"""The server as its owner holds it: an aiohttp application, and the levers that tests pull."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from aiohttp import web

from rowgate.demo.auth import admin, authorize, consent, discovery, register, signin, token, user
from rowgate.demo.auth.answers import errors
from rowgate.demo.auth.realm import REALM, Realm, Settings
from rowgate.demo.auth.sessions import Session
from rowgate.demo.auth.signin import create_user
from rowgate.demo.auth.tokens import access_token
from rowgate.demo.auth.users import User

_ROUTES = [
    *(*discovery.ROUTES, *signin.ROUTES, *user.ROUTES, *register.ROUTES),
    *(*authorize.ROUTES, *consent.ROUTES, *token.ROUTES, *admin.ROUTES),
]
_ONE_MIB = 1024 * 1024


class AuthServer:
    """A stand-in for Supabase Auth. Everything is in memory and ends with the process."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._realm = Realm(settings, clock)

    @property
    def issuer(self) -> str:
        return self._realm.settings.issuer

    def application(self) -> web.Application:
        """To be mounted at the issuer's path."""
        app = web.Application(middlewares=[errors], client_max_size=_ONE_MIB)
        app[REALM] = self._realm
        app.add_routes(_ROUTES)
        return app

    def metadata(self) -> dict[str, Any]:
        """The discovery document."""
        return discovery.document(self._realm)

    def jwks(self) -> dict[str, Any]:
        """The public keys in force, whatever fault the endpoint is set to."""
        return self._realm.keys.jwks()

    async def add_user(
        self, email: str, password: str, *, user_id: str | None = None, data: Mapping[str, Any] | None = None
    ) -> User:
        return await create_user(self._realm, email, password, dict(data or {}), user_id)

    def user(self, email: str) -> User:
        """Raises KeyError."""
        known = self._realm.user_by_email(email)
        if known is None:
            raise KeyError(email)
        return known

    def mint(self, claims: Mapping[str, Any]) -> str:
        """Exactly these claims, signed with the key in use."""
        return self._realm.keys.sign(dict(claims))

    async def access_token(self, email: str, *, client_id: str | None = None, scope: str | None = None) -> str:
        """A token of a new, live session of this user: first-party, or an OAuth client's."""
        method = "password" if client_id is None else "oauth_provider/authorization_code"
        known = self.user(email)
        session = Session(known.id, method, self._realm.clock(), client_id, scope)
        self._realm.sessions.begin(session)
        return await access_token(self._realm, known, session, method)

    def rotate_keys(self, *, keep: bool = True) -> None:
        """Sign with a new key; without `keep` the old ones are no longer published, as after a revocation."""
        self._realm.keys.rotate(keep=keep)

    def ban(self, email: str, seconds: float = float("inf")) -> None:
        self.user(email).banned_until = self._realm.clock() + min(seconds, 10 * 365 * 86400)

    def unban(self, email: str) -> None:
        self.user(email).banned_until = None

    def sign_out(self, email: str) -> None:
        """End every session of the user."""
        user_id = self.user(email).id
        self._realm.sessions.end(lambda session: session.user_id == user_id)

    def delete_user(self, email: str) -> None:
        self.sign_out(email)
        del self._realm.users[self.user(email).id]

    def allow_dynamic_registration(self, allowed: bool) -> None:
        self._realm.dynamic_registration = allowed

    def break_jwks(self, fault: Literal["fail", "empty"] | None) -> None:
        """Make the key endpoint answer 500, or an empty set; None mends it."""
        self._realm.jwks_fault = fault
