"""A plugin's handler that hands on what a model wrote: the caller's token still goes where it belongs, as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from aiohttp import web

from rowgate_plugin.supabase import Connections, Project, Supabase

KEY = "sb_publishable_test"
Use = Callable[[Supabase], Awaitable[Any]]


class Recorded:
    """A project that notes where requests lead, and whose they are."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[web.BaseRequest] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        await request.read()
        return web.json_response([])


@pytest.fixture
async def project() -> AsyncIterator[Recorded]:
    recorded = Recorded()
    runner = web.ServerRunner(web.Server(recorded.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    recorded.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield recorded
    finally:
        await runner.cleanup()


@pytest.fixture
async def connections(project: Recorded) -> AsyncIterator[Connections]:
    pool = Connections(Project(project.url, KEY))
    yield pool
    await pool.aclose()


ESCAPES: dict[str, Use] = {
    "a table": lambda it: it.table("../../auth/v1/user").select("*").execute(),
    "a function of the database": lambda it: it.rpc("../../../auth/v1/logout", {"scope": "global"}).execute(),
    "a bucket": lambda it: it.storage.from_("../../../auth/v1").download("user"),
    "an edge function": lambda it: it.functions.invoke("../../auth/v1/logout"),
    "a path of the session": lambda it: it._session().put(f"{it._url}/auth/v1/user", json={"password": "new"}),
    "an encoded path": lambda it: it._session().get(f"{it._url}/rest/v1/%2e%2e/%2e%2e/auth/v1/user"),
    "an encoded slash": lambda it: it._session().get(f"{it._url}/rest/v1/..%2f..%2fauth/v1/user"),
    "the admin interface": lambda it: it._session().get(f"{it._url}/auth/v1/admin/users"),
}


@pytest.mark.parametrize("case", ESCAPES)
async def test_no_name_leads_the_token_to_auth(connections: Connections, project: Recorded, case: str) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        await ESCAPES[case](connections.client("alice", lambda: None))
    assert project.requests == []


async def test_a_project_below_a_path_is_confined_to_its_services_too(project: Recorded) -> None:
    pool = Connections(Project(f"{project.url}/tenant", KEY))
    client = pool.client("alice", lambda: None)
    await client.table("notes").select("*").execute()
    with pytest.raises(httpx.UnsupportedProtocol):
        await client.table("../../../other/rest/v1/notes").select("*").execute()
    assert [request.path for request in project.requests] == ["/tenant/rest/v1/notes"]
    await pool.aclose()


async def test_headers_that_say_who_and_where_are_not_the_authors_to_write(
    connections: Connections, project: Recorded
) -> None:
    alice = connections.client("alice", lambda: None)
    stolen = {"Host": "evil.example", "Authorization": "Bearer bob", "apikey": "sb_secret_x", "authorization": "x"}
    await alice._session().get(f"{project.url}/rest/v1/notes", headers=stolen)
    (request,) = project.requests
    assert request.headers.getall("Authorization") == ["Bearer alice"]
    assert request.headers.getall("apikey") == [KEY]
    assert request.headers.getall("Host") == [project.url.removeprefix("http://")]


async def test_a_client_that_outlives_its_call_is_still_its_callers_own(
    connections: Connections, project: Recorded
) -> None:
    kept = connections.client("alice", lambda: None)
    await connections.client("bob", lambda: None).table("notes").select("*").execute()
    await kept.table("notes").select("*").execute()
    assert [request.headers["Authorization"] for request in project.requests] == ["Bearer bob", "Bearer alice"]
    assert "alice" not in repr(kept)
    assert "alice" not in repr(kept._session())
