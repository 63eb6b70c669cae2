"""The project as an application sees it: real PostgreSQL, real PostgREST, two users, one origin."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import httpx
import pytest
from postgrest.exceptions import APIError
from supabase import AsyncClient, AsyncClientOptions
from supabase_auth.errors import AuthApiError

from databases import PASSWORD, SupabaseProject
from rowgate.demo.auth.keys import SigningKeys
from rowgate.demo.project import ALICE, BOB, project
from rowgate.errors import StartError


@pytest.fixture
async def pool() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as pool:
        yield pool


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def client(hosted: SupabaseProject, pool: httpx.AsyncClient, token: str | None = None) -> AsyncClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    options = AsyncClientOptions(headers=headers, httpx_client=pool, auto_refresh_token=False, persist_session=False)
    return AsyncClient(hosted.url, hosted.publishable_key, options)


async def titles(supabase: AsyncClient) -> list[str]:
    rows: Any = (await supabase.table("notes").select("title").order("id").execute()).data
    return [row["title"] for row in rows]


async def test_each_user_reads_and_writes_own_rows_only(
    supabase_project: SupabaseProject, pool: httpx.AsyncClient
) -> None:
    names = ("first@example.com", "second@example.com")
    for name in names:
        await supabase_project.add_user(name)
    first, second = [client(supabase_project, pool, await supabase_project.access_token(name)) for name in names]
    await first.table("notes").insert({"title": "of the first"}).execute()
    await second.table("notes").insert({"title": "of the second"}).execute()
    assert await titles(first) == ["of the first"]
    assert await titles(second) == ["of the second"]
    changed = await second.table("notes").update({"title": "taken"}).eq("title", "of the first").execute()
    assert changed.data == []
    assert await titles(first) == ["of the first"]


async def test_a_user_cannot_write_a_row_of_another(supabase_project: SupabaseProject, pool: httpx.AsyncClient) -> None:
    alice = client(supabase_project, pool, await supabase_project.access_token(ALICE.email))
    with pytest.raises(APIError) as refused:
        await alice.table("notes").insert({"title": "x", "owner": BOB.user_id}).execute()
    assert refused.value.code == "42501"


async def test_the_publishable_key_alone_is_the_anonymous_role(
    supabase_project: SupabaseProject, pool: httpx.AsyncClient
) -> None:
    nobody = client(supabase_project, pool)
    assert (await nobody.rpc("whoami").execute()).data == {"role": "anon", "uid": None, "client_id": None}


async def test_the_client_library_signs_in_and_out(supabase_project: SupabaseProject) -> None:
    async with httpx.AsyncClient() as pool:
        visitor = client(supabase_project, pool)
        signed_in = await visitor.auth.sign_in_with_password({"email": ALICE.email, "password": PASSWORD})
        assert signed_in.user is not None
        assert signed_in.user.id == ALICE.user_id
        verified = await visitor.auth.get_claims()
        assert verified is not None
        assert verified["claims"]["sub"] == ALICE.user_id
        await visitor.auth.sign_out({"scope": "local"})
        with pytest.raises(AuthApiError) as refused:
            await visitor.auth.get_user(signed_in.session.access_token if signed_in.session else "")
        assert refused.value.code == "session_not_found"


async def test_a_seeded_user_stands_in_the_database(supabase_project: SupabaseProject) -> None:
    async def emails(hosted: Any) -> dict[str, str]:
        connection = await asyncpg.connect(hosted.dsn)
        try:
            rows = await connection.fetch("select id::text, email from auth.users where id = any($1::uuid[])", ids)
        finally:
            await connection.close()
        return {row["id"]: row["email"] for row in rows}

    ids = [ALICE.user_id, BOB.user_id]
    assert await supabase_project.run(emails) == {ALICE.user_id: ALICE.email, BOB.user_id: BOB.email}


@pytest.mark.parametrize("path", ["/rest/v1/notes", "/auth/v1/user", "/auth/v1/settings", "/auth/v1/token"])
async def test_a_service_refuses_a_request_without_its_api_key(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession, path: str
) -> None:
    token = await supabase_project.access_token(ALICE.email)
    for headers in ({}, {"apikey": "sb_publishable_guessed"}, {"apikey": ""}):
        signed = headers | {"Authorization": f"Bearer {token}"}
        async with http.get(supabase_project.url + path, headers=signed) as answer:
            assert answer.status == 401
            assert (await answer.json())["message"] in ("No API key found in request", "Invalid API key")


async def test_the_secret_key_passes_row_level_security_and_a_guess_does_not(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    url = supabase_project.url + "/rest/v1/rpc/whoami"
    async with http.post(url, headers={"apikey": supabase_project.hosted.secret_key}, json={}) as answer:
        assert (await answer.json())["role"] == "service_role"
    async with http.post(url, headers={"apikey": "sb_secret_guessed"}, json={}) as answer:
        assert answer.status == 401


async def test_a_key_in_the_query_goes_no_further(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    # PostgREST would take it for a filter on a column that no table has.
    url = f"{supabase_project.url}/rest/v1/rpc/whoami?apikey={supabase_project.publishable_key}"
    async with http.get(url) as answer:
        assert answer.status == 200, await answer.text()


async def test_a_token_that_was_signed_elsewhere_reads_nothing(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    claims = {"sub": ALICE.user_id, "role": "authenticated", "exp": int(time.time()) + 60}
    for token in (SigningKeys().sign(claims), "a.b.c", supabase_project.auth.mint(claims | {"exp": 1})):
        headers = {"apikey": supabase_project.publishable_key, "Authorization": f"Bearer {token}"}
        async with http.get(supabase_project.url + "/rest/v1/notes", headers=headers) as answer:
            assert answer.status == 401


async def test_postgrest_still_takes_the_token_of_a_session_that_ended(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    await supabase_project.add_user("leaver@example.com")
    token = await supabase_project.access_token("leaver@example.com")
    supabase_project.auth.sign_out("leaver@example.com")
    headers = {"apikey": supabase_project.publishable_key, "Authorization": f"Bearer {token}"}
    async with http.get(supabase_project.url + "/rest/v1/notes", headers=headers) as answer:
        assert (answer.status, await answer.text()) == (200, "[]")
    async with http.get(supabase_project.url + "/auth/v1/user", headers=headers) as answer:
        assert answer.headers["x-sb-error-code"] == "session_not_found"


async def test_every_answer_says_that_it_is_a_stand_in(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    paths = ["/auth/v1/.well-known/jwks.json", "/auth/v1/nope", "/rest/v1/notes", "/oauth/consent", "/nope"]
    for path in paths:
        async with http.get(supabase_project.url + path) as answer:
            assert "stand-in for Supabase Auth; loopback only" in answer.headers["X-Rowgate-Demo"], path


async def test_the_discovery_document_stands_at_the_three_places_of_a_hosted_project(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    places = [
        "/.well-known/oauth-authorization-server/auth/v1",
        "/auth/v1/.well-known/oauth-authorization-server",
        "/auth/v1/.well-known/openid-configuration",
    ]
    documents = []
    for place in places:
        async with http.get(supabase_project.url + place) as answer:
            assert answer.status == 200
            assert answer.headers["cache-control"] == "public, max-age=600"
            documents.append(await answer.json())
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["issuer"] == f"{supabase_project.url}/auth/v1"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1", ""])
async def test_a_rebound_name_is_not_answered(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession, host: str
) -> None:
    for path in ("/oauth/consent.json", "/auth/v1/.well-known/jwks.json"):
        async with http.get(supabase_project.url + path, headers={"Host": host}) as answer:
            assert answer.status == 421


async def test_a_web_client_may_call_the_services_and_not_read_the_page(
    supabase_project: SupabaseProject, http: aiohttp.ClientSession
) -> None:
    asked = {"Origin": "http://localhost:6274", "Access-Control-Request-Headers": "content-type"}
    async with http.options(supabase_project.url + "/auth/v1/oauth/token", headers=asked) as answer:
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
    for path in ("/oauth/consent", "/oauth/consent.json"):
        async with http.get(supabase_project.url + path, headers=asked) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "127.0.0.1.nip.io"])
async def test_it_refuses_to_listen_where_others_could_reach_it(host: str) -> None:
    with pytest.raises(StartError, match="loopback"):
        async with project(host=host):
            pass


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may pass through; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="rowgate-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_data_outlive_the_process_and_migrations_run_once(place: Path) -> None:
    migration = place / "0001_counter.sql"
    migration.write_text("create table public.counter (n int); insert into public.counter values (1);")
    for run in (1, 2):
        async with project(sql=[migration], directory=place / "data") as hosted:
            connection = await asyncpg.connect(hosted.dsn)
            try:
                assert await connection.fetchval("select count(*) from public.counter") == run
                await connection.execute("insert into public.counter values (2)")
            finally:
                await connection.close()
    migration.write_text("create table public.other (n int);")
    with pytest.raises(StartError, match=r"0001_counter\.sql changed"):
        async with project(sql=[migration], directory=place / "data"):
            pass


async def test_new_keys_are_trusted_everywhere_and_old_tokens_live_on(http: aiohttp.ClientSession) -> None:
    async with project() as hosted:
        before = await hosted.auth.access_token(ALICE.email)
        await hosted.rotate_keys()
        after = await hosted.auth.access_token(ALICE.email)
        async with http.get(f"{hosted.issuer}/.well-known/jwks.json") as answer:
            assert len((await answer.json())["keys"]) == 2
        for token in (before, after):
            headers = {"apikey": hosted.publishable_key, "Authorization": f"Bearer {token}"}
            async with http.get(hosted.url + "/rest/v1/", headers=headers) as answer:
                assert answer.status == 200
        await hosted.rotate_keys(keep=False)
        headers = {"apikey": hosted.publishable_key, "Authorization": f"Bearer {after}"}
        async with http.get(hosted.url + "/auth/v1/user", headers=headers) as answer:
            assert answer.headers["x-sb-error-code"] == "bad_jwt"


async def test_secrets_are_not_in_the_representation() -> None:
    async with project(password="hunter2-hunter2") as hosted:
        shown = repr(hosted)
        assert hosted.secret_key not in shown
        assert "hunter2" not in shown
        assert "hunter2" in hosted.banner
