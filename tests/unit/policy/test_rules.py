"""One decision: what is missing, whether a new token could bring it, and what to ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowgate.errors import InsufficientScope, UnknownCapability
from rowgate.policy.rules import Decision, Missing, Requirement, ScopePolicy, decide, require

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
    assert _decide({"a"}, scopes=("a", "b")).missing == (Missing("scope", ("b",), True),)


def test_one_of_the_named_roles_is_enough() -> None:
    assert _decide(roles=(("editor", "admin"),), has_roles=("admin",)).allowed
    assert _decide(roles=(("editor", "admin"),)).missing == (Missing("role", ("editor", "admin"), False),)


def test_what_a_server_requires_is_required_of_every_entry() -> None:
    policy = ScopePolicy(required=["base"], issuable=["base", "a"])
    assert _decide({"a"}, scopes=("a",), policy=policy).missing == (Missing("scope", ("base",), True),)
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
    assert denied.missing == (Missing("scope", ("a",), False),)


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
