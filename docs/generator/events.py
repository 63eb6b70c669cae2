"""`logs.md`: every line of log and audit, as the subscribers write it."""

from __future__ import annotations

import json
from typing import Any

from generator import samples
from rowgate.observe.events import (
    CapabilityQuarantined,
    CatalogLoaded,
    Defect,
    Event,
    GatewayChanged,
    IdentityAsked,
    KeysRefreshed,
    LimitStoreFailed,
    PluginOutput,
    PluginProcessChanged,
    PolicyAsked,
    RequestFinished,
    RequestMalformed,
    ResultTruncated,
    SecurityNotice,
    UpstreamFinished,
)

MEANINGS: dict[type[Event], str] = {
    RequestFinished: "One HTTP request on the public listener, whatever became of it. A warning when the status is 500 "
    "or more.",
    RequestMalformed: "Bytes that are no HTTP request; nothing of them is quoted.",
    IdentityAsked: "An issuer, the key lookup or Supabase Auth was asked about a caller. A warning when there was no "
    "answer; `accepted` when the caller was let in all the same.",
    KeysRefreshed: "An issuer's keys were fetched. A warning when that failed or there were none.",
    CatalogLoaded: "A plugin's lists were asked for. Info when they changed, debug when not, a warning when a list "
    "could not be had.",
    CapabilityQuarantined: "A capability that is declared and not served, or served with assumed hints. The same "
    "finding within an hour is a debug line.",
    UpstreamFinished: "One exchange with a plugin; `status` 0 means that no answer came.",
    PolicyAsked: "An authorizer, or the function of scopes, was asked. A warning when it gave no answer.",
    PluginProcessChanged: "The process of a plugin with a `command`: `started`, `ready` when it answered, `exited` by "
    "itself (a warning), `stopped` by the gateway.",
    PluginOutput: "A line that such a plugin wrote, cut to 4,096 characters and searched for credentials. JSON lines "
    "of the plugin library keep their level. Of more than 100 in a second the rest is counted under `dropped`.",
    ResultTruncated: "A tool result was cut to `plugins.*.result_limit`.",
    LimitStoreFailed: "`gateway.limits_store` did not answer, so a request passed uncounted or was refused. A warning "
    "every 30 seconds of an outage, else a debug line.",
    GatewayChanged: "The process is `starting`, `serving`, `draining` or `stopped`.",
    SecurityNotice: "A setting that an operator should know about, at each start.",
    Defect: "An exception that nobody expected, with its traceback and without its local variables.",
}


def body() -> str:
    parts = []
    for kind, meaning in MEANINGS.items():
        written = [line for event in samples.EVENTS if isinstance(event, kind) for line in _log(event)]
        parts.append(f"### {_read(written[0])['event']}\n\n{meaning}\n\n{_example(written)}")
    audited = [line for event in samples.EVENTS for line in samples.lines(event) if _read(line).get("stream")]
    parts.append(f"## The audit stream\n\n{_AUDIT}\n\n{_example(audited)}")
    return "## The log\n\n" + "\n\n".join(parts)


_AUDIT = """One line for each MCP request on a server, refusals included, whatever `gateway.log.level` says. Its
`event` is `mcp_request` and its `stream` is `audit`; it has no status and no duration, and `outcome` is one of
`success`, `denied`, `error` and `cancelled`."""


def fields() -> set[str]:
    """Every field of every line."""
    return {name for event in samples.EVENTS for line in samples.lines(event) for name in _read(line)}


def _log(event: Event) -> list[str]:
    return [line for line in samples.lines(event) if "stream" not in _read(line)]


def _example(lines: list[str]) -> str:
    return "\n".join(["```json", *lines, "```"])


def _read(line: str) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(line)
    return members
