"""RG2xx: who calls."""

from __future__ import annotations

from typing import ClassVar

from rowgate.errors.error import GatewayError


class AuthenticationError(GatewayError):
    """Answered with a challenge (RFC 6750 §3, RFC 9728 §5.1). `oauth_error` is its `error` parameter."""

    status = 401
    oauth_error: ClassVar[str | None] = "invalid_token"


class CredentialsMissing(AuthenticationError):
    code = "RG201"
    sentence = "Sign in to use this server."
    hint = "The request carried no Authorization header. Every client starts here."
    oauth_error = None


class CredentialsMalformed(AuthenticationError):
    code = "RG202"
    sentence = "The Authorization header must be `Bearer` and one token."
    hint = "Another scheme, an empty or doubled token, two Authorization headers, or characters no token has."
    oauth_error = None


class TokenRefused(AuthenticationError):
    code = "RG203"
    sentence = "The access token is not valid for this server."
    hint = "The log line has the reason. `rowgate` never says more to the client."


class TokenExpired(AuthenticationError):
    code = "RG204"
    sentence = "The access token expired."
    hint = "Clients refresh on this answer."


class ApiKeyRefused(AuthenticationError):
    code = "RG205"
    sentence = "The API key is not valid for this server."
    hint = "Unknown, ended, or not 32 characters long. The log line has the reason; the client learns no more."


class SessionOver(AuthenticationError):
    code = "RG206"
    sentence = "The sign-in behind this access token is over; sign in again."
    hint = "`auth.session`: the user signed out, was banned or deleted, or has not confirmed the email address."


class InsufficientAuthentication(AuthenticationError):
    """Answered with a challenge that names what to ask for (RFC 9470 §3)."""

    code = "RG207"
    sentence = "Sign in with a second factor to use this server."
    hint = "`auth.min_aal` asks for more than the token's `aal`. OAuth tokens of Supabase are always aal1."
    oauth_error = "insufficient_user_authentication"

    def __init__(self, level: str = "aal2") -> None:
        super().__init__(reason="aal")
        self.level = level


class KeysUnavailable(GatewayError):
    code = "RG210"
    status = 503
    sentence = "Sign-in cannot be verified right now; try again."
    hint = "The issuer's key set was never fetched. Check `jwks_url`, and that the issuer publishes keys at all."


class IdentityUnavailable(GatewayError):
    code = "RG211"
    status = 503
    sentence = "Who you are cannot be verified right now; try again."
    hint = "Introspection, the key lookup or Supabase Auth gave no usable answer; the reason says which."
