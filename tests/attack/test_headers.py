"""What an attacker can do with header lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared import inbound

from attack.wire import once, request
from flow.client import envelope, mirrored
from flow.conftest import Running

CALL = envelope("tools/call", {"name": "echo", "arguments": {"text": "x"}})
BODY = json.dumps(CALL).encode()
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
FIELDS = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-X", "Accept", "Content-Type", "Origin", "Host")
FIELD_CHARACTERS = st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f")

SLOW_TO_PARSE = {
    "semicolons": b"application/json" + b";" * 32_000,
    "quotes": b'application/json; "' + b'"' * 32_000,
    "nested comments": b"application/json; charset=" + b"(" * 30_000,
}


@pytest.mark.parametrize("case", SLOW_TO_PARSE)
async def test_no_content_type_holds_everybody_up(running: Running, case: str) -> None:
    """The standard library's parser takes longer for one of these lines than `once` waits, and dies of another."""
    fields = (b"Content-Type", SLOW_TO_PARSE[case])
    answer = await once(running, request(running, BODY, fields, token=running.issuer.token()))
    assert answer.status in (400, 415)


@pytest.mark.parametrize("body", [BODY, NOTIFICATION, PING])
@pytest.mark.parametrize("name", FIELDS)
async def test_bytes_that_are_no_text_are_refused_and_no_defect(running: Running, name: str, body: bytes) -> None:
    fields = {**mirrored(CALL), name: ""}
    lines = [(key.encode(), value.encode() or b"\xff\xfe2026") for key, value in fields.items()]
    answer = await once(running, request(running, body, *lines, token=running.issuer.token()))
    assert answer.status < 500
    json.loads(answer.body or b"{}")


@given(st.lists(st.tuples(st.sampled_from(FIELDS), st.text(FIELD_CHARACTERS, max_size=40)), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
async def test_no_combination_of_headers_gets_past_the_ladder(running: Running, fields: list[tuple[str, str]]) -> None:
    before = len(running.plugin.calls)
    lines = [(name.encode(), value.encode("latin-1")) for name, value in fields]
    answer = await once(running, request(running, BODY, *lines, token=running.issuer.token()))
    # The body is modern, so it takes all three mirrored headers to be let in.
    assert 400 <= answer.status < 500
    assert isinstance(answer.json, dict)
    assert len(running.plugin.calls) == before


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_every_name_survives_the_header_codec(name: str) -> None:
    encoded = inbound.encode_header_value(name)
    assert encoded.isascii()
    assert not set(encoded) & set("\r\n\0")
    assert inbound.decode_header_value(encoded.strip()) == name


@given(st.text(st.characters(max_codepoint=0x7E), max_size=60), st.sampled_from(["", "=?base64?"]))
@settings(max_examples=300, deadline=None)
def test_no_header_value_decodes_to_what_would_be_sent_differently(value: str, prefix: str) -> None:
    """Two spellings of one name are fine; a spelling that two readers understand differently is not."""
    decoded = inbound.decode_header_value(prefix + value + ("?=" if prefix else ""))
    if decoded is not None:
        assert inbound.decode_header_value(inbound.encode_header_value(decoded)) == decoded


def described(line: bytes) -> dict[str, str]:
    """A challenge as a strict reader of RFC 9110 §11.6.1 has it."""
    scheme, _, parameters = line.decode().partition(" ")
    assert scheme == "Bearer"
    found: dict[str, str] = {}
    for parameter in parameters.split(", "):
        name, _, value = parameter.partition("=")
        assert value[:1] == value[-1:] == '"'
        assert '"' not in value[1:-1]
        assert name not in found
        found[name] = value[1:-1]
    return found


@given(st.binary(max_size=120).filter(lambda line: not set(line) & set(b"\r\n\0")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
async def test_whatever_stands_for_credentials_gets_the_same_challenge(running: Running, credentials: bytes) -> None:
    answer = await once(running, request(running, BODY, (b"Authorization", b"x" + credentials)))
    if answer.status == 400 and "RG108" in answer.json["code"]:
        return  # control characters: the HTTP parser refused them
    assert answer.status == 401
    challenge = described((answer.header("WWW-Authenticate") or "").encode())
    assert challenge["resource_metadata"] == f"{running.public_url}/.well-known/oauth-protected-resource/mcp"
    assert "error" not in challenge
