from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from joserfc.jwk import Key, KeySet, OKPKey

from rowgate_plugin.contract import (
    Context,
    ContextError,
    ContextSigner,
    ContextVerifier,
    secret_key,
)

NOW = 1_800_000_000
ISSUER = "https://mcp.example.com"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_notes"}}'
TOKEN = "header.payload.signature"
KEY = OKPKey.generate_key("Ed25519", auto_kid=True)
SECRET = secret_key("s" * 32)
KEYS = KeySet([OKPKey.import_key(KEY.as_dict(private=False))])


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sign(key: Key = KEY, *, clock: Clock | None = None, lifetime: int = 60, **members: Any) -> str:
    signer = ContextSigner(key, issuer=ISSUER, clock=clock or Clock(), lifetime=lifetime)
    return signer.sign(
        **{
            "audience": "notes",
            "body": BODY,
            "credential": TOKEN,
            "kind": "user",
            "sub": "alice",
            "server": "main",
            "method": "tools/call",
            "name": "search_notes",
            "request_id": "r1",
            **members,
        }
    )


def verifier(keys: KeySet = KEYS, *, clock: Clock | None = None, **settings: Any) -> ContextVerifier:
    return ContextVerifier(keys, audience="notes", issuer=ISSUER, clock=clock or Clock(), **settings)


def verify(token: str | None, at: ContextVerifier | None = None, **request: Any) -> Context:
    request = {"body": BODY, "authorization": f"Bearer {TOKEN}", **request}
    return (at or verifier()).verify(token, **request)


def refused(token: str | None, at: ContextVerifier | None = None, **request: Any) -> str:
    with pytest.raises(ContextError) as caught:
        verify(token, at, **request)
    assert caught.value.__cause__ is None
    return caught.value.reason


def encode(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(segment: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))


def resign(token: str, header: dict[str, Any] | None = None, **members: Any) -> str:
    """The same context with other members, signed by the trusted key: only what a verifier judges differs."""
    protected, payload, _ = token.split(".")
    claims = {**decode(payload), **members}
    claims = {name: value for name, value in claims.items() if value is not ...}
    signing_input = f"{encode({**decode(protected), **(header or {})})}.{encode(claims)}"
    return f"{signing_input}.{encode(KEY.private_key.sign(signing_input.encode()))}"
