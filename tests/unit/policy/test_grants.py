"""Scopes that are granted: what counts as a list of them, who shares an answer, and who is asked about at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web

from rowgate.errors import CredentialRefused, ScopesUnavailable
from rowgate.observe.events import Event, PolicyAsked
from rowgate.policy.grants import ClaimGrants, FunctionGrants
from rowgate.supabase.api import SupabaseApi

from .conftest import Clock, caller


class Rest:
    """A PostgREST that answers one function as it is told, and can hold its answers back."""

    def __init__(self) -> None:
        self.url = ""
        self.answer: Any = ["a"]
        self.status = 200
        self.tokens: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers["Authorization"])
        self.asked.set()
        await self.gate.wait()
        return web.json_response(self.answer, status=self.status)


@asynccontextmanager
async def rest() -> AsyncIterator[Rest]:
    it = Rest()
    app = web.Application()
    app.router.add_post("/rest/v1/rpc/scopes", it.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield it
    finally:
        it.gate.set()
        await runner.cleanup()


@asynccontextmanager
async def grants(it: Rest, *, keep: float = 0.0, events: list[Event] | None = None) -> AsyncIterator[FunctionGrants]:
    clock = Clock()
    async with ClientSession() as session:
        emit = (lambda event: None) if events is None else events.append
        granting = FunctionGrants(
            "main", SupabaseApi(session, it.url, "key"), "scopes", keep=keep, clock=clock, emit=emit
        )
        try:
            yield granting
        finally:
            await granting.close()


@pytest.mark.parametrize(
    ("answer", "scopes"),
    [(["a", "b c"], {"a", "b", "c"}), ("a b", {"a", "b"}), ([], set()), (None, set()), (['"', "a"], {"a"})],
)
async def test_text_and_lists_of_text_are_scopes(answer: Any, scopes: set[str]) -> None:
    async with rest() as it, grants(it) as granting:
        it.answer = answer
        assert (await granting.applied(caller(credential="t", scopes=["token"]))).scopes == scopes


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        ({"a": 1}, 200, ScopesUnavailable),
        ([1], 200, ScopesUnavailable),
        (True, 200, ScopesUnavailable),
        ([f"s{n}" for n in range(257)], 200, ScopesUnavailable),
        ({}, 500, ScopesUnavailable),
        ({"code": "42501"}, 403, ScopesUnavailable),
        ({"code": "PGRST303"}, 401, CredentialRefused),
    ],
)
async def test_whatever_else_comes_lets_nobody_on(answer: Any, status: int, error: type[Exception]) -> None:
    events: list[Event] = []
    async with rest() as it, grants(it, keep=60, events=events) as granting:
        it.answer, it.status = answer, status
        for _ in range(2):  # and is not remembered
            with pytest.raises(error):
                await granting.applied(caller(credential="t"))
        assert len(it.tokens) == 2
        assert all(isinstance(event, PolicyAsked) and event.outcome != "ok" for event in events)


async def test_callers_with_one_token_share_one_flight_and_survive_each_other() -> None:
    async with rest() as it, grants(it) as granting:
        it.gate.clear()
        first, second, other = (
            asyncio.create_task(granting.applied(caller(credential=token))) for token in ("t", "t", "u")
        )
        await it.asked.wait()
        first.cancel()
        it.gate.set()
        assert (await second).scopes == (await other).scopes == {"a"}
        assert sorted(it.tokens) == ["Bearer t", "Bearer u"]


async def test_who_has_no_token_of_the_project_was_granted_nothing_and_is_not_asked_about() -> None:
    async with rest() as it, grants(it) as granting:
        assert (await granting.applied(caller(scopes=["a"]))).scopes == frozenset()
        application = caller(kind="application", scopes=["a"], credential="")
        assert (await granting.applied(application)).scopes == {"a"}
        assert it.tokens == []


async def test_scopes_of_a_claim_replace_those_of_the_token() -> None:
    claims = {"app_metadata": {"scopes": "a b"}, "scope": "token"}
    granting = ClaimGrants("app_metadata.scopes")
    assert (await granting.applied(caller(scopes=["token"], claims=claims))).scopes == {"a", "b"}
    assert (await granting.applied(caller(scopes=["token"]))).scopes == frozenset()
    assert (
        await granting.applied(caller(scopes=["token"], claims={"app_metadata": {"scopes": [1]}}))
    ).scopes == frozenset()
