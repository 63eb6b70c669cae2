"""What a server asks of its callers: scopes and where they come from, rules, and whom to ask about the rest."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from rowgate.config.authentication import ClaimPath, Extension, FunctionName
from rowgate.config.section import Section
from rowgate.config.values import Duration, ScopeName, Text, TrustedUrl, refuse, seconds

ClaimValue = str | int | bool


def _claim_values(value: object) -> tuple[ClaimValue, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not values or not all(isinstance(item, str | int | bool) for item in values):
        raise refuse("must be text, a whole number, true or false, or a list of them")
    return values


def _written(values: tuple[ClaimValue, ...]) -> Any:
    return list(values) if len(values) != 1 else values[0]


def _permission(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}", value):
        raise refuse("must be a permission such as customers.archive: letters, digits and _ . : / -")
    return value


Permission = Annotated[str, AfterValidator(_permission)]

_SCALAR = {"type": ["string", "integer", "boolean"]}
ClaimValues = Annotated[
    tuple[Any, ...],
    PlainValidator(_claim_values),
    PlainSerializer(_written, when_used="json"),
    WithJsonSchema({"oneOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]}),
]
Meta = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class ScopeFunction(Section):
    """A SQL function that says which scopes the user granted, called as the user through PostgREST."""

    name: FunctionName = Field(description="Name of the function: it takes no arguments and returns text[] or jsonb.")
    cache: Annotated[Duration, seconds(0, 60)] = Field(
        10.0, description="How long an answer is kept for one token, so how long a withdrawn grant still works."
    )


class Scopes(Section):
    """The scopes of a server: what callers need, and what clients are told to ask for."""

    source: Literal["token", "claim", "function"] = Field(
        "token",
        description="Where a caller's scopes are read: the token's scope claim, another claim, or a SQL function.",
    )
    claim: ClaimPath | None = Field(
        None, description="Path of the claim for source claim: a string with blanks or an array."
    )
    function: ScopeFunction | None = Field(None, description="The SQL function for source function.")
    grant_url: TrustedUrl | None = Field(
        None, description="Page of the application where users grant scopes, which refusals then name."
    )
    advertised: tuple[ScopeName, ...] | None = Field(
        None, description="Scopes that resource metadata names; by default email for Supabase, else issuable."
    )
    required: tuple[ScopeName, ...] = Field((), description="Scopes that every delegated call to this server needs.")
    issuable: tuple[ScopeName, ...] | None = Field(
        None,
        description="Scopes that the authorization server can issue; "
        "by default those of Supabase, else the advertised ones.",
    )
    implies: dict[ScopeName, tuple[ScopeName, ...]] = Field(
        {}, description="Scopes that each scope includes, such as notes with notes:read and notes:write."
    )


class Require(Section):
    """What a caller needs for the capabilities of an entry. All of it must hold."""

    scopes: tuple[ScopeName, ...] = Field((), description="Scopes that a delegated caller must hold, all of them.")
    roles: tuple[Text, ...] = Field((), description="Roles of which the caller must have one.")
    claims: dict[ClaimPath, ClaimValues] = Field(
        {}, description="Claims by path, each with the value it must have, or the values of which it must have one."
    )
    aal: Literal["aal1", "aal2"] | None = Field(
        None, description="How strongly the user must have signed in: aal2 means with a second factor."
    )
    client: tuple[Text, ...] = Field((), description="OAuth clients or API keys of which the caller must be one.")
    permission: Permission | None = Field(
        None, description="Permission that the server's authorizer is asked for, with the arguments of the call."
    )
    session: Literal["live", "fresh"] | None = Field(
        None,
        description="Whether the session must have lived a moment ago, or be asked about at each call (Supabase Auth).",
    )


class Authorizer(Section):
    """Whom to ask about permissions: an HTTP endpoint, or a SQL function as the user."""

    url: TrustedUrl | None = Field(
        None, description="Endpoint that gets the checks as JSON with a signed context, as plugins do."
    )
    function: FunctionName | None = Field(
        None, description="SQL function that gets the checks as its one argument, called as the user; in place of url."
    )
    timeout: Annotated[Duration, seconds(0.1, 30)] = Field(5.0, description="Longest wait; no answer is a no.")
    cache: Annotated[Duration, seconds(0, 60)] = Field(
        5.0, description="How long the answers for a list are kept for one token; calls are asked each time."
    )


class Policy(Section):
    """Rules in code, for what this file cannot say."""

    hook: Extension = Field(
        description="Object with authorize and visible, as package.module:object or an entry point of rowgate.policy."
    )
