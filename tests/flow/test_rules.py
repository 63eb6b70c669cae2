"""Rules beyond scopes and roles: lists and calls say the same, and what is refused reaches no plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from joserfc.jwk import KeySet

from flow import rules_hook
from flow.authorizer import Authorizer, authorizer
from flow.conftest import CONTEXT_KEY, Running
from flow.issuer import ALICE
from flow.plugin import tool
from rowgate.observe.events import Defect, PolicyAsked, SecurityNotice

Change = Callable[[dict[str, Any]], None]
OTHER_CLIENT = "c11e0000-0000-4000-8000-000000000002"


def ruled(require: dict[str, Any], **entry: Any) -> Change:
    """The tool `admin` under another rule; `more` are members of the server."""

    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["capabilities"][1] = {"from": "notes", "tools": ["admin"], "require": require, **entry}

    return change


async def names(running: Running, token: str) -> list[str]:
    reply = await running.client.modern("tools/list", token=token)
    return [it["name"] for it in reply.result["tools"]]


async def hidden(running: Running, token: str, name: str = "admin") -> bool:
    """Whether the tool is neither listed nor callable, and answered like one that does not exist."""
    listed = name in await names(running, token)
    reply = await running.client.call(name, token=token)
    if "result" in reply.json:
        assert listed
        return False
    assert not listed
    unknown = await running.client.call("nimda", token=token)
    assert reply.error["message"] == unknown.error["message"].replace("nimda", name)
    return True


# --- claims, clients, assurance ----------------------------------------------------------------------------


async def test_a_claim_opens_what_it_hides_from_others(start: Any) -> None:
    running = await start(ruled({"claims": {"app_metadata.plan": ["team", "pro"], "app_metadata.seats": 3}}))
    token = running.issuer.token
    assert not await hidden(running, token(app_metadata={"plan": "pro", "seats": 3}))
    assert not await hidden(running, token(app_metadata={"plan": ["free", "team"], "seats": 3}))
    for metadata in ({"plan": "free", "seats": 3}, {"plan": "pro", "seats": "3"}, {"plan": "pro", "seats": True}, {}):
        assert await hidden(running, token(app_metadata=metadata)), metadata
    assert await hidden(running, token(user_metadata={"plan": "pro", "seats": 3}))


async def test_a_tool_of_one_client_does_not_exist_for_another(start: Any) -> None:
    running = await start(ruled({"client": [OTHER_CLIENT]}))
    assert not await hidden(running, running.issuer.token(client_id=OTHER_CLIENT))
    assert await hidden(running, running.issuer.token())


async def test_a_weaker_sign_in_gets_a_tool_error_and_no_challenge(start: Any) -> None:
    running = await start(ruled({"aal": "aal2"}))
    strong, weak = running.issuer.token(aal="aal2"), running.issuer.token(aal="aal1")
    assert "admin" in await names(running, strong)
    assert "admin" not in await names(running, weak)
    reply = await running.client.call("admin", token=weak, id=7)
    assert (reply.status, reply.json["id"], reply.result["isError"]) == (200, 7, True)
    assert "WWW-Authenticate" not in reply.headers
    assert reply.result["structuredContent"] == {"kind": "forbidden", "code": "STRONGER_SIGN_IN_NEEDED"}
    assert (running.last.outcome, running.last.code, running.last.reason) == ("denied", "RG303", "aal")
    assert not running.plugin.calls


async def test_required_scopes_bind_agents_and_not_the_users_own_session(start: Any) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["auth"]["mode"] = "bearer"
        tree["servers"]["main"]["scopes"] = {"issuable": ["notes:write"], "required": ["notes:write"]}

    running = await start(change)
    own = running.issuer.token(client_id=None, scope=None)
    assert (await running.client.call("write", {"text": "x"}, token=own)).text == "x"
    for claims in (
        {"scope": None},
        {"client_id": None, "scope": "email"},
        {"client_id": None, "act": {"sub": "agent"}},
    ):
        reply = await running.client.call("write", token=running.issuer.token(**claims))
        assert reply.status == 403, claims
    assert len(running.plugin.calls) == 1


# --- step-up -----------------------------------------------------------------------------------------------


def challenged(mode: str) -> Change:
    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["auth"]["challenge"] = mode

    return change


async def test_a_challenge_within_a_tool_result_keeps_the_id_and_runs_nothing(start: Any) -> None:
    running = await start(challenged("tool-result"))
    token = running.issuer.token()
    for send in (running.client.modern, running.client.legacy):
        reply = await send("tools/call", {"name": "write", "arguments": {}}, token=token, id="seven")
        assert (reply.status, reply.json["id"]) == (200, "seven")
        assert reply.result["isError"] is True
        (challenge,) = reply.result["_meta"]["mcp/www_authenticate"]
        assert challenge.startswith('Bearer error="insufficient_scope", scope="notes:write", resource_metadata="')
        assert (running.last.outcome, running.last.code) == ("denied", "RG301")
    assert not running.plugin.calls


async def test_the_same_call_is_challenged_by_http_where_that_is_configured(start: Any) -> None:
    running = await start(challenged("http"))
    agent = {"User-Agent": "openai-mcp/1.0.0"}
    reply = await running.client.call("write", token=running.issuer.token(), headers=agent)
    assert reply.status == 403
    assert 'scope="notes:write"' in reply.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("headers", "client", "status"),
    [
        ({"User-Agent": "openai-mcp/1.0.0"}, "t", 200),
        ({}, "openai-mcp", 200),
        ({"User-Agent": "claude-code/3"}, "claude", 403),
        ({}, "x openai-mcp", 403),
    ],
)
async def test_by_default_a_client_gets_the_form_that_it_is_known_to_read(
    running: Running, headers: dict[str, str], client: str, status: int
) -> None:
    info = {"name": client, "version": "1"}
    reply = await running.client.call("write", token=running.issuer.token(), headers=headers, clientInfo=info)
    assert reply.status == status
    assert not running.plugin.calls


async def test_only_calls_of_verified_callers_are_told_in_a_result(start: Any) -> None:
    running = await start(challenged("tool-result"))
    for token in (None, "not.a.token", running.issuer.token(aud="other")):
        reply = await running.client.call("write", token=token)
        assert reply.status == 401
        assert "WWW-Authenticate" in reply.headers


async def test_a_step_up_ends_whatever_the_client_does(running: Running) -> None:
    """A client that comes back with the same scopes gets the same answer, which names all that it needs."""
    answers = set()
    for _ in range(3):
        reply = await running.client.call("write", token=running.issuer.token(scope="email"))
        answers.add((reply.status, reply.headers["WWW-Authenticate"]))
    assert len(answers) == 1
    assert not running.plugin.calls


# --- scopes from a claim -----------------------------------------------------------------------------------


def granted_by_claim(tree: dict[str, Any]) -> None:
    tree["servers"]["main"]["scopes"] = {
        "source": "claim",
        "claim": "app_metadata.scopes",
        "grant_url": "https://app.example/agents",
        "implies": {"notes": ["notes:write"]},
    }


async def test_scopes_of_a_claim_count_and_those_of_the_token_do_not(start: Any) -> None:
    running = await start(granted_by_claim)
    for scopes in ("notes:write email", ["notes:write"], ["notes"]):
        token = running.issuer.token(app_metadata={"scopes": scopes})
        assert "write" in await names(running, token)
        assert (await running.client.call("write", {"text": "x"}, token=token)).text == "x"
    called = len(running.plugin.calls)
    for claims in ({}, {"scope": "notes:write"}, {"app_metadata": {"scopes": {"notes:write": True}}}):
        assert "write" not in await names(running, running.issuer.token(**claims))
        reply = await running.client.call("write", token=running.issuer.token(**claims))
        assert reply.result["isError"] is True
    assert len(running.plugin.calls) == called


async def test_a_scope_that_was_not_granted_is_no_challenge_but_says_where_to_grant_it(start: Any) -> None:
    running = await start(granted_by_claim)
    for send in (running.client.modern, running.client.legacy):
        reply = await send("tools/call", {"name": "write", "arguments": {}}, token=running.issuer.token())
        assert (reply.status, reply.result["isError"]) == (200, True)
        assert "WWW-Authenticate" not in reply.headers
        assert "https://app.example/agents" in reply.text
        assert reply.result["structuredContent"]["code"] == "SCOPE_NOT_GRANTED"
        assert reply.result["_meta"]["rowgate/error"]["error"] == "RG311"
        assert (running.last.outcome, running.last.reason) == ("denied", "grant")
    assert not running.plugin.calls


async def test_a_required_scope_of_a_grant_lets_a_client_connect_and_call_nothing(start: Any) -> None:
    def change(tree: dict[str, Any]) -> None:
        granted_by_claim(tree)
        tree["servers"]["main"]["scopes"]["required"] = ["notes:write"]

    running = await start(change)
    token = running.issuer.token()
    assert (await running.client.modern("server/discover", token=token)).status == 200
    assert await names(running, token) == []
    assert (await running.client.call("echo", token=token)).result["isError"] is True
    assert not running.plugin.calls


# --- permissions -------------------------------------------------------------------------------------------


@pytest.fixture
async def asked(stack: AsyncExitStack) -> Authorizer:
    it = await stack.enter_async_context(authorizer())
    it.keys = KeySet([CONTEXT_KEY])
    return it


def permitted(asked: Authorizer, **settings: Any) -> Change:
    def change(tree: dict[str, Any]) -> None:
        ruled({"permission": "customers.archive"})(tree)
        tree["servers"]["main"]["authorizer"] = {"url": asked.url, "timeout": "500ms", "cache": 0, **settings}

    return change


async def test_an_authorizer_decides_lists_without_and_calls_with_their_arguments(
    start: Any, asked: Authorizer
) -> None:
    running = await start(permitted(asked))
    token = running.issuer.token()
    assert "admin" in await names(running, token)
    assert (await running.client.call("admin", {"text": "x"}, token=token)).text == "x"
    (listing, listed), (calling, called) = asked.asked
    check = {"permission": "customers.archive", "kind": "tool", "name": "admin"}
    assert listed == {"version": 1, "server": "main", "checks": [check]}
    assert called["checks"] == [{**check, "arguments": {"text": "x"}}]
    assert (listing.sub, calling.sub, calling.kind, calling.method) == (ALICE, ALICE, "user", "rowgate/authorize")
    assert (await running.client.call("echo", {"text": "x"}, token=token)).text == "x"
    assert len(asked.asked) == 2


@pytest.mark.parametrize(
    ("decision", "word", "code"),
    [
        ({"allowed": False}, "PERMISSION_DENIED", "RG304"),
        ({"allowed": False, "code": "APPROVAL_REQUIRED"}, "APPROVAL_REQUIRED", "RG305"),
        ({"allowed": False, "code": "whatever"}, "PERMISSION_DENIED", "RG304"),
    ],
)
async def test_a_denial_is_a_tool_error_with_the_permission(
    start: Any, asked: Authorizer, decision: dict[str, Any], word: str, code: str
) -> None:
    asked.decide = lambda context, check: decision
    running = await start(permitted(asked))
    token = running.issuer.token()
    assert "admin" not in await names(running, token)
    for send in (running.client.modern, running.client.legacy):
        reply = await send("tools/call", {"name": "admin", "arguments": {}}, token=token, id=9)
        assert (reply.status, reply.json["id"], reply.result["isError"]) == (200, 9, True)
        expected = {"kind": "forbidden", "code": word, "permission": "customers.archive"}
        assert reply.result["structuredContent"] == expected
        assert reply.result["_meta"]["rowgate/error"].items() >= expected.items()
        assert (running.last.outcome, running.last.code) == ("denied", code)
    assert not running.plugin.calls


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"decisions": []}, 200),
        ({"decisions": [{"allowed": True}, {"allowed": True}]}, 200),
        ({"decisions": [{"allowed": 1}]}, 200),
        ({"decisions": [{"allowed": "true"}]}, 200),
        ({"decisions": [True]}, 200),
        ({"decisions": [{}]}, 200),
        ({"allowed": True}, 200),
        ("yes", 200),
        ({"decisions": [{"allowed": True}]}, 500),
        ({"decisions": [{"allowed": True}]}, 201),
        ({"decisions": [{"allowed": True}]}, 302),
    ],
)
async def test_whatever_is_not_one_plain_yes_for_each_check_is_a_no(
    start: Any, asked: Authorizer, answer: Any, status: int
) -> None:
    asked.answer, asked.status = answer, status
    running = await start(permitted(asked))
    token = running.issuer.token()
    assert "admin" not in await names(running, token)
    reply = await running.client.call("admin", token=token)
    assert reply.result["structuredContent"]["kind"] == "unavailable"
    assert (running.last.outcome, running.last.code) == ("denied", "RG306")
    assert not running.plugin.calls
    outcomes = {event.outcome for event in running.events if isinstance(event, PolicyAsked)}
    assert outcomes <= {"authorizer_answer", "authorizer_status"}
    assert outcomes


async def test_an_authorizer_that_cannot_be_reached_denies(start: Any, asked: Authorizer) -> None:
    running = await start(permitted(asked, url="http://127.0.0.1:1/may"))
    token = running.issuer.token()
    assert "admin" not in await names(running, token)
    reply = await running.client.call("admin", token=token)
    assert reply.result["structuredContent"]["code"] == "PERMISSION_UNKNOWN"
    assert running.last.reason == "authorizer_unreachable"
    assert not running.plugin.calls


async def test_without_an_authorizer_such_a_tool_is_hidden_and_refused(start: Any) -> None:
    running = await start(ruled({"permission": "customers.archive"}))
    assert await hidden(running, running.issuer.token())
    assert not running.plugin.calls


async def test_answers_for_a_list_are_kept_for_one_caller_and_calls_are_asked_anew(
    start: Any, asked: Authorizer
) -> None:
    asked.decide = lambda context, check: {"allowed": context.sub == ALICE}
    running = await start(permitted(asked, cache="60s"))
    alice, bob = running.issuer.token(), running.issuer.token("22222222-2222-4222-8222-222222222222")
    for _ in range(2):
        assert "admin" in await names(running, alice)
        assert "admin" not in await names(running, bob)
    assert len(asked.asked) == 2
    for _ in range(2):
        await running.client.call("admin", token=alice)
    assert len(asked.asked) == 4


async def test_arguments_that_do_not_fit_are_judged_by_nobody(start: Any, asked: Authorizer) -> None:
    running = await start(permitted(asked))
    reply = await running.client.call("admin", {"text": ["do-not-repeat"]}, token=running.issuer.token())
    assert reply.result["isError"] is True
    assert "$.text" in reply.text
    assert b"do-not-repeat" not in reply.body
    assert (running.last.code, running.last.outcome) == ("RG307", "protocol_error")
    assert not asked.asked
    assert not running.plugin.calls


async def test_a_refusal_promises_no_structure_that_the_tool_declares_otherwise(
    start: Any, asked: Authorizer, notes: Any
) -> None:
    notes.tools[1] = tool("admin", outputSchema={"type": "object", "required": ["total"]})
    asked.decide = lambda context, check: {"allowed": False}
    running = await start(permitted(asked))
    reply = await running.client.call("admin", token=running.issuer.token())
    assert "structuredContent" not in reply.result
    assert reply.result["_meta"]["rowgate/error"]["code"] == "PERMISSION_DENIED"


async def test_a_denied_prompt_or_resource_is_an_error_of_the_protocol(start: Any, asked: Authorizer) -> None:
    def change(tree: dict[str, Any]) -> None:
        permitted(asked)(tree)
        tree["servers"]["main"]["capabilities"][0] = {
            "from": "notes",
            "prompts": ["*"],
            "resources": ["note://*"],
            "require": {"permission": "notes.read"},
        }

    asked.decide = lambda context, check: {"allowed": False}
    running = await start(change)
    token = running.issuer.token()
    for method, params in (("prompts/get", {"name": "summary"}), ("resources/read", {"uri": "note://7"})):
        reply = await running.client.modern(method, params, token=token)
        assert (reply.status, reply.error["data"]["permission"]) == (200, "notes.read")
    assert (await running.client.modern("prompts/list", token=token)).result["prompts"] == []
    assert [check["arguments"] for _, body in asked.asked[:2] for check in body["checks"]] == [{}, {"uri": "note://7"}]


# --- hooks -------------------------------------------------------------------------------------------------


@pytest.fixture
def hook() -> rules_hook.Hook:
    rules_hook.hook.asked.clear()
    return rules_hook.hook


def hooked(meta: dict[str, Any]) -> Change:
    def change(tree: dict[str, Any]) -> None:
        ruled({}, meta=meta)(tree)
        tree["servers"]["main"]["policy"] = {"hook": "flow.rules_hook:hook"}

    return change


async def test_a_hook_shows_in_lists_what_it_lets_be_called(start: Any, hook: rules_hook.Hook) -> None:
    running = await start(hooked({"internal": True}))
    assert await hidden(running, running.issuer.token())
    assert not await hidden(running, running.issuer.token(app_metadata={"roles": ["staff"]}))
    assert b"internal" not in (await running.client.modern("tools/list", token=running.issuer.token())).body


async def test_a_hook_refuses_by_arguments_in_its_own_words(start: Any, hook: rules_hook.Hook) -> None:
    running = await start(hooked({}))
    token = running.issuer.token()
    assert (await running.client.call("echo", {"text": "x"}, token=token)).text == "x"
    reply = await running.client.call("echo", {"text": "a secret"}, token=token)
    assert (reply.text, reply.result["isError"]) == ("Secrets are read by people.", True)
    assert reply.result["structuredContent"] == {"kind": "forbidden", "code": "PEOPLE_ONLY"}
    assert (running.last.outcome, running.last.code) == ("denied", "RG308")
    assert hook.asked[0] == (ALICE, "echo", {"text": "x"})
    assert len(running.plugin.calls) == 1


async def test_a_hook_sees_only_arguments_that_fit(start: Any, hook: rules_hook.Hook) -> None:
    running = await start(hooked({}))
    reply = await running.client.call("echo", {"text": 7}, token=running.issuer.token())
    assert reply.result["structuredContent"]["kind"] == "invalid_arguments"
    assert not hook.asked
    assert not running.plugin.calls


@pytest.mark.parametrize("broken", ["visible", "authorize"])
async def test_an_exception_in_a_hook_fails_the_call_closed(start: Any, hook: rules_hook.Hook, broken: str) -> None:
    running = await start(hooked({"broken": broken}))
    token = running.issuer.token()
    reply = await running.client.call("admin", token=token)
    assert reply.result["isError"] is True
    assert reply.result["_meta"]["rowgate/error"]["code"] == "RULES_FAILED"
    assert (running.last.outcome, running.last.code) == ("denied", "RG309")
    assert not running.plugin.calls
    (defect,) = [event for event in running.events if isinstance(event, Defect)]
    assert "flow.rules_hook:hook" in defect.where
    assert b"defect of the builder" not in reply.body
    assert (await running.client.call("echo", {"text": "x"}, token=token)).text == "x"
    assert ("admin" in await names(running, token)) is (broken == "authorize")


async def test_a_gateway_with_a_hook_that_cannot_be_loaded_does_not_start(start: Any) -> None:
    def change(reference: str) -> Change:
        return lambda tree: tree["servers"]["main"].update(policy={"hook": reference})

    for reference in ("flow.no_such_module:hook", "flow.rules_hook:nothing", "flow.rules_hook:ALICE", "no-such-entry"):
        with pytest.raises(Exception, match=r"flow\.|no-such-entry"):
            await start(change(reference))


# --- what operators see ------------------------------------------------------------------------------------


async def test_a_privileged_plugin_is_named_at_start_and_in_the_audit(start: Any) -> None:
    def change(tree: dict[str, Any]) -> None:
        tree["plugins"]["notes"]["privileged"] = True
        tree["servers"]["main"]["capabilities"] = [
            {"from": "notes", "tools": ["echo"], "require": {"roles": ["member"]}}
        ]

    running = await start(change)
    assert [it.reason for it in running.events if isinstance(it, SecurityNotice)].count("privileged_plugin") == 1
    await running.client.call("echo", {"text": "x"}, token=running.issuer.token())
    await running.client.call("none", token=running.issuer.token())
    called, unknown = [line for line in running.log.lines if line.get("stream") == "audit"]
    assert called["privileged"] is True
    assert "privileged" not in unknown


async def test_an_event_sink_gets_every_event(start: Any) -> None:
    rules_hook.sink.begin()
    running = await start(lambda tree: tree["gateway"].update(event_sinks=["flow.rules_hook:sink"]))
    await running.client.call("echo", {"text": "x"}, token=running.issuer.token())
    assert await asyncio.to_thread(rules_hook.sink.finished.wait, 30)
    assert rules_hook.sink.events == running.events[: len(rules_hook.sink.events)]
    assert running.last in rules_hook.sink.events


# --- callers established by code ---------------------------------------------------------------------------


def custom(tree: dict[str, Any]) -> None:
    main = tree["servers"]["main"]
    main["auth"] = {"mode": "custom", "authenticator": "flow.rules_hook:callers"}
    main["scopes"] = {}
    main["capabilities"] = [{"from": "notes", "tools": ["echo", "admin"], "require": {"roles": ["editor"]}}]


async def test_code_of_the_builder_may_say_who_calls(start: Any) -> None:
    running = await start(custom)
    reply = await running.client.call("echo", {"text": "x"}, headers={"X-Acme-User": "robot"})
    assert reply.text == "x"
    context = running.plugin.calls[-1].context
    assert (context.kind, context.sub) == ("application", "robot")
    assert "Authorization" not in running.plugin.calls[-1].headers


async def test_whom_that_code_does_not_know_gets_in_nowhere(start: Any) -> None:
    running = await start(custom)
    for token, headers, code in ((None, {}, "RG201"), (running.issuer.token(), {}, "RG203")):
        reply = await running.client.call("echo", token=token, headers=headers)
        assert (reply.status, running.last.code) == (401, code)
    for name in ("broken", "nonsense"):
        reply = await running.client.call("echo", headers={"X-Acme-User": name})
        assert (reply.status, running.last.code, running.last.reason) == (503, "RG211", "authenticator")
    assert len([event for event in running.events if isinstance(event, Defect)]) == 2
    assert not running.plugin.calls
