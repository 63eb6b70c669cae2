"""The OAuth token endpoint (RFC 6749 §3.2)."""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, OAuthError, json_body
from rowgate.demo.auth.authorizations import Authorization
from rowgate.demo.auth.clients import Client
from rowgate.demo.auth.realm import REALM, Realm
from rowgate.demo.auth.signin import refreshed
from rowgate.demo.auth.tokens import begin_session, id_token, session_answer

_METHOD = "oauth_provider/authorization_code"


@dataclass(frozen=True, slots=True)
class _Credentials:
    client_id: str
    secret: str = field(repr=False)
    method: str


async def token(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    parameters = await _parameters(request)
    client = _authenticate(realm, _credentials(request, parameters))
    grant_type = parameters.get("grant_type", "")
    if not grant_type:
        raise OAuthError("invalid_request", "grant_type is required")
    if grant_type not in client.grant_types:
        raise OAuthError("unsupported_grant_type", f"Client is not allowed to use grant type: {grant_type}")
    if grant_type == "authorization_code":
        return await _code_grant(realm, client, parameters)
    return await _refresh_grant(realm, client, parameters)


async def _parameters(request: web.Request) -> dict[str, str]:
    if "application/json" in request.headers.get("Content-Type", ""):
        try:
            given: dict[str, Any] = await json_body(request)
        except AuthError:
            raise OAuthError("invalid_request", "Invalid JSON body") from None
    else:
        # The real one compares `resource` for JSON bodies only.
        given = {name: value for name, value in (await request.post()).items() if name != "resource"}
    return {name: value for name, value in given.items() if isinstance(value, str)}


def _credentials(request: web.Request, parameters: dict[str, str]) -> _Credentials:
    header = request.headers.get("Authorization", "")
    if header.startswith("Basic "):
        try:
            decoded = base64.b64decode(header.removeprefix("Basic "), validate=True).decode()
        except (binascii.Error, ValueError):
            raise _unauthenticated("invalid basic auth encoding") from None
        client_id, colon, secret = decoded.partition(":")
        if not colon:
            raise _unauthenticated("invalid basic auth format")
        return _Credentials(client_id, secret, "client_secret_basic")
    if not parameters.get("client_id"):
        raise _unauthenticated("client_id is required")
    secret = parameters.get("client_secret", "")
    return _Credentials(parameters["client_id"], secret, "client_secret_post" if secret else "none")


def _unauthenticated(cause: str = "") -> AuthError:
    return AuthError(400, "invalid_credentials", "Invalid client credentials" + (f": {cause}" if cause else ""))


def _authenticate(realm: Realm, credentials: _Credentials) -> Client:
    try:
        uuid.UUID(credentials.client_id)
    except ValueError:
        raise AuthError(400, "invalid_credentials", "Invalid client_id format") from None
    client = realm.client(credentials.client_id)
    if client is None:
        raise _unauthenticated()
    if credentials.method != client.auth_method:
        raise AuthError(
            400,
            "invalid_credentials",
            f"invalid authentication method: client is registered for '{client.auth_method}' "
            f"but '{credentials.method}' was used",
        )
    if not client.public and not client.has_secret(credentials.secret):
        raise AuthError(400, "invalid_credentials", "invalid client credentials")
    return client


async def _code_grant(realm: Realm, client: Client, parameters: dict[str, str]) -> web.Response:
    wanted = _redeemable(realm, client, parameters)
    user = realm.users.get(wanted.user_id or "")
    if user is None:
        raise OAuthError("invalid_grant", "User not found for authorization code")
    if user.banned(realm.clock()):
        raise OAuthError("access_denied", "User is banned")
    # Gone before anything is awaited: two exchanges of one code cannot both succeed.
    del realm.authorizations[wanted.id]
    session, access, refresh = await begin_session(realm, user, _METHOD, client_id=client.id, scope=wanted.scope)
    body = _body(realm, access, refresh)
    if "openid" in wanted.scope.split():
        body["id_token"] = id_token(realm, user, session, wanted.nonce)
    return session_answer(session, body)


def _redeemable(realm: Realm, client: Client, parameters: dict[str, str]) -> Authorization:
    """The approved request behind the code. Raises OAuthError in the order in which the real one checks."""
    code = parameters.get("code", "")
    if not code:
        raise OAuthError("invalid_request", "code is required for authorization_code grant")
    wanted = realm.authorization_by_code(code)
    if wanted is None:
        raise OAuthError("invalid_grant", "Invalid authorization code")
    if realm.clock() > wanted.expires_at:
        raise OAuthError("invalid_grant", "Authorization code has expired")
    if wanted.client_id != client.id:
        raise OAuthError("invalid_grant", "Authorization code was not issued for this client")
    if parameters.get("resource", wanted.resource) not in ("", wanted.resource):
        raise OAuthError("invalid_grant", "Authorization code resource does not match the resource parameter")
    if parameters.get("redirect_uri", wanted.redirect_uri) not in ("", wanted.redirect_uri):
        raise OAuthError("invalid_grant", "Invalid redirect_uri")
    if fault := wanted.pkce_fault(parameters.get("code_verifier", "")):
        raise OAuthError("invalid_grant", f"PKCE verification failed: {fault}")
    return wanted


async def _refresh_grant(realm: Realm, client: Client, parameters: dict[str, str]) -> web.Response:
    presented = parameters.get("refresh_token", "")
    if not presented:
        raise OAuthError("invalid_request", "refresh_token is required for refresh_token grant")
    session, _, access, refresh, headers = await refreshed(realm, presented, client.id)
    return session_answer(session, _body(realm, access, refresh), headers)


def _body(realm: Realm, access: str, refresh: str) -> dict[str, Any]:
    return {
        "access_token": access,
        "token_type": "bearer",
        "expires_in": realm.settings.token_lifetime,
        "refresh_token": refresh,
    }


ROUTES = [web.post("/oauth/token", token)]
