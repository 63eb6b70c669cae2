"""What the holder of the secret key may do: OAuth clients, and bans."""

from __future__ import annotations

import re

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, invalid, json_answer, json_body, text
from rowgate.demo.auth.bearer import require_admin
from rowgate.demo.auth.clients import Client, update
from rowgate.demo.auth.realm import REALM
from rowgate.demo.auth.register import registered
from rowgate.demo.auth.users import User

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


async def list_clients(request: web.Request) -> web.Response:
    require_admin(request)
    known = [client for client in request.app[REALM].clients.values() if not client.deleted]
    newest = sorted(known, key=lambda client: client.created_at, reverse=True)
    return json_answer({"clients": [client.view() for client in newest]} if newest else {})


async def create_client(request: web.Request) -> web.Response:
    require_admin(request)
    return await registered(request, "manual")


async def get_client(request: web.Request) -> web.Response:
    require_admin(request)
    return json_answer(_client(request).view())


async def update_client(request: web.Request) -> web.Response:
    require_admin(request)
    client = _client(request)
    update(client, await json_body(request), request.app[REALM].clock())
    return json_answer(client.view())


async def delete_client(request: web.Request) -> web.Response:
    """The client can no longer do anything; tokens that it holds live on until they expire."""
    require_admin(request)
    _client(request).deleted = True
    return web.Response(status=204)


async def update_user(request: web.Request) -> web.Response:
    """Only `ban_duration`."""
    require_admin(request)
    user = _user(request)
    duration = text(await json_body(request), "ban_duration")
    now = request.app[REALM].clock()
    if duration == "none":
        user.banned_until = None
    elif duration:
        user.banned_until = now + _seconds(duration)
    user.updated_at = now
    return json_answer(user.view())


def _client(request: web.Request) -> Client:
    client = request.app[REALM].client(request.match_info["client_id"])
    if client is None:
        raise AuthError(404, "oauth_client_not_found", "OAuth client not found")
    return client


def _user(request: web.Request) -> User:
    user = request.app[REALM].users.get(request.match_info["user_id"])
    if user is None:
        raise AuthError(404, "user_not_found", "User not found")
    return user


def _seconds(duration: str) -> int:
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise invalid("invalid format for ban duration")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


ROUTES = [
    web.get("/admin/oauth/clients", list_clients),
    web.post("/admin/oauth/clients", create_client),
    web.get("/admin/oauth/clients/{client_id}", get_client),
    web.put("/admin/oauth/clients/{client_id}", update_client),
    web.delete("/admin/oauth/clients/{client_id}", delete_client),
    web.put("/admin/users/{user_id}", update_user),
]
