"""Settings that are well-formed and still wrong together, and settings that deserve a warning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowgate.config.defaults import issuable_scopes, issuers_of
from rowgate.config.load import Checked
from rowgate.config.models import Config

Check = Callable[..., Checked]
OWN = """
      issuer:
        issuer: https://login.example.com
        jwks_url: https://login.example.com/jwks
        audience: [rowgate]"""


def found(checked: Checked) -> list[tuple[str, str, str]]:
    return [(problem.severity, problem.path, problem.message) for problem in checked.problems]


def test_a_minimal_file_is_valid(check: Check, minimal: str) -> None:
    checked = check(minimal)
    assert checked.problems == ()
    assert checked.config is not None


def test_a_server_without_project_and_issuer_is_refused(check: Check, minimal: str) -> None:
    text = minimal.replace('supabase: {url: "https://acme.supabase.co"}\n', "")
    assert found(check(text)) == [("error", "servers.main.auth", "has nobody who issues tokens")]


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        (
            "http://127.0.0.1:9000/mcp",
            'http://notes:9000/mcp", credential: "user_token',
            "plugins.notes.url",
            "sends users' tokens over clear http",
        ),
        (
            "http://127.0.0.1:9000/mcp",
            'http://127.0.0.1:9000/mcp", timeout: "5m',
            "plugins.notes.timeout",
            "is longer than gateway.request.timeout, which ends buffered answers before",
        ),
        ("servers:", '  spare: {url: "http://127.0.0.1:9001"}\nservers:', "plugins.spare", "is not used"),
        ("auth: {mode: oauth}", f"auth:\n      mode: oauth{OWN}", "supabase", "is not used"),
        ("mode: oauth", "mode: oauth, require_client: false", "servers.main.auth.require_client", "accepts tokens of"),
    ],
)
def test_a_risky_or_useless_setting_is_a_warning(
    check: Check, minimal: str, old: str, new: str, path: str, message: str
) -> None:
    checked = check(minimal.replace(old, new))
    assert checked.config is not None
    ((severity, where, said),) = found(checked)
    assert (severity, where) == ("warning", path)
    assert said.startswith(message)


@pytest.mark.parametrize("credential", ["none", "user_token"])
@pytest.mark.parametrize("url", ["http://localhost:9000", "http://[::1]:9000/mcp", "https://notes.internal/mcp"])
def test_private_transport_of_tokens_needs_no_warning(check: Check, minimal: str, url: str, credential: str) -> None:
    text = minimal.replace('"http://127.0.0.1:9000/mcp"', f'"{url}", credential: {credential}')
    assert check(text).problems == ()


@pytest.mark.parametrize(
    ("scopes", "path", "message"),
    [
        ("{required: [openid]}", "required[0]", "must not name openid"),
        ("{required: [offline_access]}", "required[0]", "must not name offline_access"),
        ("{required: ['notes:read']}", "required[0]", "is a scope that nobody can issue, so no call would ever pass"),
        ("{issuable: [openid]}", "issuable[0]", "must not name openid"),
        ("{issuable: ['notes:read']}", "issuable[0]", "is a scope that Supabase cannot issue"),
        ("{advertised: [email, openid]}", "advertised[1]", "must not name openid"),
        ("{advertised: [phone], issuable: [email]}", "advertised[0]", "is not among issuable"),
        ("{advertised: ['a b']}", "advertised[0]", "must be a scope"),
        ("{advertised: ['a\\\\b']}", "advertised[0]", "must be a scope"),
        ("{source: grants}", "source", "must be token or claim or function"),
    ],
)
def test_a_scope_that_supabase_cannot_or_must_not_issue_is_refused(
    check: Check, minimal: str, scopes: str, path: str, message: str
) -> None:
    text = minimal.replace("auth: {mode: oauth}", f"auth: {{mode: oauth}}\n    scopes: {scopes}")
    ((severity, where, said),) = found(check(text))
    assert (severity, where) == ("error", f"servers.main.scopes.{path}")
    assert said.startswith(message)


def test_the_project_stays_supabase_when_its_issuer_is_spelt_out(check: Check, minimal: str) -> None:
    own = OWN.replace("https://login.example.com\n", "https://acme.supabase.co/auth/v1\n")
    text = minimal.replace(
        "auth: {mode: oauth}", f"auth:\n      mode: oauth{own}\n    scopes: {{advertised: [openid, notes]}}"
    )
    errors = [finding for finding in found(check(text)) if finding[0] == "error"]
    assert errors == [
        ("error", "servers.main.scopes.advertised[0]", "must not name openid"),
        ("error", "servers.main.scopes.advertised[1]", "is a scope that Supabase cannot issue"),
    ]


@pytest.mark.parametrize(
    ("scopes", "valid"),
    [
        ("{required: [notes], issuable: [notes]}", True),
        ("{required: [notes], advertised: [notes]}", True),
        ("{required: ['notes:read'], issuable: [all], implies: {all: [notes], notes: ['notes:read'], x: [all]}}", True),
        ("{required: ['notes:read'], issuable: [all], implies: {notes: ['notes:read']}}", False),
        ("{required: [a], issuable: [b], implies: {b: [c], c: [b]}}", False),
        ("{required: [notes]}", False),
        ("{required: [openid], issuable: [openid]}", True),
        ("{issuable: [offline_access]}", False),
    ],
)
def test_an_own_issuer_says_what_it_issues(check: Check, minimal: str, scopes: str, valid: bool) -> None:
    text = minimal.replace("auth: {mode: oauth}", f"auth:\n      mode: oauth{OWN}\n    scopes: {scopes}")
    assert (check(text).config is not None) is valid


def test_advertised_scopes_in_mode_bearer_do_nothing(check: Check, minimal: str) -> None:
    text = minimal.replace("auth: {mode: oauth}", "auth: {mode: bearer}\n    scopes: {advertised: [email]}")
    ((severity, path, _),) = found(check(text))
    assert (severity, path) == ("error", "servers.main.scopes.advertised")


def test_the_defaults_of_a_project(check: Check, minimal: str) -> None:
    config = check(minimal).config
    assert config is not None
    (issuer,) = issuers_of(config, config.servers["main"])
    assert issuer.issuer == "https://acme.supabase.co/auth/v1"
    assert issuer.jwks_url == "https://acme.supabase.co/auth/v1/.well-known/jwks.json"
    assert (issuer.audience, issuer.token_role) == (("authenticated",), ("authenticated",))
    assert issuable_scopes(config.servers["main"]) == ("email", "phone", "profile")


def test_an_issuer_is_kept_byte_for_byte(check: Check, minimal: str) -> None:
    own = OWN.replace("https://login.example.com\n", "https://login.example.com/\n")
    config = check(minimal.replace("auth: {mode: oauth}", f"auth:\n      mode: oauth{own}")).config
    assert config is not None
    assert issuers_of(config, config.servers["main"])[0].issuer == "https://login.example.com/"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listen", "'[::]:8080'"),
        ("listen", "localhost:0"),
        ("allowed_origins", "['http://localhost:6274', 'vscode-file://vscode-app', 'https://[::1]:8443']"),
        ("allowed_hosts", "[rowgate, 'rowgate:8080', '10.0.0.7', '[::1]:8080']"),
        ("trusted_proxies", "[127.0.0.1, '::1/128', 192.168.0.0/16]"),
        ("request", "{max_bytes: '${SIZE}', timeout: '${TIME}'}"),
        ("log", "{level: debug, format: console}"),
        ("shutdown", "{delay: 0, timeout: 2.5}"),
    ],
)
def test_forms_of_values_that_are_accepted(check: Check, minimal: str, key: str, value: str) -> None:
    text = minimal.replace('"https://mcp.example.com"', f'"https://mcp.example.com", {key}: {value}')
    assert check(text, SIZE="1024", TIME="90s").problems == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("public_url", "https://MCP.example.com"),
        ("public_url", "https://mcp.example.com:443"),
        ("public_url", "https://mcp.example.com?x"),
        ("public_url", "https://user@mcp.example.com"),
        ("public_url", "https://mcp.example.com\\@evil.example"),
        ("public_url", "https://mcp.example.com:port"),
        ("public_url", "https://"),
        ("public_url", "ftp://mcp.example.com"),
        ("public_url", "http://localhost.example.com"),
        ("public_url", "https://mcp.exämple.com"),
        ("listen", "0.0.0.0"),
        ("listen", ":8080"),
        ("listen", "0.0.0.0:65536"),
        ("listen", "::1:8080"),
        ("listen", "[1.2.3]:80"),
        ("allowed_origins", ["null"]),
        ("allowed_origins", ["https://claude.ai/"]),
        ("allowed_origins", ["https://Claude.ai"]),
        ("allowed_origins", ["https://claude.ai:443"]),
        ("allowed_origins", ["https://*.claude.ai"]),
        ("allowed_hosts", ["*"]),
        ("allowed_hosts", ["https://rowgate"]),
        ("trusted_proxies", ["10.0.0.0/7"]),
        ("trusted_proxies", ["::/0"]),
        ("trusted_proxies", ["proxy"]),
        ("trusted_proxies", [10]),
        ("request", {"max_bytes": True}),
        ("request", {"max_bytes": -1}),
        ("request", {"timeout": "1.5h30m"}),
        ("request", {"timeout": float("inf")}),
        ("request", {"timeout": "٣s"}),
        ("context", {"lifetime": "0s"}),
        ("log", {"level": "INFO"}),
    ],
)
def test_forms_of_values_that_are_refused(check: Check, minimal: str, key: str, value: object) -> None:
    tree = yaml.safe_load(minimal)
    tree["gateway"][key] = value
    checked = check(yaml.safe_dump(tree, allow_unicode=True))
    assert [problem.path.split("[")[0].split(".")[1] for problem in checked.problems] == [key]


@pytest.mark.parametrize("path", ["", "/", "mcp", "//mcp", "/a//b", "/a/./b", "/a b", "/a?b", "/a#b", "/ä", "/a\\b"])
def test_a_path_that_clients_or_proxies_would_change_is_refused(check: Check, minimal: str, path: str) -> None:
    tree = yaml.safe_load(minimal)
    tree["servers"]["main"]["path"] = path
    assert [problem.path for problem in check(yaml.safe_dump(tree, allow_unicode=True)).problems] == [
        "servers.main.path"
    ]


@pytest.mark.parametrize("name", ["Main", "a b", "-a", "a" * 33, "a.b", ""])
def test_names_are_fit_for_labels_and_audiences(check: Check, minimal: str, name: str) -> None:
    tree = yaml.safe_load(minimal)
    tree["servers"][name] = tree["servers"].pop("main")
    (problem,) = check(yaml.safe_dump(tree)).problems
    assert problem.message.startswith("must be a name")


def _mistakes(tree: object) -> st.SearchStrategy[object]:
    """The tree with anything in any place."""
    if isinstance(tree, dict):
        return st.one_of(
            ANYTHING,
            st.fixed_dictionaries({}, optional={key: _mistakes(value) for key, value in tree.items()}),
            st.fixed_dictionaries({key: _mistakes(value) for key, value in tree.items()}),
        )
    if isinstance(tree, list):
        return st.one_of(ANYTHING, st.lists(st.one_of([_mistakes(item) for item in tree] or [ANYTHING]), max_size=3))
    return st.one_of(st.just(tree), st.just(tree), st.just(tree), ANYTHING)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["${A}", "${"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


MISTAKEN = _mistakes(yaml.safe_load((Path(__file__).parents[3] / "config.example.yaml").read_text()))


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=MISTAKEN)
def test_no_tree_raises_and_every_refusal_has_words(check: Check, tree: object) -> None:
    checked = check(yaml.safe_dump(tree, allow_unicode=True))
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    assert (checked.config is None) == bool(errors)
    assert all(problem.message != "is not valid" and problem.line >= 1 for problem in checked.problems)
    assert checked.config is None or isinstance(checked.config, Config)


@pytest.mark.parametrize(
    ("listen", "internal", "meet"),
    [
        ("127.0.0.1:9090", "127.0.0.1:9090", True),
        ("0.0.0.0:9090", "127.0.0.1:9090", True),
        ("127.0.0.1:9090", "'[::]:9090'", True),
        ("127.0.0.1:9090", "127.0.0.2:9090", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
    ],
)
def test_the_listeners_must_not_meet(check: Check, minimal: str, listen: str, internal: str, meet: bool) -> None:
    addresses = f'"https://mcp.example.com", listen: {listen}, internal_listen: {internal}'
    paths = [problem.path for problem in check(minimal.replace('"https://mcp.example.com"', addresses)).problems]
    assert paths == (["gateway.internal_listen"] if meet else [])
