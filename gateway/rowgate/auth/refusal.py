"""Why a credential was refused: for log and metric, never for the client."""

from __future__ import annotations

from typing import Literal

from rowgate.errors import ApiKeyRefused, CredentialsMalformed, SessionOver, TokenExpired, TokenRefused

CredentialReason = Literal["scheme", "empty", "repeated", "doubled", "list", "characters", "oversize"]
"""What is wrong with the header, before there is a token."""

Reason = Literal[
    "oversize",
    "api_key",
    "malformed",
    "critical_header",
    "token_type",
    "algorithm",
    "unknown_key",
    "signature",
    "claims",
    "issuer",
    "subject",
    "no_expiry",
    "expired",
    "not_yet_valid",
    "minted",
    "id_token",
    "actor",
    "role",
    "audience",
    "anonymous_user",
    "client_missing",
    "inactive",
    "custom",
]
"""What is wrong with the token, in about the order in which it is judged."""

KeyReason = Literal["key_weak", "key_unknown", "key_expired"]
"""What is wrong with an API key. `key_weak`: it can be none."""

SessionReason = Literal["session_over", "banned", "deleted", "unconfirmed", "token"]
"""What Supabase Auth says of a sign-in. `token`: it does not take the token itself."""


def malformed(reason: CredentialReason) -> CredentialsMalformed:
    return CredentialsMalformed(reason=reason)


def refused(reason: Reason) -> TokenRefused | TokenExpired:
    return TokenExpired(reason=reason) if reason == "expired" else TokenRefused(reason=reason)


def key_refused(reason: KeyReason) -> ApiKeyRefused:
    return ApiKeyRefused(reason=reason)


def session_over(reason: SessionReason) -> SessionOver:
    return SessionOver(reason=reason)
