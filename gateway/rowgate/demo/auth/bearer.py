"""Who calls this server: a user with a live session, or an administrator."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rowgate.demo.auth.answers import AuthError
from rowgate.demo.auth.realm import REALM, Realm
from rowgate.demo.auth.sessions import Session
from rowgate.demo.auth.tokens import claims_of
from rowgate.demo.auth.users import User

_BEARER = re.compile(r"bearer (\S+)", re.IGNORECASE)
_ADMIN_ROLES = frozenset({"service_role", "supabase_admin"})


@dataclass(frozen=True, slots=True)
class Bearer:
    user: User
    session: Session | None
    claims: dict[str, Any] = field(repr=False)


def bearer(request: web.Request) -> Bearer:
    """Raises AuthError in the order in which the real one looks: token, subject, session, ban."""
    realm = request.app[REALM]
    claims = _claims(request, realm)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise AuthError(403, "bad_jwt", "invalid claim: missing sub claim")
    if not _is_uuid(subject):
        raise AuthError(400, "bad_jwt", "invalid claim: sub claim must be a UUID")
    user = realm.users.get(subject)
    if user is None:
        raise AuthError(403, "user_not_found", "User from sub claim in JWT does not exist")
    session = _session(realm, claims)
    if user.banned(realm.clock()):
        raise AuthError(403, "user_banned", "User is banned")
    return Bearer(user, session, claims)


def require_admin(request: web.Request) -> None:
    if _claims(request, request.app[REALM]).get("role") not in _ADMIN_ROLES:
        raise AuthError(403, "not_admin", "User not allowed")


def _claims(request: web.Request, realm: Realm) -> dict[str, Any]:
    found = _BEARER.fullmatch(request.headers.get("Authorization", ""))
    if found is None:
        raise AuthError(401, "no_authorization", "This endpoint requires a valid Bearer token")
    return claims_of(realm, found[1])


def _session(realm: Realm, claims: dict[str, Any]) -> Session | None:
    """A token without a session is let pass, as the real one does."""
    name = claims.get("session_id")
    if not name:
        return None
    if not isinstance(name, str) or not _is_uuid(name):
        raise AuthError(403, "bad_jwt", "invalid claim: session_id claim must be a UUID")
    session = realm.sessions.get(name)
    if session is None:
        raise AuthError(403, "session_not_found", "Session from session_id claim in JWT does not exist")
    return session


def _is_uuid(value: str) -> bool:
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True
