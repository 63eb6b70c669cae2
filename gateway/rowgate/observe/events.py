"""The union of everything that happens.

Emitting is synchronous and never raises into the request: a subscriber that fails is counted and logged.
Nothing here carries a token, a header bag, an argument or a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rowgate.value import value

Outcome = Literal[
    "ok",
    "tool_error",
    "protocol_error",
    "input_required",
    "denied",
    "limited",
    "unauthenticated",
    "upstream_error",
    "cancelled",
]


@value
class RequestFinished:
    """One HTTP request on the public listener, whatever became of it."""

    request_id: str
    route: str
    """Bounded: `mcp`, `metadata`, `other`."""
    http_method: str
    status: int
    """0 when the client left before an answer began."""
    outcome: Outcome
    duration: float
    """Seconds, to the last byte of the answer."""
    address: str
    server: str | None = None
    method: str | None = None
    """The JSON-RPC method, only if the protocol knows it."""
    name: str | None = None
    """Tool, prompt or resource as the client named it: unbounded, so for logs and not for labels."""
    capability: str | None = None
    """The catalog's own name for the target, once resolved: bounded."""
    plugin: str | None = None
    era: str | None = None
    version: str | None = None
    kind: str | None = None
    subject: str | None = None
    client_id: str | None = None
    actor: str | None = None
    code: str | None = None
    reason: str | None = None
    streamed: bool = False
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestMalformed:
    """The HTTP parser refused the bytes, so there was no request."""

    code: str
    address: str


@dataclass(frozen=True, slots=True)
class TokenLookup:
    """A verified-token cache was asked."""

    hit: bool


@dataclass(frozen=True, slots=True)
class IdentityAsked:
    """Somebody was asked over the network about a caller."""

    source: Literal["introspection", "lookup", "session"]
    outcome: Literal["ok", "refused", "failed", "accepted"]
    """`accepted`: there was no answer, and the configuration lets the caller in all the same."""


@dataclass(frozen=True, slots=True)
class KeysRefreshed:
    issuer: str
    outcome: Literal["ok", "empty", "failed"]
    keys: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CatalogLoaded:
    plugin: str
    outcome: Literal["ok", "partial", "failed"]
    capabilities: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CapabilityQuarantined:
    """A capability that is declared but not served, or offered but not valid."""

    plugin: str
    capability: str
    reason: str
    """Bounded: `not_offered`, `invalid`, `collision`, `no_hints`, `hints_defaulted` (a warning: it is served)."""
    detail: str = ""


@value
class UpstreamFinished:
    """One exchange with a plugin."""

    plugin: str
    method: str
    status: int
    """0 when no answer came."""
    duration: float
    code: str | None = None
    """The RG5xx of the failure, if it failed."""


@dataclass(frozen=True, slots=True)
class PolicyAsked:
    """The application was asked what a caller may do: its authorizer, or the function that knows a user's scopes."""

    server: str
    asked: Literal["authorizer", "scopes"]
    outcome: str
    """Bounded: `ok`, or the reason of the failure."""
    duration: float


ExitCause = Literal["ok", "status", "signal", "not_started"]


@dataclass(frozen=True, slots=True)
class PluginProcessChanged:
    """A plugin that the gateway starts: `started`, `ready` when it answered, `exited` by itself, `stopped` by us."""

    plugin: str
    state: Literal["started", "ready", "exited", "stopped"]
    pid: int | None = None
    cause: ExitCause | None = None
    """How it ended."""
    detail: str = ""


OutputLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class PluginOutput:
    """A line that such a plugin wrote. The text is the plugin's."""

    plugin: str
    text: str = field(repr=False)
    level: OutputLevel
    request_id: str | None = None
    dropped: int = 0
    """Lines before this one that were too many."""


@dataclass(frozen=True, slots=True)
class ResultTruncated:
    server: str
    capability: str
    characters: int


@dataclass(frozen=True, slots=True)
class StreamChanged:
    """An event stream towards a client opened (+1) or closed (-1)."""

    server: str
    change: Literal[1, -1]


Limit = Literal[
    "address",
    "subject",
    "lists",
    "reads",
    "capability",
    "concurrency",
    "streams",
    "plugin",
    "failed_authentications",
]


@dataclass(frozen=True, slots=True)
class LimitsDecided:
    """One request was counted: on all of `limits`, or on none because one of them was reached."""

    limits: tuple[Limit, ...]
    refused: Limit | None = None
    """The one that was reached."""


@dataclass(frozen=True, slots=True)
class LimitStoreFailed:
    """The store of counters did not answer, so a request passed uncounted or was refused."""

    decision: Literal["allowed", "refused"]
    detail: str
    """The type of the error, or `paused`: the store is not asked again at once."""
    loud: bool = True
    """Whether the log should say it again: once in a while during an outage."""


@dataclass(frozen=True, slots=True)
class GatewayChanged:
    """The process itself: `starting`, `serving`, `draining`, `stopped`."""

    state: Literal["starting", "serving", "draining", "stopped"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SecurityNotice:
    """Something an operator should know about a setting in force: printed at start and counted."""

    reason: str
    """Bounded: `context_key_ephemeral`, `user_token_over_clear_http`, `audience_unbound`, `public_server`,
    `shared_secret`, `session_unchecked_on_error`."""
    detail: str


@dataclass(frozen=True, slots=True)
class Defect:
    """An exception nobody expected. The traceback goes to the log, never to a client."""

    where: str
    error: BaseException
    request_id: str | None = None


Event = (
    RequestFinished
    | RequestMalformed
    | TokenLookup
    | IdentityAsked
    | KeysRefreshed
    | CatalogLoaded
    | CapabilityQuarantined
    | UpstreamFinished
    | PolicyAsked
    | PluginProcessChanged
    | PluginOutput
    | ResultTruncated
    | StreamChanged
    | LimitsDecided
    | LimitStoreFailed
    | GatewayChanged
    | SecurityNotice
    | Defect
)
Emit = Callable[[Event], None]


def discard(event: Event) -> None:
    """The emitter of whoever does not listen."""


@dataclass(frozen=True, slots=True)
class Selective:
    """A subscriber to some kinds of events, which is not even called for others: most happen at every request."""

    emit: Emit
    kinds: frozenset[type]

    def __call__(self, event: Event) -> None:
        if type(event) in self.kinds:
            self.emit(event)


def fan_out(*subscribers: Emit) -> Emit:
    """One emitter over several. A failing subscriber does not hide the event from the others."""
    by_kind: dict[type, tuple[Emit, ...]] = {}

    def subscribed(kind: type) -> tuple[Emit, ...]:
        hearing = [it for it in subscribers if not isinstance(it, Selective) or kind in it.kinds]
        return tuple(it.emit if isinstance(it, Selective) else it for it in hearing)

    def emit(event: Event) -> None:
        hearing = by_kind.get(type(event))
        if hearing is None:
            hearing = by_kind[type(event)] = subscribed(type(event))
        for subscriber in hearing:
            try:
                subscriber(event)
            except Exception as error:
                if not isinstance(event, Defect):
                    emit(Defect(where=f"subscriber {subscriber!r}", error=error))

    return emit
