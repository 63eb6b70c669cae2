"""The log: one structured line for each event, and the records of the libraries in the same shape.

Everything but a request's own line runs through structlog with processors built once. What that line holds is made fit
by `ClientFields`; every other line is searched for credentials whole, because its text may be anybody's.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal, Protocol, get_args

import orjson
import structlog

from rowgate.observe.defect import LEFT_OUT, describe, quotes_input, type_name
from rowgate.observe.events import (
    CapabilityQuarantined,
    CatalogLoaded,
    Defect,
    Emit,
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
    Selective,
    StreamChanged,
    TokenLookup,
    UpstreamFinished,
)
from rowgate.observe.fields import ClientFields, Fields, client_text
from rowgate.observe.lines import LineWriter
from rowgate.observe.redaction import LONG, may_hold_secret, redact

Level = Literal["debug", "info", "warning", "error"]
EventDict = MutableMapping[str, Any]

_LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
_UNHEARD = frozenset({TokenLookup, StreamChanged, LimitsDecided})
"""Metrics only: as often as requests, and no news."""
_PLAIN = bytes(range(0x20, 0x7F))
REPEAT = 3600.0
"""Seconds for which the same finding about a plugin, found again at each load of its lists, is only a debug line."""


class LogSettings(Protocol):
    @property
    def level(self) -> Level: ...
    @property
    def format(self) -> Literal["json", "console"]: ...


def open_logger(
    settings: LogSettings, writer: LineWriter, *, clock: Callable[[], float] = time.time, **initial: str
) -> structlog.typing.FilteringBoundLogger:
    """A logger with its own processors: nothing of structlog's global configuration is read or changed."""
    render: list[structlog.typing.Processor] = [_json_line]
    if settings.format == "console":
        render = [
            _redacted,
            _printable,
            structlog.dev.ConsoleRenderer(colors=False, timestamp_key="ts", pad_event_to=0),
        ]
    logger = structlog.wrap_logger(
        _Lines(writer),
        processors=[_Stamp(clock), *render],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
        context_class=dict,
    )
    # Bound first so that they lead the line.
    bound: structlog.typing.FilteringBoundLogger = logger.bind(ts="", level="", event="", **initial)
    return bound


def log_subscriber(
    settings: LogSettings,
    writer: LineWriter,
    *,
    client_fields: ClientFields | None = None,
    clock: Callable[[], float] = time.time,
) -> Emit:
    """`client_fields` may be shared with the audit stream."""
    unheard = _UNHEARD if settings.level == "debug" else _UNHEARD | {UpstreamFinished}
    return Selective(
        _Log(settings, writer, client_fields or ClientFields(), clock).emit, frozenset(get_args(Event)) - unheard
    )


def route_library_logs(settings: LogSettings, writer: LineWriter) -> Callable[[], None]:
    """Send the standard library's loggers (aiohttp, asyncio and the rest) into this log; the answer undoes it.

    Warnings and worse only, whatever the level: below that, HTTP libraries write headers and URLs.
    """
    root = logging.getLogger()
    access = logging.getLogger("aiohttp.access")
    before = (root.handlers[:], root.level, access.disabled)
    root.handlers[:] = [_LibraryHandler(open_logger(settings, writer))]
    root.setLevel(logging.WARNING)
    access.disabled = True

    def undo() -> None:
        root.handlers[:], access.disabled = before[0], before[2]
        root.setLevel(before[1])

    return undo


class _Log:
    def __init__(
        self, settings: LogSettings, writer: LineWriter, client_fields: ClientFields, clock: Callable[[], float]
    ) -> None:
        self._logger = open_logger(settings, writer, clock=clock)
        self._client_fields = client_fields
        self._requests = RequestLines(settings, writer, clock=clock)
        self._clock = clock
        self._said: dict[tuple[str, ...], float] = {}
        self._loads: dict[str, tuple[str, int]] = {}

    def emit(self, event: Event) -> None:
        match event:
            case RequestFinished():
                fields = _request(event, self._client_fields(event))
                self._requests.write("warning" if event.status >= 500 else "info", "request_finished", fields)
            case RequestMalformed():
                self._logger.info("request_malformed", code=event.code, address=event.address)
            case UpstreamFinished():
                self._logger.debug(
                    "upstream_finished",
                    **_some(
                        plugin=event.plugin,
                        method=event.method,
                        status=event.status,
                        duration_ms=_milliseconds(event.duration),
                        code=event.code,
                    ),
                )
            case PolicyAsked():
                log = self._logger.debug if event.outcome == "ok" else self._logger.warning
                log(
                    "policy_asked",
                    server=event.server,
                    asked=event.asked,
                    outcome=event.outcome,
                    duration_ms=_milliseconds(event.duration),
                )
            case KeysRefreshed():
                log = self._logger.debug if event.outcome == "ok" else self._logger.warning
                log(
                    "keys_refreshed",
                    **_some(issuer=event.issuer, outcome=event.outcome, keys=event.keys, detail=event.detail or None),
                )
            case IdentityAsked():
                log = self._logger.warning if event.outcome in ("failed", "accepted") else self._logger.debug
                log("identity_asked", source=event.source, outcome=event.outcome)
            case CatalogLoaded():
                self._catalog(event)
            case CapabilityQuarantined():
                self._quarantine(event)
            case PluginProcessChanged():
                log = self._logger.warning if event.state == "exited" else self._logger.info
                fields = {"pid": event.pid, "cause": event.cause, "detail": event.detail or None}
                log("plugin_process_changed", **_some(plugin=event.plugin, state=event.state, **fields))
            case PluginOutput():
                log = getattr(self._logger, event.level)
                fields = {"request_id": event.request_id, "dropped": event.dropped or None}
                log("plugin_output", **_some(plugin=event.plugin, message=event.text, **fields))
            case ResultTruncated():
                self._logger.info(
                    "result_truncated",
                    server=event.server,
                    capability=client_text(event.capability),
                    characters=event.characters,
                )
            case GatewayChanged():
                self._logger.info("gateway_changed", **_some(state=event.state, detail=event.detail or None))
            case LimitStoreFailed():
                log = self._logger.warning if event.loud else self._logger.debug
                log("limit_store_failed", decision=event.decision, detail=event.detail)
            case SecurityNotice():
                self._logger.warning("security_notice", reason=event.reason, detail=event.detail)
            case Defect():
                self._logger.error(
                    "defect",
                    **_some(
                        request_id=event.request_id,
                        where=event.where,
                        error=type_name(event.error),
                        exception=describe(event.error),
                    ),
                )

    def _catalog(self, event: CatalogLoaded) -> None:
        found = (event.outcome, event.capabilities)
        log = self._logger.debug if self._loads.get(event.plugin) == found else self._logger.info
        self._loads[event.plugin] = found
        if event.outcome != "ok":
            log = self._logger.warning
        log(
            "catalog_loaded",
            **_some(
                plugin=event.plugin, outcome=event.outcome, capabilities=event.capabilities, detail=event.detail or None
            ),
        )

    def _quarantine(self, event: CapabilityQuarantined) -> None:
        log = self._logger.debug if self._repeated(event) else self._logger.warning
        log(
            "capability_quarantined",
            **_some(
                plugin=event.plugin,
                capability=client_text(event.capability),
                reason=event.reason,
                detail=event.detail or None,
            ),
        )

    def _repeated(self, event: CapabilityQuarantined) -> bool:
        key = (event.plugin, event.capability, event.reason)
        now = self._clock()
        if now - self._said.get(key, -REPEAT) < REPEAT:
            return True
        if len(self._said) >= 1000:  # capabilities are the plugin's to invent
            self._said.clear()
        self._said[key] = now
        return False


class RequestLines:
    """The lines that every request leaves. Their fields are fit already, so they take the short way past structlog,
    whose steps cost as much as all that a request's policy does; for people to read, it renders them as all others."""

    def __init__(
        self, settings: LogSettings, writer: LineWriter, *, clock: Callable[[], float], **initial: str
    ) -> None:
        self._logger = open_logger(settings, writer, clock=clock, **initial) if settings.format == "console" else None
        self._writer = writer
        self._stamp = _Stamp(clock)
        self._initial = initial
        self._levels: tuple[Level, ...] = _LEVELS[_LEVELS.index(settings.level) :]

    def write(self, level: Literal["info", "warning"], event: str, fields: Fields) -> None:
        if level not in self._levels:
            return
        if self._logger is not None:
            getattr(self._logger, level)(event, **fields)
            return
        line = {"ts": self._stamp.text(), "level": level, "event": event, **self._initial, **fields}
        self._writer.write(_encode(line), urgent=level == "warning")


class _Lines:
    """What structlog calls a logger: the last step, one method a level."""

    def __init__(self, writer: LineWriter) -> None:
        self.debug = self.info = writer.write
        self._writer = writer

    def warning(self, line: str) -> None:
        self._writer.write(line, urgent=True)

    error = critical = warning


class _Stamp:
    """RFC 3339 in UTC with milliseconds; the seconds are formatted once each."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._second = -1
        self._prefix = ""

    def __call__(self, logger: Any, method: str, event_dict: EventDict) -> EventDict:
        event_dict["ts"] = self.text()
        event_dict["level"] = method
        return event_dict

    def text(self) -> str:
        now = self._clock()
        second = int(now)
        if second != self._second:
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
            self._second = second
        return f"{self._prefix}{int((now - second) * 1000):03d}Z"


class _LibraryHandler(logging.Handler):
    def __init__(self, logger: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # logging's own answer to a bad record is to print its arguments
            message = "[a record that cannot be formatted]"
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and quotes_input(error):
            message = LEFT_OUT
        self._logger.log(
            _known_level(record.levelno),
            "library_log",
            **_some(
                logger=record.name, message=redact(message[:8000])[:2000], exception=describe(error) if error else None
            ),
        )


def _request(event: RequestFinished, client_fields: Mapping[str, Any]) -> Fields:
    fields = {
        **client_fields,
        "outcome": event.outcome,
        "status": event.status,
        "duration_ms": _milliseconds(event.duration),
        "address": event.address,
        "route": event.route,
    }
    optional = {
        "server": event.server,
        "code": event.code,
        "reason": event.reason,
        "kind": event.kind,
        "era": event.era,
        "plugin": event.plugin,
        "streamed": event.streamed or None,
        "trace_id": event.trace_id,
    }
    fields |= {key: value for key, value in optional.items() if value is not None}
    return fields


def _some(**fields: Any) -> Fields:
    return {key: value for key, value in fields.items() if value is not None}


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _name_of_type(value: object) -> str:
    return f"<{type(value).__name__}>"


_escaped = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_name_of_type).encode


def _encode(fields: Mapping[str, Any]) -> str:
    try:
        line = orjson.dumps(fields, default=_name_of_type)
    except TypeError:
        return _escaped(fields)
    # DEL, and much beyond ASCII, is obeyed by terminals: such lines are escaped.
    return _escaped(fields) if line.translate(None, _PLAIN) else line.decode()


def _json_line(logger: Any, method: str, event_dict: EventDict) -> str:
    line = _encode(event_dict)
    if may_hold_secret(line) or _has_long_text(event_dict):
        line = _encode(_redacted(logger, method, event_dict))
    return line


def _has_long_text(event_dict: Mapping[str, Any]) -> bool:
    return any(isinstance(value, str) and len(value) >= LONG for value in event_dict.values())


def _redacted(logger: Any, method: str, event_dict: EventDict) -> EventDict:
    return {key: redact(value) if isinstance(value, str) else value for key, value in event_dict.items()}


def _printable(logger: Any, method: str, event_dict: EventDict) -> EventDict:
    """A terminal obeys control characters, JSON escapes them: only our own tracebacks keep their line breaks."""
    return {
        key: "\n".join(map(_escape, value.split("\n"))) if key == "exception" else _escape(value)
        for key, value in event_dict.items()
    }


def _escape(value: Any) -> Any:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def _known_level(level: int) -> int:
    return max(
        known for known in (logging.WARNING, logging.ERROR, logging.CRITICAL) if known <= max(level, logging.WARNING)
    )
