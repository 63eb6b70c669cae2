"""What the application's consent page asks: the details of an authorization request, and the user's decision."""

from __future__ import annotations

from aiohttp import web

from rowgate.demo.auth.answers import AuthError, invalid, json_answer, json_body, with_query
from rowgate.demo.auth.authorizations import Authorization, Consent
from rowgate.demo.auth.bearer import bearer
from rowgate.demo.auth.realm import REALM, Realm
from rowgate.demo.auth.users import User


async def details(request: web.Request) -> web.Response:
    """The first user who asks owns the request. One who has consented before is sent on at once."""
    realm = request.app[REALM]
    _require_origin(request, realm)
    user = bearer(request).user
    wanted = _authorization(request, realm)
    if wanted.status != "pending":
        raise invalid("authorization request cannot be processed")
    if wanted.user_id is None:
        wanted.user_id = user.id
        consent = realm.consents.get((user.id, wanted.client_id))
        if consent is not None and set(wanted.scope.split()) <= set(consent.scopes):
            return _approved(wanted)
    _require_owner(wanted, user)
    client = realm.client(wanted.client_id)
    if client is None:
        raise _not_found()
    return json_answer(
        {
            "authorization_id": wanted.id,
            "redirect_uri": wanted.redirect_uri,
            "client": client.details(),
            "user": {"id": user.id, "email": user.email},
            "scope": wanted.scope,
        }
    )


async def decide(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    _require_origin(request, realm)
    user = bearer(request).user
    action = (await json_body(request, "invalid JSON body")).get("action")
    if action not in ("approve", "deny"):
        raise invalid("action must be 'approve' or 'deny'")
    wanted = _authorization(request, realm)
    if wanted.status != "pending":
        raise invalid("authorization request is no longer pending")
    _require_owner(wanted, user)
    if action == "approve":
        realm.consents[user.id, wanted.client_id] = Consent(wanted.scope.split(), realm.clock())
        return _approved(wanted)
    wanted.status = "denied"
    denial = {"error": "access_denied", "error_description": "User denied the request", "state": wanted.state}
    return json_answer({"redirect_url": with_query(wanted.redirect_uri, **denial)})


def _approved(wanted: Authorization) -> web.Response:
    return json_answer({"redirect_url": with_query(wanted.redirect_uri, code=wanted.approve(), state=wanted.state)})


def _require_origin(request: web.Request, realm: Realm) -> None:
    origin = request.headers.get("Origin")
    if origin and origin != realm.settings.site_url:
        raise invalid("unauthorized request origin")


def _authorization(request: web.Request, realm: Realm) -> Authorization:
    wanted = realm.authorizations.get(request.match_info["authorization_id"])
    if wanted is None or realm.clock() > wanted.expires_at:
        raise _not_found()
    return wanted


def _require_owner(wanted: Authorization, user: User) -> None:
    if wanted.user_id != user.id:
        raise _not_found()


def _not_found() -> AuthError:
    return AuthError(404, "oauth_authorization_not_found", "authorization not found")


ROUTES = [
    web.get("/oauth/authorizations/{authorization_id}", details),
    web.post("/oauth/authorizations/{authorization_id}/consent", decide),
]
