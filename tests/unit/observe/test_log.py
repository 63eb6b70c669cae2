from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema
import pydantic
import pytest
from aiohttp.http_exceptions import LineTooLong
from hypothesis import given
from hypothesis import strategies as st

from rowgate.observe.audit import audit_subscriber
from rowgate.observe.events import (
    CapabilityQuarantined,
    CatalogLoaded,
    Defect,
    Emit,
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
from rowgate.observe.lines import LineWriter
from rowgate.observe.log import Level, log_subscriber, route_library_logs

JWT = (
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiI2ZjBkMWM3ZS0xMTExIiwiZXhwIjoxNzAwMDAwMDAwfQ"
    ".c2lnbmF0dXJlLXRoYXQtaXMtbG9uZy1lbm91Z2gtdG8tbG9vay1yZWFs"
)
SECRETS = (JWT, "sb_secret_N7UND0UgjKTVK", "sbp_0123456789abcdef", "dGhpcy1pcy1vcGFxdWU", "hunter2-but-longer")
CALL = RequestFinished(
    request_id="0" * 32,
    route="mcp",
    http_method="POST",
    status=200,
    outcome="ok",
    duration=0.0123456,
    address="203.0.113.9",
    server="main",
    method="tools/call",
    name="search_notes",
    capability="search_notes",
    plugin="notes",
    era="modern",
    version="2026-07-28",
    kind="user",
    subject="6f0d1c7e-1111-4222-8333-944455556666",
    client_id="2b7a3a52-0000-4000-8000-000000000001",
)


@dataclass(frozen=True)
class Settings:
    level: Level = "info"
    format: Literal["json", "console"] = "json"


class Written(io.BytesIO):
    @property
    def text(self) -> str:
        return self.getvalue().decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


def subscribed(
    settings: Settings = Settings(), subscriber: Callable[..., Emit] = log_subscriber, clock: float = 1_700_000_000.25
) -> tuple[Emit, Written]:
    written = Written()
    return subscriber(settings, LineWriter(written, interval=0), clock=lambda: clock), written


@contextmanager
def library_logs(settings: Settings = Settings()) -> Iterator[Written]:
    written = Written()
    undo = route_library_logs(settings, LineWriter(written, interval=0))
    try:
        yield written
    finally:
        undo()


def with_field(field: str, text: str) -> RequestFinished:
    change: dict[str, Any] = {field: text}
    return replace(CALL, **change)


def caught(raiser: Callable[[], object]) -> BaseException:
    try:
        raiser()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def shreds(secret: str) -> set[str]:
    """Pieces that would give a part of the secret away, short enough to catch a cut."""
    return {secret[start : start + 8] for start in range(0, len(secret) - 7)}


def test_a_call_is_one_line_with_named_fields() -> None:
    emit, written = subscribed()
    emit(CALL)
    assert written.text.count("\n") == 1
    assert list(written.lines[0])[:3] == ["ts", "level", "event"]
    assert written.lines[0] == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "event": "request_finished",
        "request_id": "0" * 32,
        "server": "main",
        "method": "tools/call",
        "name": "search_notes",
        "outcome": "ok",
        "status": 200,
        "duration_ms": 12.346,
        "subject": "6f0d1c7e-1111-4222-8333-944455556666",
        "client_id": "2b7a3a52-0000-4000-8000-000000000001",
        "kind": "user",
        "era": "modern",
        "version": "2026-07-28",
        "plugin": "notes",
        "address": "203.0.113.9",
        "route": "mcp",
        "http_method": "POST",
    }


def test_the_clock_ticks_in_the_log() -> None:
    times = iter([0.0, 0.999, 1.0, 86399.5])
    written = Written()
    emit = log_subscriber(Settings(), LineWriter(written, interval=0), clock=lambda: next(times))
    for _ in range(4):
        emit(CALL)
    assert [line["ts"][10:] for line in written.lines] == [
        "T00:00:00.000Z",
        "T00:00:00.999Z",
        "T00:00:01.000Z",
        "T23:59:59.500Z",
    ]


@pytest.mark.parametrize(
    ("event", "name", "level"),
    [
        (CALL, "request_finished", "info"),
        (replace(CALL, status=401, outcome="unauthenticated", code="RG201"), "request_finished", "info"),
        (replace(CALL, status=502, outcome="upstream_error", code="RG501"), "request_finished", "warning"),
        (RequestMalformed(code="RG108", address="203.0.113.9"), "request_malformed", "info"),
        (KeysRefreshed("https://issuer.example", "ok", 2), "keys_refreshed", "debug"),
        (KeysRefreshed("https://issuer.example", "failed", detail="refused"), "keys_refreshed", "warning"),
        (CatalogLoaded("notes", "ok", 4), "catalog_loaded", "info"),
        (CatalogLoaded("notes", "failed"), "catalog_loaded", "warning"),
        (CapabilityQuarantined("notes", "delete_note", "not_offered"), "capability_quarantined", "warning"),
        (UpstreamFinished("notes", "tools/call", 200, 0.01), "upstream_finished", "debug"),
        (ResultTruncated("main", "search_notes", 200_000), "result_truncated", "info"),
        (GatewayChanged("serving"), "gateway_changed", "info"),
        (SecurityNotice("context_key_ephemeral", "Set a key."), "security_notice", "warning"),
        (Defect("pipeline", ValueError("x")), "defect", "error"),
    ],
)
def test_each_event_has_its_name_and_level(event: Event, name: str, level: str) -> None:
    emit, written = subscribed(Settings(level="debug"))
    emit(event)
    assert [(line["event"], line["level"]) for line in written.lines] == [(name, level)]


@pytest.mark.parametrize("event", [TokenLookup(hit=True), StreamChanged("main", 1)])
def test_what_is_only_counted_is_not_logged(event: Event) -> None:
    emit, written = subscribed(Settings(level="debug"))
    emit(event)
    assert written.text == ""


def test_the_level_filters_the_log_and_not_the_audit() -> None:
    emit, written = subscribed(Settings(level="error"))
    emit(CALL)
    assert written.text == ""
    emit, written = subscribed(Settings(level="error"), audit_subscriber)
    emit(CALL)
    assert len(written.lines) == 1


def test_a_load_that_found_the_same_is_said_once() -> None:
    emit, written = subscribed()
    for capabilities in (4, 4, 5):
        emit(CatalogLoaded("notes", "ok", capabilities))
    assert [line["capabilities"] for line in written.lines] == [4, 5]


def test_a_quarantine_found_again_is_said_again_only_after_an_hour() -> None:
    now = [0.0]
    written = Written()
    emit = log_subscriber(Settings(), LineWriter(written, interval=0), clock=lambda: now[0])
    for now[0] in (0.0, 60.0, 3599.0, 3601.0):
        emit(CapabilityQuarantined("notes", "delete_note", "not_offered"))
    assert [line["ts"][11:19] for line in written.lines] == ["00:00:00", "01:00:01"]


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("field", ["name", "subject", "client_id", "actor", "http_method"])
@given(text=st.text())
def test_a_client_writes_no_lines_and_no_control_characters_of_its_own(
    format: Literal["json", "console"], field: str, text: str
) -> None:
    emit, written = subscribed(Settings(format=format))
    emit(with_field(field, text))
    assert written.text.endswith("\n")
    assert written.text[:-1].isprintable()


def test_a_long_name_is_cut() -> None:
    emit, written = subscribed()
    emit(replace(CALL, name="x" * 1_000_000))
    assert len(written.lines[0]["name"]) == 200


@pytest.mark.parametrize("subscriber", [log_subscriber, audit_subscriber])
@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("field", ["name", "subject", "client_id", "actor"])
@pytest.mark.parametrize(
    "around", ["{}", "note://{}", "Bearer {}", "x" * 190 + " Bearer {}", "https://x/?access_token={}&y=1"]
)
def test_a_token_in_the_place_of_a_name_is_not_logged(
    subscriber: Callable[..., Emit], format: Literal["json", "console"], field: str, around: str
) -> None:
    emit, written = subscribed(Settings(format=format), subscriber)
    emit(with_field(field, around.format(JWT)))
    assert written.text.count("\n") == 1
    assert not [shred for shred in shreds(JWT) if shred in written.text]


@pytest.mark.parametrize("subscriber", [log_subscriber, audit_subscriber])
@pytest.mark.parametrize(
    "secret", ["eyJhbGciOiJub25lIn0.e30.", "sb_secret_N7UND0UgjKTVK", "sbp_0123456789abcdef", "Bearer x1y2z3"]
)
def test_a_secret_need_not_be_long_to_be_hidden(subscriber: Callable[..., Emit], secret: str) -> None:
    emit, written = subscribed(subscriber=subscriber)
    emit(replace(CALL, name=secret, capability=secret))
    assert secret[7:] not in written.text
    assert "[redacted]" in written.text


WRAPPINGS = (
    "Authorization: Bearer {}",
    "b'authorization: Bearer {}'",
    "{{'Authorization': 'Bearer {}', 'Host': 'x'}}",
    "<CIMultiDict('Host': 'x', 'Cookie': 'a=1; b={}')>",
    "(('authorization', 'Basic {}'),)",
    "GET /?refresh_token={}&x=1",
    '{{"access_token": "{}", "token_type": "bearer"}}',
    '{{\\"client_secret\\": \\"{}\\"}}',
    "token = {}",
    "Bearer token: {}",
    "token: Bearer {}",
    "BEARER%20{}",
    "password='{} with spaces'",
    "apikey={}",
    "Rowgate-Context: {}",
)


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_no_part_of_a_secret_in_an_exception_message_is_logged(
    wrapping: str, secret: str, format: Literal["json", "console"]
) -> None:
    def fail() -> None:
        try:
            raise ValueError(wrapping.format(secret))
        except ValueError as error:
            raise ExceptionGroup("several", [RuntimeError(wrapping.format(secret)), KeyError(JWT)]) from error

    emit, written = subscribed(Settings(format=format))
    emit(Defect("pipeline", caught(fail)))
    assert "RuntimeError" in written.text
    assert "test_log.py" in written.text
    assert not [shred for shred in shreds(secret) if shred in written.text]


@given(
    st.sampled_from(WRAPPINGS),
    st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=12, max_size=2000),
)
def test_no_part_of_a_jwt_is_logged_whatever_its_length(wrapping: str, payload: str) -> None:
    token = f"eyJhbGciOiJFUzI1NiJ9.{payload}.{payload[::-1]}"
    emit, written = subscribed()
    emit(Defect("pipeline", ValueError(wrapping.format(token))))
    assert len(written.lines) == 1
    assert payload not in written.text
    assert payload[::-1] not in written.text


def test_a_traceback_has_frames_and_no_local_variables() -> None:
    def fail() -> None:
        credential = "-".join(["local", "variable", "value"])
        raise RuntimeError(f"{len(credential)} characters")

    emit, written = subscribed()
    emit(Defect("pipeline", caught(fail), request_id="r" * 32))
    line = written.lines[0]
    assert (line["where"], line["error"], line["request_id"]) == ("pipeline", "RuntimeError", "r" * 32)
    assert "in fail" in line["exception"]
    assert "20 characters" in line["exception"]
    assert "local-variable-value" not in written.text


ARGUMENT = "an-argument-of-the-caller"


class Notes(pydantic.BaseModel):
    limit: int


@pytest.mark.parametrize(
    "raiser",
    [
        lambda: Notes.model_validate({"limit": ARGUMENT}),
        lambda: jsonschema.validate(ARGUMENT, {"type": "integer"}),
        lambda: (_ for _ in ()).throw(LineTooLong(ARGUMENT.encode(), 8190)),
    ],
)
def test_an_exception_that_quotes_its_input_is_logged_without_its_message(raiser: Callable[[], object]) -> None:
    def fail() -> None:
        try:
            raiser()
        except Exception as error:
            raise RuntimeError("while validating") from error

    emit, written = subscribed()
    emit(Defect("pipeline", caught(fail)))
    assert "in fail" in written.lines[0]["exception"]
    assert "RuntimeError" in written.lines[0]["exception"]
    assert ARGUMENT not in written.text


def test_an_exception_that_causes_itself_is_described() -> None:
    first, second = KeyError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    emit, written = subscribed()
    emit(Defect("pipeline", first))
    assert "ValueError" in written.lines[0]["exception"]


def test_a_huge_message_is_bounded() -> None:
    emit, written = subscribed()
    emit(Defect("pipeline", ValueError("word " * 1_000_000)))
    assert len(written.text) < 100_000


def test_a_digest_and_an_identifier_are_not_taken_for_secrets() -> None:
    emit, written = subscribed()
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    name = "a_hidden_tool_is_answered_like_an_unknown_one_in_2026"
    emit(GatewayChanged("starting", detail=f"{digest} {name}"))
    assert written.lines[0]["detail"] == f"{digest} {name}"


def test_libraries_log_in_the_same_shape() -> None:
    with library_logs() as written:
        logging.getLogger("asyncio").warning("Executing %s took long", "x")
        logging.getLogger("aiohttp.server").error("Error handling request", exc_info=caught(lambda: 1 / 0))
    slow, failed = written.lines
    assert (slow["event"], slow["level"], slow["logger"]) == ("library_log", "warning", "asyncio")
    assert slow["message"] == "Executing x took long"
    assert "ZeroDivisionError" in failed["exception"]


def test_a_library_cannot_log_a_token() -> None:
    with library_logs() as written:
        logging.getLogger("aiohttp.server").error("Error handling request", exc_info=LineTooLong(JWT.encode(), 8190))
        logging.getLogger("httpx").warning("sent %r", {"Authorization": f"Bearer {JWT}"})
        logging.getLogger("asyncio").error("bad record %d", JWT)
    assert len(written.lines) == 3
    assert not [shred for shred in shreds(JWT) if shred in written.text]


def test_libraries_below_warning_and_the_access_log_are_silent_at_any_level() -> None:
    with library_logs(Settings(level="debug")) as written:
        logging.getLogger("httpcore.http11").debug("send_request_headers.started")
        logging.getLogger("httpx").info("HTTP Request: GET https://x/?q=1")
        logging.getLogger("aiohttp.access").warning("127.0.0.1 GET /mcp")
    assert written.text == ""


def test_routing_the_libraries_can_be_undone() -> None:
    before = (logging.getLogger().handlers[:], logging.getLogger().level, logging.getLogger("aiohttp.access").disabled)
    with library_logs():
        assert logging.getLogger().handlers != before[0]
    assert (
        logging.getLogger().handlers,
        logging.getLogger().level,
        logging.getLogger("aiohttp.access").disabled,
    ) == before


async def test_a_task_whose_exception_nobody_read_does_not_log_its_token() -> None:
    with library_logs() as written:

        async def fail() -> None:
            raise RuntimeError(f"Authorization: Bearer {JWT}")

        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.wait([task])
        del task
        await asyncio.sleep(0)
    assert "never retrieved" in written.text
    assert not [shred for shred in shreds(JWT) if shred in written.text]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "success"),
        ({"outcome": "input_required"}, "success"),
        ({"outcome": "unauthenticated", "status": 401, "code": "RG203", "reason": "audience"}, "denied"),
        ({"outcome": "denied", "status": 403, "code": "RG301", "reason": "scope"}, "denied"),
        ({"outcome": "tool_error"}, "error"),
        ({"outcome": "protocol_error", "status": 400, "code": "RG110"}, "error"),
        ({"outcome": "upstream_error", "status": 502, "code": "RG501"}, "error"),
        ({"outcome": "cancelled", "status": 0}, "cancelled"),
    ],
)
def test_every_decision_about_a_call_is_audited_refusals_included(change: dict[str, Any], verdict: str) -> None:
    emit, written = subscribed(subscriber=audit_subscriber)
    emit(replace(CALL, actor="agent-7", **change))
    (line,) = written.lines
    assert (line["stream"], line["logger"], line["event"]) == ("audit", "rowgate.audit", "mcp_request")
    assert line["outcome"] == verdict
    assert (line.get("code"), line.get("reason")) == (change.get("code"), change.get("reason"))
    assert (line["subject"], line["client_id"], line["actor"]) == (CALL.subject, CALL.client_id, "agent-7")
    assert (line["server"], line["method"], line["capability"]) == ("main", "tools/call", "search_notes")


@pytest.mark.parametrize(
    "event",
    [
        replace(CALL, route="metadata"),
        replace(CALL, http_method="OPTIONS"),
        TokenLookup(hit=False),
        GatewayChanged("serving"),
    ],
)
def test_what_is_no_call_is_not_audited(event: Event) -> None:
    emit, written = subscribed(subscriber=audit_subscriber)
    emit(event)
    assert written.text == ""


def test_the_console_form_is_one_readable_line() -> None:
    emit, written = subscribed(Settings(format="console"))
    emit(CALL)
    assert re.match(r"2023-11-14T22:13:20.250Z \[info *\] request_finished +.*method=tools/call", written.text)


def test_a_word_of_a_client_is_made_fit_however_often_it_comes() -> None:
    emit, written = subscribed()
    for _ in range(3):
        emit(with_field("name", "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"))
        emit(with_field("name", "n" * 5000))
    assert {line["name"] for line in written.lines} == {"[redacted]", "n" * 200}


def test_what_is_remembered_of_one_request_does_not_reach_the_line_of_another() -> None:
    emit, written = subscribed()
    emit(with_field("subject", "alice"))
    emit(with_field("subject", "bob"))
    emit(with_field("subject", "alice"))
    assert [line["subject"] for line in written.lines] == ["alice", "bob", "alice"]
    assert all("capability" not in line for line in written.lines)
