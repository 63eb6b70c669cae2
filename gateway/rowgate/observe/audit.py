"""The audit stream: one line for each decision about an MCP call, refusals included."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from rowgate.observe.events import Emit, Event, Outcome, RequestFinished, Selective
from rowgate.observe.fields import ClientFields, client_text
from rowgate.observe.lines import LineWriter
from rowgate.observe.log import Level, LogSettings, RequestLines

Verdict = Literal["success", "denied", "error", "cancelled"]

VERDICTS: MappingProxyType[Outcome, Verdict] = MappingProxyType(
    {
        "ok": "success",
        "input_required": "success",
        "denied": "denied",
        "limited": "denied",
        "unauthenticated": "denied",
        "tool_error": "error",
        "protocol_error": "error",
        "upstream_error": "error",
        "cancelled": "cancelled",
    }
)


@dataclass(frozen=True, slots=True)
class _Unfiltered:
    """`log.level` says how much an operator wants to read; what happened is recorded regardless."""

    format: Literal["json", "console"]
    level: Level = "info"


def audit_subscriber(
    settings: LogSettings,
    writer: LineWriter,
    *,
    privileged: Collection[str] = (),
    client_fields: ClientFields | None = None,
    clock: Callable[[], float] = time.time,
) -> Emit:
    """Who asked for what, and what was decided. `writer` may be the log's own: the lines say `"stream":"audit"`.

    `privileged`: plugins that pass Row Level Security, whose calls are marked."""
    made = client_fields or ClientFields()
    lines = RequestLines(_Unfiltered(settings.format), writer, clock=clock, stream="audit", logger="rowgate.audit")

    def emit(event: Event) -> None:
        assert isinstance(event, RequestFinished)
        if event.route != "mcp" or event.http_method == "OPTIONS":
            return
        fields = {**made(event), "outcome": VERDICTS[event.outcome], "address": event.address}
        optional = {
            "server": event.server,
            "capability": event.capability and client_text(event.capability),
            "kind": event.kind,
            "code": event.code,
            "reason": event.reason,
            "trace_id": event.trace_id,
            "privileged": event.plugin in privileged or None,
        }
        fields |= {key: value for key, value in optional.items() if value is not None}
        lines.write("info", "mcp_request", fields)

    return Selective(emit, frozenset({RequestFinished}))
