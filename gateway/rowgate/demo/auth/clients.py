"""OAuth clients and what may be registered (RFC 7591, as far as Supabase Auth goes)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rowgate.demo.auth.answers import AuthError, timestamp

GRANT_TYPES = ("authorization_code", "refresh_token")
AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
_DESCRIPTION = (("client_name", "name", 1024), ("client_uri", "uri", 2048), ("logo_uri", "logo_uri", 2048))
"""Member, our attribute, the most characters it may have."""
_DANGEROUS_SCHEMES = frozenset({"javascript", "data", "file", "vbscript", "about", "blob"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(slots=True)
class Client:
    redirect_uris: list[str]
    auth_method: str
    grant_types: list[str]
    registration: str
    """`dynamic`, by the client itself, or `manual`, by an administrator."""
    created_at: float
    updated_at: float
    name: str = ""
    uri: str = ""
    logo_uri: str = ""
    secret_digest: bytes = field(default=b"", repr=False)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    deleted: bool = False

    @property
    def public(self) -> bool:
        return self.auth_method == "none"

    def new_secret(self) -> str:
        secret = secrets.token_urlsafe(32)
        self.secret_digest = hashlib.sha256(secret.encode()).digest()
        return secret

    def has_secret(self, secret: str) -> bool:
        return hmac.compare_digest(self.secret_digest, hashlib.sha256(secret.encode()).digest())

    def view(self, secret: str = "") -> dict[str, Any]:
        view: dict[str, Any] = {
            "client_id": self.id,
            "client_secret": secret,
            "client_type": "public" if self.public else "confidential",
            "redirect_uris": self.redirect_uris,
            "token_endpoint_auth_method": self.auth_method,
            "grant_types": self.grant_types,
            "response_types": ["code"],
            "client_name": self.name,
            "client_uri": self.uri,
            "logo_uri": self.logo_uri,
            "registration_type": self.registration,
            "created_at": timestamp(self.created_at),
            "updated_at": timestamp(self.updated_at),
        }
        return {name: value for name, value in view.items() if value}

    def details(self) -> dict[str, str]:
        """What the consent page and the list of grants show."""
        view = {"id": self.id, "name": self.name, "uri": self.uri, "logo_uri": self.logo_uri}
        return {name: value for name, value in view.items() if value}


def client_from(metadata: Mapping[str, Any], registration: str, now: float) -> Client:
    """Raises AuthError with the sentence of the first rule that the metadata break. Unknown members are ignored."""
    client = Client(
        redirect_uris=_strings(metadata, "redirect_uris"),
        auth_method=_auth_method(metadata),
        grant_types=_strings(metadata, "grant_types") or list(GRANT_TYPES),
        registration=registration,
        created_at=now,
        updated_at=now,
    )
    _check_redirect_uris(client.redirect_uris)
    _check_grant_types(client.grant_types)
    _describe(client, metadata)
    return client


def update(client: Client, metadata: Mapping[str, Any], now: float) -> None:
    """Change what an administrator names, or nothing at all."""
    if not metadata.keys() & {"redirect_uris", "grant_types", "client_name", "client_uri", "logo_uri"}:
        raise AuthError(400, "validation_failed", "No fields provided for update")
    redirect_uris = _strings(metadata, "redirect_uris") or client.redirect_uris
    grant_types = _strings(metadata, "grant_types") or client.grant_types
    _check_redirect_uris(redirect_uris)
    _check_grant_types(grant_types)
    _describe(client, metadata)
    client.redirect_uris, client.grant_types, client.updated_at = redirect_uris, grant_types, now


def _refusal(message: str) -> AuthError:
    # The real one prints its own error into another, hence the doubled status.
    return AuthError(400, "validation_failed", f"400: {message}")


def _strings(metadata: Mapping[str, Any], name: str) -> list[str]:
    value = metadata.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise AuthError(400, "bad_json", "Invalid JSON body")
    return list(value)


def _auth_method(metadata: Mapping[str, Any]) -> str:
    method, kind = metadata.get("token_endpoint_auth_method") or "", metadata.get("client_type") or ""
    if kind and kind not in ("public", "confidential"):
        raise _refusal("client_type must be 'public' or 'confidential'")
    if method and method not in AUTH_METHODS:
        raise _refusal(f"token_endpoint_auth_method must be one of: [{' '.join(AUTH_METHODS)}]")
    if not method:
        return "none" if kind == "public" else "client_secret_basic"
    expected = "public" if method == "none" else "confidential"
    if kind and kind != expected:
        raise AuthError(
            400,
            "validation_failed",
            f"400: client_type '{kind}' is inconsistent with token_endpoint_auth_method '{method}' "
            f"(expected client_type '{expected}')",
        )
    return str(method)


def _describe(client: Client, metadata: Mapping[str, Any]) -> None:
    for member, attribute, limit in _DESCRIPTION:
        value = metadata.get(member)
        if value is None:
            continue
        if not isinstance(value, str):
            raise AuthError(400, "bad_json", "Invalid JSON body")
        if len(value) > limit:
            raise _refusal(f"{member} cannot exceed {limit} characters")
        if value and attribute != "name" and not urlsplit(value).scheme:
            raise _refusal(f"{member} must be a valid URL")
        setattr(client, attribute, value)


def _check_grant_types(grant_types: list[str]) -> None:
    if not set(grant_types) <= set(GRANT_TYPES):
        raise _refusal("grant_types must only contain 'authorization_code' and/or 'refresh_token'")


def _check_redirect_uris(uris: list[str]) -> None:
    if not uris:
        raise _refusal("redirect_uris is required")
    if len(uris) > 10:
        raise _refusal("redirect_uris cannot exceed 10 items")
    for uri in uris:
        if fault := _redirect_fault(uri):
            raise _refusal(f"invalid redirect_uri '{uri}': {fault}")


def _redirect_fault(uri: str) -> str | None:
    if not uri:
        return "redirect URI cannot be empty"
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        return "invalid URL format"
    if not uri.isprintable():
        return "invalid URL format"
    if not parts.scheme or not host:
        return "must have scheme and host"
    if parts.scheme in _DANGEROUS_SCHEMES:
        return f"scheme '{parts.scheme}' is not allowed for security reasons"
    if parts.scheme == "http" and host not in _LOOPBACK:
        return "HTTP scheme only allowed for localhost"
    if parts.fragment:
        return "fragment not allowed in redirect URI"
    return None
