"""What is learnt about one request while it is served, and the event that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS

from rowgate.auth.principal import Principal
from rowgate.errors import (
    AuthenticationError,
    ClientNotAllowed,
    GatewayError,
    HostNotAllowed,
    LimitReached,
    OriginNotAllowed,
    PolicyError,
    UnknownCapability,
    UpstreamError,
)
from rowgate.observe.events import Outcome, RequestFinished
from rowgate.protocol.call import Call, Era

KNOWN_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS
"""A notification may have any method: it is accepted and dropped, and its name is the client's to invent."""


@dataclass(slots=True)
class Record:
    """Mutable on purpose: rooms add what they decide, so that a refusal is recorded with all that was known by then."""

    request_id: str
    http_method: str
    address: str
    started: float
    route: str = "other"
    server: str | None = None
    principal: Principal | None = None
    call: Call | None = None
    era: Era | None = None
    rpc_id: str | int | None = None
    parsed: bool = False
    """Whether a JSON-RPC message was read, so that an error can answer it as one."""
    capability: str | None = None
    plugin: str | None = None
    definition: Mapping[str, Any] | None = field(default=None, repr=False)
    """Of the capability, once resolved: a refusal must not promise what it does not hold."""
    trace_id: str | None = None
    outcome: Outcome = "ok"
    status: int = 0
    code: str | None = None
    reason: str | None = None
    streamed: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    """What every answer to this request carries: its id and, for a browser, CORS."""

    def refused(self, error: GatewayError) -> None:
        self.outcome = outcome_of(error)
        self.code = error.code
        self.reason = error.reason or None

    def finished(self, now: float) -> RequestFinished:
        call, principal = self.call, self.principal
        return RequestFinished(
            request_id=self.request_id,
            route=self.route,
            http_method=self.http_method,
            status=self.status,
            outcome=self.outcome,
            duration=now - self.started,
            address=self.address,
            server=self.server,
            method=call.method if call and call.method in KNOWN_METHODS else None,
            name=call.name if call else None,
            capability=self.capability,
            plugin=self.plugin,
            era=self.era,
            version=call.version if call else None,
            kind=principal.kind if principal else None,
            subject=principal.subject if principal else None,
            client_id=principal.client_id if principal else None,
            actor=principal.actors[0].subject if principal and principal.actors else None,
            code=self.code,
            reason=self.reason,
            streamed=self.streamed,
            trace_id=self.trace_id,
        )


def outcome_of(error: GatewayError) -> Outcome:
    if isinstance(error, AuthenticationError):
        return "unauthenticated"
    if isinstance(error, ClientNotAllowed | PolicyError | UnknownCapability | HostNotAllowed | OriginNotAllowed):
        return "denied"
    if isinstance(error, LimitReached):
        return "limited"
    if isinstance(error, UpstreamError):
        return "upstream_error"
    return "protocol_error"
