"""The signed-in user: who they are, and which clients they let in."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, invalid, json_answer, timestamp
from rowgate.demo.auth.bearer import bearer
from rowgate.demo.auth.realm import REALM


async def user(request: web.Request) -> web.Response:
    return json_answer(bearer(request).user.view())


async def userinfo(request: web.Request) -> web.Response:
    """OpenID Connect Core 1.0 §5.3, filtered by the scopes of the session."""
    caller = bearer(request)
    scopes = (caller.session.scope or "").split() if caller.session is not None else []
    info: dict[str, Any] = {"sub": caller.user.id}
    if "email" in scopes and caller.user.email:
        info |= {"email": caller.user.email, "email_verified": True}
    if "profile" in scopes:
        info |= {
            "name": caller.user.data.get("name") or caller.user.email,
            "updated_at": int(caller.user.updated_at),
            "user_metadata": caller.user.user_metadata,
        }
    return json_answer(info)


async def grants(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    mine = bearer(request).user.id
    newest = sorted(realm.consents.items(), key=lambda item: -item[1].granted_at)
    listed = []
    for (owner, client_id), consent in newest:
        client = realm.client(client_id)
        if owner == mine and client is not None:
            granted_at = timestamp(consent.granted_at)
            listed.append({"client": client.details(), "scopes": consent.scopes, "granted_at": granted_at})
    return json_answer(listed)


async def revoke_grant(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    mine = bearer(request).user.id
    client_id = request.query.get("client_id")
    if not client_id:
        raise invalid("client_id query parameter is required")
    if (mine, client_id) not in realm.consents:
        raise AuthError(404, "oauth_consent_not_found", "No active grant found for this client")
    realm.revoke(mine, client_id)
    return web.Response(status=204)


ROUTES = [
    web.get("/user", user),
    web.get("/oauth/userinfo", userinfo),
    web.get("/user/oauth/grants", grants),
    web.delete("/user/oauth/grants", revoke_grant),
]
