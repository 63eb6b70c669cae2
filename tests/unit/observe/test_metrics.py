from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rowgate.observe.events import (
    CapabilityQuarantined,
    CatalogLoaded,
    Defect,
    Event,
    GatewayChanged,
    KeysRefreshed,
    RequestFinished,
    RequestMalformed,
    ResultTruncated,
    SecurityNotice,
    StreamChanged,
    TokenLookup,
    UpstreamFinished,
)
from rowgate.observe.metrics import Metrics

CALL = RequestFinished(
    request_id="0" * 32,
    route="mcp",
    http_method="POST",
    status=200,
    outcome="ok",
    duration=0.15,
    address="203.0.113.9",
    server="main",
    method="tools/call",
    name="search_notes",
    capability="search_notes",
    plugin="notes",
    subject="alice-subject",
    client_id="claude-client",
)
ISSUER = "https://project.supabase.co/auth/v1"


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    body, _ = metrics.render("")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name.startswith("rowgate_")
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"rowgate_{name}", frozenset(labels.items())))


def counted(*events: Event, series: int = 2000) -> Metrics:
    metrics = Metrics("1.2.3", clock=lambda: 1_700_000_000.0, series=series)
    for event in events:
        metrics.emit(event)
    return metrics


def test_a_call_is_counted_and_timed() -> None:
    metrics = counted(CALL, CALL)
    assert value(metrics, "http_requests_total", route="mcp", method="POST", code="200") == 2
    labels = {"server": "main", "method": "tools/call"}
    assert value(metrics, "mcp_requests_total", **labels, capability="search_notes", outcome="ok") == 2
    assert value(metrics, "mcp_request_duration_seconds_count", **labels) == 2
    assert value(metrics, "mcp_request_duration_seconds_sum", **labels) == pytest.approx(0.3)
    assert value(metrics, "mcp_request_duration_seconds_bucket", **labels, le="0.1") == 0
    assert value(metrics, "mcp_request_duration_seconds_bucket", **labels, le="0.2") == 2
    assert value(metrics, "http_request_duration_seconds_count", route="mcp", method="POST") == 2


def test_a_tool_that_failed_inside_a_200_does_not_look_healthy() -> None:
    metrics = counted(replace(CALL, outcome="tool_error"))
    labels = {"server": "main", "method": "tools/call", "capability": "search_notes"}
    assert value(metrics, "mcp_requests_total", **labels, outcome="tool_error") == 1
    assert value(metrics, "mcp_requests_total", **labels, outcome="ok") is None


def test_a_name_outside_the_catalog_and_an_unknown_method_are_other() -> None:
    metrics = counted(
        replace(CALL, capability=None, name="no_such_tool", outcome="denied"),
        replace(CALL, capability=None, name=None, method="tools/explode", outcome="protocol_error"),
    )
    assert (
        value(metrics, "mcp_requests_total", server="main", method="tools/call", capability="other", outcome="denied")
        == 1
    )
    assert (
        value(metrics, "mcp_requests_total", server="main", method="other", capability="", outcome="protocol_error")
        == 1
    )


def test_ten_thousand_scanners_add_no_series() -> None:
    metrics = counted(replace(CALL, capability=None), replace(CALL, capability=None, http_method="BREW0", route="x"))
    before = len(samples(metrics))
    for number in range(10_000):
        metrics.emit(
            replace(
                CALL,
                capability=None,
                name=f"tool{number}",
                address=f"10.0.{number >> 8}.{number & 255}",
                subject=f"subject-{number}",
                client_id=f"client-{number}",
                request_id=f"id-{number}",
            )
        )
        metrics.emit(replace(CALL, capability=None, http_method=f"BREW{number}", route=f"/path/{number}"))
    assert len(samples(metrics)) == before


def test_a_plugin_that_invents_names_cannot_grow_the_series_without_end() -> None:
    metrics = counted(*(replace(CALL, capability=f"tool{number}") for number in range(500)), series=50)
    outcomes = [key for key in samples(metrics) if key[0] == "rowgate_mcp_requests_total"]
    assert len(outcomes) == 51
    folded = dict.fromkeys(("server", "method", "capability", "outcome"), "other")
    assert value(metrics, "mcp_requests_total", **folded) == 450


def test_no_identity_is_in_the_exposition() -> None:
    metrics = counted(replace(CALL, actor="agent-actor", trace_id="trace-1"), RequestMalformed("RG108", "203.0.113.9"))
    body = metrics.render("")[0].decode()
    for personal in ("alice-subject", "claude-client", "agent-actor", "203.0.113.9", "0" * 32, "trace-1"):
        assert personal not in body


def test_refusals_are_counted_by_code_and_credentials_by_reason() -> None:
    refused = replace(
        CALL, status=401, outcome="unauthenticated", code="RG203", reason="audience", capability=None, name=None
    )
    metrics = counted(refused, replace(refused, reason=None, code="RG201"))
    assert value(metrics, "refusals_total", server="main", code="RG203") == 1
    assert value(metrics, "auth_refusals_total", server="main", reason="audience") == 1
    assert value(metrics, "auth_refusals_total", server="main", reason="RG201") == 1


def test_metadata_and_preflights_are_http_requests_and_not_mcp_requests() -> None:
    metrics = counted(
        replace(CALL, route="metadata", http_method="GET"), replace(CALL, http_method="OPTIONS", status=204)
    )
    assert value(metrics, "http_requests_total", route="metadata", method="GET", code="200") == 1
    assert value(metrics, "http_requests_total", route="mcp", method="OPTIONS", code="204") == 1
    assert not [key for key in samples(metrics) if key[0] == "rowgate_mcp_requests_total"]


def test_a_client_that_left_is_counted_with_code_0() -> None:
    metrics = counted(replace(CALL, status=0, outcome="cancelled"))
    assert value(metrics, "http_requests_total", route="mcp", method="POST", code="0") == 1


@pytest.mark.parametrize(
    ("event", "name", "labels", "expected"),
    [
        (RequestMalformed("RG108", "203.0.113.9"), "malformed_requests_total", {"code": "RG108"}, 1),
        (TokenLookup(hit=False), "token_cache_requests_total", {}, 1),
        (TokenLookup(hit=True), "token_cache_hits_total", {}, 1),
        (KeysRefreshed(ISSUER, "failed"), "jwks_refreshes_total", {"issuer": ISSUER, "outcome": "failed"}, 1),
        (KeysRefreshed(ISSUER, "ok", 2), "jwks_keys", {"issuer": ISSUER}, 2),
        (KeysRefreshed(ISSUER, "ok", 2), "jwks_last_success_timestamp_seconds", {"issuer": ISSUER}, 1_700_000_000),
        (CatalogLoaded("notes", "ok", 4), "catalog_loads_total", {"plugin": "notes", "outcome": "ok"}, 1),
        (CatalogLoaded("notes", "ok", 4), "catalog_capabilities", {"plugin": "notes"}, 4),
        (
            CapabilityQuarantined("notes", "delete_note", "no_hints"),
            "capabilities_quarantined_total",
            {"plugin": "notes", "reason": "no_hints"},
            1,
        ),
        (
            UpstreamFinished("notes", "tools/call", 200, 0.01),
            "upstream_requests_total",
            {"plugin": "notes", "outcome": "ok"},
            1,
        ),
        (
            UpstreamFinished("notes", "tools/call", 0, 30.0, "RG502"),
            "upstream_requests_total",
            {"plugin": "notes", "outcome": "RG502"},
            1,
        ),
        (
            UpstreamFinished("notes", "tools/call", 200, 0.5),
            "upstream_request_duration_seconds_sum",
            {"plugin": "notes"},
            0.5,
        ),
        (StreamChanged("main", 1), "streams_open", {"server": "main"}, 1),
        (
            ResultTruncated("main", "search_notes", 200_000),
            "result_truncations_total",
            {"server": "main", "capability": "search_notes"},
            1,
        ),
        (SecurityNotice("audience_unbound", "…"), "security_notices_total", {"reason": "audience_unbound"}, 1),
        (GatewayChanged("serving"), "serving", {}, 1),
        (GatewayChanged("draining"), "serving", {}, 0),
        (Defect("pipeline", ValueError("x")), "defects_total", {}, 1),
    ],
)
def test_each_event_has_its_metric(event: Event, name: str, labels: dict[str, str], expected: float) -> None:
    assert value(counted(event), name, **labels) == expected


def test_a_stream_that_closed_is_no_longer_open() -> None:
    assert value(counted(StreamChanged("main", 1), StreamChanged("main", -1)), "streams_open", server="main") == 0


def test_a_miss_is_no_hit() -> None:
    assert value(counted(TokenLookup(hit=False)), "token_cache_hits_total") == 0


def test_a_failing_source_keeps_the_time_of_the_last_success() -> None:
    metrics = counted(KeysRefreshed(ISSUER, "ok", 2), KeysRefreshed(ISSUER, "failed"))
    assert value(metrics, "jwks_keys", issuer=ISSUER) == 2


def test_lost_log_lines_are_counted() -> None:
    metrics = counted()
    metrics.lines_lost(3)
    assert value(metrics, "log_lines_lost_total") == 3


def test_two_gateways_in_one_process_count_apart() -> None:
    first, second = counted(CALL), counted()
    assert value(first, "http_requests_total", route="mcp", method="POST", code="200") == 1
    assert value(second, "http_requests_total", route="mcp", method="POST", code="200") is None


def test_build_info_names_the_version() -> None:
    assert [dict(labels)["version"] for name, labels in samples(counted()) if name == "rowgate_build_info"] == ["1.2.3"]


@pytest.mark.parametrize(
    ("accept", "content_type", "last"),
    [
        ("", "text/plain; version=0.0.4", b"\n"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text", b"# EOF\n"),
        ("application/openmetrics-text;version=one", "text/plain; version=0.0.4", b"\n"),
    ],
)
def test_the_scraper_chooses_the_format(accept: str, content_type: str, last: bytes) -> None:
    body, answered = counted(CALL).render(accept)
    assert answered.startswith(content_type)
    assert body.endswith(last)
    assert b"_created" not in body
