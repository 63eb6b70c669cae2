"""First-party sign-in: what the application itself uses."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, invalid, json_body, text
from rowgate.demo.auth.bearer import bearer
from rowgate.demo.auth.realm import REALM, Realm
from rowgate.demo.auth.sessions import Session
from rowgate.demo.auth.tokens import access_token, begin_session, session_answer
from rowgate.demo.auth.users import NO_PASSWORD, PasswordHash, User


def _session_body(realm: Realm, user: User, access: str, refresh: str, *, fresh: bool = False) -> dict[str, Any]:
    lifetime = realm.settings.token_lifetime
    return {
        "access_token": access,
        "token_type": "bearer",
        "expires_in": lifetime,
        "expires_at": int(realm.clock()) + lifetime,
        "refresh_token": refresh,
        "user": user.view(fresh=fresh),
    }


async def create_user(
    realm: Realm, email: str, password: str, data: dict[str, Any] | None = None, user_id: str | None = None
) -> User:
    """An empty `email` makes an anonymous user."""
    user = User(
        id=user_id or str(uuid.uuid4()),
        email=email.strip().lower(),
        password=await PasswordHash.of(password) if email else NO_PASSWORD,
        created_at=realm.clock(),
        data=data or {},
        is_anonymous=not email,
    )
    if email and realm.user_by_email(email) is not None:
        raise AuthError(422, "user_already_exists", "User already registered")
    realm.users[user.id] = user
    try:
        await realm.settings.on_sign_up(user)
    except BaseException:
        del realm.users[user.id]
        raise
    return user


async def sign_up(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    body = await json_body(request)
    email, password = text(body, "email"), text(body, "password")
    data = body.get("data") or {}
    if not isinstance(data, dict):
        raise AuthError(400, "bad_json", "Invalid JSON body")
    if email and not password:
        raise invalid("Signup requires a valid password")
    if email and "@" not in email:
        raise invalid("Unable to validate email address: invalid format")
    if email and len(password) < 6:
        raise AuthError(422, "weak_password", "Password should be at least 6 characters.")
    user = await create_user(realm, email, password, data)
    session, access, refresh = await begin_session(realm, user, "password" if email else "anonymous")
    return session_answer(session, _session_body(realm, user, access, refresh, fresh=True))


async def token(request: web.Request) -> web.Response:
    grants: dict[str, Callable[[web.Request, Realm], Awaitable[web.Response]]] = {
        "password": _password_grant,
        "refresh_token": _refresh_grant,
    }
    grant = grants.get(request.query.get("grant_type", ""))
    if grant is None:
        raise AuthError(400, "invalid_credentials", "unsupported_grant_type")
    return await grant(request, request.app[REALM])


async def _password_grant(request: web.Request, realm: Realm) -> web.Response:
    body = await json_body(request)
    email = text(body, "email")
    if not email:
        raise invalid("missing email or phone")
    user = realm.user_by_email(email)
    if user is not None and user.banned(realm.clock()):
        raise AuthError(400, "user_banned", "User is banned")
    fits = await (user.password if user is not None else NO_PASSWORD).fits(text(body, "password"))
    if user is None or not fits:
        raise AuthError(400, "invalid_credentials", "Invalid login credentials")
    session, access, refresh = await begin_session(realm, user, "password")
    return session_answer(session, _session_body(realm, user, access, refresh) | {"weak_password": None})


async def _refresh_grant(request: web.Request, realm: Realm) -> web.Response:
    body = await json_body(request)
    session, user, access, refresh, headers = await refreshed(realm, text(body, "refresh_token"), None)
    return session_answer(session, _session_body(realm, user, access, refresh), headers)


async def refreshed(
    realm: Realm, presented: str, client_id: str | None
) -> tuple[Session, User, str, str, dict[str, str]]:
    """The session, its user, new tokens, and the header that says whether the refresh token was used before."""
    user = realm.users[realm.sessions.find(presented).user_id]
    if user.banned(realm.clock()):
        raise AuthError(400, "user_banned", "Invalid Refresh Token: User Banned")
    result = realm.sessions.refresh(presented, client_id)
    access = await access_token(realm, user, result.session, "token_refresh")
    headers = {} if result.reused else {"sb-auth-refresh-token-reuse": "false"}
    return result.session, user, access, result.token, headers


async def logout(request: web.Request) -> web.Response:
    caller = bearer(request)
    scope = request.query.get("scope") or "global"
    if scope not in ("global", "local", "others"):
        raise invalid(f'Unsupported logout scope "{scope}"')
    mine = caller.session.id if caller.session is not None else None

    def ended(session: Session) -> bool:
        if session.user_id != caller.user.id:
            return False
        if mine is None or scope == "global":
            return True
        return (session.id == mine) == (scope == "local")

    request.app[REALM].sessions.end(ended)
    return web.Response(status=204)


ROUTES = [web.post("/signup", sign_up), web.post("/token", token), web.post("/logout", logout)]
