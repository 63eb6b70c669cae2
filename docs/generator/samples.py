"""One of each event, so that metrics and log lines are shown as the code writes them."""

from __future__ import annotations

import json
from pathlib import Path

from rowgate.config.load import check_text
from rowgate.config.models import Config, Log
from rowgate.errors import CredentialsMissing, MalformedRequest, PluginTimeout
from rowgate.observe.audit import audit_subscriber
from rowgate.observe.events import (
    CapabilityQuarantined,
    CatalogLoaded,
    Defect,
    Event,
    GatewayChanged,
    IdentityAsked,
    KeysRefreshed,
    LimitsDecided,
    LimitStoreFailed,
    PluginOutput,
    PluginProcessChanged,
    PolicyAsked,
    RequestFinished,
    RequestMalformed,
    ResultTruncated,
    SecurityNotice,
    StreamChanged,
    TokenLookup,
    UpstreamFinished,
)
from rowgate.observe.lines import LineWriter
from rowgate.observe.log import log_subscriber
from rowgate.observe.metrics import Metrics
from rowgate.observe.notices import advertised_scope_refused, security_notices

CALLED = RequestFinished(
    request_id="5f0c9d0e6a1b4c7f8e2d3a4b5c6d7e8f",
    route="mcp",
    http_method="POST",
    status=200,
    outcome="ok",
    duration=0.0421,
    address="203.0.113.7",
    server="main",
    method="tools/call",
    name="search_notes",
    capability="search_notes",
    plugin="notes",
    era="modern",
    version="2026-07-28",
    kind="user",
    subject="a11ce000-0000-4000-8000-000000000001",
    client_id="0d9f3a52-6c1e-4d5b-9a70-2f8f6f1f7c11",
    actor="agent-7",
    streamed=True,
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
)
REFUSED = RequestFinished(
    request_id="0c1d2e3f405162738495a6b7c8d9eafb",
    route="mcp",
    http_method="POST",
    status=CredentialsMissing.status,
    outcome="unauthenticated",
    duration=0.0006,
    address="203.0.113.7",
    server="main",
    code=CredentialsMissing.code,
    reason="missing",
)
EVENTS: tuple[Event, ...] = (
    CALLED,
    REFUSED,
    RequestMalformed(MalformedRequest.code, "203.0.113.7"),
    TokenLookup(hit=True),
    IdentityAsked("session", "failed"),
    KeysRefreshed("https://acme.supabase.co/auth/v1", "ok", keys=2),
    CatalogLoaded("notes", "ok", capabilities=7),
    CapabilityQuarantined("notes", "draft_note", "no_hints", "server main: it needs a title and hints"),
    UpstreamFinished("notes", "tools/call", 0, 30.0, PluginTimeout.code),
    PolicyAsked("main", "authorizer", "authorizer_timeout", 5.0),
    PluginProcessChanged("tickets", "ready", 4711),
    PluginProcessChanged("tickets", "exited", 4711, "signal", "SIGKILL"),
    PluginOutput("tickets", "connected to the ticket system", "info"),
    PluginOutput("tickets", "Lines were left out.", "warning", dropped=412),
    ResultTruncated("main", "search_notes", 212_004),
    StreamChanged("main", 1),
    LimitsDecided(("address", "subject"), refused="subject"),
    LimitStoreFailed("allowed", "ConnectionError"),
    GatewayChanged("serving", "https://mcp.example.com"),
    SecurityNotice("context_key_ephemeral", "gateway.context.signing_key is not set."),
    Defect("request", RuntimeError("what nobody expected"), CALLED.request_id),
)

_RISKY = """
version: 1
gateway: {public_url: "https://mcp.example.com"}
supabase: {url: "https://acme.supabase.co", jwt_secret: {env: SECRET}, publishable_key: {env: SECRET}}
plugins:
  notes: {url: "http://notes:9000/mcp", credential: user_token, privileged: true}
  weather: {url: "http://127.0.0.1:9001/mcp"}
servers:
  status:
    path: /status
    auth: {mode: public, acknowledge: Anyone can call this server without signing in.}
    limits: {address: 60/minute}
    capabilities: [{from: weather, tools: [forecast]}]
  main:
    path: /mcp
    auth: {mode: oauth, session: {check: 30s, on_error: accept}}
    capabilities: [{from: notes, tools: [get_note], require: {roles: [editor]}}]
"""


def risky() -> Config:
    """A configuration that every security notice is about."""
    config = check_text(_RISKY, {"SECRET": "0" * 32}, Path()).config
    assert config is not None, "the sample is valid"
    return config


def notices() -> dict[str, str]:
    """Each reason with what the gateway says of it."""
    every = (*security_notices(risky()), advertised_scope_refused("main", "https://login.example.com", ["notes:read"]))
    return {notice.reason: notice.detail for notice in every}


def metrics() -> Metrics:
    """Metrics in which every family has a series."""
    counted = Metrics("0.1.0", clock=_clock)
    for event in EVENTS:
        counted.emit(event)
    counted.lines_lost(1)
    counted.event_lost("acme_audit.siem:send")
    return counted


def lines(event: Event) -> list[str]:
    """The lines of log and audit that an event becomes, at level debug."""
    written = _Lines()
    writer = LineWriter(written, interval=0)
    log = log_subscriber(Log(level="debug"), writer, clock=_clock)
    audit = audit_subscriber(Log(level="debug"), writer, privileged={"notes"}, clock=_clock)
    for subscriber in (log, audit):
        subscriber(event)
    return [line for line in bytes(written.data).decode().splitlines() if json.loads(line)]


class _Lines:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview, /) -> int:
        self.data += data
        return len(data)


def _clock() -> float:
    return 1_798_800_000.25
