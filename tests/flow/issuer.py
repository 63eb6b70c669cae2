"""An issuer of the tests: real ES256 keys, a real JWKS endpoint, and application scopes, which Supabase's has not."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

ALICE = "11111111-1111-4111-8111-111111111111"
BOB = "22222222-2222-4222-8222-222222222222"


class Issuer:
    def __init__(self) -> None:
        self.url = ""
        self.key = ECKey.generate_key("P-256", auto_kid=True)
        self.published = True
        self.fetches = 0

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/.well-known/jwks.json"

    def token(
        self, subject: str = ALICE, *, key: Any = None, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """Claims as Supabase Auth's OAuth tokens have them; `None` removes one."""
        now = int(time.time())
        members = {
            "iss": self.url,
            "sub": subject,
            "aud": "authenticated",
            "exp": now + 3600,
            "iat": now,
            "email": "alice@example.com" if subject == ALICE else "bob@example.com",
            "role": "authenticated",
            "aal": "aal1",
            "session_id": f"5e551011-0000-4000-8000-{subject[-12:]}",
            "is_anonymous": False,
            "client_id": "c11e0000-0000-4000-8000-000000000001",
            "scope": "email",
            "app_metadata": {"provider": "email", "roles": ["member"]},
            "user_metadata": {"note": "written by the user"},
        } | claims
        key = key or self.key
        fields = {"alg": "ES256", "typ": "JWT", "kid": key.kid} | (header or {})
        present = {name: value for name, value in members.items() if value is not None}
        return jwt.encode(fields, present, key, algorithms=[fields["alg"]])

    async def _jwks(self, request: web.Request) -> web.Response:
        self.fetches += 1
        if not self.published:
            return web.Response(status=503)
        return web.json_response(KeySet([self.key]).as_dict(private=False))


@asynccontextmanager
async def issuer() -> AsyncIterator[Issuer]:
    it = Issuer()
    app = web.Application()
    app.router.add_get("/auth/v1/.well-known/jwks.json", it._jwks)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}/auth/v1"
    try:
        yield it
    finally:
        await runner.cleanup()
