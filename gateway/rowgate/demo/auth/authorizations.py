"""Authorization requests on their way to a code, and the consents that users gave."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from rowgate.demo.auth.sessions import identifier

LIFETIME = 600.0
"""Seconds from the authorization request to the exchange of its code."""

DEFAULT_SCOPE = "email"
SCOPES = ("openid", "profile", "email", "phone", "offline_access")
"""All that Supabase's authorization server issues."""


@dataclass(slots=True)
class Authorization:
    client_id: str
    redirect_uri: str
    scope: str
    state: str
    resource: str
    challenge: str = field(repr=False)
    method: str
    nonce: str = field(repr=False)
    expires_at: float
    id: str = field(default_factory=lambda: identifier(32))
    user_id: str | None = None
    status: Literal["pending", "approved", "denied"] = "pending"
    code: str | None = field(default=None, repr=False)

    def approve(self) -> str:
        self.status, self.code = "approved", str(uuid.uuid4())
        return self.code

    def pkce_fault(self, verifier: str) -> str | None:
        """RFC 7636 §4.6."""
        if not verifier:
            return "code_verifier is required when PKCE challenge is present"
        shown = verifier
        if self.method == "s256":
            digest = hashlib.sha256(verifier.encode()).digest()
            shown = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if not hmac.compare_digest(shown.encode(), self.challenge.encode()):
            return "code challenge does not match previously saved code verifier"
        return None


@dataclass(slots=True)
class Consent:
    scopes: list[str]
    granted_at: float


def scope_fault(scope: str, issuable: Collection[str]) -> str | None:
    if not scope.split():
        return "scope parameter cannot be empty"
    unknown = next((one for one in scope.split() if one not in issuable), None)
    return f"unsupported scope: {unknown}" if unknown is not None else None


def resource_fault(resource: str) -> str | None:
    """RFC 8707 §2."""
    if not resource:
        return None
    try:
        parts = urlsplit(resource)
    except ValueError:
        return "resource must be a valid URI"
    if not parts.scheme:
        return "resource must be an absolute URI"
    if parts.fragment:
        return "resource must not include a fragment component"
    if parts.query:
        return "resource must not include a query component"
    return None


def challenge_fault(challenge: str, method: str) -> str | None:
    if not challenge or not method:
        return "PKCE flow requires both code_challenge and code_challenge_method"
    if method.lower() not in ("s256", "plain"):
        return "code_challenge_method must be 'S256' or 'plain'"
    if not 43 <= len(challenge) <= 128:
        return "code_challenge must be between 43 and 128 characters"
    return None
