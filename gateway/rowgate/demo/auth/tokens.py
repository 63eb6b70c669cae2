"""Access tokens and ID tokens: their claims, and how they are read back."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from aiohttp import web
from joserfc.errors import JoseError

from rowgate.demo.auth.answers import AuthError, json_answer
from rowgate.demo.auth.realm import Realm
from rowgate.demo.auth.sessions import Session
from rowgate.demo.auth.users import User

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


async def access_token(realm: Realm, user: User, session: Session, method: str) -> str:
    """`method` is what the hook hears: how this token, not the session, came about."""
    now = int(realm.clock())
    claims: dict[str, Any] = {
        "iss": realm.settings.issuer,
        "sub": user.id,
        "aud": "authenticated",
        "exp": now + realm.settings.token_lifetime,
        "iat": now,
        "email": user.email,
        "phone": "",
        "app_metadata": user.app_metadata,
        "user_metadata": user.user_metadata,
        "role": "authenticated",
        "aal": "aal1",
        "amr": [{"method": session.method, "timestamp": int(session.created_at)}],
        "session_id": session.id,
        "is_anonymous": user.is_anonymous,
    }
    if session.client_id is not None:
        claims |= {"client_id": session.client_id, "scope": session.scope or ""}
    if realm.settings.token_hook is not None:
        event = {"user_id": user.id, "claims": claims, "authentication_method": method}
        claims = (await realm.settings.token_hook(event))["claims"]
    return realm.keys.sign(claims)


def id_token(realm: Realm, user: User, session: Session, nonce: str) -> str:
    now = int(realm.clock())
    scopes = (session.scope or "").split()
    claims: dict[str, Any] = {
        "iss": realm.settings.issuer,
        "sub": user.id,
        "aud": session.client_id,
        "exp": now + 3600,
        "iat": now,
        "auth_time": int(user.last_sign_in_at or now),
        "phone_number_verified": False,
        "client_id": session.client_id,
    }
    if nonce:
        claims["nonce"] = nonce
    if "email" in scopes:
        claims |= {"email": user.email, "email_verified": not user.is_anonymous}
    if "profile" in scopes:
        claims |= {"name": user.data.get("name") or user.email, "updated_at": int(user.updated_at)}
    return realm.keys.sign(claims)


async def begin_session(
    realm: Realm, user: User, method: str, *, client_id: str | None = None, scope: str | None = None
) -> tuple[Session, str, str]:
    """A new session with its access token and its first refresh token."""
    now = realm.clock()
    user.last_sign_in_at = user.updated_at = now
    session = Session(user.id, method, now, client_id, scope)
    refresh = realm.sessions.begin(session)
    return session, await access_token(realm, user, session, method), refresh


def session_answer(session: Session, body: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
    names = {"sb-auth-user-id": session.user_id, "sb-auth-session-id": session.id}
    return json_answer(body, headers=names | (headers or {}))


def claims_of(realm: Realm, token: str) -> dict[str, Any]:
    """The claims of a token with a good signature and a future `exp`. Raises AuthError `bad_jwt`."""
    kid = _header(token).get("kid")
    if not realm.keys.knows(kid):
        raise _bad_jwt(f"token is unverifiable: error while executing keyfunc: unrecognized JWT kid {kid}")
    try:
        claims = realm.keys.verify(token)
    except (JoseError, ValueError):
        raise _bad_jwt("token signature is invalid: crypto/ecdsa: verification error") from None
    expires = claims.get("exp")
    if isinstance(expires, (int, float)) and realm.clock() >= expires:
        raise _bad_jwt("token has invalid claims: token is expired")
    return claims


def _bad_jwt(cause: str) -> AuthError:
    return AuthError(403, "bad_jwt", f"invalid JWT: unable to parse or verify signature, {cause}")


def _header(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        raise _bad_jwt("token is malformed: token contains an invalid number of segments")
    # Go names the byte at which decoding stopped.
    good = _BASE64URL.match(parts[0])
    stop = good.end() if good is not None else 0
    if stop < len(parts[0]) or stop % 4 == 1:
        place = stop if stop < len(parts[0]) else stop // 4 * 4
        raise _bad_jwt(f"token is malformed: could not base64 decode header: illegal base64 data at input byte {place}")
    try:
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        header = None
    if not isinstance(header, dict):
        raise _bad_jwt("token is malformed: could not JSON decode header")
    return header
