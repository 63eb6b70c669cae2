"""Dynamic client registration (RFC 7591)."""

from __future__ import annotations

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, json_answer, json_body
from rowgate.demo.auth.clients import client_from
from rowgate.demo.auth.realm import REALM


async def register(request: web.Request) -> web.Response:
    if not request.app[REALM].dynamic_registration:
        raise AuthError(403, "oauth_dynamic_client_registration_disabled", "Dynamic client registration is not enabled")
    return await registered(request, "dynamic")


async def registered(request: web.Request, registration: str) -> web.Response:
    realm = request.app[REALM]
    client = client_from(await json_body(request), registration, realm.clock())
    secret = "" if client.public else client.new_secret()
    realm.clients[client.id] = client
    return json_answer(client.view(secret), status=201)


ROUTES = [web.post("/oauth/clients/register", register)]
