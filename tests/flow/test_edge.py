"""Hosts, origins, preflights and raw bytes: what is decided before anybody is asked who they are."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from flow.client import envelope, mirrored
from flow.conftest import Running

PING = envelope("tools/list")


async def test_a_foreign_host_is_refused_before_anything_else(running: Running) -> None:
    for path in ("/mcp", "/.well-known/oauth-protected-resource/mcp"):
        reply = await running.client.send(
            PING, token=running.issuer.token(), headers={"Host": "evil.example"}, url=running.public_url + path
        )
        assert (reply.status, reply.json["code"]) == (421, "RG106")
        assert "WWW-Authenticate" not in reply.headers


async def test_a_foreign_origin_is_refused_and_gets_no_cors(running: Running) -> None:
    headers = mirrored(PING) | {"Origin": "https://evil.example"}
    reply = await running.client.send(PING, token=running.issuer.token(), headers=headers)
    assert (reply.status, reply.json["code"]) == (403, "RG107")
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert "Origin" in reply.headers["Vary"]


async def test_the_challenge_itself_is_readable_in_a_browser(start: Any) -> None:
    running = await start(lambda tree: tree["gateway"].update(allowed_origins=["https://app.example"]))
    reply = await running.client.send(PING, headers=mirrored(PING) | {"Origin": "https://app.example"})
    assert reply.status == 401
    assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "WWW-Authenticate" in reply.headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in reply.headers


async def test_a_preflight_needs_no_token_and_reaches_no_plugin(start: Any) -> None:
    running = await start(lambda tree: tree["gateway"].update(allowed_origins=["https://app.example"]))
    before = len(running.plugin.received)
    headers = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, mcp-method, mcp-param-region, x-evil",
    }
    reply = await running.client.send(None, method="OPTIONS", headers=headers)
    assert reply.status == 204
    allowed = reply.headers["Access-Control-Allow-Headers"].lower()
    assert "authorization" in allowed
    assert "mcp-param-region" in allowed
    assert "x-evil" not in allowed
    assert len(running.plugin.received) == before


async def test_no_url_that_is_emitted_follows_the_request(start: Any) -> None:
    running = await start(lambda tree: tree["gateway"].update(allowed_hosts=["internal:8000"]))
    headers = mirrored(PING) | {"Host": "internal:8000", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "ftp"}
    reply = await running.client.send(PING, headers=headers)
    assert f'resource_metadata="{running.public_url}/' in reply.headers["WWW-Authenticate"]


async def test_a_browser_gets_a_page_that_says_what_this_is(running: Running) -> None:
    reply = await running.client.send(None, method="GET", headers={"Accept": "text/html,*/*;q=0.8"})
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/html")
    assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
    assert running.client.url in reply.body.decode()


async def raw(running: Running, data: bytes) -> bytes:
    url = urlsplit(running.public_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def request(running: Running, target: str = "/mcp", *headers: str, body: bytes = b"") -> bytes:
    host = urlsplit(running.public_url).netloc
    lines = [f"POST {target} HTTP/1.1", f"Host: {host}", *headers, "Connection: close"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "target",
    [
        "/mcp/../mcp",
        "/mcp/%2e%2e/mcp",
        "/mcp%2f",
        "//mcp",
        "/./mcp",
        "/%6dcp",
        "/mcp;x",
        "/MCP",
        "/mcp/x",
        "/mcp/%zz",
        "http://evil.example/mcp",
    ],
)
async def test_only_the_exact_path_is_the_endpoint(running: Running, target: str) -> None:
    before = len(running.plugin.received)
    answer = await raw(running, request(running, target, "Content-Length: 0"))
    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))
    assert b"application/problem+json" in answer
    assert len(running.plugin.received) == before


MALFORMED = (b"HTTP/1.0 400 ", b"HTTP/1.1 400 ")
"""aiohttp answers what it could not parse as HTTP/1.0, which closes the connection."""

SMUGGLED = {
    "two lengths": (("Content-Length: 4", "Content-Length: 40"), b"xxxx"),
    "length and chunked": (("Content-Length: 4", "Transfer-Encoding: chunked"), b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"),
    "a bare CR in a header": (("X-A: b\rX-Evil: 1", "Content-Length: 0"), b""),
    "a blank before the colon": (("Content-Length : 4",), b"xxxx"),
    "a negative length": (("Content-Length: -1",), b""),
    "a broken chunk": (("Transfer-Encoding: chunked",), b"zz\r\n"),
}


@pytest.mark.parametrize("case", SMUGGLED)
async def test_ambiguous_framing_is_refused_and_the_connection_closed(running: Running, case: str) -> None:
    headers, body = SMUGGLED[case]
    before = len(running.plugin.received)
    fields = (
        *headers,
        f"Authorization: Bearer {running.issuer.token()}",
        "Content-Type: application/json",
        "Accept: */*",
    )
    answer = await raw(running, request(running, "/mcp", *fields, body=body))
    assert answer.startswith(MALFORMED)
    assert answer.count(b"HTTP/1.") == 1
    assert len(running.plugin.received) == before
    assert b"ey" not in answer.partition(b"\r\n\r\n")[2]


async def test_bytes_that_are_no_http_get_our_answer_and_quote_nothing(running: Running) -> None:
    answer = await raw(running, b"\x16\x03\x01 eyJhbGciOi secret\r\n\r\n")
    assert answer.startswith(MALFORMED)
    assert b"RG108" in answer
    assert b"secret" not in answer
    assert b"secret" not in bytes(running.log.data)


async def test_health_and_metrics_stand_on_the_internal_listener_only(running: Running) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/context/jwks.json"):
        assert (await running.internal(path))[0] == 200
        public = await running.client.send(None, method="GET", url=running.public_url + path)
        assert public.status == 404
    _, keys = await running.internal("/context/jwks.json")
    assert '"d"' not in keys


async def test_no_answer_tells_what_it_runs_on(running: Running) -> None:
    host = urlsplit(running.public_url).netloc.encode()
    for data in (
        request(running),
        b"rubbish\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n",
    ):
        answer = await raw(running, data)
        assert b"Server: rowgate\r\n" in answer
        assert b"aiohttp" not in answer
        assert b"Python" not in answer


async def test_the_request_id_is_in_the_answer_the_error_and_the_log(running: Running) -> None:
    reply = await running.client.call("nothing", token=running.issuer.token())
    identifier = reply.headers["X-Request-Id"]
    assert reply.error["data"]["requestId"] == identifier
    lines = [line for line in running.log.lines if line.get("request_id") == identifier]
    assert {line.get("stream", "log") for line in lines} == {"log", "audit"}
    access = next(line for line in lines if line.get("stream") != "audit")
    assert (access["server"], access["method"], access["outcome"]) == ("main", "tools/call", "denied")
    assert access["duration_ms"] > 0
