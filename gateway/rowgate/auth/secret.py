"""The key of an issuer that signs with a shared secret (HS256) and publishes nothing."""

from __future__ import annotations

from typing import Final

from joserfc.jwk import OctKey

from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.keys import VerificationKey


class SharedSecret:
    """One key for every `kid`: legacy tokens name none, or one that nobody publishes."""

    generation: Final = 0

    def __init__(self, issuer: TrustedIssuer) -> None:
        key = OctKey.import_key(issuer.secret)
        self._key = VerificationKey(None, frozenset(issuer.algorithms), key.thumbprint(), key)

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        return self._key if algorithm in self._key.algorithms else None

    async def replacement(self, failed: VerificationKey, kid: str | None, algorithm: str) -> VerificationKey | None:
        return None
