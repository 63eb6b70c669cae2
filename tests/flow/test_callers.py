"""Every kind of caller over the wire: who gets in, as whom, with which credential, and what the others are told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey

from databases import SupabaseProject
from flow.client import Reply, envelope, mirrored
from flow.conftest import Running
from flow.issuer import ALICE, Issuer, issuer
from flow.plugin import Received
from rowgate.observe.events import IdentityAsked, SecurityNotice

KEY = "rgk_0123456789abcdefghijklmnopqrstuv"
Start = Callable[..., Any]
Tree = dict[str, Any]


def served(tree: Tree, auth: Tree, *tools: str) -> None:
    """One server with these tools and this auth, whose plugin takes users' tokens."""
    server = tree["servers"]["main"]
    server["auth"] = auth
    server.pop("scopes")
    server["capabilities"] = [{"from": "notes", "tools": list(tools or ("echo", "whoami"))}]
    tree["plugins"]["notes"]["credential"] = "user_token"


def challenged(reply: Reply) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', reply.headers["WWW-Authenticate"]))


def audited(running: Running) -> list[dict[str, Any]]:
    return [line for line in running.log.lines if line.get("stream") == "audit"]


def secret_file(directory: Path, text: str) -> dict[str, str]:
    path = directory / hashlib.sha256(text.encode()).hexdigest()[:12]
    path.write_text(text)
    return {"file": str(path)}


async def metadata_status(running: Running) -> list[int]:
    paths = ("/.well-known/oauth-protected-resource/mcp", "/mcp/.well-known/oauth-protected-resource")
    found = []
    for path in (*paths, "/mcp/oauth-protected-resource", "/.well-known/oauth-protected-resource"):
        async with running.session.get(running.public_url + path) as response:
            found.append(response.status)
    return found


# --- API keys ------------------------------------------------------------------------------------------------


@pytest.fixture
async def keyed(start: Start, tmp_path: Path) -> Running:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    other = secret_file(tmp_path, KEY[::-1])
    keys = [
        {"name": "nightly", "subject": "report", "hash": f"sha256:{digest}", "scopes": ["notes:read"]},
        {"name": "old", "subject": "report", "secret": other, "expires": "2020-01-01T00:00:00Z"},
    ]
    running: Running = await start(lambda tree: served(tree, {"mode": "api-key", "keys": keys}))
    return running


async def test_an_application_calls_with_its_key_and_as_itself(keyed: Running) -> None:
    assert (await keyed.client.call("whoami", token=KEY)).text == "report"
    (call,) = keyed.plugin.calls
    assert (call.context.kind, call.context.sub, call.context.client_id) == ("application", "report", "nightly")
    assert call.context.scope == {"notes:read"}
    assert (call.context.email, call.context.session_id, call.context.ath) == (None, None, None)
    assert (
        audited(keyed)[-1] | {"kind": "application", "subject": "report", "client_id": "nightly"} == audited(keyed)[-1]
    )


async def test_a_plugin_that_takes_users_tokens_is_not_given_a_key(keyed: Running) -> None:
    await keyed.client.call("whoami", token=KEY)
    assert all("Authorization" not in it.headers for it in keyed.plugin.received)
    assert all(KEY not in str(it.headers) + str(it.message) for it in keyed.plugin.received)


async def test_a_server_of_applications_advertises_no_sign_in(keyed: Running) -> None:
    """field-failures: routes with API keys only must not advertise resource metadata."""
    assert await metadata_status(keyed) == [404] * 4
    reply = await keyed.client.call("whoami")
    assert reply.status == 401
    assert challenged(reply) == {"realm": "mcp"}


@pytest.mark.parametrize(
    ("key", "reason"),
    [(KEY[:-1] + "w", "key_unknown"), ("short", "key_weak"), (KEY[::-1], "key_expired")],
)
async def test_a_key_that_opens_nothing_is_refused_and_recorded_without_being_shown(
    keyed: Running, key: str, reason: str
) -> None:
    reply = await keyed.client.call("whoami", token=key)
    assert (reply.status, reply.json["code"]) == (401, "RG205")
    assert challenged(reply)["error"] == "invalid_token"
    assert (audited(keyed)[-1]["outcome"], audited(keyed)[-1]["code"]) == ("denied", "RG205")
    assert audited(keyed)[-1]["reason"] == reason
    assert key not in bytes(keyed.log.data).decode() + str(reply.headers) + reply.body.decode()
    _, metrics = await keyed.internal("/metrics")
    assert f'rowgate_auth_refusals_total{{reason="{reason}",server="main"}} 1.0' in metrics
    assert keyed.plugin.calls == []


async def test_a_key_in_another_header_is_not_read(keyed: Running) -> None:
    assert (await keyed.client.call("whoami", headers={"X-API-Key": KEY})).status == 401


async def test_a_users_token_opens_no_server_of_applications(keyed: Running) -> None:
    assert (await keyed.client.call("whoami", token=keyed.issuer.token())).status == 401


# --- API keys in the application's table ----------------------------------------------------------------------


def project_section(project: SupabaseProject, directory: Path) -> Tree:
    return {
        "url": project.url,
        "publishable_key": secret_file(directory, project.publishable_key),
        "secret_key": secret_file(directory, project.hosted.secret_key),
    }


async def insert_key(project: SupabaseProject, name: str) -> str:
    key = f"rgk_{hashlib.sha256(name.encode()).hexdigest()}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    await project.fetch(
        "insert into rowgate.api_keys (key_sha256, name, subject, scopes) values ($1, $2, 'report', '{notes:read}') "
        "on conflict (name) do update set revoked_at = null, expires_at = null",
        digest,
        name,
    )
    return key


def looked_up(project: SupabaseProject, directory: Path, **lookup: Any) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        settings = {"function": "rowgate_api_key", "cache": "0s", "negative_cache": "0s", **lookup}
        served(tree, {"mode": "api-key", "lookup": settings})
        tree["supabase"] = project_section(project, directory)

    return change


async def test_a_key_of_the_table_opens_until_it_is_revoked(
    start: Start, supabase_project: SupabaseProject, tmp_path: Path
) -> None:
    running: Running = await start(looked_up(supabase_project, tmp_path))
    key = await insert_key(supabase_project, "revoked")
    assert (await running.client.call("whoami", token=key)).text == "report"
    assert running.plugin.calls[0].context.client_id == "revoked"
    assert running.plugin.calls[0].context.scope == {"notes:read"}
    await supabase_project.fetch("update rowgate.api_keys set revoked_at = now() where name = 'revoked'")
    reply = await running.client.call("whoami", token=key)
    assert (reply.status, running.last.reason) == (401, "key_unknown")


async def test_a_key_of_the_table_ends_when_it_says(
    start: Start, supabase_project: SupabaseProject, tmp_path: Path
) -> None:
    running: Running = await start(looked_up(supabase_project, tmp_path, cache="30s"))
    key = await insert_key(supabase_project, "ending")
    end = "update rowgate.api_keys set expires_at = now() + make_interval(secs => $1) where name = 'ending'"
    await supabase_project.fetch(end, 3600.0)
    assert (await running.client.call("whoami", token=key)).status == 200
    await supabase_project.fetch(end, -1.0)
    assert (await running.client.call("whoami", token=key)).status == 200, "kept for lookup.cache"
    restarted: Running = await start(looked_up(supabase_project, tmp_path))
    assert (await restarted.client.call("whoami", token=key)).status == 401


async def test_nobody_but_the_gateway_may_ask_about_keys(supabase_project: SupabaseProject) -> None:
    await insert_key(supabase_project, "closed")
    alice = await supabase_project.access_token("alice@example.com")
    async with aiohttp.ClientSession() as session:
        for token in (None, alice):
            headers = {"apikey": supabase_project.publishable_key}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            url = f"{supabase_project.url}/rest/v1/rpc/rowgate_api_key"
            async with session.post(url, json={"key_sha256": "0" * 64}, headers=headers) as answer:
                assert answer.status in (401, 403)
                assert (await answer.json())["code"] == "42501"
            async with session.get(f"{supabase_project.url}/rest/v1/api_keys", headers=headers) as answer:
                assert answer.status == 404


async def test_a_lookup_that_fails_is_a_503_without_a_challenge(
    start: Start, supabase_project: SupabaseProject, tmp_path: Path
) -> None:
    def change(tree: Tree) -> None:
        looked_up(supabase_project, tmp_path, function="no_such_function")(tree)

    running: Running = await start(change)
    reply = await running.client.call("whoami", token=KEY)
    assert (reply.status, reply.json["code"]) == (503, "RG211")
    assert "WWW-Authenticate" not in reply.headers
    assert int(reply.headers["Retry-After"]) >= 1
    assert running.last.reason == "lookup"
    assert IdentityAsked("lookup", "failed") in running.events


# --- nobody --------------------------------------------------------------------------------------------------


@pytest.fixture
async def public(start: Start) -> Running:
    auth = {"mode": "public", "acknowledge": "Anyone can call this server without signing in."}

    def change(tree: Tree) -> None:
        served(tree, auth)
        tree["servers"]["main"]["limits"] = {"address": "600/minute"}

    running: Running = await start(change)
    return running


async def test_a_public_server_knows_nobody(public: Running) -> None:
    assert (await public.client.call("whoami")).text == "None"
    (call,) = public.plugin.calls
    assert (call.context.kind, call.context.sub, call.context.client_id, call.context.ath) == (
        "public",
        None,
        None,
        None,
    )
    assert audited(public)[-1]["kind"] == "public"
    assert "subject" not in audited(public)[-1]
    assert await metadata_status(public) == [404] * 4


async def test_a_credential_sent_to_a_public_server_is_neither_read_nor_passed_on(public: Running) -> None:
    token = public.issuer.token()
    assert (await public.client.call("whoami", token=token)).text == "None"
    assert (await public.client.call("whoami", headers={"Authorization": "Basic broken"})).text == "None"
    assert all("Authorization" not in it.headers for it in public.plugin.received)


async def test_the_start_says_what_a_public_server_exposes(public: Running) -> None:
    (notice,) = [it for it in public.events if isinstance(it, SecurityNotice) and it.reason == "public_server"]
    assert "main" in notice.detail
    assert "echo, whoami" in notice.detail


# --- opaque tokens -------------------------------------------------------------------------------------------


class Introspection:
    def __init__(self) -> None:
        self.url = ""
        self.tokens: dict[str, Tree] = {}
        self.status = 200
        self.asked: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        expected = base64.b64encode(b"rowgate:" + b"introspection-secret").decode()
        assert request.headers["Authorization"] == f"Basic {expected}"
        token = str((await request.post())["token"])
        self.asked.append(token)
        return web.json_response(self.tokens.get(token, {"active": False}), status=self.status)


@pytest.fixture
async def introspection(stack: AsyncExitStack) -> AsyncIterator[Introspection]:
    it = Introspection()
    app = web.Application()
    app.router.add_post("/introspect", it.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}/introspect"
    yield it
    await runner.cleanup()


def opaque_issuer(introspection: Introspection, directory: Path, resource: str) -> Tree:
    return {
        "issuer": "https://id.supplier.example",
        "audience": [resource],
        "introspection": {
            "url": introspection.url,
            "client_id": "rowgate",
            "client_secret": secret_file(directory, "introspection-secret"),
            "cache": "0s",
            "negative_cache": "0s",
        },
    }


@pytest.fixture
async def opaque(start: Start, introspection: Introspection, tmp_path: Path) -> Running:
    def change(tree: Tree) -> None:
        resource = tree["gateway"]["public_url"] + "/mcp"
        served(tree, {"mode": "oauth", "issuer": opaque_issuer(introspection, tmp_path, resource)})
        introspection.tokens["opaque-alice"] = {
            "active": True,
            "sub": "supplier-7",
            "aud": resource,
            "exp": int(time.time()) + 600,
            "client_id": "agent",
            "scope": "notes:read",
        }

    running: Running = await start(change)
    return running


async def test_an_opaque_token_opens_and_goes_no_further(opaque: Running) -> None:
    assert (await opaque.client.call("whoami", token="opaque-alice")).text == "supplier-7"
    (call,) = opaque.plugin.calls
    assert (call.context.kind, call.context.ath, call.context.scope) == ("user", None, {"notes:read"})
    assert all("Authorization" not in it.headers for it in opaque.plugin.received)
    status, ready = await opaque.internal("/readyz")
    assert status == 200, ready


async def test_a_revoked_opaque_token_is_challenged(opaque: Running, introspection: Introspection) -> None:
    introspection.tokens["opaque-alice"]["active"] = False
    reply = await opaque.client.call("whoami", token="opaque-alice")
    assert (reply.status, opaque.last.reason) == (401, "inactive")
    assert challenged(reply)["error"] == "invalid_token"
    assert challenged(reply)["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")


async def test_an_introspection_endpoint_that_fails_is_a_503_without_a_challenge(
    opaque: Running, introspection: Introspection
) -> None:
    introspection.status = 401
    reply = await opaque.client.call("whoami", token="opaque-alice")
    assert (reply.status, reply.json["code"]) == (503, "RG211")
    assert "WWW-Authenticate" not in reply.headers


# --- several issuers, and secrets -----------------------------------------------------------------------------


async def test_a_server_of_several_issuers_advertises_and_believes_each_of_them(
    start: Start, stack: AsyncExitStack, tokens: Issuer, introspection: Introspection, tmp_path: Path
) -> None:
    second = await stack.enter_async_context(issuer())
    named = [{"issuer": it.url, "jwks_url": it.jwks_url, "audience": ["authenticated"]} for it in (tokens, second)]

    def change(tree: Tree) -> None:
        resource = tree["gateway"]["public_url"] + "/mcp"
        served(tree, {"mode": "oauth", "issuers": [*named, opaque_issuer(introspection, tmp_path, resource)]})
        introspection.tokens["opaque"] = {
            "active": True,
            "sub": "supplier-7",
            "aud": resource,
            "exp": int(time.time()) + 600,
            "client_id": "agent",
        }

    running: Running = await start(change)
    async with running.session.get(running.public_url + "/.well-known/oauth-protected-resource/mcp") as response:
        document = await response.json()
    assert document["authorization_servers"] == [tokens.url, second.url, "https://id.supplier.example"]
    for token, subject in ((tokens.token(), ALICE), (second.token(), ALICE), ("opaque", "supplier-7")):
        assert (await running.client.call("whoami", token=token)).text == subject
    forged = tokens.token(key=second.key)
    assert (await running.client.call("whoami", token=forged)).status == 401
    assert (await running.client.call("whoami", token=tokens.token(iss="https://unknown.example"))).status == 401
    assert running.last.reason == "issuer"
    assert introspection.asked == ["opaque"], "no signed token is shown to an issuer that did not sign it"


async def test_a_project_that_still_signs_with_its_legacy_secret_is_served(start: Start, tmp_path: Path) -> None:
    secret = "super-secret-jwt-token-with-at-least-32-characters"
    project = "https://project.supabase.co"

    def change(tree: Tree) -> None:
        served(tree, {"mode": "oauth"})
        tree["supabase"] = {"url": project, "jwt_secret": secret_file(tmp_path, secret)}

    def token(key: str, **claims: Any) -> str:
        members = {
            "iss": f"{project}/auth/v1",
            "sub": ALICE,
            "aud": "authenticated",
            "exp": int(time.time()) + 600,
            "role": "authenticated",
            "client_id": "agent",
        }
        return jwt.encode({"alg": "HS256"}, members | claims, OctKey.import_key(key), algorithms=["HS256"])

    running: Running = await start(change)
    assert (await running.client.call("whoami", token=token(secret))).text == ALICE
    assert (await running.client.call("whoami", token=token(secret[::-1]))).status == 401
    assert (await running.client.call("whoami", token=token(secret, role="service_role"))).status == 401
    assert (await running.client.call("whoami", token=running.issuer.token(iss=f"{project}/auth/v1"))).status == 401
    assert "shared_secret" in [it.reason for it in running.events if isinstance(it, SecurityNotice)]


# --- delegation ----------------------------------------------------------------------------------------------


async def test_who_acts_for_the_user_is_known_to_plugin_and_audit(running: Running) -> None:
    act = {"sub": "agent-7", "iss": "https://agents.example", "act": {"sub": "orchestrator", "client_id": "c1"}}
    await running.client.call("whoami", token=running.issuer.token(act=act))
    chain = running.plugin.calls[0].context.act
    assert [(it.sub, it.iss, it.client_id) for it in chain] == [
        ("agent-7", "https://agents.example", None),
        ("orchestrator", None, "c1"),
    ]
    assert audited(running)[-1]["actor"] == "agent-7"


@pytest.mark.parametrize("act", ["agent-7", {}, {"sub": 7}, {"sub": "a", "act": None}, [{"sub": "a"}]])
async def test_a_malformed_chain_is_401_before_any_tool_runs(running: Running, act: Any) -> None:
    message = envelope("tools/call", {"name": "whoami", "arguments": {}})
    reply = await running.client.send(message, token=running.issuer.token(act=act), headers=mirrored(message))
    assert (reply.status, running.last.reason) == (401, "actor")
    assert running.plugin.calls == []


async def test_required_scopes_bind_agents_and_not_the_users_own_session(start: Start) -> None:
    def change(tree: Tree) -> None:
        server = tree["servers"]["main"]
        server["auth"] |= {"mode": "bearer", "require_client": False}
        server["scopes"] = {"required": ["notes:write"], "issuable": ["notes:write"]}

    running: Running = await start(change)
    person = running.issuer.token(client_id=None, scope=None)
    assert (await running.client.call("whoami", token=person)).text == ALICE
    for delegated in ({"client_id": "agent"}, {"client_id": None, "act": {"sub": "agent-7"}}, {"azp": "agent"}):
        claims: dict[str, Any] = {"client_id": None, "scope": None, **delegated}
        reply = await running.client.call("whoami", token=running.issuer.token(**claims))
        assert (reply.status, running.last.code) == (403, "RG301"), delegated
        granted = running.issuer.token(**claims | {"scope": "notes:write"})
        assert (await running.client.call("whoami", token=granted)).text == ALICE


# --- how the user signed in, and with which client -------------------------------------------------------------


async def test_a_weak_sign_in_is_told_which_one_to_ask_for(start: Start) -> None:
    def change(tree: Tree) -> None:
        tree["servers"]["main"]["auth"]["min_aal"] = "aal2"

    running: Running = await start(change)
    reply = await running.client.call("whoami", token=running.issuer.token())
    assert (reply.status, reply.json["code"], running.last.reason) == (401, "RG207", "aal")
    assert challenged(reply)["error"] == "insufficient_user_authentication"
    assert challenged(reply)["acr_values"] == "aal2"
    assert audited(running)[-1]["subject"] == ALICE
    assert (await running.client.call("whoami", token=running.issuer.token(aal="aal2"))).status == 200


async def test_a_client_that_is_not_listed_is_turned_away(start: Start) -> None:
    def change(tree: Tree) -> None:
        tree["servers"]["main"]["auth"]["clients"] = ["listed"]

    running: Running = await start(change)
    reply = await running.client.call("whoami", token=running.issuer.token())
    assert (reply.status, reply.json["code"], running.last.outcome) == (403, "RG320", "denied")
    assert "WWW-Authenticate" not in reply.headers
    assert (await running.client.call("whoami", token=running.issuer.token(client_id="listed"))).text == ALICE


# --- sign-ins that are over ------------------------------------------------------------------------------------


@pytest.fixture
def live(start: Start, supabase_project: SupabaseProject, tmp_path: Path) -> Callable[..., Any]:
    """A gateway in front of the real project that asks about sessions."""

    async def run(**session: Any) -> Running:
        def change(tree: Tree) -> None:
            served(tree, {"mode": "oauth", "session": session})
            tree["supabase"] = project_section(supabase_project, tmp_path)

        running: Running = await start(change)
        return running

    return run


async def signed_in(project: SupabaseProject, name: str) -> tuple[str, str]:
    """The address of a user of this test alone, and a token of an OAuth client."""
    email = f"{name}@example.com"
    await project.add_user(email)
    return email, await project.access_token(email, client_id="c11e0000-0000-4000-8000-000000000001", scope="email")


async def test_who_signed_out_is_told_to_sign_in_again(live: Any, supabase_project: SupabaseProject) -> None:
    running: Running = await live(check="per_call")
    email, token = await signed_in(supabase_project, "signed-out")
    assert (await running.client.call("echo", {"text": "hi"}, token=token)).text == "hi"
    assert running.plugin.calls[0].headers["Authorization"] == f"Bearer {token}"
    supabase_project.auth.sign_out(email)
    reply = await running.client.call("echo", token=token)
    assert (reply.status, reply.json["code"]) == (401, "RG206")
    assert challenged(reply)["error"] == "invalid_token"
    assert "resource_metadata" in challenged(reply)
    line = audited(running)[-1]
    assert (line["code"], line["reason"], line["outcome"]) == ("RG206", "session_over", "denied")
    assert line["subject"] == supabase_project.auth.user(email).id
    assert len(running.plugin.calls) == 1


@pytest.mark.parametrize(("lever", "reason"), [("ban", "banned"), ("delete_user", "deleted")])
async def test_banned_and_deleted_users_are_cut_off(
    live: Any, supabase_project: SupabaseProject, lever: str, reason: str
) -> None:
    running: Running = await live(check="per_call")
    email, token = await signed_in(supabase_project, f"cut-off-{reason}")
    getattr(supabase_project.auth, lever)(email)
    reply = await running.client.call("echo", token=token)
    assert (reply.status, running.last.reason) == (401, reason)


async def test_an_answer_is_kept_for_the_time_that_is_configured(live: Any, supabase_project: SupabaseProject) -> None:
    running: Running = await live(check="1h")
    email, token = await signed_in(supabase_project, "kept")
    assert (await running.client.call("echo", token=token)).status == 200
    supabase_project.auth.sign_out(email)
    assert (await running.client.call("echo", token=token)).status == 200
    asked = [it for it in running.events if isinstance(it, IdentityAsked)]
    assert asked == [IdentityAsked("session", "ok")]


def silent_stream(opened: asyncio.Event) -> Any:
    """A plugin that begins a stream and says nothing more."""

    async def answer(it: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(it.request)
        await response.write(b": begun\n\n")
        opened.set()
        await asyncio.Event().wait()
        raise AssertionError

    return answer


async def test_an_open_stream_ends_when_its_user_signs_out(live: Any, supabase_project: SupabaseProject) -> None:
    running: Running = await live(check="1s")
    opened = asyncio.Event()
    running.plugin.answers["tools/call"] = silent_stream(opened)
    email, token = await signed_in(supabase_project, "streaming")
    call = asyncio.create_task(running.client.call("echo", token=token, id="s1"))
    await opened.wait()
    supabase_project.auth.sign_out(email)
    reply = await call
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/event-stream")
    (event,) = reply.events
    assert (event["id"], event["error"]["data"]["code"]) == ("s1", "RG206")
    await running.plugin.cancelled.wait()
    assert (running.last.code, running.last.reason, running.last.streamed) == ("RG206", "session_over", True)


async def test_an_open_stream_ends_with_its_token(start: Start) -> None:
    def change(tree: Tree) -> None:
        tree["servers"]["main"]["auth"]["issuer"]["leeway"] = "0s"

    running: Running = await start(change)
    opened = asyncio.Event()
    running.plugin.answers["tools/call"] = silent_stream(opened)
    reply = await running.client.call("echo", token=running.issuer.token(exp=time.time() + 1.0), id="s2")
    (event,) = reply.events
    assert (event["id"], event["error"]["data"]["code"]) == ("s2", "RG204")
    await running.plugin.cancelled.wait()


async def test_a_call_without_a_stream_is_let_finish_though_its_token_ends(start: Start) -> None:
    """Its client would repeat it, and it may have changed something already."""

    def change(tree: Tree) -> None:
        tree["servers"]["main"]["auth"]["issuer"]["leeway"] = "0s"

    running: Running = await start(change)
    end = time.time() + 0.5

    async def answer(it: Received) -> dict[str, Any]:
        await asyncio.sleep(max(0.0, end - time.time()))
        return it.text("done")

    running.plugin.answers["tools/call"] = answer
    assert (await running.client.call("echo", token=running.issuer.token(exp=end))).text == "done"
