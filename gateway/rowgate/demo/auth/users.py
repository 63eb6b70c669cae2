"""Users, as the `user` object shows them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import uuid
from dataclasses import dataclass, field
from typing import Any

from rowgate.demo.auth.answers import timestamp

_SALT_BYTES = 16
# Slower than a guess should be, faster than a test may notice.
_COST = {"n": 2**12, "r": 8, "p": 1}


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, **_COST)


@dataclass(frozen=True, slots=True)
class PasswordHash:
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    async def of(cls, password: str) -> PasswordHash:
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(salt, await asyncio.to_thread(_digest, password, salt))

    async def fits(self, password: str) -> bool:
        return hmac.compare_digest(self.digest, await asyncio.to_thread(_digest, password, self.salt))


NO_PASSWORD = PasswordHash(b"\0" * _SALT_BYTES, b"")
"""Nothing fits it, and finding that out takes as long as for a real one."""


@dataclass(slots=True)
class User:
    id: str
    email: str
    password: PasswordHash = field(repr=False)
    created_at: float
    data: dict[str, Any] = field(default_factory=dict, repr=False)
    """What the user said at sign-up: user-writable, so it never carries authority."""
    is_anonymous: bool = False
    updated_at: float = 0.0
    last_sign_in_at: float | None = None
    banned_until: float | None = None
    identity_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self.updated_at = self.updated_at or self.created_at

    @property
    def app_metadata(self) -> dict[str, Any]:
        return {} if self.is_anonymous else {"provider": "email", "providers": ["email"]}

    @property
    def user_metadata(self) -> dict[str, Any]:
        return dict(self.data) if self.is_anonymous else self._described(verified=True)

    def _described(self, *, verified: bool) -> dict[str, Any]:
        known = {"email": self.email, "email_verified": verified, "phone_verified": False, "sub": self.id}
        return self.data | known

    def banned(self, now: float) -> bool:
        return self.banned_until is not None and now < self.banned_until

    def view(self, *, fresh: bool = False) -> dict[str, Any]:
        """The `user` object. `fresh`: as the answer to a sign-up shows it, which differs in two details."""
        view: dict[str, Any] = {
            "id": self.id,
            "aud": "authenticated",
            "role": "authenticated",
            "email": self.email,
            "phone": "",
            "app_metadata": self.app_metadata,
            "user_metadata": self.user_metadata,
            "identities": [] if self.is_anonymous else [self._identity(fresh=fresh)],
            "created_at": timestamp(self.created_at),
            "updated_at": timestamp(self.updated_at),
            "is_anonymous": self.is_anonymous,
        }
        if not self.is_anonymous:
            view["email_confirmed_at"] = timestamp(self.created_at)
            if not fresh:
                view["confirmed_at"] = timestamp(self.created_at)
        if self.last_sign_in_at is not None:
            view["last_sign_in_at"] = timestamp(self.last_sign_in_at)
        if self.banned_until is not None:
            view["banned_until"] = timestamp(self.banned_until)
        return view

    def _identity(self, *, fresh: bool) -> dict[str, Any]:
        created = timestamp(self.created_at)
        return {
            "identity_id": self.identity_id,
            "id": self.id,
            "user_id": self.id,
            "identity_data": self._described(verified=fresh),
            "provider": "email",
            "last_sign_in_at": created,
            "created_at": created,
            "updated_at": created,
            "email": self.email,
        }
