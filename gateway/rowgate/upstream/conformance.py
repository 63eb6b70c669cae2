"""Whether a plugin believes the gateway's context and nothing else: good requests it must answer, bad ones refuse.

Nothing here changes anything in a plugin that verifies. In one that does not, the only tool that is called is one
that no plugin has.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import Key, OctKey, OKPKey
from multidict import CIMultiDict

from rowgate.errors import GatewayError, PluginUnreachable
from rowgate.protocol import ijson
from rowgate.upstream.leg import Leg
from rowgate.upstream.request import own_message, protocol_headers
from rowgate_plugin.contract import CONTEXT_HEADER, CONTEXT_VERSION, MAX_LIFETIME, ContextSigner, digest

TIMEOUT = 10.0
MAX_ANSWER = 1024 * 1024
DISCOVER = "server/discover"
NO_SUCH_TOOL = "rowgate-check-no-such-tool"
_LONG_AGO = 3600
_SOON = 600


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One request. `context` None: none is sent."""

    name: str
    context: str | None = field(repr=False)
    body: bytes = field(repr=False)
    authorization: str | None = field(default=None, repr=False)
    method: str = DISCOVER
    twice: bool = False
    """Whether the header is sent two times."""


class Examiner:
    """Signs as a gateway would, and as nobody should."""

    def __init__(
        self, key: Key, *, audience: str, issuer: str, clock: Callable[[], float] = time.time, lifetime: int = 60
    ) -> None:
        self._key = key
        self._audience = audience
        self._issuer = issuer
        self._clock = clock
        self._lifetime = lifetime

    def accepted(self) -> list[Trial]:
        credential = _credential()
        return [
            self._trial("answers the gateway's own question"),
            self._trial("answers a user's question", kind="user", sub="rowgate-check"),
            self._trial("answers a user with a credential", kind="user", sub="rowgate-check", credential=credential),
        ]

    def refused(self) -> list[Trial]:
        return [*self._unsigned(), *self._forged(), *self._mistimed(), *self._misdirected(), *self._mismatched()]

    def replayed(self) -> Trial:
        return self._trial("refuses a context that was used before")

    def _unsigned(self) -> list[Trial]:
        good = self._trial("")
        head, payload, signature = str(good.context).split(".")
        changed = self._changed(payload, sub="mallory")
        unsigned = _segment({"alg": "none", "kid": self._key.kid, "typ": "rowgate-context+jwt"})
        return [
            Trial("refuses a request without a context", None, good.body),
            Trial("refuses a context that is no token", "rowgate", good.body),
            Trial("refuses two contexts at once", good.context, good.body, twice=True),
            Trial("refuses an unsigned context (alg none)", f"{unsigned}.{payload}.", good.body),
            Trial("refuses a context without its signature", f"{head}.{payload}.", good.body),
            Trial("refuses a changed subject", f"{head}.{changed}.{signature}", good.body),
        ]

    def _forged(self) -> list[Trial]:
        stranger = _another(self._key)
        named = self._resigned("refuses a foreign signature under the trusted key's name", by=stranger)
        foreign = Examiner(stranger, audience=self._audience, issuer=self._issuer, clock=self._clock)
        trials = [foreign._trial("refuses a context that a foreign key signed"), named]
        if isinstance(self._key, OKPKey):
            public = OctKey.import_key(_public_bytes(self._key))
            trials.append(
                self._resigned("refuses the public key used as a shared secret", by=public, header={"alg": "HS256"})
            )
        return [
            *trials,
            self._resigned("refuses a token of another type", header={"typ": "JWT"}),
            self._resigned("refuses a context of a later version", claims={"ver": CONTEXT_VERSION + 1}),
        ]

    def _mistimed(self) -> list[Trial]:
        now = int(self._clock())
        past, future = now - _LONG_AGO, now + _SOON
        return [
            self._resigned("refuses a stale context", claims={"iat": past, "exp": past + 60}),
            self._resigned("refuses a context that is not yet valid", claims={"iat": future, "exp": future + 60}),
            self._resigned("refuses a context with too long a life", claims={"exp": now + MAX_LIFETIME + 60}),
        ]

    def _misdirected(self) -> list[Trial]:
        call = own_message("tools/call", {"name": NO_SUCH_TOOL, "arguments": {}})
        return [
            self._resigned("refuses a context for another plugin", claims={"aud": f"not-{self._audience}"}),
            self._resigned(
                "refuses a call in the gateway's own name",
                claims={"method": "tools/call", "name": NO_SUCH_TOOL},
                body=ijson.dumps(call),
                method="tools/call",
            ),
            self._resigned("refuses the gateway with a subject", claims={"sub": "rowgate-check"}),
            self._resigned("refuses a user without a subject", claims={"kind": "user"}),
        ]

    def _mismatched(self) -> list[Trial]:
        user: dict[str, Any] = {"kind": "user", "sub": "rowgate-check"}
        tampered = self._trial("refuses a tampered body", **user)
        bound = self._trial("refuses another credential than the context names", **user, credential=_credential())
        bare = self._trial("refuses a credential that the context does not name", **user)
        lost = self._trial("refuses a request whose credential is missing", **user, credential=_credential())
        other = ijson.dumps(own_message(DISCOVER, {"_": "tampered"}))
        return [
            Trial(tampered.name, tampered.context, other),
            Trial(bound.name, bound.context, bound.body, f"Bearer {_credential()}"),
            Trial(bare.name, bare.context, bare.body, f"Bearer {_credential()}"),
            Trial(lost.name, lost.context, lost.body),
        ]

    def _trial(self, name: str, *, credential: str | None = None, **members: Any) -> Trial:
        body = ijson.dumps(own_message(DISCOVER, {}))
        signer = ContextSigner(self._key, issuer=self._issuer, lifetime=self._lifetime, clock=self._clock)
        context = signer.sign(
            **{"kind": "gateway", **members},
            audience=self._audience,
            body=body,
            credential=credential,
            server="*",
            method=DISCOVER,
            request_id=secrets.token_hex(16),
        )
        return Trial(name, context, body, None if credential is None else f"Bearer {credential}")

    def _resigned(
        self,
        name: str,
        *,
        by: Key | None = None,
        header: dict[str, Any] | None = None,
        claims: dict[str, Any] | None = None,
        body: bytes | None = None,
        method: str = DISCOVER,
    ) -> Trial:
        """A context that is as it should be, but for what is given here."""
        good = self._trial(name)
        body = body or good.body
        head, payload, _ = str(good.context).split(".")
        signing_input = ".".join(
            (self._changed(head, **(header or {})), self._changed(payload, digest=digest(body), **(claims or {})))
        )
        signature = _encoded(_signature(by or self._key, signing_input.encode()))
        return Trial(name, f"{signing_input}.{signature}", body, method=method)

    def _changed(self, segment: str, **members: Any) -> str:
        return _segment(json.loads(_decoded(segment)) | members)


async def examine(examiner: Examiner, leg: Leg) -> AsyncIterator[Check]:
    """Ends early when the plugin is not there, or refuses everything: its refusals would prove nothing then."""
    answered = False
    for trial in examiner.accepted():
        check = await _answers(leg, trial)
        answered = answered or check.ok
        yield check
        if check.detail.startswith(PluginUnreachable.code):
            return
    if not answered:
        yield Check("refuses what it should", False, "not tried: it answers nothing, so a refusal would prove nothing")
        return
    for trial in examiner.refused():
        yield await _refuses(leg, trial)
    again = examiner.replayed()
    first = await _answers(leg, again)
    yield await _refuses(leg, again) if first.ok else Check(again.name, False, f"its first use: {first.detail}")


async def _answers(leg: Leg, trial: Trial) -> Check:
    try:
        status, data = await _ask(leg, trial)
    except GatewayError as error:
        return Check(trial.name, False, f"{error.code} {error.reason}: {error.message}")
    if status == 401:
        return Check(trial.name, False, f"refused it: {_reason(data)}")
    # An error of JSON-RPC is an answer too: who answers so has let the request in.
    ok = status in (200, 400, 404) and b'"jsonrpc"' in data
    return Check(trial.name, ok, "" if ok else f"status {status}, which is no answer of MCP")


async def _refuses(leg: Leg, trial: Trial) -> Check:
    try:
        status, data = await _ask(leg, trial)
    except GatewayError as error:
        return Check(trial.name, False, f"{error.code} {error.reason}: {error.message}")
    if status == 401:
        return Check(trial.name, True, _reason(data))
    return Check(trial.name, False, "answered it" if status == 200 else f"status {status} instead of 401")


async def _ask(leg: Leg, trial: Trial) -> tuple[int, bytes]:
    name = NO_SUCH_TOOL if trial.method == "tools/call" else None
    headers = CIMultiDict(protocol_headers(trial.method, name))
    if trial.context is not None:
        headers[CONTEXT_HEADER] = trial.context
        if trial.twice:
            headers.add(CONTEXT_HEADER, trial.context)
    if trial.authorization is not None:
        headers["Authorization"] = trial.authorization
    reply = await leg.post(headers, trial.body, timeout=TIMEOUT)
    try:
        data = bytearray()
        async for chunk in reply.chunks():
            data += chunk
            if len(data) > MAX_ANSWER or b'"jsonrpc"' in data:
                break
        return reply.status, bytes(data)
    finally:
        reply.release()


def _reason(data: bytes) -> str:
    """The plugin's word for it, if it is one."""
    try:
        reason = json.loads(data).get("reason")
    except (ValueError, AttributeError):
        return ""
    return reason if isinstance(reason, str) and reason.isidentifier() and len(reason) < 40 else ""


def _credential() -> str:
    return f"rowgate-check-{secrets.token_urlsafe(16)}"


def _another(key: Key) -> Key:
    """A key of the same type that nobody trusts."""
    if isinstance(key, OctKey):
        return OctKey.generate_key(256, auto_kid=True)
    return OKPKey.generate_key("Ed25519", auto_kid=True)


def _signature(key: Key, data: bytes) -> bytes:
    if isinstance(key, OctKey):
        return hmac.digest(key.raw_value, data, "sha256")
    private = key.private_key
    assert isinstance(private, Ed25519PrivateKey), "only keys that sign contexts get here"
    return private.sign(data)


def _public_bytes(key: OKPKey) -> bytes:
    private = key.private_key
    assert isinstance(private, Ed25519PrivateKey), "only keys that sign contexts get here"
    return private.public_key().public_bytes_raw()


def _segment(members: dict[str, Any]) -> str:
    return _encoded(json.dumps(members, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
