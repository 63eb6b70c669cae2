"""The authorization endpoint (RFC 6749 §4.1.1): checks the request and sends the browser to the consent page."""

from __future__ import annotations

import uuid

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, invalid, redirect, with_query
from rowgate.demo.auth.authorizations import (
    DEFAULT_SCOPE,
    LIFETIME,
    Authorization,
    challenge_fault,
    resource_fault,
    scope_fault,
)
from rowgate.demo.auth.realm import REALM, Realm


async def authorize(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    query = request.query
    redirect_uri = _redirect_uri(realm, query.get("client_id", ""), query.get("redirect_uri", ""))
    wanted = Authorization(
        client_id=query["client_id"],
        redirect_uri=redirect_uri,
        scope=query.get("scope") or DEFAULT_SCOPE,
        state=query.get("state", ""),
        resource=query.get("resource", ""),
        challenge=query.get("code_challenge", ""),
        method=query.get("code_challenge_method", "").lower(),
        nonce=query.get("nonce", ""),
        expires_at=realm.clock() + LIFETIME,
    )
    if fault := _fault(realm, wanted, query.get("response_type") or "code"):
        return redirect(with_query(redirect_uri, error="invalid_request", error_description=fault, state=wanted.state))
    realm.authorizations[wanted.id] = wanted
    page = realm.settings.site_url + realm.settings.consent_path
    return redirect(with_query(page, authorization_id=wanted.id))


def _redirect_uri(realm: Realm, client_id: str, redirect_uri: str) -> str:
    """The registered URI. Until it is known to be one, an error is shown and not sent anywhere (RFC 6749 §4.1.2.1)."""
    if not client_id:
        raise invalid("client_id is required")
    if not redirect_uri:
        raise invalid("redirect_uri is required")
    try:
        uuid.UUID(client_id)
    except ValueError:
        raise AuthError(400, "oauth_client_not_found", "invalid client_id format") from None
    client = realm.client(client_id)
    if client is None:
        raise AuthError(400, "oauth_client_not_found", "invalid client_id")
    if redirect_uri not in client.redirect_uris:
        raise invalid("invalid redirect_uri")
    return redirect_uri


def _fault(realm: Realm, wanted: Authorization, response_type: str) -> str | None:
    if response_type != "code":
        return "only response_type=code is supported"
    return (
        scope_fault(wanted.scope, realm.settings.scopes)
        or resource_fault(wanted.resource)
        or challenge_fault(wanted.challenge, wanted.method)
    )


ROUTES = [web.get("/oauth/authorize", authorize)]
