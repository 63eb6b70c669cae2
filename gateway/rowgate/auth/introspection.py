"""Opaque tokens: their issuer is asked about each of them (RFC 7662)."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus

from aiohttp import ClientError, ClientSession, ClientTimeout

from rowgate.auth.answers import Answers
from rowgate.auth.claims import VerifiedToken, token_of
from rowgate.auth.issuer import IntrospectionEndpoint, TrustedIssuer
from rowgate.auth.refusal import Reason, refused
from rowgate.download import whole
from rowgate.errors import IdentityUnavailable, TokenExpired, TokenRefused
from rowgate.observe.events import Emit, IdentityAsked, TokenLookup, discard

MAX_ANSWER_BYTES: Final = 256 * 1024
_RETRY: Final = {"Retry-After": "5"}


class Introspector:
    """Stands where the verifier of signed tokens stands. `clock` is wall-clock time: tokens end by it."""

    def __init__(
        self,
        issuer: TrustedIssuer,
        endpoint: IntrospectionEndpoint,
        session: ClientSession,
        *,
        clock: Callable[[], float] = time.time,
        emit: Emit = discard,
        timeout: float = 5.0,
    ) -> None:
        self._issuer = issuer
        self._endpoint = endpoint
        self._session = session
        self._clock = clock
        self._emit = emit
        self._timeout = ClientTimeout(total=timeout)
        self._answers: Answers[bytes, VerifiedToken | Reason] = Answers(
            lambda answer: isinstance(answer, VerifiedToken), clock=clock
        )

    async def verify(self, token: str) -> VerifiedToken:
        """Raises TokenRefused, TokenExpired or IdentityUnavailable."""
        key = sha256(token.encode("ascii")).digest()
        endpoint = self._endpoint
        answer = self._answers.recall(key, endpoint.remembered, endpoint.refusals_remembered)
        self._emit(TokenLookup(hit=answer is not None))
        if answer is None:
            answer = await self._answers.ask(key, lambda: self._ask(token))
        if not isinstance(answer, VerifiedToken):
            raise refused(answer)
        self._check_time(answer)
        return answer

    async def close(self) -> None:
        await self._answers.close()

    async def _ask(self, token: str) -> VerifiedToken | Reason:
        try:
            answer = _answer(await self._post(token))
        except (ClientError, TimeoutError, OSError, ValueError, RecursionError):
            self._emit(IdentityAsked("introspection", "failed"))
            raise IdentityUnavailable(reason="introspection", headers=_RETRY) from None
        try:
            verified = self._verified(answer)
        except (TokenRefused, TokenExpired) as error:
            self._emit(IdentityAsked("introspection", "refused"))
            return _reason(error)
        self._emit(IdentityAsked("introspection", "ok"))
        return verified

    def _verified(self, answer: dict[str, Any]) -> VerifiedToken:
        if answer.pop("active") is not True:
            raise refused("inactive")
        # The issuer need not name itself: it was asked at its own endpoint. Whatever else it names is not its token.
        answer.setdefault("iss", self._issuer.issuer)
        kind = answer.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() not in ("bearer", "access_token") or "cnf" in answer:
            # Bound to a key of its holder (RFC 9449, RFC 8705), which nobody has shown here.
            raise refused("token_type")
        verified = token_of(answer, self._issuer.issuer, self._issuer.scope_claim)
        self._check_time(verified)
        return verified

    def _check_time(self, verified: VerifiedToken) -> None:
        now = self._clock()
        if now >= verified.expires_at:
            raise refused("expired")
        if now + self._issuer.leeway < verified.not_before:
            raise refused("not_yet_valid")

    async def _post(self, token: str) -> bytes:
        endpoint = self._endpoint
        body = {"token": token, "token_type_hint": "access_token"}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if endpoint.in_header:
            headers["Authorization"] = basic(endpoint.client_id, endpoint.client_secret)
        else:
            body |= {"client_id": endpoint.client_id, "client_secret": endpoint.client_secret}
        request = self._session.post(
            endpoint.url,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=self._timeout,
            raise_for_status=False,
        )
        async with request as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            return await whole(response, at_most=MAX_ANSWER_BYTES)


def basic(name: str, secret: str) -> str:
    """RFC 6749 §2.3.1: both parts are form-urlencoded before they are joined."""
    joined = f"{quote_plus(name)}:{quote_plus(secret)}"
    return f"Basic {b64encode(joined.encode('ascii')).decode('ascii')}"


def _answer(data: bytes) -> dict[str, Any]:
    answer = json.loads(data)
    if not isinstance(answer, dict) or not isinstance(answer.get("active"), bool):
        raise ValueError("no introspection response")
    return answer


def _reason(error: TokenRefused | TokenExpired) -> Reason:
    # `refused` made it, so the word is one of the set.
    reason: Any = error.reason
    return reason  # type: ignore[no-any-return]
