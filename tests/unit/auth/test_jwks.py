from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from joserfc.jwk import ECKey, OctKey, RSAKey

from rowgate.auth.issuer import TrustedIssuer
from rowgate.auth.jwks import MAX_DOCUMENT_BYTES, KeySource
from rowgate.auth.keys import MAX_KEYS, verification_keys
from rowgate.errors import ConfigurationError, KeysUnavailable


async def test_requests_that_come_together_share_one_fetch(door: Any, local: Any) -> None:
    source = door().source
    found = await asyncio.gather(*(source.find("ec-1", "ES256") for _ in range(50)))
    assert all(key is not None for key in found)
    assert local.fetches == 1


async def test_a_flood_of_unknown_kids_costs_one_fetch_in_each_cool_down(door: Any, local: Any, clock: Any) -> None:
    source = door().source
    await source.refresh()
    for number in range(100):
        assert await source.find(f"random-{number}", "ES256") is None
    assert local.fetches == 2
    await asyncio.gather(*(source.find(f"more-{number}", "ES256") for number in range(100)))
    assert local.fetches == 2
    clock.advance(30)
    await asyncio.gather(*(source.find(f"late-{number}", "ES256") for number in range(100)))
    assert local.fetches == 3


async def test_a_token_without_a_kid_provokes_no_fetch(door: Any, local: Any) -> None:
    source = door().source
    await source.refresh()
    assert await source.find(None, "RS256") is None
    assert local.fetches == 1


async def test_a_rotated_key_is_found_by_one_refetch(door: Any, local: Any, signing: Any) -> None:
    source = door().source
    await source.refresh()
    local.publish(signing.ec, signing.other_ec)
    assert await source.find("ec-2", "ES256") is not None
    assert local.fetches == 2


async def test_a_key_that_vanished_from_the_set_drops(door: Any, local: Any, signing: Any) -> None:
    source = door().source
    assert await source.find("ec-1", "ES256") is not None
    before = source.generation
    local.publish(signing.other_ec)
    await source.refresh()
    assert source.generation != before
    assert await source.find("ec-1", "ES256") is None


async def test_an_unchanged_set_keeps_its_generation(door: Any) -> None:
    source = door().source
    await source.refresh()
    before = source.generation
    await source.refresh()
    assert source.generation == before


async def test_a_set_that_is_due_is_renewed_behind_the_request(door: Any, local: Any, clock: Any) -> None:
    source = door().source
    await source.refresh()
    clock.advance(601)
    local.open.clear()
    assert await source.find("ec-1", "ES256") is not None  # answers although the source does not
    local.open.set()
    assert await source.refresh()
    assert local.fetches == 2


async def test_a_set_that_nobody_renewed_for_long_is_not_trusted_before_it_is(
    door: Any, local: Any, signing: Any, clock: Any
) -> None:
    source = door().source
    await source.refresh()
    local.publish(signing.other_ec)
    clock.advance(7200)
    assert await source.find("ec-1", "ES256") is None


async def test_a_failing_source_keeps_the_last_good_set_until_it_is_too_old(door: Any, local: Any, clock: Any) -> None:
    opened = door()
    source = opened.source
    await source.refresh()
    local.answer = lambda: web.Response(status=503)
    for _ in range(23):
        clock.advance(3600)
        assert await source.find("ec-1", "ES256") is not None
    clock.advance(3601)
    with pytest.raises(KeysUnavailable):
        await source.find("ec-1", "ES256")
    assert not source.available
    assert set(opened.refreshes[1:]) == {"failed"}
    local.answer = None
    clock.advance(5)
    assert await source.find("ec-1", "ES256") is not None


async def test_a_known_failure_holds_no_request_up(door: Any, local: Any, clock: Any) -> None:
    source = door().source
    await source.refresh()
    local.answer = lambda: web.Response(status=503)
    clock.advance(7200)
    await source.find("ec-1", "ES256")
    local.open.clear()
    clock.advance(60)
    assert await source.find("ec-1", "ES256") is not None  # the hanging fetch is not waited for


async def test_keys_that_were_never_had_are_503_and_asked_for_at_a_bounded_pace(
    door: Any, local: Any, clock: Any
) -> None:
    source = door().source
    local.answer = lambda: web.Response(status=500)
    for _ in range(20):
        with pytest.raises(KeysUnavailable) as caught:
            await source.find("ec-1", "ES256")
        assert caught.value.status == 503
        assert caught.value.headers["Retry-After"] == "5"
    assert local.fetches == 1
    clock.advance(5)
    local.answer = None
    assert await source.find("ec-1", "ES256") is not None


@pytest.mark.parametrize("keys", [[], [OctKey.generate_key(256, {"kid": "ec-1", "alg": "HS256"}).as_dict()]])
async def test_a_set_without_a_usable_key_is_no_success(door: Any, local: Any, keys: list[Any]) -> None:
    opened = door()
    local.keys = keys
    with pytest.raises(KeysUnavailable):
        await opened.source.find("ec-1", "ES256")
    event = opened.events[0]
    assert event.outcome == "empty"
    assert "HS256" in event.detail


async def test_an_empty_set_does_not_replace_a_good_one(door: Any, local: Any) -> None:
    opened = door()
    await opened.source.refresh()
    local.keys = []
    await opened.source.refresh()
    assert await opened.source.find("ec-1", "ES256") is not None
    assert opened.refreshes == ["ok", "empty"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(body=b"not json"),
        lambda: web.Response(body=b"[" * 100_000),
        lambda: web.json_response([]),
        lambda: web.json_response({"keys": {}}),
        lambda: web.json_response({"keys": [], "padding": "x" * MAX_DOCUMENT_BYTES}),
        lambda: web.json_response({"keys": [{}] * (MAX_KEYS + 1)}),
        lambda: web.Response(status=404),
        lambda: web.Response(status=206),
    ],
)
async def test_an_answer_that_is_no_key_set_is_a_failure(door: Any, local: Any, answer: Any) -> None:
    opened = door()
    local.answer = answer
    assert not await opened.source.refresh()
    assert opened.refreshes == ["failed"]


async def test_a_redirect_is_not_followed(door: Any, local: Any) -> None:
    opened = door()
    local.answer = lambda: web.Response(status=302, headers={"Location": "/elsewhere.json"})
    assert not await opened.source.refresh()
    assert local.elsewhere == 0


async def test_a_compressed_answer_is_bounded_after_it_is_unpacked(door: Any, local: Any) -> None:
    def bomb() -> web.Response:
        response = web.json_response({"keys": [], "padding": "x" * 50 * MAX_DOCUMENT_BYTES})
        response.enable_compression(web.ContentCoding.gzip)
        return response

    opened = door()
    local.answer = bomb
    assert not await opened.source.refresh()
    assert opened.refreshes == ["failed"]


async def test_a_source_that_hangs_is_given_up(trusted: Any, local: Any, session: Any) -> None:
    events: list[Any] = []
    source = KeySource(trusted(), session, timeout=0.05, emit=events.append)
    local.open.clear()
    with pytest.raises(KeysUnavailable):
        await source.find("ec-1", "ES256")
    assert [event.outcome for event in events] == ["failed"]


async def test_a_caller_that_leaves_does_not_take_the_keys_with_it(door: Any, local: Any) -> None:
    source = door().source
    local.open.clear()
    leaving = asyncio.ensure_future(source.find("ec-1", "ES256"))
    staying = asyncio.ensure_future(source.find("ec-1", "ES256"))
    await local.asked.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    local.open.set()
    assert await staying is not None
    assert local.fetches == 1


async def test_closing_ends_a_fetch_in_flight(door: Any, local: Any) -> None:
    opened = door()
    local.open.clear()
    waiting = asyncio.ensure_future(opened.source.refresh())
    await local.asked.wait()
    await opened.source.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert opened.events == []


@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example.com/jwks.json",
        "http://127.0.0.1.example.com/jwks.json",
        "http://10.0.0.1/jwks.json",
        "ftp://localhost/jwks.json",
        "file:///etc/passwd",
        "/jwks.json",
        "",
    ],
)
def test_keys_come_over_https_or_from_loopback(url: str) -> None:
    with pytest.raises(ConfigurationError):
        TrustedIssuer("https://i", url, ("ES256",), ("a",))


@pytest.mark.parametrize("url", ["https://i/jwks", "http://localhost:9/jwks", "http://127.1.2.3/j", "http://[::1]:1/j"])
def test_https_and_loopback_are_accepted(url: str) -> None:
    assert TrustedIssuer("https://i", url, ("ES256",), ("a",)).jwks_url == url


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ()},
        {"algorithms": ("HS256",)},
        {"algorithms": ("ES256", "none")},
        {"audiences": ()},
        {"audiences": ("",)},
        {"roles_claim": "user_metadata.roles"},
        {"roles_claim": "user_metadata"},
        {"issuer": ""},
    ],
)
def test_an_issuer_cannot_be_trusted_with_more_than_anyone_means(changes: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"issuer": "https://i", "jwks_url": "https://i/j", "algorithms": ("ES256",)}
    with pytest.raises(ConfigurationError):
        TrustedIssuer(**({**facts, "audiences": ("a",)} | changes))


def test_only_keys_that_may_verify_are_taken(signing: Any) -> None:
    good = dict(signing.ec.as_dict(private=False))
    bare = {name: good[name] for name in ("kty", "crv", "x", "y")}
    variants: list[Any] = [
        {**bare, "kid": "bare"},
        {**bare, "kid": "verify", "key_ops": ["verify"]},
        {**bare, "kid": "enc", "use": "enc"},
        {**bare, "kid": "ops", "key_ops": ["deriveKey"]},
        {**bare, "kid": "opstext", "key_ops": "verify"},
        {**bare, "kid": "alg", "alg": "ES384"},
        {**bare, "kid": "curve", "crv": "P-384"},
        {**bare, "kid": "point", "x": good["y"], "y": good["x"]},
        {**bare, "kid": "short", "x": "AA"},
        {**bare, "kid": 7},
        {"kty": "EC", "crv": "P-256", "kid": "partial"},
        {"kty": ["EC"], "kid": "list"},
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ", "kid": "oct", "alg": "ES256"},
        {"kty": "AKP", "kid": "future"},
        "text",
        None,
    ]
    taken = verification_keys({"keys": variants}, ("ES256", "RS256"))
    assert [key.kid for key in taken] == ["bare", "verify"]


def test_a_weak_rsa_key_is_not_taken(signing: Any) -> None:
    jwk = dict(signing.rsa.as_dict(private=False))
    weak = {**jwk, "kid": "weak", "n": jwk["n"][: len(jwk["n"]) // 2]}
    assert [key.kid for key in verification_keys({"keys": [weak, jwk]}, ("RS256",))] == ["rsa-1"]


def test_a_private_key_published_by_mistake_is_reduced_to_its_public_half(signing: Any) -> None:
    for key in (signing.ec, signing.rsa):
        (taken,) = verification_keys({"keys": [dict(key.as_dict(private=True))]}, ("ES256", "RS256"))
        assert isinstance(taken.key, ECKey | RSAKey)
        assert not taken.key.is_private
        assert "d" not in taken.key.as_dict()


async def test_a_kid_that_two_keys_claim_names_neither(door: Any, local: Any, signing: Any) -> None:
    source = door().source
    local.keys = [dict(signing.ec.as_dict(private=False)), {**signing.other_ec.as_dict(private=False), "kid": "ec-1"}]
    assert await source.find("ec-1", "ES256") is None
