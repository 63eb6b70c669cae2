from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from aiohttp import web
from postgrest.exceptions import APIError
from recording_supabase import RecordingSupabase

from rowgate_plugin.settings import SettingsError
from rowgate_plugin.supabase import Connections, Project, Supabase

KEY = "sb_publishable_test"


def ignore() -> None:
    pass


@pytest.fixture
async def connections(supabase: RecordingSupabase) -> AsyncIterator[Connections]:
    pool = Connections(Project(supabase.url, KEY))
    yield pool
    await pool.aclose()


async def bearer(client: Supabase) -> str:
    return str((await client.table("notes").select("*").execute()).data[0]["bearer"])


async def test_200_interleaved_users_each_send_their_own_token(connections: Connections) -> None:
    async def use(user: int) -> None:
        client = connections.client(f"token-{user}", ignore)
        for _ in range(3):
            assert await bearer(client) == f"Bearer token-{user}"
            answer = await client.rpc("whoami").execute()
            assert answer.data[0]["bearer"] == f"Bearer token-{user}"
            other = await client.schema("private").from_("notes").select("*").execute()
            assert other.data[0]["bearer"] == f"Bearer token-{user}"

    await asyncio.gather(*(use(user) for user in range(200)))


async def test_storage_and_functions_carry_the_same_token(
    connections: Connections, supabase: RecordingSupabase
) -> None:
    client = connections.client("alice", ignore)
    await client.storage.from_("docs").download("a.txt")
    await client.functions.invoke("hello")
    await client.storage.from_("docs").download("b.txt")
    assert {request.headers["Authorization"] for request in supabase.requests} == {"Bearer alice"}
    assert {request.headers["apikey"] for request in supabase.requests} == {KEY}
    assert [request.path for request in supabase.requests] == [
        "/storage/v1/object/docs/a.txt",
        "/functions/v1/hello",
        "/storage/v1/object/docs/b.txt",
    ]


async def test_without_a_user_the_request_is_anonymous(connections: Connections, supabase: RecordingSupabase) -> None:
    client = connections.client(None, ignore)
    assert await bearer(client) == ""
    await client.functions.invoke("hello", {"headers": {"Authorization": "Bearer smuggled"}})
    for request in supabase.requests:
        assert "Authorization" not in request.headers
        assert request.headers["apikey"] == KEY


async def test_auth_on_a_client_changes_nobody_s_credential(connections: Connections) -> None:
    alice, bob = connections.client("alice", ignore), connections.client("bob", ignore)
    alice.schema("public").auth("mallory")
    alice.table("notes")
    alice._rest().auth("mallory")
    alice.functions.set_auth("mallory")
    assert await bearer(alice) == "Bearer alice"
    assert await bearer(bob) == "Bearer bob"


async def test_what_an_author_sets_on_the_session_stays_with_this_caller(
    connections: Connections, supabase: RecordingSupabase
) -> None:
    alice, bob = connections.client("alice", ignore), connections.client("bob", ignore)
    seen: list[str] = []

    async def spy(request: httpx.Request) -> None:
        seen.append(request.headers.get("Authorization", ""))

    session = alice.schema("public").session
    session.headers["X-Tenant"] = "alice's"
    session.auth = ("alice", "password")
    session.cookies.set("tenant", "alice")
    session.event_hooks = {"request": [spy], "response": []}
    await bearer(bob)
    assert "X-Tenant" not in supabase.requests[-1].headers
    assert "Cookie" not in supabase.requests[-1].headers
    assert seen == []


async def test_a_cookie_for_one_user_reaches_nobody(connections: Connections, supabase: RecordingSupabase) -> None:
    supabase.headers = {"Set-Cookie": "__cf_bm=alice; Path=/"}
    alice = connections.client("alice", ignore)
    await bearer(alice)
    await bearer(alice)
    await bearer(connections.client("bob", ignore))
    assert all("Cookie" not in request.headers for request in supabase.requests)


async def test_closing_a_client_leaves_everybody_else_connected(connections: Connections) -> None:
    alice, bob = connections.client("alice", ignore), connections.client("bob", ignore)
    async with alice._rest():
        await bearer(bob)
    async with connections.client("carol", ignore).storage:
        pass
    await alice.schema("public").session.aclose()
    assert await bearer(bob) == "Bearer bob"
    assert await bearer(connections.client("alice", ignore)) == "Bearer alice"


async def test_the_pool_is_shared(connections: Connections, supabase: RecordingSupabase) -> None:
    for user in range(5):
        await bearer(connections.client(f"u{user}", ignore))
    ports = {request.transport.get_extra_info("peername")[1] for request in supabase.requests if request.transport}
    assert len(ports) == 1


async def test_a_filter_arrives_as_it_was_written(connections: Connections, supabase: RecordingSupabase) -> None:
    value = 'a+b&c=d %20 "q" é/?#,(.)%'
    await connections.client("alice", ignore).table("notes").select("id").eq("title", value).execute()
    await connections.client("alice", ignore).rpc("find", {"title": value}, get=True).execute()
    assert dict(supabase.requests[0].query) == {"select": "id", "title": f"eq.{value}"}
    assert dict(supabase.requests[1].query) == {"title": value}


async def test_a_project_that_does_not_answer_is_an_httpx_error() -> None:
    pool = Connections(Project("http://127.0.0.1:1", KEY))
    with pytest.raises(httpx.TransportError):
        await bearer(pool.client("alice", ignore))
    await pool.aclose()


async def test_an_upload_arrives_whole(connections: Connections, supabase: RecordingSupabase) -> None:
    supabase.answer = web.Response(body=b'{"Key": "docs/a.txt", "Id": "1"}')
    content = b"row\n" * 50_000
    await connections.client("alice", ignore).storage.from_("docs").upload("a.txt", content)
    assert content in await supabase.requests[0].read()
    assert supabase.requests[0].headers["Authorization"] == "Bearer alice"


async def test_the_credential_goes_to_the_project_only(connections: Connections, supabase: RecordingSupabase) -> None:
    session = connections.client("alice", ignore).schema("public").session
    for url in ("http://evil.example/", supabase.url.replace("http", "https"), "http://127.0.0.1:1/rest/v1/notes"):
        with pytest.raises(httpx.UnsupportedProtocol):
            await session.get(url)
    assert supabase.requests == []


async def test_a_redirect_is_not_followed(connections: Connections, supabase: RecordingSupabase) -> None:
    supabase.answer = web.Response(status=307, body=b"[]")
    supabase.headers = {"Location": "http://evil.example/"}
    with pytest.raises(APIError):
        await bearer(connections.client("alice", ignore))
    assert len(supabase.requests) == 1


async def test_a_failing_read_is_not_repeated_behind_the_author_s_back(
    connections: Connections, supabase: RecordingSupabase
) -> None:
    supabase.answer = web.Response(status=503, body=b"{}")
    with pytest.raises(APIError):
        await bearer(connections.client("alice", ignore))
    with pytest.raises(APIError):
        await connections.client("alice", ignore).schema("private").from_("notes").select("*").execute()
    assert len(supabase.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "refused"),
    [
        (401, {"code": "PGRST301", "message": "JWSError"}, True),
        (401, {"code": "PGRST303", "message": "JWT expired"}, True),
        (401, {"code": "42501", "message": "permission denied"}, False),
        (403, {"code": "42501", "message": "new row violates row-level security policy"}, False),
        (401, {"code": "PGRST302", "message": "Anonymous access is disabled"}, False),
        (400, {"code": "PGRST301"}, False),
        (401, ["PGRST301"], False),
        (401, {"code": ["PGRST301"]}, False),
    ],
)
async def test_a_refused_token_is_told_from_a_refused_row(
    connections: Connections, supabase: RecordingSupabase, status: int, body: object, refused: bool
) -> None:
    supabase.answer = web.Response(status=status, body=json.dumps(body).encode())
    told: list[bool] = []
    with pytest.raises(APIError):
        await bearer(connections.client("alice", lambda: told.append(True)))
    assert bool(told) is refused


async def test_storage_tells_an_expired_token_in_its_own_way(
    connections: Connections, supabase: RecordingSupabase
) -> None:
    told: list[str] = []
    client = connections.client("alice", lambda: told.append("refused"))
    for message in ("new row violates row-level security policy", '"exp" claim timestamp check failed'):
        body = {"statusCode": "403", "error": "Unauthorized", "message": message}
        supabase.answer = web.Response(status=400, body=json.dumps(body).encode())
        with pytest.raises(Exception, match=r"row-level|timestamp"):
            await client.storage.from_("docs").download("a.txt")
    assert told == ["refused"]


async def test_an_anonymous_caller_has_no_token_to_be_refused(
    connections: Connections, supabase: RecordingSupabase
) -> None:
    supabase.answer = web.Response(status=401, body=b'{"code": "PGRST301"}')
    told: list[bool] = []
    with pytest.raises(APIError):
        await bearer(connections.client(None, lambda: told.append(True)))
    assert told == []


def test_an_unused_client_builds_nothing() -> None:
    client = Supabase("http://project", httpx.AsyncHTTPTransport())
    assert client._http is None


def legacy_key(role: str) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256'})}.{part({'role': role})}.c2ln"


@pytest.mark.parametrize("key", ["sb_secret_abc", legacy_key("service_role"), legacy_key("supabase_admin")])
def test_a_secret_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Project.from_environment({"SUPABASE_URL": "https://x.supabase.co", "SUPABASE_PUBLISHABLE_KEY": key})
    assert key not in str(caught.value)


def test_the_legacy_anon_key_is_taken() -> None:
    project = Project.from_environment({"SUPABASE_URL": "https://x.co/", "SUPABASE_ANON_KEY": legacy_key("anon")})
    assert project is not None
    assert project.url == "https://x.co"
    assert legacy_key("anon") not in repr(project)


@pytest.mark.parametrize(
    "environ",
    [
        {"SUPABASE_URL": "https://x.supabase.co"},
        {"SUPABASE_PUBLISHABLE_KEY": KEY},
        {"SUPABASE_URL": "x.supabase.co", "SUPABASE_PUBLISHABLE_KEY": KEY},
        {"SUPABASE_URL": "https://u:p@x.supabase.co", "SUPABASE_PUBLISHABLE_KEY": KEY},
    ],
)
def test_half_a_project_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        Project.from_environment(environ)


def test_no_project_is_a_choice() -> None:
    assert Project.from_environment({}) is None
