"""API keys: hashes in memory, an end, a table behind one function, and no user."""

from __future__ import annotations

import asyncio
import gc
import types
from collections.abc import Mapping
from typing import Any

import pytest
from multidict import CIMultiDict

from rowgate.auth.api_keys import KeyAuthenticator, KnownKey, ListedKeys, LookedUpKeys, digest_of, is_strong
from rowgate.errors import ApiKeyRefused, AuthenticationError, CredentialsMissing, IdentityUnavailable
from rowgate.observe.events import Event, IdentityAsked
from rowgate.supabase.api import SupabaseRefusal, SupabaseUnavailable

KEY = "rgk_5f3b9a7c1e2d4f6a8b0c9d8e7f6a5b4c"
OTHER = "rgk_0f3b9a7c1e2d4f6a8b0c9d8e7f6a5b4c"
ROW = {"name": "nightly", "subject": "report", "scopes": ["notes:read"], "roles": None, "expires_at": None}


class Table:
    """What the SQL function would answer, and what it was asked."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {digest_of(KEY).hex(): [ROW]}
        self.asked: list[Mapping[str, Any]] = []
        self.failure: Exception | None = None
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def ask(self, function: str, arguments: Mapping[str, Any]) -> Any:
        assert function == "rowgate_api_key"
        self.asked.append(arguments)
        self.reached.set()
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return self.rows.get(arguments["key_sha256"], [])


class Keys:
    def __init__(self, clock: Any, *listed: KnownKey) -> None:
        self.table = Table()
        self.events: list[Event] = []
        self.looked_up = LookedUpKeys(
            self.table.ask,
            "rowgate_api_key",
            remembered=30,
            refusals_remembered=10,
            clock=clock,
            emit=self.events.append,
        )
        self.authenticator = KeyAuthenticator(ListedKeys(listed), self.looked_up, clock=clock)

    async def __call__(self, key: str) -> Any:
        return await self.authenticator.authenticate(CIMultiDict({"Authorization": f"Bearer {key}"}))

    async def reason(self, key: str) -> str:
        with pytest.raises(ApiKeyRefused) as caught:
            await self(key)
        assert key not in f"{caught.value!r}{caught.value.message}{caught.value.data}"
        return caught.value.reason


@pytest.fixture
def keys(clock: Any) -> Keys:
    return Keys(clock, KnownKey(digest_of(OTHER), "dashboard", "board", frozenset({"a"}), frozenset({"b"})))


async def test_a_listed_key_makes_an_application_of_its_caller(keys: Keys) -> None:
    caller = await keys(OTHER)
    assert (caller.kind, caller.subject, caller.client_id, caller.issuer) == (
        "application",
        "board",
        "dashboard",
        "api-key",
    )
    assert (caller.scopes, caller.roles) == ({"a"}, {"b"})
    assert caller.delegated
    assert keys.table.asked == []


async def test_an_application_has_no_user_and_no_credential(keys: Keys) -> None:
    caller = await keys(OTHER)
    assert (caller.credential, caller.email, caller.session_id, caller.claims) == ("", None, None, {})


@pytest.mark.parametrize(
    "key",
    ["", "x", OTHER[:-1], OTHER + "0", OTHER.upper(), "a" * 64, "sb_secret_" + "0123456789abcdefghij" * 2],
)
async def test_what_is_no_key_of_this_server_opens_nothing(keys: Keys, key: str) -> None:
    with pytest.raises(AuthenticationError):
        await keys(key)


@pytest.mark.parametrize("key", ["short", "a" * 200, "abcabcabcabcabcabcabcabcabcabcabcabcabc"])
async def test_nobody_is_asked_about_what_can_be_no_key(keys: Keys, key: str) -> None:
    assert await keys.reason(key) == "key_weak"
    assert keys.table.asked == []


async def test_a_request_without_a_key_is_told_to_send_one(keys: Keys) -> None:
    with pytest.raises(CredentialsMissing) as caught:
        await keys.authenticator.authenticate(CIMultiDict({"X-API-Key": OTHER}))
    assert "API key" in caught.value.message


async def test_a_listed_key_ends_when_it_says(clock: Any) -> None:
    keys = Keys(clock, KnownKey(digest_of(OTHER), "dashboard", "board", expires_at=clock.now + 10))
    caller = await keys(OTHER)
    assert caller.accepted_until == clock.now + 10
    clock.advance(10)
    assert await keys.reason(OTHER) == "key_expired"


def held_by(root: object) -> list[object]:
    """Every object that is reached from this one through containers and attributes."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        it = waiting.pop()
        if id(it) not in seen and not isinstance(it, type | types.ModuleType | types.FunctionType):
            seen[id(it)] = it
            waiting += gc.get_referents(it)
    return list(seen.values())


async def test_no_key_is_kept_in_memory(clock: Any) -> None:
    # Made at run time, so that no constant of this file holds it.
    key = "".join(["rgk_", *(f"{number:02x}" for number in range(90, 120))])
    keys = Keys(clock, KnownKey(digest_of(key), "dashboard", "board"))
    caller = await keys(key)
    held = held_by((keys.authenticator, caller))
    assert digest_of(key) in held
    assert not [
        it for it in held if (isinstance(it, str) and key in it) or (isinstance(it, bytes) and key.encode() in it)
    ]


async def test_the_function_is_given_the_hash_and_never_the_key(keys: Keys) -> None:
    caller = await keys(KEY)
    assert keys.table.asked == [{"key_sha256": digest_of(KEY).hex()}]
    assert (caller.subject, caller.client_id, caller.scopes) == ("report", "nightly", {"notes:read"})


async def test_an_answer_is_kept_for_its_time_and_no_longer(keys: Keys, clock: Any) -> None:
    await keys(KEY)
    clock.advance(29)
    await keys(KEY)
    assert len(keys.table.asked) == 1
    keys.table.rows = {}
    clock.advance(1)
    assert await keys.reason(KEY) == "key_unknown"
    assert len(keys.table.asked) == 2


async def test_an_unknown_key_is_asked_about_once_in_a_while(keys: Keys, clock: Any) -> None:
    keys.table.rows = {}
    for _ in range(5):
        assert await keys.reason(KEY) == "key_unknown"
    assert len(keys.table.asked) == 1
    clock.advance(10)
    assert await keys.reason(KEY) == "key_unknown"
    assert len(keys.table.asked) == 2


async def test_many_callers_with_one_key_ask_once(keys: Keys) -> None:
    keys.table.open.clear()
    waiting = [asyncio.create_task(keys(KEY)) for _ in range(20)]
    await keys.table.reached.wait()
    keys.table.open.set()
    await asyncio.gather(*waiting)
    assert len(keys.table.asked) == 1


async def test_a_caller_that_leaves_does_not_take_the_answer_of_the_others_away(keys: Keys) -> None:
    keys.table.open.clear()
    first = asyncio.create_task(keys(KEY))
    second = asyncio.create_task(keys(KEY))
    await keys.table.reached.wait()
    first.cancel()
    await asyncio.wait([first])
    keys.table.open.set()
    assert (await second).subject == "report"


@pytest.mark.parametrize("failure", [SupabaseUnavailable("x"), SupabaseRefusal(404, "PGRST202"), ValueError()])
async def test_a_lookup_that_fails_is_a_503_and_is_not_remembered(keys: Keys, failure: Exception) -> None:
    keys.table.failure = failure
    with pytest.raises(IdentityUnavailable) as caught:
        await keys(KEY)
    assert (caught.value.status, caught.value.reason) == (503, "lookup")
    keys.table.failure = None
    assert await keys(KEY)
    assert [event.outcome for event in keys.events if isinstance(event, IdentityAsked)] == ["failed", "ok"]


@pytest.mark.parametrize(
    "answer",
    [
        True,
        "nightly",
        [ROW, ROW],
        {},
        {**ROW, "name": ""},
        {**ROW, "subject": None},
        {**ROW, "subject": ["report"]},
        {**ROW, "scopes": "notes:read"},
        {**ROW, "scopes": [None]},
        {**ROW, "expires_at": "tomorrow"},
        {**ROW, "expires_at": 1},
        {**ROW, "expires_at": "2027-01-01T00:00:00"},
    ],
    ids=str,
)
async def test_a_mistake_in_the_function_lets_nobody_in(keys: Keys, answer: Any) -> None:
    keys.table.rows = {digest_of(KEY).hex(): answer}
    with pytest.raises((IdentityUnavailable, ApiKeyRefused)):
        await keys(KEY)


@pytest.mark.parametrize("answer", [None, [], dict.fromkeys(ROW)])
async def test_every_way_of_saying_none_is_a_refusal(keys: Keys, answer: Any) -> None:
    keys.table.rows = {digest_of(KEY).hex(): answer}
    assert await keys.reason(KEY) == "key_unknown"


async def test_a_key_of_the_table_ends_even_while_its_answer_is_kept(keys: Keys, clock: Any) -> None:
    clock.now = 1_800_000_000.0
    row = {**ROW, "expires_at": "2027-01-15T08:00:05+00:00"}
    keys.table.rows = {digest_of(KEY).hex(): row}
    await keys(KEY)
    clock.advance(5)
    assert await keys.reason(KEY) == "key_expired"
    assert len(keys.table.asked) == 1


async def test_bad_keys_push_no_good_one_out(clock: Any) -> None:
    keys = Keys(clock)
    await keys(KEY)
    for number in range(5000):
        assert await keys.reason(f"rgk_ffffffffffffabcdefghijklmn{number:06}") == "key_unknown"
    asked = len(keys.table.asked)
    await keys(KEY)
    assert len(keys.table.asked) == asked


def test_a_random_key_is_strong() -> None:
    assert is_strong("0123456789abcdef" * 2)
    assert not is_strong("ab" * 40)
