"""The few questions that the gateway itself asks a Supabase project: functions through PostgREST, and who a token is.

Each call names the key it uses. `rpc` acts as the caller, under Row Level Security; only `rpc_as_gateway` uses the
secret key, and what may be called with it is decided by grants in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from rowgate.download import AnswerTooLarge, whole

MAX_ANSWER_BYTES = 1024 * 1024


class SupabaseUnavailable(Exception):
    """No answer, or one that is not Supabase's: nothing was decided."""


@dataclass(frozen=True, slots=True)
class SupabaseRefusal(Exception):
    """A decided no. `code` is PostgREST's or Auth's own, such as `42501` or `session_not_found`."""

    status: int
    code: str


@dataclass(frozen=True, slots=True)
class SupabaseApi:
    session: ClientSession = field(repr=False)
    """Without cookies: everybody's requests go through it."""
    url: str
    publishable_key: str = field(repr=False)
    secret_key: str | None = field(default=None, repr=False)
    timeout: float = 5.0
    """Seconds, for the whole exchange."""

    async def rpc(self, function: str, arguments: Mapping[str, Any], *, token: str) -> Any:
        """The result of a SQL function, called as the user of `token`."""
        return await self._post_rpc(function, arguments, self.publishable_key, token)

    async def rpc_as_gateway(self, function: str, arguments: Mapping[str, Any]) -> Any:
        if self.secret_key is None:
            raise SupabaseUnavailable("supabase.secret_key is not set")
        return await self._post_rpc(function, arguments, self.secret_key, None)

    async def user(self, token: str) -> dict[str, Any]:
        """What Auth knows of the token's user. Raises SupabaseRefusal when the session is over: `session_not_found`,
        `user_banned`, `user_not_found`, `bad_jwt`."""
        return dict(await self._send("GET", f"{self.url}/auth/v1/user", None, self.publishable_key, token))

    async def _post_rpc(self, function: str, arguments: Mapping[str, Any], key: str, token: str | None) -> Any:
        return await self._send("POST", f"{self.url}/rest/v1/rpc/{function}", dict(arguments), key, token)

    async def _send(self, method: str, url: str, body: Any, key: str, token: str | None) -> Any:
        headers = {"apikey": key, "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        elif not key.startswith("sb_"):
            # A legacy key is a JWT, which PostgREST reads from there; the new ones are not, and belong in apikey only.
            headers["Authorization"] = f"Bearer {key}"
        try:
            async with self.session.request(
                method,
                url,
                json=body,
                headers=headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=self.timeout),
            ) as answer:
                data = await whole(answer, at_most=MAX_ANSWER_BYTES)
                status = answer.status
        except (ClientError, TimeoutError, OSError, AnswerTooLarge) as error:
            raise SupabaseUnavailable(type(error).__name__) from None
        return _read(status, data)


def _read(status: int, data: bytes) -> Any:
    if status >= 500 or 300 <= status < 400:
        raise SupabaseUnavailable(f"status {status}")
    try:
        value = json.loads(data) if data else None
    except ValueError:
        raise SupabaseUnavailable(f"status {status}, no JSON") from None
    if status >= 400:
        members = value if isinstance(value, dict) else {}
        raise SupabaseRefusal(status, str(members.get("error_code") or members.get("code") or ""))
    return value
