"""Is this token genuine: signature, issuer, time. Not yet: may it open this server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol

from cachetools import LRUCache
from joserfc import jws
from joserfc.errors import ExceededSizeError, JoseError, UnsupportedAlgorithmError
from joserfc.jws import CompactSignature, JWSRegistry

from rowgate.auth.bearer import MAX_TOKEN_BYTES
from rowgate.auth.claims import VerifiedToken, read_claims
from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.keys import VerificationKey
from rowgate.auth.refusal import refused
from rowgate.observe.events import Emit, TokenLookup, discard

REMEMBERED: Final = 60.0
"""Seconds for which a verified token is not verified again. The key set may drop its key sooner."""
CAPACITY: Final = 4096

_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_HIT: Final = TokenLookup(hit=True)
_MISS: Final = TokenLookup(hit=False)


@dataclass(frozen=True, slots=True)
class _Remembered:
    token: VerifiedToken
    until: float


class Keys(Protocol):
    """The keys of one issuer: published ones, or a shared secret."""

    @property
    def generation(self) -> int: ...

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None: ...

    async def replacement(self, failed: VerificationKey, kid: str | None, algorithm: str) -> VerificationKey | None: ...


class TokenVerifier:
    """One for each issuer entry of one configuration: a new configuration remembers nothing of the old.

    Only what was verified is remembered, under the SHA-256 of the token. Refusals are not: whoever sends bad tokens
    can make each one new, and would push the good ones out.
    """

    def __init__(
        self,
        issuer: TrustedIssuer,
        keys: Keys,
        *,
        clock: Callable[[], float] = time.time,
        emit: Emit = discard,
        remembered: float = REMEMBERED,
        capacity: int = CAPACITY,
    ) -> None:
        self._issuer = issuer
        self._keys = keys
        self._clock = clock
        self._emit = emit
        self._lifetime = min(remembered, REMEMBERED)
        self._registry = _Registry(issuer.algorithms)
        self._cache: LRUCache[bytes, _Remembered] = LRUCache(capacity)
        self._generation = keys.generation

    async def verify(self, token: str) -> VerifiedToken:
        """Raises TokenRefused, TokenExpired or KeysUnavailable."""
        if not token.isascii():
            raise refused("malformed")
        encoded = token.encode("ascii")
        digest = sha256(encoded).digest()
        remembered = self._recall(digest)
        if remembered is not None:
            self._emit(_HIT)
            return remembered
        self._emit(_MISS)
        verified = read_claims(await self._signed_payload(encoded), self._issuer.issuer, self._issuer.scope_claim)
        self._check_time(verified)
        self._remember(digest, verified)
        return verified

    def _recall(self, digest: bytes) -> VerifiedToken | None:
        self._forget_old_keys()
        found = self._cache.get(digest)
        return found.token if found is not None and self._clock() < found.until else None

    def _remember(self, digest: bytes, verified: VerifiedToken) -> None:
        now = self._clock()
        until = min(now + self._lifetime, verified.expires_at)
        if until > now:
            # Nothing was awaited since the signature was checked, so the set that vouched for it is the present one.
            self._forget_old_keys()
            self._cache[digest] = _Remembered(verified, until)

    def _forget_old_keys(self) -> None:
        if self._generation != self._keys.generation:
            self._cache.clear()
            self._generation = self._keys.generation

    def _check_time(self, verified: VerifiedToken) -> None:
        # `iat` is not judged: it informs (RFC 7519 §4.1.6), and the clocks of issuers run ahead.
        now = self._clock()
        if now >= verified.expires_at + self._issuer.leeway:
            raise refused("expired")
        if now + self._issuer.leeway < verified.not_before:
            raise refused("not_yet_valid")

    async def _signed_payload(self, encoded: bytes) -> bytes:
        signature = self._parse(encoded)
        header = signature.protected
        algorithm, kid = header["alg"], header.get("kid")
        key = await self._keys.find(kid, algorithm)
        if key is None:
            raise refused("unknown_key")
        if not self._is_signed(signature, key):
            replacement = await self._keys.replacement(key, kid, algorithm)
            if replacement is None or not self._is_signed(signature, replacement):
                raise refused("signature")
        return signature.payload

    def _parse(self, encoded: bytes) -> CompactSignature:
        if len(encoded) > MAX_TOKEN_BYTES:
            raise refused("oversize")
        try:
            signature = jws.extract_compact(encoded, registry=self._registry)
        except ExceededSizeError:
            raise refused("oversize") from None
        except (JoseError, ValueError, TypeError, RecursionError):
            raise refused("malformed") from None
        self._check_header(signature.protected)
        if not all(signature.segments.values()):
            raise refused("malformed")
        return signature

    def _check_header(self, header: Any) -> None:
        if not isinstance(header, dict):
            raise refused("malformed")
        # No extension is understood here, so every `crit` names one that is not (RFC 7515 §4.1.11).
        if "crit" in header or "b64" in header:
            raise refused("critical_header")
        try:
            self._registry.check_header(header)
            self._registry.get_alg(header["alg"])
        except UnsupportedAlgorithmError:
            raise refused("algorithm") from None
        except (JoseError, ValueError, TypeError):
            raise refused("malformed") from None
        if "typ" in header and header["typ"].lower() not in _TYPES:
            raise refused("token_type")

    def _is_signed(self, signature: CompactSignature, key: VerificationKey) -> bool:
        try:
            return jws.validate_compact(signature, key.key, registry=self._registry)
        except (JoseError, ValueError, TypeError):
            return False


class _Registry(JWSRegistry):
    """Exactly the configured algorithms. Keys that the header names by value or URL are never looked at."""

    max_header_length = 4096

    def __init__(self, algorithms: tuple[str, ...]) -> None:
        # RFC 7515 §4: unknown header parameters that are not critical must be ignored.
        super().__init__(algorithms=algorithms, strict_check_header=False)
        self._models = {name: self.algorithms[name] for name in algorithms}

    def get_alg(self, name: str) -> Any:
        # The inherited one warns at each use of the name EdDSA, which issuers still sign with.
        model = self._models.get(name)
        if model is None:
            raise UnsupportedAlgorithmError()
        return model
