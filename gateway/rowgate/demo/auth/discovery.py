"""What the server says about itself (RFC 8414, OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from rowgate.demo.auth.answers import json_answer
from rowgate.demo.auth.authorizations import SCOPES
from rowgate.demo.auth.clients import GRANT_TYPES
from rowgate.demo.auth.realm import REALM, Realm

_CACHED = {"cache-control": "public, max-age=600"}
_CLAIMS = [
    *("sub", "aud", "iss", "exp", "iat", "auth_time", "nonce", "email", "email_verified", "phone_number"),
    *("phone_number_verified", "name", "picture", "preferred_username", "updated_at"),
]
_PROVIDERS = [
    *("apple", "azure", "bitbucket", "discord", "facebook", "snapchat", "figma", "fly", "github", "gitlab", "google"),
    *("keycloak", "kakao", "linkedin", "linkedin_oidc", "notion", "spotify", "slack", "slack_oidc", "workos"),
    *("twitch", "twitter", "phone", "zoom"),
]


def document(realm: Realm) -> dict[str, Any]:
    issuer = realm.settings.issuer
    document: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "jwks_uri": f"{issuer}/.well-known/jwks.json",
        "userinfo_endpoint": f"{issuer}/oauth/userinfo",
        "scopes_supported": [*SCOPES, *realm.settings.extra_scopes],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "HS256", "ES256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        "claims_supported": _CLAIMS,
        "code_challenge_methods_supported": ["S256", "plain"],
    }
    if realm.dynamic_registration:
        document["registration_endpoint"] = f"{issuer}/oauth/clients/register"
    return document


async def metadata(request: web.Request) -> web.Response:
    return json_answer(document(request.app[REALM]), headers=_CACHED)


async def jwks(request: web.Request) -> web.Response:
    realm = request.app[REALM]
    if realm.jwks_fault == "fail":
        return web.Response(status=500, text="This failure was asked for by a test.\n")
    keys = {"keys": []} if realm.jwks_fault == "empty" else realm.keys.jwks()
    return json_answer(keys, headers=_CACHED)


async def settings(request: web.Request) -> web.Response:
    external = dict.fromkeys(_PROVIDERS, False) | {"anonymous_users": True, "email": True}
    return json_answer(
        {
            "external": external,
            "disable_signup": False,
            "mailer_autoconfirm": True,
            "phone_autoconfirm": False,
            "sms_provider": "",
            "saml_enabled": False,
            "saml_private_key_next_configured": True,
            "passkeys_enabled": False,
        }
    )


ROUTES = [
    web.get("/.well-known/oauth-authorization-server", metadata),
    web.get("/.well-known/openid-configuration", metadata),
    web.get("/.well-known/jwks.json", jwks),
    web.get("/settings", settings),
]
