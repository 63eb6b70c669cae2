"""What an attacker can do with a request line, and with time."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack.wire import Connection, once, request
from flow.client import envelope, mirrored
from flow.conftest import Running

LIST = envelope("tools/list")
BODY = json.dumps(LIST).encode()
ROUTED = [(name.encode(), value.encode()) for name, value in mirrored(LIST).items()]
PARTS = st.sampled_from(
    ["/mcp", "/", "//", ".", "..", "%2e", "%2f", "%00", ";", "?", "#", "@", "\\", "mcp", "*", "x" * 300]
)


@given(st.lists(PARTS, min_size=1, max_size=6).map("".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
async def test_no_target_but_the_endpoints_own_is_the_endpoint(running: Running, target: str) -> None:
    answer = await once(running, request(running, BODY, *ROUTED, target=target, token=running.issuer.token()))
    path = target.partition("?")[0]
    if path in ("/mcp", "/mcp/"):
        assert answer.status == 200
    else:
        assert answer.status in (400, 404)
        assert answer.header("Content-Type") == "application/problem+json"
        assert answer.header("Location") is None


@given(st.text(st.sampled_from("ABCXYZabc-_!#"), min_size=1, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
async def test_no_method_but_post_does_anything(running: Running, method: str) -> None:
    before = len(running.plugin.received)
    answer = await once(running, request(running, BODY, *ROUTED, method=method, token=running.issuer.token()))
    assert answer.status in (400, 405)
    assert len(running.plugin.received) == before


async def test_a_client_that_asks_first_is_told_to_send_its_body(running: Running) -> None:
    """RFC 9110 §10.1.1. Otherwise a client that keeps to it waits until the gateway gives it up."""
    head, _, body = request(
        running, BODY, *ROUTED, (b"Expect", b"100-continue"), token=running.issuer.token()
    ).partition(b"\r\n\r\n")
    connection = await Connection.to(running)
    interim = await connection.ask(head + b"\r\n\r\n")
    assert interim.status == 100
    assert (await connection.ask(body)).json["result"]["tools"]
    connection.close()


async def test_a_client_that_asks_first_and_is_refused_need_not_send_its_body(running: Running) -> None:
    data = request(running, BODY, *ROUTED, (b"Expect", b"100-continue"), token="forged")
    answer = await once(running, data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    assert answer.status == 401


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c", b"TLS/1.0"])
async def test_no_upgrade_leaves_the_protocol(running: Running, upgrade: bytes) -> None:
    fields = [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade), (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")]
    answer = await once(running, request(running, BODY, *ROUTED, *fields, token=running.issuer.token()))
    assert answer.status in (200, 400)
    assert answer.header("Upgrade") is None


async def test_a_body_that_does_not_come_is_given_up(start: object) -> None:
    running: Running = await start(lambda tree: tree["gateway"].update(request={"timeout": "1s"}))  # type: ignore[operator]
    data = request(running, BODY, *ROUTED, token=running.issuer.token())
    connection = await Connection.to(running)
    answer = await connection.ask(data[:-5])
    assert (answer.status, answer.json["code"]) == (408, "RG121")
    assert await connection.rest() == b""
    connection.close()


async def test_a_refused_request_does_not_lend_its_body_to_the_next(running: Running) -> None:
    """The body of a request that nobody read holds one: it must not be taken for a request of this connection."""
    inner = request(running, BODY, *ROUTED, token=running.issuer.token())
    connection = await Connection.to(running)
    connection.writer.write(request(running, inner, *ROUTED, token="forged"))
    assert (await connection.answer()).status == 401
    connection.writer.write_eof()
    assert await connection.rest() == b""
    connection.close()
    assert all(event.outcome != "ok" for event in running.finished)
