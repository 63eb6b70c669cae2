"""One decision: what is missing, whether a new token could bring it, and what to ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowgate.auth.principal import Actor
from rowgate.errors import AssuranceTooLow, InsufficientScope, ScopeNotGranted, UnknownCapability
from rowgate.policy.conditions import AalAtLeast, Asks, ClaimIs, ClientIn, HasSession, Unanswerable
from rowgate.policy.rules import Decision, Missing, Requirement, ScopePolicy, decide, require, require_token

from .conftest import caller, server


def _decide(
    held: set[str] | None = None,
    *,
    scopes: tuple[str, ...] = (),
    roles: tuple[tuple[str, ...], ...] = (),
    has_roles: tuple[str, ...] = (),
    policy: ScopePolicy | None = None,
) -> Decision:
    return decide(
        caller(scopes=held or (), roles=has_roles), Requirement(scopes, roles), policy or ScopePolicy(issuable=scopes)
    )


def test_nothing_required_is_allowed() -> None:
    assert _decide() == Decision(allowed=True)


def test_every_required_scope_must_be_held() -> None:
    assert _decide({"a", "b"}, scopes=("a", "b")).allowed
    assert _decide({"a"}, scopes=("a", "b")).missing == (Missing("scope", ("b",), "token"),)


def test_one_of_the_named_roles_is_enough() -> None:
    assert _decide(roles=(("editor", "admin"),), has_roles=("admin",)).allowed
    assert _decide(roles=(("editor", "admin"),)).missing == (Missing("role", ("editor", "admin"), "nothing"),)


def test_what_a_server_requires_is_required_of_every_entry() -> None:
    policy = ScopePolicy(required=["base"], issuable=["base", "a"])
    assert _decide({"a"}, scopes=("a",), policy=policy).missing == (Missing("scope", ("base",), "token"),)
    assert not _decide(set(), policy=policy).allowed


def test_the_challenge_names_everything_the_operation_needs_held_or_not() -> None:
    policy = ScopePolicy(required=["base"], issuable=["base", "a", "b", "unrelated"])
    denied = _decide({"base", "a"}, scopes=("a", "b"), policy=policy)
    assert denied.challenge == ("base", "a", "b")
    with pytest.raises(InsufficientScope) as refusal:
        require(denied)
    assert refusal.value.scopes == ("base", "a", "b")


def test_a_missing_role_hides_even_where_a_scope_is_missing_too() -> None:
    denied = _decide(scopes=("a",), roles=(("editor",),))
    assert denied.hides
    with pytest.raises(UnknownCapability):
        require(denied)


def test_a_scope_that_no_new_token_could_bring_hides() -> None:
    denied = _decide(scopes=("a",), policy=ScopePolicy(issuable=["b"]))
    assert denied.hides
    assert denied.missing == (Missing("scope", ("a",), "nothing"),)


def test_an_allowed_decision_raises_nothing() -> None:
    require(Decision(allowed=True))


def test_implication_reaches_any_distance_and_survives_circles() -> None:
    policy = ScopePolicy(implies={"admin": ["write"], "write": ["read"], "read": ["list"], "list": ["read"]})
    assert policy.held(frozenset({"admin"})) == {"admin", "write", "read", "list"}
    assert policy.held(frozenset({"list"})) == {"list", "read"}
    assert _decide({"admin"}, scopes=("list",), policy=policy).allowed


def test_implication_has_one_direction() -> None:
    policy = ScopePolicy(issuable=["admin", "read"], implies={"admin": ["read"]})
    assert not _decide({"read"}, scopes=("admin",), policy=policy).allowed


def test_a_scope_that_only_a_wider_one_brings_is_asked_for_by_the_narrowest_of_those() -> None:
    policy = ScopePolicy(issuable=["root", "write"], implies={"root": ["write", "other"], "write": ["read"]})
    denied = _decide(scopes=("read",), policy=policy)
    assert not denied.hides
    assert denied.challenge == ("write",)


def test_a_held_scope_that_cannot_be_asked_for_is_not_in_the_challenge() -> None:
    policy = ScopePolicy(issuable=["a"])
    assert _decide({"granted"}, scopes=("granted", "a"), policy=policy).challenge == ("a",)


def test_the_configuration_says_what_is_issuable_before_the_default_does() -> None:
    entry = {"from": "notes", "tools": ["a"]}
    assert ScopePolicy.of(server(entry).scopes, issuable=["email"]).issuable == {"email"}
    assert ScopePolicy.of(server(entry, scopes={"issuable": ["x"]}).scopes, issuable=["email"]).issuable == {"x"}


def test_whoever_meets_a_joined_requirement_meets_each_of_its_parts() -> None:
    joined = Requirement.all_of([Requirement(("a",), (("x", "y"),)), Requirement(("b", "a"), (("z",),))])
    assert joined == Requirement(("a", "b"), (("x", "y"), ("z",)))


def test_required_scopes_bind_whoever_acts_for_the_user_and_not_the_users_own_session() -> None:
    policy = ScopePolicy(required=["a"], issuable=["a"])
    own = caller(client_id=None, session_id="s")
    assert decide(own, Requirement(("a",)), policy).allowed
    assert not decide(caller(session_id="s"), Requirement(("a",)), policy).allowed
    acted = caller(client_id=None, session_id="s", actors=(Actor("agent"),))
    assert not decide(acted, Requirement(("a",)), policy).allowed
    application = caller(kind="application", client_id=None)
    assert not decide(application, Requirement(("a",)), policy).allowed


@pytest.mark.parametrize("claims", [{"scope": ""}, {"scope": "b"}, {"scp": ["b"]}])
def test_a_token_that_names_scopes_is_held_to_them_even_without_a_client(claims: dict[str, object]) -> None:
    held = caller(client_id=None, session_id="s", claims=claims)
    assert not decide(held, Requirement(("a",)), ScopePolicy(issuable=["a"])).allowed


def test_a_token_of_no_session_is_bound_although_no_client_is_named() -> None:
    assert not decide(caller(client_id=None), Requirement(("a",)), ScopePolicy(issuable=["a"])).allowed


def test_a_users_own_session_is_still_held_to_roles_and_conditions() -> None:
    own = caller(client_id=None, session_id="s")
    assert decide(own, Requirement(roles=(("editor",),)), ScopePolicy()).hides
    assert decide(own, Requirement(conditions=(ClientIn(("c",)),)), ScopePolicy()).hides


@pytest.mark.parametrize(
    ("claims", "values", "met"),
    [
        ({"plan": "pro"}, ("pro",), True),
        ({"plan": "free"}, ("pro", "team"), False),
        ({"plan": ["free", "pro"]}, ("pro",), True),
        ({"plan": []}, ("pro",), False),
        ({}, ("pro",), False),
        ({"plan": None}, ("pro",), False),
        ({"plan": 1}, (True,), False),
        ({"plan": True}, (1,), False),
        ({"plan": "1"}, (1,), False),
        ({"plan": 1.0}, (1,), False),
        ({"plan": {"pro": 1}}, ("pro",), False),
        ({"plan": True}, (True,), True),
    ],
)
def test_a_claim_must_be_equal_in_value_and_type(
    claims: dict[str, object], values: tuple[str | int | bool, ...], met: bool
) -> None:
    assert ClaimIs("plan", values).met(caller(claims=claims)) is met


def test_a_claim_is_found_by_its_path_and_by_its_whole_name_first() -> None:
    nested = {"app_metadata": {"org": {"id": 7}}}
    assert ClaimIs("app_metadata.org.id", (7,)).met(caller(claims=nested))
    assert not ClaimIs("app_metadata.org.id.more", (7,)).met(caller(claims=nested))
    assert ClaimIs("https://acme.example/plan", ("pro",)).met(caller(claims={"https://acme.example/plan": "pro"}))


@pytest.mark.parametrize(
    ("held", "level", "met"),
    [
        ("aal2", "aal2", True),
        ("aal2", "aal1", True),
        ("aal1", "aal2", False),
        (None, "aal1", False),
        ("x", "aal2", False),
    ],
)
def test_a_level_of_assurance_includes_those_below_it(held: str | None, level: Any, met: bool) -> None:
    assert AalAtLeast(level).met(caller(aal=held)) is met


def test_a_weaker_sign_in_is_told_so_and_never_sent_for_another_token() -> None:
    denied = decide(
        caller(aal="aal1"), Requirement(("a",), conditions=(AalAtLeast("aal2"),)), ScopePolicy(issuable="a")
    )
    assert not denied.hides
    with pytest.raises(AssuranceTooLow):
        require(denied)


def test_rules_that_no_new_token_mends_hide() -> None:
    for condition in (ClaimIs("plan", ("pro",)), ClientIn(("other",)), HasSession(), Unanswerable("x.y")):
        assert decide(caller(), Requirement(conditions=(condition,)), ScopePolicy()).hides, condition


def test_a_scope_of_the_applications_grants_is_refused_without_a_challenge() -> None:
    policy = ScopePolicy(issuable=["a"], granted=True, grant_url="https://app.example/agents")
    denied = _decide(scopes=("a",), policy=policy)
    assert (denied.hides, denied.challenge) == (False, ())
    with pytest.raises(ScopeNotGranted) as refusal:
        require(denied, policy.grant_url)
    assert refusal.value.structured == {
        "kind": "forbidden",
        "code": "SCOPE_NOT_GRANTED",
        "scopes": ["a"],
        "grant_url": "https://app.example/agents",
    }


def test_before_a_request_is_read_only_what_a_new_token_mends_is_refused() -> None:
    with pytest.raises(InsufficientScope):
        require_token(_decide(policy=ScopePolicy(required=["a"], issuable=["a"])))
    require_token(_decide(policy=ScopePolicy(required=["a"], granted=True)))
    require_token(_decide(policy=ScopePolicy(required=["a"])))


def test_a_permission_and_a_session_are_left_to_be_asked() -> None:
    entry = {"from": "notes", "tools": ["a"], "require": {"permission": "x.y", "session": "fresh"}}
    requirement = Requirement.of(server(entry).capabilities[0].require, authorizer=True)
    decision = decide(caller(session_id="s"), requirement, ScopePolicy())
    assert (decision.allowed, decision.asks) == (True, Asks(("x.y",), "fresh"))


def test_without_an_authorizer_a_permission_hides() -> None:
    entry = {"from": "notes", "tools": ["a"], "require": {"permission": "x.y"}}
    assert decide(caller(), Requirement.of(server(entry).capabilities[0].require), ScopePolicy()).hides


def test_joined_requirements_ask_for_everything_and_for_the_fresher_session() -> None:
    one = Requirement(conditions=(HasSession(),), asks=Asks(("x",), "fresh"))
    other = Requirement(conditions=(HasSession(), ClientIn(("c",))), asks=Asks(("x", "y"), "live"))
    joined = Requirement.all_of([one, other])
    assert joined.asks == Asks(("x", "y"), "fresh")
    assert joined.conditions == (HasSession(), ClientIn(("c",)))


_SCOPES = st.frozensets(st.sampled_from("abcd"), max_size=4)
_POLICIES = st.builds(
    ScopePolicy,
    required=st.lists(st.sampled_from("abcd"), max_size=2),
    issuable=_SCOPES,
    implies=st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("abcd"), max_size=3), max_size=4),
)
_REQUIREMENTS = st.builds(
    Requirement,
    scopes=st.lists(st.sampled_from("abcd"), max_size=3).map(tuple),
    roles=st.lists(st.lists(st.sampled_from("xy"), min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
)
_ROLES = st.frozensets(st.sampled_from("xy"))


@given(_POLICIES, _REQUIREMENTS, _SCOPES, _SCOPES, _ROLES)
def test_more_scopes_never_take_anything_away(
    policy: ScopePolicy, requirement: Requirement, held: frozenset[str], more: frozenset[str], roles: frozenset[str]
) -> None:
    if decide(caller(scopes=held, roles=roles), requirement, policy).allowed:
        assert decide(caller(scopes=held | more, roles=roles), requirement, policy).allowed


@given(_POLICIES, _REQUIREMENTS, _SCOPES, _ROLES)
def test_a_token_with_what_the_challenge_names_gets_on(
    policy: ScopePolicy, requirement: Requirement, held: frozenset[str], roles: frozenset[str]
) -> None:
    """The authorization server issues what was asked for, and adds what it adds unasked."""
    denied = decide(caller(scopes=held, roles=roles), requirement, policy)
    if denied.allowed or denied.hides:
        return
    assert set(denied.challenge) <= policy.issuable
    unasked = policy.held(held) - policy.issuable
    assert decide(caller(scopes={*denied.challenge, *unasked}, roles=roles), requirement, policy).allowed


@given(_POLICIES, _REQUIREMENTS, _SCOPES, _ROLES)
def test_a_hidden_capability_stays_hidden_with_any_token_that_could_be_issued(
    policy: ScopePolicy, requirement: Requirement, held: frozenset[str], roles: frozenset[str]
) -> None:
    if decide(caller(scopes=held, roles=roles), requirement, policy).hides:
        assert not decide(caller(scopes=policy.issuable | held, roles=roles), requirement, policy).allowed
