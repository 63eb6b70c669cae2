"""Why a credential was refused: for log and metric, never for the client."""

from __future__ import annotations

from typing import Literal

from rowgate.errors import CredentialsMalformed, TokenExpired, TokenRefused

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
]
"""What is wrong with the token, in about the order in which it is judged."""


def malformed(reason: CredentialReason) -> CredentialsMalformed:
    return CredentialsMalformed(reason=reason)


def refused(reason: Reason) -> TokenRefused | TokenExpired:
    return TokenExpired(reason=reason) if reason == "expired" else TokenRefused(reason=reason)
