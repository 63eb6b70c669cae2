from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from signed_contexts import (
    NOW,
    Clock,
    decode,
    encode,
    refused,
    resign,
    sign,
    verifier,
    verify,
)

from rowgate_plugin.contract import (
    Actor,
    ContextError,
)
from rowgate_plugin.replay import ReplayGuard


def test_a_context_is_good_once() -> None:
    once = verifier()
    token = sign()
    verify(token, once)
    assert refused(token, once) == "replayed"


def test_a_tampered_copy_does_not_use_up_the_original() -> None:
    once = verifier()
    token = sign()
    assert refused(token, once, body=b"other") == "digest"
    assert refused(token, once, authorization="Bearer other") == "credential"
    assert verify(token, once).sub == "alice"


def test_a_context_is_remembered_for_as_long_as_it_could_be_used() -> None:
    clock = Clock()
    once = verifier(clock=clock)
    token = sign()
    verify(token, once)
    clock.now = NOW + 64.9
    assert refused(token, once) == "replayed"
    clock.now = NOW + 65
    assert refused(token, once) == "expired"


def test_a_full_memory_refuses_new_contexts_rather_than_forget_old_ones() -> None:
    clock = Clock()
    once = verifier(clock=clock, replay_capacity=2)
    first, second = sign(), sign()
    verify(first, once)
    verify(second, once)
    assert refused(sign(), once) == "capacity"
    assert refused(first, once) == "replayed"
    clock.now = NOW + 66
    assert verify(sign(clock=clock), once).sub == "alice"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20)), max_size=60))
def test_the_memory_never_forgets_a_living_jti_and_never_grows_past_its_bound(spends: list[tuple[int, int]]) -> None:
    guard = ReplayGuard(3)
    living: dict[str, int] = {}
    for now, (name, life) in enumerate(spends):
        living = {jti: until for jti, until in living.items() if until > now}
        outcome = guard.spend(str(name), until=now + life, now=now)
        if str(name) in living:
            assert outcome == "replayed"
        elif len(living) == 3:
            assert outcome == "capacity"
        else:
            assert outcome == "fresh"
            living[str(name)] = now + life
        assert len(guard) == len(living)


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}"))
def test_a_hostile_header_is_refused_and_never_an_accident(token: str) -> None:
    assert refused(token) in ("missing", "malformed", "unknown_key")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), json_values), json_values)
def test_a_hostile_jose_header_is_refused_and_never_an_accident(header: Any, payload: Any) -> None:
    assert refused(f"{encode(header)}.{encode(payload)}.{encode(b'x' * 64)}") in ("malformed", "unknown_key")


@given(st.dictionaries(st.sampled_from(sorted(decode(sign(act=[Actor("a")]).split(".")[1]))), json_values))
def test_any_signed_members_give_a_context_or_a_reason(members: dict[str, Any]) -> None:
    try:
        verify(resign(sign(act=[Actor("a")]), **members))
    except ContextError as error:
        assert error.reason  # noqa: PT017


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(subject=names, email=names, claims=st.dictionaries(names, json_values, max_size=3), body=st.binary(max_size=50))
def test_whatever_is_signed_is_read_back(subject: str, email: str, claims: dict[str, Any], body: bytes) -> None:
    token = sign(sub=subject, email=email, claims=claims, body=body)
    context = verify(token, body=body)
    assert (context.sub, context.email, context.claims) == (subject, email, claims)
    assert token.isascii()
