"""Questions to a project, against a server that answers in pieces, too much, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rowgate.supabase.api import MAX_ANSWER_BYTES, SupabaseApi, SupabaseRefusal, SupabaseUnavailable


class Project:
    def __init__(self) -> None:
        self.status = 200
        self.pieces: list[bytes] = [b"true"]
        self.headers: list[Any] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(request.headers)
        response = web.StreamResponse(status=self.status)
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        await response.write_eof()
        return response


@pytest.fixture
async def project() -> AsyncIterator[Project]:
    it = Project()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", it.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield it
    await runner.cleanup()


@pytest.fixture
async def api(project: Project) -> AsyncIterator[SupabaseApi]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield SupabaseApi(session, project.url, "sb_publishable_x", "sb_secret_x")


async def test_an_answer_in_many_pieces_is_read_to_its_end(project: Project, api: SupabaseApi) -> None:
    project.pieces = [b"[", *(b'"' + b"x" * 10_000 + b'",' for _ in range(20)), b"1]"]
    assert len(await api.rpc("f", {}, token="t")) == 21


async def test_an_answer_that_is_too_large_decides_nothing(project: Project, api: SupabaseApi) -> None:
    project.pieces = [b'"' + b"x" * MAX_ANSWER_BYTES + b'"']
    with pytest.raises(SupabaseUnavailable):
        await api.rpc("f", {}, token="t")


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (503, b""), (302, b""), (200, b"<html>"), (401, b"no")])
async def test_what_is_no_answer_of_supabase_decides_nothing(
    project: Project, api: SupabaseApi, status: int, body: bytes
) -> None:
    project.status, project.pieces = status, [body]
    with pytest.raises(SupabaseUnavailable):
        await api.rpc("f", {}, token="t")


async def test_a_refusal_keeps_its_code(project: Project, api: SupabaseApi) -> None:
    project.status, project.pieces = 403, [b'{"code":403,"error_code":"session_not_found","msg":"x"}']
    with pytest.raises(SupabaseRefusal) as refusal:
        await api.user("t")
    assert (refusal.value.status, refusal.value.code) == (403, "session_not_found")


async def test_each_question_carries_the_key_and_the_token_it_names_and_no_other(
    project: Project, api: SupabaseApi
) -> None:
    await api.rpc("f", {}, token="users")
    await api.rpc_as_gateway("f", {})
    asked = [(it["apikey"], it.get("Authorization")) for it in project.headers]
    assert asked == [("sb_publishable_x", "Bearer users"), ("sb_secret_x", None)]


async def test_without_a_secret_key_nothing_is_asked_with_one(project: Project, api: SupabaseApi) -> None:
    with pytest.raises(SupabaseUnavailable):
        await SupabaseApi(api.session, project.url, "sb_publishable_x").rpc_as_gateway("f", {})
    assert project.headers == []
