from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey

from rowgate_plugin.keys import (
    JWKS,
    JWKS_FILE,
    JWKS_URL,
    MAX_DOCUMENT_BYTES,
    SECRET,
    ContextKeys,
    keys_from_environment,
    read_jwks,
)
from rowgate_plugin.settings import SettingsError

KEY = OKPKey.generate_key("Ed25519", auto_kid=True)
NEXT = OKPKey.generate_key("Ed25519", auto_kid=True)


def document(*keys: Any, private: bool = False) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=private) for key in keys]}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """A source that a test opens by hand."""

    def __init__(self, *answers: KeySet | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self) -> KeySet:
        self.calls += 1
        await self.open.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        keys_from_environment(environ)
    return str(caught.value)


def test_without_any_key_the_plugin_does_not_start() -> None:
    message = refusal({})
    for name in (JWKS, JWKS_FILE, JWKS_URL, SECRET):
        assert name in message


def test_two_sources_are_one_too_many() -> None:
    assert SECRET in refusal({SECRET: "s" * 32, JWKS: json.dumps(document(KEY))})


@pytest.mark.parametrize("name", [JWKS, JWKS_FILE, JWKS_URL, SECRET])
def test_an_empty_setting_is_not_an_absent_one(name: str) -> None:
    assert f"{name} is empty" in refusal({name: "  "})


def test_a_short_secret_is_refused_and_not_shown() -> None:
    message = refusal({SECRET: "tooshort-secret"})
    assert "32 bytes" in message
    assert "tooshort" not in message


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "[]",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": [1]}',
        json.dumps(document(OKPKey.generate_key("X25519"))),
        json.dumps(document(OctKey.generate_key(128))),
        json.dumps(document(ECKey.generate_key("P-256"))),
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}',
        '{"keys": [{"kty": "OKP", "crv": "P-256", "x": "AA"}]}',
    ],
)
def test_what_cannot_verify_a_context_is_refused(value: str) -> None:
    assert JWKS in refusal({JWKS: value})


def test_a_plugin_refuses_to_hold_the_private_key() -> None:
    message = refusal({JWKS: json.dumps(document(KEY, private=True))})
    assert "private" in message
    assert KEY.as_dict(private=True)["d"] not in message


def test_a_jwk_alone_is_a_set_of_one() -> None:
    assert read_jwks(json.dumps(KEY.as_dict(private=False)), origin=JWKS).keys[0].kid == KEY.kid


def test_a_kind_of_key_from_the_future_is_passed_over() -> None:
    published = {"keys": [{"kty": "AKP", "alg": "ML-DSA-44", "pub": "x"}, *document(KEY)["keys"]]}
    assert [key.kid for key in read_jwks(json.dumps(published), origin=JWKS)] == [KEY.kid]


def test_a_secret_among_published_keys_is_refused() -> None:
    secret = {"kty": "oct", "k": base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")}
    with pytest.raises(SettingsError, match="secret"):
        read_jwks(json.dumps({"keys": [secret]}), origin=JWKS_URL, symmetric=False)


async def test_a_rotated_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(document(KEY)))
    keys = keys_from_environment({JWKS_FILE: str(path)})
    path.write_text(json.dumps(document(KEY, NEXT)))
    assert await keys.reload()
    assert [key.kid for key in keys.current()] == [KEY.kid, NEXT.kid]


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    assert JWKS_FILE in refusal({JWKS_FILE: str(tmp_path / "none.json")})


@pytest.mark.parametrize("url", ["ftp://gateway/x", "http://", "jwks.json", "https://user:pw@gateway/jwks.json"])
def test_a_url_is_plain_http(url: str) -> None:
    message = refusal({JWKS_URL: url})
    assert "pw" not in message


async def test_the_first_request_fetches_the_keys() -> None:
    async def publish(_: web.Request) -> web.Response:
        return web.json_response(document(KEY))

    application = web.Application()
    application.router.add_get("/context/jwks.json", publish)
    async with TestServer(application) as server:
        keys = keys_from_environment({JWKS_URL: str(server.make_url("/context/jwks.json"))})
        assert not keys.current()
        await keys.freshen()
        assert [key.kid for key in keys.current()] == [KEY.kid]


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 302, "headers": {"Location": "/other"}},
        {"status": 500},
        {"text": "x" * (MAX_DOCUMENT_BYTES + 1)},
        {"text": "<html>"},
        {"text": '{"keys": []}'},
    ],
)
async def test_a_bad_answer_gives_no_key(answer: dict[str, Any]) -> None:
    async def publish(_: web.Request) -> web.Response:
        return web.Response(**answer)

    async def other(_: web.Request) -> web.Response:
        return web.json_response(document(KEY))

    application = web.Application()
    application.router.add_get("/jwks.json", publish)
    application.router.add_get("/other", other)
    async with TestServer(application) as server:
        keys = keys_from_environment({JWKS_URL: str(server.make_url("/jwks.json"))})
        assert not await keys.reload()
        assert not keys.current()


async def test_many_requests_share_one_flight() -> None:
    source = Gate(KeySet([KEY, NEXT]))
    source.open.clear()
    keys = ContextKeys(KeySet([KEY]), source)
    waiting = [asyncio.ensure_future(keys.reload()) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    source.open.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [True] * 19
    assert source.calls == 1


async def test_unknown_kids_cannot_make_it_fetch_more_often_than_the_cool_down() -> None:
    clock = Clock()
    source = Gate(KeySet([KEY]), KeySet([NEXT]))
    keys = ContextKeys(KeySet([]), source, clock=clock, cooldown=5)
    assert await keys.reload()
    for _ in range(100):
        assert not await keys.reload()
    clock.now = 5
    assert await keys.reload()
    assert source.calls == 2


async def test_the_last_good_set_is_kept_while_the_source_fails_but_not_for_ever() -> None:
    clock = Clock()
    source = Gate(OSError("down"), KeySet([NEXT]))
    keys = ContextKeys(KeySet([KEY]), source, clock=clock, max_age=600, max_stale=86_400)
    clock.now = 80_000
    assert not await keys.reload()
    assert keys.current()
    clock.now = 86_401
    assert not keys.current()
    await keys.freshen()
    assert [key.kid for key in keys.current()] == [NEXT.kid]


async def test_an_aged_set_is_renewed_without_a_request_waiting_for_it() -> None:
    clock = Clock()
    source = Gate(KeySet([NEXT]))
    source.open.clear()
    keys = ContextKeys(KeySet([KEY]), source, clock=clock, max_age=600)
    clock.now = 601
    await keys.freshen()
    assert [key.kid for key in keys.current()] == [KEY.kid]
    source.open.set()
    assert await keys.reload()
    assert [key.kid for key in keys.current()] == [NEXT.kid]


async def test_pinned_keys_are_never_fetched() -> None:
    keys = keys_from_environment({SECRET: "s" * 32})
    await keys.freshen()
    assert not await keys.reload()
    assert len(keys.current().keys) == 1
