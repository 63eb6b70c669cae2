"""Whom a server asks about permissions: the application's own endpoint, or a SQL function as the user.

Both get `{"version": 1, "server": …, "checks": […]}` or its checks, and answer one decision for each check in order:
`{"allowed": true}`, or `{"allowed": false}` with `"code": "APPROVAL_REQUIRED"` where somebody could still allow it.
Whatever else comes is no answer, and no answer is a no.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout

from rowgate.download import AnswerTooLarge, whole
from rowgate.errors import AuthorizerFailed
from rowgate.supabase.api import SupabaseApi, SupabaseRefusal, SupabaseUnavailable
from rowgate_plugin.contract import CONTEXT_HEADER

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.upstream.context import ContextIssuer

Verdict = Literal["allowed", "denied", "approval"]
METHOD = "rowgate/authorize"
"""`method` of the context that an endpoint receives."""
MAX_ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the caller has a permission: for a list without, for a call with the arguments."""

    permission: str
    kind: str
    name: str
    """Of the capability, as clients know it."""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    def message(self) -> dict[str, Any]:
        asked = {"permission": self.permission, "kind": self.kind, "name": self.name}
        return asked if self.arguments is None else {**asked, "arguments": self.arguments}


class Authorizer(Protocol):
    async def ask(self, principal: Principal, checks: Sequence[Check]) -> list[Verdict]:
        """One verdict for each check. Raises AuthorizerFailed."""


@dataclass(frozen=True, slots=True)
class HttpAuthorizer:
    """The request is signed as those to plugins are; its audience is `SERVER.authorizer`, which no plugin can be."""

    session: ClientSession = field(repr=False)
    url: str
    context: ContextIssuer = field(repr=False)
    server: str
    timeout: float

    async def ask(self, principal: Principal, checks: Sequence[Check]) -> list[Verdict]:
        message = {"version": 1, "server": self.server, "checks": [check.message() for check in checks]}
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        return verdicts(await self._post(body, self._headers(principal, body)), len(checks))

    def _headers(self, principal: Principal, body: bytes) -> dict[str, str]:
        request_id = secrets.token_hex(16)
        signed = self.context.sign(
            principal,
            plugin=f"{self.server}.authorizer",
            server=self.server,
            method=METHOD,
            name=None,
            request_id=request_id,
            trace_id=None,
            body=body,
            credential=None,
        )
        return {"Content-Type": "application/json", "X-Request-Id": request_id, CONTEXT_HEADER: signed}

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> Any:
        try:
            async with self.session.post(
                self.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=self.timeout),
            ) as answer:
                data = await whole(answer, at_most=MAX_ANSWER_BYTES)
                if answer.status != 200:
                    raise AuthorizerFailed(reason="authorizer_status")
        except AnswerTooLarge:
            raise AuthorizerFailed(reason="authorizer_answer") from None
        except TimeoutError:
            raise AuthorizerFailed(reason="authorizer_timeout") from None
        except (ClientError, OSError):
            raise AuthorizerFailed(reason="authorizer_unreachable") from None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise AuthorizerFailed(reason="authorizer_answer") from None


@dataclass(frozen=True, slots=True)
class FunctionAuthorizer:
    """The function sees what the user's own policies let it see: nothing passes Row Level Security here."""

    api: SupabaseApi
    function: str
    timeout: float = 5.0

    async def ask(self, principal: Principal, checks: Sequence[Check]) -> list[Verdict]:
        if not principal.credential:
            raise AuthorizerFailed(reason="authorizer_no_user")
        arguments = {"checks": [check.message() for check in checks]}
        try:
            async with asyncio.timeout(self.timeout):
                answer = await self.api.rpc(self.function, arguments, token=principal.credential)
        except TimeoutError:
            raise AuthorizerFailed(reason="authorizer_timeout") from None
        except SupabaseUnavailable:
            raise AuthorizerFailed(reason="authorizer_unreachable") from None
        except SupabaseRefusal:
            raise AuthorizerFailed(reason="authorizer_status") from None
        return verdicts(answer, len(checks))


def verdicts(answer: Any, count: int) -> list[Verdict]:
    """Raises AuthorizerFailed unless the answer is one decision for each check."""
    decisions = answer.get("decisions") if isinstance(answer, dict) else answer
    if not isinstance(decisions, list) or len(decisions) != count:
        raise AuthorizerFailed(reason="authorizer_answer")
    return [_verdict(decision) for decision in decisions]


def _verdict(decision: Any) -> Verdict:
    allowed = decision.get("allowed") if isinstance(decision, dict) else None
    if allowed is True:
        return "allowed"
    if allowed is not False:
        raise AuthorizerFailed(reason="authorizer_answer")
    return "approval" if decision.get("code") == "APPROVAL_REQUIRED" else "denied"
