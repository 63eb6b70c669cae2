"""The signing keys of the project."""

from __future__ import annotations

import uuid
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

ALGORITHM = "ES256"


def _generate() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": str(uuid.uuid4()), "alg": ALGORITHM, "use": "sig"})


class SigningKeys:
    """One key in use, and those used before it that are still published and trusted."""

    def __init__(self) -> None:
        self._keys = [_generate()]

    @property
    def current(self) -> ECKey:
        return self._keys[0]

    def rotate(self, *, keep: bool = True) -> None:
        """Sign with a new key. The old ones stay published unless `keep` is false (Supabase: revoked)."""
        self._keys = [_generate(), *(self._keys if keep else ())]

    def jwks(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) | {"key_ops": ["verify"]} for key in self._keys]}

    def sign(self, claims: dict[str, Any]) -> str:
        header = {"alg": ALGORITHM, "kid": self.current.kid, "typ": "JWT"}
        return jwt.encode(header, claims, self.current, algorithms=[ALGORITHM])

    def verify(self, token: str) -> dict[str, Any]:
        """The claims, unless the signature is wrong (joserfc.errors.JoseError); times are the caller's business."""
        return jwt.decode(token, KeySet(list(self._keys)), algorithms=[ALGORITHM]).claims

    def knows(self, kid: object) -> bool:
        return any(key.kid == kid for key in self._keys)
