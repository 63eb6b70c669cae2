"""Several issuers at one server: the token says whose it claims to be, and only that issuer is believed about it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping

from multidict import MultiMapping

from rowgate.auth.authenticator import Authenticator
from rowgate.auth.bearer import bearer_token
from rowgate.auth.principal import Principal
from rowgate.auth.refusal import refused
from rowgate.supabase.tokens import API_KEY_PREFIXES


class AnyIssuer:
    """`iss` is read before anything is verified, so it only chooses among the configured issuers, byte for byte. What
    names no issuer is opaque and goes to the one issuer that is asked about its tokens; what names an unknown one goes
    nowhere."""

    def __init__(self, signed: Mapping[str, Authenticator], opaque: Authenticator | None = None) -> None:
        """`signed` by issuer; the issuer of `opaque` is there too."""
        self._signed = dict(signed)
        self._opaque = opaque

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        credential = bearer_token(headers)
        if credential.startswith(API_KEY_PREFIXES):
            raise refused("api_key")
        named = claimed_issuer(credential)
        chosen = self._opaque if named is None else self._signed.get(named)
        if chosen is None:
            raise refused("malformed" if named is None else "issuer")
        return await chosen.admit(credential)


def claimed_issuer(token: str) -> str | None:
    """The `iss` of what looks like a signed JWT; None for anything else."""
    segments = token.split(".")
    if len(segments) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(segments[1] + "=" * (-len(segments[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None
