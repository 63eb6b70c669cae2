"""Whether a sign-in still lives, asked of the stand-in for Supabase Auth over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from rowgate.auth.admission import PER_CALL_INTERVAL, Admission
from rowgate.auth.liveness import Liveness, Sessions
from rowgate.auth.principal import Principal
from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.realm import Settings
from rowgate.errors import (
    AuthenticationError,
    ClientNotAllowed,
    GatewayError,
    IdentityUnavailable,
    InsufficientAuthentication,
    SessionOver,
)
from rowgate.observe.events import Event, IdentityAsked
from rowgate.supabase.api import SupabaseApi

ALICE = "alice@example.com"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Project:
    """Auth at a real address; `fault` answers in its place."""

    def __init__(self, clock: Any) -> None:
        self.url = ""
        self.clock = clock
        self.auth = AuthServer(
            Settings(issuer="http://project.test/auth/v1", site_url="http://project.test"), clock=clock
        )
        self.asked = 0
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.fault: Callable[[], web.StreamResponse] | None = None
        self.events: list[Event] = []

    @web.middleware
    async def watched(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.asked += 1
        self.reached.set()
        await self.open.wait()
        if self.fault is not None:
            return self.fault()
        return await handler(request)

    async def caller(self, email: str = ALICE, **changes: Any) -> Principal:
        """A user with a token of a session that lives."""
        token = await self.auth.access_token(email, client_id="agent")
        session = changes.pop("session_id", token[-40:])
        facts: dict[str, Any] = {
            "kind": "user",
            "subject": self.auth.user(email).id,
            "issuer": self.auth.issuer,
            "client_id": "agent",
            "session_id": session,
            "aal": "aal1",
            "credential": token,
        }
        return Principal(**(facts | changes))

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.events if isinstance(event, IdentityAsked)]


@pytest.fixture
async def project(clock: Any) -> AsyncIterator[Project]:
    it = Project(clock)
    app = web.Application(middlewares=[it.watched])
    app.add_subapp("/auth/v1", it.auth.application())
    await it.auth.add_user(ALICE, "correct horse battery staple")
    async with TestServer(app) as server:
        it.url = str(server.make_url("")).rstrip("/")
        yield it
        it.open.set()


@pytest.fixture
async def liveness(project: Project, session: ClientSession, clock: Any) -> AsyncIterator[Callable[..., Liveness]]:
    api = SupabaseApi(session, project.url, "sb_publishable_x")
    sessions = Sessions(api, project.auth.issuer, clock=clock, monotonic=clock, emit=project.events.append)

    def make(max_age: float | None = 30.0, **changes: Any) -> Liveness:
        return Liveness(sessions, max_age, emit=project.events.append, **changes)

    yield make
    await sessions.close()


async def over(asked: Awaitable[None]) -> str:
    with pytest.raises(SessionOver) as caught:
        await asked
    assert isinstance(caught.value, AuthenticationError)
    assert (caught.value.status, caught.value.oauth_error) == (401, "invalid_token")
    return caught.value.reason


async def test_a_session_that_lives_is_asked_about_once_in_its_time(
    project: Project, liveness: Any, clock: Any
) -> None:
    live, caller = liveness(), await project.caller()
    for _ in range(3):
        await live.require(caller, 30)
    assert project.asked == 1
    clock.advance(30)
    await live.require(caller, 30)
    assert project.asked == 2


async def test_a_user_who_signed_out_is_cut_off(project: Project, liveness: Any, clock: Any) -> None:
    live, caller = liveness(), await project.caller()
    await live.require(caller, 30)
    project.auth.sign_out(ALICE)
    await live.require(caller, 30)
    clock.advance(30)
    assert await over(live.require(caller, 30)) == "session_over"


async def test_a_fresh_check_sees_it_at_once_and_so_does_everybody_after_it(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    await live.require(caller, 30)
    project.auth.sign_out(ALICE)
    assert await over(live.require(caller, 0)) == "session_over"
    assert await over(live.require(caller, 30)) == "session_over"


async def test_a_banned_user_is_cut_off_and_let_in_again(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.auth.ban(ALICE)
    assert await over(live.require(caller, 0)) == "banned"
    project.auth.unban(ALICE)
    await live.require(caller, 0)


async def test_a_ban_is_seen_though_an_older_auth_still_answers(project: Project, liveness: Any, clock: Any) -> None:
    live, caller = liveness(), await project.caller()
    user = {"id": caller.subject, "email_confirmed_at": "2026-01-01T00:00:00Z"}
    project.fault = lambda: web.json_response({**user, "banned_until": "2099-01-01T00:00:00Z"})
    assert await over(live.require(caller, 0)) == "banned"
    project.fault = lambda: web.json_response({**user, "banned_until": "2020-01-01T00:00:00Z"})
    await live.require(caller, 0)


async def test_a_deleted_user_is_cut_off(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.auth.delete_user(ALICE)
    assert await over(live.require(caller, 0)) == "deleted"


async def test_an_unconfirmed_address_counts_only_where_it_is_asked_for(project: Project, liveness: Any) -> None:
    caller = await project.caller()
    project.fault = lambda: web.json_response({"id": caller.subject, "email_confirmed_at": None})
    await liveness().require(caller, 30)
    assert await over(liveness(confirmed_email=True).require(caller, 30)) == "unconfirmed"
    assert project.asked == 1


async def test_a_token_that_auth_refuses_says_nothing_of_its_session(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    stale = replace(caller, credential=caller.credential[:-4] + "AAAA")
    assert await over(live.require(stale, 0)) == "token"
    await live.require(caller, 30)


async def test_two_sessions_of_one_user_are_two(project: Project, liveness: Any) -> None:
    live = liveness()
    await live.require(await project.caller(), 30)
    await live.require(await project.caller(), 30)
    assert project.asked == 2


async def test_a_token_without_a_session_stands_for_itself(project: Project, liveness: Any) -> None:
    live = liveness()
    for _ in range(2):
        await live.require(await project.caller(session_id=None), 30)
    assert project.asked == 2


@pytest.mark.parametrize("change", [{"issuer": "https://other.example"}, {"credential": ""}])
async def test_whom_the_project_does_not_know_has_no_session(project: Project, liveness: Any, change: Any) -> None:
    assert await over(liveness().require(await project.caller(**change), 30)) == "session_over"
    assert project.asked == 0


async def test_an_answer_about_somebody_else_is_no_answer(project: Project, liveness: Any) -> None:
    project.fault = lambda: web.json_response({"id": "somebody-else"})
    with pytest.raises(IdentityUnavailable):
        await liveness().require(await project.caller(), 30)


@pytest.mark.parametrize(
    "fault",
    [
        lambda: web.Response(status=500),
        lambda: web.Response(status=429, text='{"error_code":"over_request_rate_limit"}'),
        lambda: web.Response(status=401, text='{"message":"Invalid API key"}'),
        lambda: web.Response(status=403, text="<html>"),
        lambda: web.Response(status=302, headers={"Location": "/"}),
        lambda: web.json_response([]),
        lambda: web.json_response({"id": 1}),
    ],
)
async def test_no_answer_is_a_503_and_signs_nobody_out(project: Project, liveness: Any, fault: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.fault = fault
    with pytest.raises(IdentityUnavailable) as caught:
        await live.require(caller, 30)
    assert (caught.value.status, caught.value.reason) == (503, "session")
    assert "Retry-After" in caught.value.headers
    project.fault = None
    await live.require(caller, 30)
    assert project.outcomes == ["failed", "ok"]


async def test_callers_are_let_in_without_an_answer_only_where_the_configuration_says_so(
    project: Project, liveness: Any
) -> None:
    project.fault = lambda: web.Response(status=500)
    await liveness(accept_unknown=True).require(await project.caller(), 30)
    assert project.outcomes == ["failed", "accepted"]


async def test_who_is_known_to_have_signed_out_stays_out_when_auth_falls_silent(
    project: Project, liveness: Any, clock: Any
) -> None:
    live, caller = liveness(accept_unknown=True), await project.caller()
    project.auth.sign_out(ALICE)
    assert await over(live.require(caller, 30)) == "session_over"
    project.fault = lambda: web.Response(status=500)
    clock.advance(3600)
    with pytest.raises(IdentityUnavailable):
        await live.require(caller, 30)


async def test_many_requests_of_one_session_ask_once(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.open.clear()
    waiting = [asyncio.create_task(live.require(caller, 30)) for _ in range(20)]
    await project.reached.wait()
    project.open.set()
    await asyncio.gather(*waiting)
    assert project.asked == 1


async def test_a_fresh_check_takes_no_answer_that_was_asked_for_before_it(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.open.clear()
    early = asyncio.create_task(live.require(caller, 30))
    await project.reached.wait()
    project.reached.clear()
    fresh = asyncio.create_task(live.require(caller, 0))
    await project.reached.wait()
    project.open.set()
    await asyncio.gather(early, fresh)
    assert project.asked == 2


async def test_neither_token_nor_person_is_in_what_is_said(project: Project, liveness: Any) -> None:
    live, caller = liveness(), await project.caller()
    project.auth.sign_out(ALICE)
    with pytest.raises(SessionOver) as caught:
        await live.require(caller, 0)
    said = f"{caught.value!r} {caught.value.data} {live!r} {project.events!r}"
    assert caller.credential not in said
    assert ALICE not in said


# --- what a server asks --------------------------------------------------------------------------------------


async def refusal(admission: Admission, caller: Principal) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await admission.require(caller)
    return caught.value


async def test_a_server_that_asks_for_nothing_more_is_idle(liveness: Any) -> None:
    assert Admission().idle
    assert Admission(liveness=liveness(None)).idle
    assert not Admission(clients=frozenset({"a"})).idle
    assert not Admission(min_aal="aal2").idle
    assert not Admission(liveness=liveness(0.0)).idle


async def test_clients_that_are_not_listed_are_turned_away_without_a_challenge(project: Project) -> None:
    admission = Admission(clients=frozenset({"other"}))
    error = await refusal(admission, await project.caller())
    assert isinstance(error, ClientNotAllowed)
    assert (error.status, error.reason) == (403, "client")
    await admission.require(await project.caller(client_id="other"))


async def test_a_list_of_clients_does_not_concern_who_calls_in_person(project: Project) -> None:
    caller = await project.caller(client_id=None)
    assert not caller.delegated
    await Admission(clients=frozenset({"other"})).require(caller)


@pytest.mark.parametrize("level", [None, "", "aal1", "AAL2", "aal20"])
async def test_a_sign_in_that_is_too_weak_is_told_what_to_ask_for(project: Project, level: str | None) -> None:
    error = await refusal(Admission(min_aal="aal2"), await project.caller(aal=level))
    assert isinstance(error, InsufficientAuthentication)
    assert (error.status, error.oauth_error, error.level) == (401, "insufficient_user_authentication", "aal2")


async def test_a_second_factor_is_enough(project: Project) -> None:
    for level in ("aal2", "aal3"):
        await Admission(min_aal="aal2").require(await project.caller(aal=level))


async def test_each_call_asks_where_that_is_configured(project: Project, liveness: Any) -> None:
    admission, caller = Admission(liveness=liveness(0.0)), await project.caller()
    for _ in range(3):
        await admission.require(caller)
    assert project.asked == 3
    assert admission.interval == PER_CALL_INTERVAL


async def test_nobody_is_asked_where_only_capabilities_may_ask(project: Project, liveness: Any) -> None:
    admission = Admission(clients=frozenset({"agent"}), liveness=liveness(None))
    await admission.require(await project.caller())
    assert (project.asked, admission.interval) == (0, None)
