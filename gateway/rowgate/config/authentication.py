"""How a server establishes who calls: issuers, introspection, API keys, nobody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from rowgate.config.secret import Secret
from rowgate.config.section import Section
from rowgate.config.values import (
    Duration,
    Flag,
    ScopeName,
    Text,
    TrustedUrl,
    duration_text,
    parse_duration,
    refuse,
    seconds,
)
from rowgate.supabase.tokens import KEY_ROLES

Algorithm = Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519"]

ACKNOWLEDGEMENT: Final = "Anyone can call this server without signing in."
"""What `acknowledge` of a public server must say, word for word."""


def _dotted(value: str) -> str:
    if not all(value.split(".")) or len(value) > 256:
        raise refuse("must be a claim name, or names joined by dots")
    if value.split(".")[0] == "user_metadata":
        raise refuse("must not lie in user_metadata: users write that themselves")
    return value


def _token_role(value: str) -> str:
    if value in KEY_ROLES:
        raise refuse("must not be a role of API keys: such a token is nobody's sign-in")
    return value


def _asymmetric(value: object) -> object:
    if isinstance(value, str) and value.startswith("HS"):
        hint = "An issuer that signs with a shared secret has `secret` in place of `jwks_url`."
        raise refuse("must be an algorithm with a public key", hint)
    return value


ClaimPath = Annotated[Text, AfterValidator(_dotted)]


class Introspection(Section):
    """Where an issuer of opaque tokens is asked about each of them (RFC 7662)."""

    url: TrustedUrl = Field(description="The issuer's introspection endpoint.")
    client_id: Text = Field(description="The gateway's own name at the issuer.")
    client_secret: Secret = Field(description="The gateway's own secret at the issuer.")
    auth: Literal["basic", "post"] = Field(
        "basic", description="Whether the gateway's name and secret go into the Authorization header or the body."
    )
    cache: Annotated[Duration, seconds(0, 300)] = Field(
        30.0, description="How long an active token is not asked about again, and never beyond its expiry."
    )
    negative_cache: Annotated[Duration, seconds(0, 60)] = Field(
        10.0, description="How long an inactive token is refused without asking again."
    )


class Issuer(Section):
    """Who issues the tokens, where it is not the Supabase project."""

    issuer: TrustedUrl = Field(description="The iss claim of accepted tokens, byte for byte.")
    jwks_url: TrustedUrl | None = Field(None, description="Where the issuer publishes its public keys.")
    secret: Secret | None = Field(
        None,
        description="Shared HS256 secret of an issuer that publishes no keys, at least 32 bytes; in place of jwks_url.",
    )
    introspection: Introspection | None = Field(
        None, description="Whom to ask about opaque tokens; in place of jwks_url."
    )
    audience: tuple[Text, ...] = Field(
        min_length=1, description="Accepted values of the aud claim; a token must name one of them."
    )
    algorithms: tuple[Annotated[Algorithm, BeforeValidator(_asymmetric)], ...] = Field(
        ("ES256", "RS256"), min_length=1, description="Signature algorithms that are accepted from this issuer."
    )
    token_role: tuple[Annotated[Text, AfterValidator(_token_role)], ...] | None = Field(
        None, min_length=1, description="Accepted values of the role claim; without it the claim is not required."
    )
    roles_claim: ClaimPath = Field(
        "app_metadata.roles", description="Path of the claim that holds the caller's roles, a string or an array."
    )
    scope_claim: ClaimPath | None = Field(
        None,
        description="Path of the claim that holds the scopes, a string with blanks or an array; "
        "by default scope, else scp.",
    )
    leeway: Annotated[Duration, seconds(0, 300)] = Field(
        30.0, description="How far the issuer's clock and ours may differ."
    )
    key_refresh: Annotated[Duration, seconds(10, 86400)] = Field(
        600.0, description="How often the public keys are fetched again."
    )
    key_max_stale: Annotated[Duration, seconds(0, 7 * 86400)] = Field(
        86400.0, description="How long the last good keys serve while the issuer cannot be reached."
    )


# --- liveness ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old the last answer about a session may be. 0 asks at each call."""

    max_age: float | None = None
    """Seconds; None when nobody asks."""

    def __str__(self) -> str:
        if self.max_age is None:
            return "never"
        return duration_text(self.max_age) if self.max_age else "per_call"


def _freshness(value: object) -> Freshness:
    if isinstance(value, Freshness):
        return value
    if value in ("never", "per_call"):
        return Freshness(None if value == "never" else 0.0)
    try:
        age = parse_duration(value)
    except ValueError:
        raise refuse("must be never, per_call or a duration such as 30s") from None
    if not 1 <= age <= 3600:
        raise refuse("must be between 1s and 1h", "per_call asks about the session at each call.")
    return Freshness(age)


SessionCheck = Annotated[
    Freshness,
    PlainValidator(_freshness),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^(never|per_call|\d{1,9}(\.\d{1,3})?(ms|s|m|h|d))$"}),
]


class Session(Section):
    """Whether the sign-in behind a token still lives."""

    check: SessionCheck = Field(
        Freshness(),
        description="per_call asks at each call, a duration when the last answer is older, never does not ask.",
    )
    confirmed_email: Flag = Field(False, description="Whether the user must have confirmed the email address.")
    on_error: Literal["refuse", "accept"] = Field(
        "refuse", description="What happens to callers while Supabase Auth gives no answer."
    )


# --- API keys ----------------------------------------------------------------------------------------------


def _digest(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"sha256:[0-9a-f]{64}", value):
        raise refuse("must be sha256: and 64 lower-case hexadecimal digits")
    return value


def _moment(value: object) -> float:
    """Seconds since the epoch."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise refuse("must be a date and time with its zone, such as 2027-01-31T00:00:00Z")
    return moment.timestamp()


def _moment_text(value: float) -> str:
    return datetime.fromtimestamp(value).astimezone().isoformat()


def _brief(value: str) -> str:
    if len(value) > 255:
        raise refuse("must not be longer than 255 characters")
    return value


def _extension(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*|[A-Za-z0-9][A-Za-z0-9_.-]*", value, re.ASCII):
        raise refuse("must be package.module:object, or the name of an entry point")
    return value


def _function(value: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", value):
        raise refuse("must be the name of a SQL function in an exposed schema: lower-case letters, digits and _")
    return value


KeyHash = Annotated[
    str, BeforeValidator(_digest), WithJsonSchema({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})
]
Moment = Annotated[
    float,
    PlainValidator(_moment),
    PlainSerializer(_moment_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Seconds since the epoch. Written as `2027-01-31T00:00:00Z`."""
Extension = Annotated[str, AfterValidator(_extension)]
"""Code of the builder, in the gateway's own process."""
BriefText = Annotated[Text, AfterValidator(_brief)]
FunctionName = Annotated[str, AfterValidator(_function)]


class ApiKey(Section):
    """One key of an application. Give the key itself or its hash."""

    name: BriefText = Field(description="Name of the key, which log, audit and rules show as the client.")
    subject: BriefText = Field(description="The application that calls; several keys may share it.")
    secret: Secret | None = Field(None, description="The key itself, at least 32 characters.")
    hash: KeyHash | None = Field(
        None, description="SHA-256 of the key, written sha256: and 64 hexadecimal digits; in place of secret."
    )
    scopes: tuple[ScopeName, ...] = Field((), description="Scopes that callers with this key have.")
    roles: tuple[Text, ...] = Field((), description="Roles that callers with this key have.")
    expires: Moment | None = Field(None, description="When the key ends, with its time zone; by default never.")


class KeyLookup(Section):
    """A SQL function that knows the application's API keys by their hashes."""

    function: FunctionName = Field(
        description="Function that is given the SHA-256 of a key and returns whose it is; the secret key calls it."
    )
    cache: Annotated[Duration, seconds(0, 300)] = Field(
        30.0, description="How long its answer is kept, so how long a revoked key still works."
    )
    negative_cache: Annotated[Duration, seconds(0, 60)] = Field(
        10.0, description="How long an unknown key is refused without asking again."
    )


class Auth(Section):
    """Who may call a server."""

    mode: Literal["oauth", "bearer", "api-key", "public", "custom"] = Field(
        description="oauth announces where to sign in; bearer takes a token that the client already has; "
        "api-key takes keys of applications; public lets everybody in; custom asks code of yours."
    )
    issuer: Issuer | None = Field(None, description="Who issues the tokens; by default the Supabase project.")
    issuers: tuple[Issuer, ...] = Field((), description="Who issues the tokens, where there are several.")
    supabase: Flag = Field(
        default_factory=lambda data: data.get("issuer") is None and not data.get("issuers"),
        description="Whether tokens of the Supabase project are accepted; by default where no issuer is named.",
    )
    require_client: Flag = Field(
        default_factory=lambda data: data.get("mode") != "bearer",
        description="Whether a token must name the OAuth client it was issued to; by default true for oauth only.",
    )
    clients: tuple[Text, ...] | None = Field(
        None, min_length=1, description="OAuth clients that may call; by default any."
    )
    anonymous_users: Flag = Field(False, description="Whether Supabase's anonymous users are accepted.")
    min_aal: Literal["aal1", "aal2"] = Field(
        "aal1", description="How strongly the user must have signed in: aal2 means with a second factor."
    )
    challenge: Literal["http", "tool-result", "auto"] = Field(
        "auto",
        description="How a call is told that its token lacks a scope: 403, a tool error for clients that read only "
        "those, or whichever the client is known to read.",
    )
    session: Session = Field(Session(), description="Whether Supabase Auth is asked about the session behind a token.")
    keys: tuple[ApiKey, ...] = Field((), max_length=256, description="The API keys of mode api-key.")
    lookup: KeyLookup | None = Field(None, description="Where API keys are looked up that are not listed under keys.")
    authenticator: Extension | None = Field(
        None,
        description="For mode custom: object with authenticate, as package.module:object or an entry point of "
        "rowgate.authenticators.",
    )
    acknowledge: Text | None = Field(
        None, description=f"Sentence that a public server needs, word for word: {ACKNOWLEDGEMENT}"
    )
