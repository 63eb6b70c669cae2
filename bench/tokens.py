"""The issuer of the benchmark: one ES256 key, and a token for each user, shaped like those of Supabase Auth."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

LIFETIME = 6 * 3600


@dataclass(frozen=True, slots=True)
class Issuer:
    url: str
    key: ECKey

    @property
    def jwks(self) -> bytes:
        return json.dumps(KeySet([self.key]).as_dict(private=False)).encode()

    def token(self, user: int) -> str:
        now = int(time.time())
        subject = f"{user:08d}-1111-4111-8111-111111111111"
        claims = {
            "iss": self.url,
            "sub": subject,
            "aud": "authenticated",
            "exp": now + LIFETIME,
            "iat": now,
            "email": f"user{user}@example.com",
            "phone": "",
            "role": "authenticated",
            "aal": "aal1",
            "amr": [{"method": "password", "timestamp": now}],
            "session_id": f"{user:08d}-2222-4222-8222-222222222222",
            "is_anonymous": False,
            "client_id": "c11e0000-0000-4000-8000-000000000001",
            "scope": "email",
            "app_metadata": {"provider": "email", "providers": ["email"]},
            "user_metadata": {"email": f"user{user}@example.com", "email_verified": True, "sub": subject},
        }
        return jwt.encode({"alg": "ES256", "typ": "JWT", "kid": self.key.kid}, claims, self.key, algorithms=["ES256"])


def issuer(url: str) -> Issuer:
    return Issuer(url, ECKey.generate_key("P-256", auto_kid=True))
