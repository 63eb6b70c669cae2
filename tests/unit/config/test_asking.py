"""Rules that nobody could answer, and settings of rules that do nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowgate.config.load import Checked

Check = Callable[..., Checked]

FILE = """\
version: 1
gateway: {{public_url: "https://mcp.example.com"}}
supabase: {{url: "https://acme.supabase.co"{key}}}
plugins:
  notes: {{url: "http://127.0.0.1:9000/mcp"{plugin}}}
servers:
  main:
    path: /mcp
    auth: {{mode: {mode}}}
{server}
    capabilities:
      - {{from: notes, tools: [get_note]{entry}}}
"""
PUBLISHABLE = "sb_publishable_0123456789"
KEY = ", publishable_key: {env: PUBLISHABLE}"


def written(server: str = "", entry: str = "", *, mode: str = "bearer", key: str = KEY, plugin: str = "") -> str:
    line = f"    {server}" if server else ""
    return FILE.format(server=line, entry=f", {entry}" if entry else "", mode=mode, key=key, plugin=plugin)


def found(checked: Checked) -> list[tuple[str, str, str]]:
    return [(problem.severity, problem.path, problem.message) for problem in checked.problems]


AT = "servers.main."
ENTRY = AT + "capabilities[0]."


@pytest.mark.parametrize(
    ("text", "severity", "path", "message"),
    [
        (written("scopes: {source: claim}"), "error", AT + "scopes.source", "needs claim beside it"),
        (written("scopes: {source: function}"), "error", AT + "scopes.source", "needs function beside it"),
        (written("scopes: {claim: a.b}"), "error", AT + "scopes.claim", "does nothing without source: claim"),
        (
            written("scopes: {source: claim, claim: user_metadata.scopes}"),
            "error",
            AT + "scopes.claim",
            "must not lie in user_metadata: users write that themselves",
        ),
        (
            written("scopes: {source: claim, claim: a.b, issuable: [email]}", mode="oauth"),
            "error",
            AT + "scopes.issuable",
            "does nothing with source: claim",
        ),
        (
            written("scopes: {grant_url: 'https://app.example'}"),
            "error",
            AT + "scopes.grant_url",
            "does nothing with source: token: clients are challenged",
        ),
        (
            written("scopes: {source: function, function: {name: scopes}}", key=""),
            "error",
            AT + "scopes.function",
            "needs supabase.publishable_key",
        ),
        (
            written("scopes: {source: function, function: {name: Scopes}}"),
            "error",
            AT + "scopes.function.name",
            "must be the name of a SQL function in an exposed schema: lower-case letters, digits and _",
        ),
        (
            written("authorizer: {function: may}"),
            "error",
            AT + "authorizer",
            "is never asked: no entry requires a permission",
        ),
        (
            written("authorizer: {timeout: 5s}", "require: {permission: a.b}"),
            "error",
            AT + "authorizer",
            "needs exactly one of url and function",
        ),
        (
            written("authorizer: {url: 'http://may.example/'}", "require: {permission: a.b}"),
            "error",
            AT + "authorizer.url",
            "must use https",
        ),
        (written("", "require: {permission: a.b}"), "warning", ENTRY + "require.permission", "is asked of nobody"),
        (
            written("", "require: {permission: 'a b'}"),
            "error",
            ENTRY + "require.permission",
            "must be a permission such as customers.archive: letters, digits and _ . : / -",
        ),
        (
            written("", "require: {session: fresh}", key=""),
            "error",
            ENTRY + "require.session",
            "needs supabase.publishable_key",
        ),
        (
            written("", "require: {aal: aal2}", mode="oauth"),
            "warning",
            ENTRY + "require.aal",
            "is never met: OAuth tokens of Supabase are always aal1",
        ),
        (
            written("", "require: {claims: {user_metadata.plan: pro}}"),
            "error",
            ENTRY + 'require.claims["user_metadata.plan"]',
            "must not lie in user_metadata: users write that themselves",
        ),
        (
            written("", "require: {claims: {plan: []}}"),
            "error",
            ENTRY + "require.claims.plan",
            "must be text, a whole number, true or false, or a list of them",
        ),
        (written("", "meta: {a: 1}"), "warning", ENTRY + "meta", "is seen by nobody: this server has no policy.hook"),
        (
            written("policy: {hook: 'not a name'}"),
            "error",
            AT + "policy.hook",
            "must be package.module:object, or the name of an entry point",
        ),
        (
            written("auth: {challenge: tool}"),
            "error",
            AT + "auth",
            "stands here a second time; the first is on line 9",
        ),
        (written(plugin=", privileged: true"), "error", ENTRY + "require", "is missing a rule"),
        (
            written("", "require: {session: live}", plugin=", privileged: true"),
            "error",
            ENTRY + "require",
            "is missing a rule",
        ),
    ],
)
def test_a_rule_that_does_nothing_or_cannot_be_answered_is_said(
    check: Check, text: str, severity: str, path: str, message: str
) -> None:
    assert (severity, path, message) in found(check(text, PUBLISHABLE=PUBLISHABLE))


@pytest.mark.parametrize(
    "require",
    ["{scopes: [email]}", "{roles: [a]}", "{claims: {plan: pro}}", "{aal: aal1}", "{client: [c]}", "{permission: a.b}"],
)
def test_each_rule_lets_a_privileged_plugin_be_exposed(check: Check, require: str) -> None:
    text = written("", f"require: {require}", plugin=", privileged: true")
    assert [it for it in found(check(text, PUBLISHABLE=PUBLISHABLE)) if it[0] == "error"] == []


def test_scopes_of_grants_need_no_authorization_server_that_issues_them(check: Check) -> None:
    text = written("scopes: {source: claim, claim: app_metadata.scopes, required: ['notes:read']}")
    assert found(check(text, PUBLISHABLE=PUBLISHABLE)) == []


def test_many_advertised_scopes_are_warned_about(check: Check) -> None:
    scopes = ", ".join(f"s{number}" for number in range(11))
    issuer = "{issuer: 'https://a.example', jwks_url: 'https://a.example/k', audience: [x]}"
    text = written(f"scopes: {{advertised: [{scopes}]}}", mode=f"oauth, issuer: {issuer}")
    assert ("warning", AT + "scopes.advertised", "has more than 10 scopes") in found(
        check(text, PUBLISHABLE=PUBLISHABLE)
    )
