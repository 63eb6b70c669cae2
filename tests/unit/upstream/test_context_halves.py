"""What the gateway keeps of a context between two requests, and what it makes anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from joserfc.jwk import KeySet, OKPKey

from rowgate.auth.principal import Principal
from rowgate.upstream.context import ContextIssuer, ContextKeys
from rowgate_plugin.contract import Context, ContextVerifier

NOW = 1_700_000_000.0
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
ALICE = Principal("user", "alice", "https://issuer", "client-1", frozenset({"email"}), credential="alice.s.token")
BOB = Principal("user", "bob", "https://issuer", "client-1", frozenset({"email"}), credential="bob.s.token")


class Wire:
    """An issuer, and the plugin that it speaks to."""

    def __init__(self) -> None:
        self.now = NOW
        key = OKPKey.generate_key("Ed25519", auto_kid=True)
        self.issuer = ContextIssuer(ContextKeys(key), issuer="https://gateway", lifetime=60, clock=lambda: self.now)
        self.plugin = ContextVerifier(KeySet([key]), audience="notes", clock=lambda: self.now)

    def sent(self, caller: Principal | None, *, credential: str | None = None, **change: Any) -> Context:
        said: dict[str, Any] = {
            "server": "main",
            "method": "tools/call",
            "name": "get",
            "request_id": "r" * 8,
            **change,
        }
        token = self.issuer.sign(caller, plugin="notes", trace_id=None, body=BODY, credential=credential, **said)
        authorization = None if credential is None else f"Bearer {credential}"
        return self.plugin.verify(token, body=BODY, authorization=authorization)


def test_callers_in_turn_are_each_stated_as_themselves() -> None:
    wire = Wire()
    for caller in (ALICE, BOB, ALICE, BOB):
        context = wire.sent(caller, credential=caller.credential)
        assert (context.sub, context.scope) == (caller.subject, caller.scopes)


def test_a_caller_with_and_without_a_credential_is_two_statements() -> None:
    wire = Wire()
    for credential in (ALICE.credential, None, ALICE.credential, None, "another"):
        assert (wire.sent(ALICE, credential=credential).ath is None) == (credential is None)


def test_time_name_and_identifier_are_those_of_the_request() -> None:
    wire = Wire()
    first = wire.sent(ALICE, name="get", request_id="first-request")
    wire.now += 30
    second = wire.sent(ALICE, name="delete", request_id="second-request")
    assert (first.name, second.name) == ("get", "delete")
    assert (first.request_id, second.request_id) == ("first-request", "second-request")
    assert second.exp - first.exp == 30
    assert first.jti != second.jti


def test_a_caller_with_other_scopes_is_not_taken_for_the_one_it_was_made_from() -> None:
    wire = Wire()
    wire.sent(ALICE)
    assert wire.sent(replace(ALICE, scopes=frozenset({"notes:write"}))).scope == {"notes:write"}
    assert wire.sent(replace(ALICE, subject="mallory")).sub == "mallory"


def test_another_issuer_does_not_take_over_what_the_first_one_kept() -> None:
    first, second = Wire(), Wire()
    first.sent(ALICE)
    assert second.sent(ALICE).sub == "alice"


def test_the_gateway_itself_still_only_lists() -> None:
    wire = Wire()
    assert wire.sent(None, method="tools/list", name=None).kind == "gateway"
    with pytest.raises(ValueError, match="only lists"):
        wire.sent(None)


def test_half_a_surrogate_pair_in_a_claim_is_no_defect() -> None:
    assert Wire().sent(replace(ALICE, email="\ud800")).email == "\ud800"
