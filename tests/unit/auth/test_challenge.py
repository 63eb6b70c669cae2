"""Challenges, read back by the official SDK's own client."""

from __future__ import annotations

import re
from typing import Any

import pytest
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from rowgate.auth.challenge import challenge, challenge_for
from rowgate.auth.metadata import Resource
from rowgate.errors import (
    AuthenticationError,
    CredentialRefused,
    CredentialsMalformed,
    CredentialsMissing,
    InsufficientScope,
    TokenExpired,
    TokenRefused,
)

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
OAUTH = Resource("https://mcp.example.com/mcp", METADATA, ("email",))
BEARER = Resource("https://mcp.example.com/mcp", None, ())


def read(headers: dict[str, str], status: int = 401) -> dict[str, str | None]:
    response = Response(status, headers=headers)
    return {
        "metadata": extract_resource_metadata_from_www_auth(response),
        "scope": extract_scope_from_www_auth(response),
        "error": extract_field_from_www_auth(response, "error"),
        "description": extract_field_from_www_auth(response, "error_description"),
    }


@pytest.mark.parametrize(
    "error",
    [
        CredentialsMissing(reason="missing"),
        CredentialsMalformed(reason="scheme"),
        CredentialsMalformed(reason="doubled"),
    ],
)
def test_whoever_presents_no_token_gets_no_error_code(error: AuthenticationError) -> None:
    headers = challenge_for(error, OAUTH)
    assert headers == {"WWW-Authenticate": f'Bearer scope="email", resource_metadata="{METADATA}"'}
    assert read(headers) == {"metadata": METADATA, "scope": "email", "error": None, "description": None}


@pytest.mark.parametrize(
    "error",
    [TokenRefused(reason="signature"), TokenExpired(), CredentialRefused()],
)
def test_a_refused_token_is_invalid_and_the_client_can_find_its_way(error: AuthenticationError) -> None:
    seen = read(challenge_for(error, OAUTH))
    assert seen["error"] == "invalid_token"
    assert seen["metadata"] == METADATA
    assert seen["scope"] == "email"


def test_the_reason_of_a_refusal_is_not_told() -> None:
    values = {challenge_for(TokenRefused(reason=word), OAUTH)["WWW-Authenticate"] for word in ("signature", "audience")}
    assert len(values) == 1


def test_the_order_is_what_clients_act_on_first_and_free_text_last() -> None:
    value = challenge_for(InsufficientScope(("notes:write", "notes:read")), OAUTH)["WWW-Authenticate"]
    assert re.findall(r"(\w+)=", value) == ["error", "scope", "resource_metadata", "error_description"]
    assert value.startswith('Bearer error="insufficient_scope", scope="notes:write notes:read", ')


def test_a_missing_scope_is_challenged_with_everything_that_is_needed() -> None:
    seen = read(challenge_for(InsufficientScope(("a", "b")), OAUTH), status=403)
    assert seen["error"] == "insufficient_scope"
    assert seen["scope"] == "a b"
    assert seen["metadata"] == METADATA


def test_where_nothing_can_be_discovered_nothing_is_advertised() -> None:
    assert challenge_for(CredentialsMissing(), BEARER) == {"WWW-Authenticate": 'Bearer realm="mcp"'}
    seen = read(challenge_for(TokenExpired(), BEARER))
    assert seen == {"metadata": None, "scope": None, "error": "invalid_token", "description": TokenExpired.sentence}


def test_free_text_cannot_pose_as_a_parameter() -> None:
    text = 'x", resource_metadata="https://evil.example.com", scope=admin'
    value = challenge(None, error="invalid_token", description=text)
    seen = read({"WWW-Authenticate": value})
    assert seen["metadata"] is None
    assert seen["scope"] is None


@pytest.mark.parametrize(
    "url", ['https://h/"', "https://h/\r\nX: y", "https://h/ x", "https://h/\u00e4", "https://h\\"]
)
def test_a_metadata_url_that_is_none_is_a_defect(url: str) -> None:
    with pytest.raises(ValueError, match="plain URL"):
        challenge(url, error="invalid_token")


@given(
    st.one_of(st.none(), st.text()),
    st.one_of(st.none(), st.text()),
    st.lists(st.text(), max_size=4),
    st.sampled_from([None, METADATA]),
)
def test_no_text_breaks_the_header(error: Any, description: Any, scope: list[str], url: str | None) -> None:
    value = challenge(url, error=error, description=description, scope=scope)
    pair = r'[a-z_]+="[\x20\x21\x23-\x5b\x5d-\x7e]+"'
    assert re.fullmatch(rf"Bearer {pair}(, {pair})*", value)
    assert value.isascii()
    assert read({"WWW-Authenticate": value})["metadata"] == url


@given(st.lists(st.text(st.sampled_from('az:/."\\ \x00\x7f\u00e4'), max_size=5), max_size=5))
def test_scopes_that_a_header_cannot_carry_are_left_out(scopes: list[str]) -> None:
    seen = read({"WWW-Authenticate": challenge(METADATA, error="insufficient_scope", scope=scopes)}, status=403)
    fit = [scope for scope in dict.fromkeys(scopes) if re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", scope)]
    assert (seen["scope"] or "").split() == fit
