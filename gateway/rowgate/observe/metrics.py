"""Prometheus metrics, in a registry of their own.

A label value comes from the configuration, from the catalog or from a fixed set, never from a request: whatever else
arrives is counted as `other`. No subject, address, session or URL of a request is a label.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.exposition import choose_encoder

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
from rowgate.observe.tally import OTHER, Counter, Counters, Histogram, Histograms

CALL_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds, as OpenTelemetry's conventions for MCP have them."""
SERIES = 2000
"""Label combinations of one metric, after which new ones are counted as `other`: a plugin may invent names."""

_ROUTES = frozenset({"mcp", "metadata"})
_HTTP_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS

T = TypeVar("T", Counters, Histograms)


class Gauges:
    """One gauge with its children by label values, looked up once each and bounded in number."""

    def __init__(self, metric: Gauge, series: int) -> None:
        self._metric = metric
        self._series = series
        self._children: dict[tuple[str, ...], Gauge] = {}

    def __call__(self, *labels: str) -> Gauge:
        child = self._children.get(labels)
        if child is None:
            if len(self._children) >= self._series:
                labels = (OTHER,) * len(labels)
            child = self._children[labels] = self._metric.labels(*labels) if labels else self._metric
        return child


@dataclass(frozen=True, slots=True)
class _Request:
    """What one kind of request counts, found again under one key."""

    counters: tuple[Counter, ...]
    durations: tuple[Histogram, ...]


class Metrics:
    def __init__(self, version: str, *, clock: Callable[[], float] = time.time, series: int = SERIES) -> None:
        self._clock = clock
        self._series = series
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests: dict[tuple[str | int | None, ...], _Request] = {}
        ProcessCollector(registry=self._registry)
        self._declare()
        build = self._gauge("build_info", "Always 1; what runs.", "version", "python")
        build(version, platform.python_version()).set(1)

    def emit(self, event: Event) -> None:
        match event:
            case RequestFinished():
                self._request(event)
            case TokenLookup():
                self._token_requests().inc()
                if event.hit:
                    self._token_hits().inc()
            case IdentityAsked():
                self._identity(event.source, event.outcome).inc()
            case UpstreamFinished():
                self._upstream(event.plugin, event.code or "ok").inc()
                self._upstream_seconds(event.plugin).observe(event.duration)
            case PolicyAsked():
                self._policy(event.server, event.asked, event.outcome).inc()
                self._policy_seconds(event.server, event.asked).observe(event.duration)
            case StreamChanged():
                self._streams(event.server).inc(event.change)
            case PluginProcessChanged():
                self._plugin_up(event.plugin).set(event.state == "ready")
                if event.state == "exited":
                    self._plugin_exits(event.plugin, event.cause or "").inc()
            case PluginOutput():
                if event.dropped:
                    self._plugin_lines_dropped(event.plugin).inc(event.dropped)
            case ResultTruncated():
                self._truncations(event.server, event.capability).inc()
            case RequestMalformed():
                self._malformed(event.code).inc()
            case KeysRefreshed():
                self._keys_refreshed(event)
            case CatalogLoaded():
                self._catalog_loads(event.plugin, event.outcome).inc()
                self._catalog_size(event.plugin).set(event.capabilities)
            case CapabilityQuarantined():
                self._quarantined(event.plugin, event.reason).inc()
            case LimitsDecided():
                self._limits(event)
            case LimitStoreFailed():
                self._limit_store_errors(event.decision).inc()
            case SecurityNotice():
                self._notices(event.reason).inc()
            case GatewayChanged():
                self._serving().set(event.state == "serving")
            case Defect():
                self._defects().inc()

    def lines_lost(self, count: int) -> None:
        """For a log or audit writer whose stream failed."""
        self._lost().inc(count)

    def event_lost(self, sink: str) -> None:
        """For an event sink that is too slow, or failed."""
        self._events_lost(sink).inc()

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, as the scraper's `Accept` prefers it."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self._registry), content_type

    def _request(self, event: RequestFinished) -> None:
        capability = event.capability or (OTHER if event.name else "")
        method = "" if event.method is None else event.method if event.method in _METHODS else OTHER
        key = (
            event.route,
            event.http_method if event.http_method in _HTTP_METHODS else OTHER,
            event.status,
            event.outcome,
            event.server,
            method,
            capability,
            event.code,
            event.reason,
        )
        counted = self._requests.get(key)
        if counted is None:
            counted = self._counted(event, method, capability)
            if len(self._requests) < 4 * self._series:
                self._requests[key] = counted
        for counter in counted.counters:
            counter.inc()
        for duration in counted.durations:
            duration.observe(event.duration)

    def _counted(self, event: RequestFinished, method: str, capability: str) -> _Request:
        route = event.route if event.route in _ROUTES else OTHER
        http_method = event.http_method if event.http_method in _HTTP_METHODS else OTHER
        server = event.server or ""
        counters = [self._http(route, http_method, str(event.status))]
        durations = [self._http_seconds(route, http_method)]
        if route == "mcp" and http_method == "POST":
            counters.append(self._mcp(server, method, capability, event.outcome))
            durations.append(self._mcp_seconds(server, method))
        if event.code:
            counters.append(self._refusals(server, event.code))
        if event.outcome == "unauthenticated":
            counters.append(self._auth_refusals(server, event.reason or event.code or ""))
        return _Request(tuple(counters), tuple(durations))

    def _limits(self, event: LimitsDecided) -> None:
        if event.refused is not None:
            self._limit_decisions(event.refused, "refused").inc()
            return
        for limit in event.limits:
            self._limit_decisions(limit, "allowed").inc()

    def _keys_refreshed(self, event: KeysRefreshed) -> None:
        self._jwks(event.issuer, event.outcome).inc()
        if event.outcome == "ok":
            self._jwks_time(event.issuer).set(self._clock())
            self._jwks_keys(event.issuer).set(event.keys)

    def _declare(self) -> None:
        c, g, h = self._counter, self._gauge, self._histogram
        self._http = c(
            "http_requests", "Requests on the public listener; code 0: the client left.", "route", "method", "code"
        )
        self._http_seconds = h(
            "http_request_duration_seconds", "To the last byte of the answer.", "route", "method", buckets=CALL_BUCKETS
        )
        self._mcp = c(
            "mcp_requests", "MCP messages by what became of them.", "server", "method", "capability", "outcome"
        )
        self._mcp_seconds = h(
            "mcp_request_duration_seconds", "To the last byte of the answer.", "server", "method", buckets=CALL_BUCKETS
        )
        self._refusals = c("refusals", "Answers with an error code of the gateway.", "server", "code")
        self._auth_refusals = c("auth_refusals", "Credentials refused, by reason.", "server", "reason")
        self._malformed = c("malformed_requests", "Bytes that the HTTP parser refused.", "code")
        self._token_requests = c("token_cache_requests", "Look-ups in the cache of verified tokens.")
        self._token_hits = c("token_cache_hits", "Look-ups that found a verified token.")
        self._identity = c(
            "identity_checks",
            "Questions to others about a caller: key lookup, introspection, session.",
            "source",
            "outcome",
        )
        self._jwks = c("jwks_refreshes", "Fetches of an issuer's key set.", "issuer", "outcome")
        self._jwks_time = g("jwks_last_success_timestamp_seconds", "When the key set was last fetched.", "issuer")
        self._jwks_keys = g("jwks_keys", "Keys in the set that is in use.", "issuer")
        self._upstream = c("upstream_requests", "Exchanges with a plugin; ok or an error code.", "plugin", "outcome")
        self._upstream_seconds = h(
            "upstream_request_duration_seconds", "One exchange with a plugin.", "plugin", buckets=CALL_BUCKETS
        )
        self._policy = c(
            "policy_requests", "Questions to an authorizer, or to the function of scopes.", "server", "asked", "outcome"
        )
        self._policy_seconds = h(
            "policy_request_duration_seconds", "One such question.", "server", "asked", buckets=CALL_BUCKETS
        )
        self._plugin_up = g("plugin_up", "1 while a plugin that the gateway starts runs and has answered.", "plugin")
        self._plugin_exits = c("plugin_exits", "Ends of such a plugin that nobody asked for.", "plugin", "cause")
        self._plugin_lines_dropped = c("plugin_lines_dropped", "Lines of it that were too many to log.", "plugin")
        self._streams = g("streams_open", "Event streams towards clients.", "server")
        self._truncations = c("result_truncations", "Results cut to the limit.", "server", "capability")
        self._catalog_loads = c("catalog_loads", "Loads of a plugin's lists.", "plugin", "outcome")
        self._catalog_size = g("catalog_capabilities", "Capabilities in the plugin's last load.", "plugin")
        self._quarantined = c("capabilities_quarantined", "Capabilities left out at a load.", "plugin", "reason")
        self._limit_decisions = c("limit_decisions", "Requests counted, by limit and decision.", "limit", "decision")
        self._limit_store_errors = c(
            "limit_store_errors", "Requests that limits_store did not answer for, by what became of them.", "decision"
        )
        self._notices = c("security_notices", "Settings that an operator should know about.", "reason")
        self._defects = c("defects", "Exceptions that nobody expected.")
        self._events_lost = c("events_lost", "Events that an event sink did not take.", "sink")
        self._lost = c("log_lines_lost", "Log and audit lines that could not be written.")
        self._serving = g("serving", "1 while the gateway takes requests, 0 before and while it drains.")

    def _counter(self, name: str, text: str, *labels: str) -> Counters:
        return self._registered(Counters(f"rowgate_{name}", text, labels, self._series))

    def _histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histograms:
        return self._registered(Histograms(f"rowgate_{name}", text, labels, self._series, buckets))

    def _gauge(self, name: str, text: str, *labels: str) -> Gauges:
        return Gauges(Gauge(f"rowgate_{name}", text, labels, registry=self._registry), self._series)

    def _registered(self, tally: T) -> T:
        self._registry.register(tally)
        return tally
