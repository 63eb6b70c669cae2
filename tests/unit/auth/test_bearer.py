from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from rowgate.auth.bearer import MAX_TOKEN_BYTES, bearer_token
from rowgate.errors import AuthenticationError, CredentialsMalformed, CredentialsMissing


def headers(*values: str) -> CIMultiDict[str]:
    return CIMultiDict([("Authorization", value) for value in values])


@pytest.mark.parametrize("value", ["Bearer abc", "bearer abc", "BEARER abc", "Bearer   abc", "Bearer abc "])
def test_the_scheme_is_read_in_any_case_and_with_any_number_of_spaces(value: str) -> None:
    assert bearer_token(headers(value)) == "abc"


def test_every_token68_character_is_taken() -> None:
    token = "azAZ09-._~+/=="
    assert bearer_token(headers(f"Bearer {token}")) == token


def test_the_name_of_the_header_has_no_case() -> None:
    assert bearer_token(CIMultiDict({"authorization": "Bearer abc"})) == "abc"


def test_a_request_without_the_header_has_no_credentials() -> None:
    with pytest.raises(CredentialsMissing):
        bearer_token(headers())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["Bearer"], "empty"),
        (["Bearer "], "empty"),
        ([""], "scheme"),
        (["Basic dXNlcjpwYXNz"], "scheme"),
        (["Token abc"], "scheme"),
        (["abc"], "scheme"),
        (["Bearer\tabc"], "scheme"),
        (["Bearer abc", "Bearer abc"], "repeated"),
        (["Basic abc", "Bearer abc"], "repeated"),
        (["Bearer Bearer abc"], "doubled"),
        (["Bearer bearer abc"], "doubled"),
        (["Bearer Bearer"], "doubled"),
        (["Bearer abc, Bearer def"], "list"),
        (["Bearer abc,def"], "list"),
        (["Bearer abc def"], "characters"),
        (["Bearer a=bc"], "characters"),
        (["Bearer \u00e4bc"], "characters"),
        (["Bearer abc\n"], "characters"),
        (['Bearer "abc"'], "characters"),
        (["Bearer " + "a" * (MAX_TOKEN_BYTES + 1)], "oversize"),
    ],
)
def test_whatever_is_not_one_bearer_token_is_malformed(values: list[str], reason: str) -> None:
    with pytest.raises(CredentialsMalformed) as caught:
        bearer_token(headers(*values))
    assert caught.value.reason == reason


def test_the_largest_token_is_taken() -> None:
    assert len(bearer_token(headers("Bearer " + "a" * MAX_TOKEN_BYTES))) == MAX_TOKEN_BYTES


@given(st.lists(st.text(), max_size=3))
def test_no_header_breaks_the_parser_or_is_repeated_to_the_client(values: list[str]) -> None:
    try:
        token = bearer_token(headers(*values))
    except AuthenticationError as error:
        token = error.detail
    assert token.isascii()
    assert " " not in token
