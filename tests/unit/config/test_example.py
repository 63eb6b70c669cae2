"""The example file, whole and broken in one place at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from rowgate.config.load import Checked, load
from rowgate.config.models import Config
from rowgate.config.problems import ConfigurationProblems
from rowgate.config.section import Section

Check = Callable[..., Checked]
ROOT = Path(__file__).parents[3]


def test_the_example_loads_without_a_warning(check: Check, example: str) -> None:
    checked = check(example)
    assert checked.problems == ()
    assert checked.config is not None
    assert checked.config.servers["main"].auth.require_client is True
    assert checked.config.plugins["notes"].max_answer_bytes == 4 * 2**20


def _settings(model: object) -> set[str]:
    found: set[str] = set()
    waiting = [model]
    while waiting:
        item = waiting.pop()
        if isinstance(item, BaseModel):
            kind = type(item)
            found |= {f"{kind.__name__}.{name}" for name in item.model_fields_set}
            waiting += [getattr(item, name) for name in kind.model_fields]
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, tuple):
            waiting += item
    return found


def test_the_example_has_every_setting_there_is(check: Check, example: str) -> None:
    config = check(example).config
    assert isinstance(config, Config)
    every = {f"{kind.__name__}.{name}" for kind in Section.__subclasses__() for name in kind.model_fields}
    assert _settings(config) == every - {"Supabase.jwt_secret"}
    assert "jwt_secret: {env: " in example, "it stands in place of jwks_url, which the example has"


BREAKAGES = [
    # (text of the example, what it becomes, path, phrase)
    ("version: 1", "version: 2", "version", "must be 1"),
    ("version: 1", "version: true", "version", "must be a whole number"),
    ("  listen: 0.0.0.0:8080", "  listen: 8080", "gateway.listen", "must be host:port"),
    ("  listen: 0.0.0.0:8080", "  listne: 0.0.0.0:8080", "gateway.listne", "Did you mean listen?"),
    ("127.0.0.1:9090", "0.0.0.0:8080", "gateway.internal_listen", "must not be the same as listen"),
    ("10.0.0.0/8", "0.0.0.0/0", "gateway.trusted_proxies[0]", "so wide a range"),
    ("10.0.0.0/8", "10.0.0.1/8", "gateway.trusted_proxies[0]", "must be an address or a network"),
    ("[https://claude.ai, ", '["*", ', "gateway.allowed_origins[0]", "must not be *"),
    ("https://chatgpt.com]", "https://chatgpt.com/]", "gateway.allowed_origins[1]", "must be a web origin"),
    ("${PUBLIC_URL:-https://mcp.example.com}", "http://mcp.example.com", "gateway.public_url", "must use https"),
    ("${PUBLIC_URL:-https://mcp.example.com}", "https://example.com/mcp", "gateway.public_url", "must have no path"),
    ("${PUBLIC_URL:-https://mcp.example.com}", "${PUBLIC_URL}", "gateway.public_url", "PUBLIC_URL, which is not set"),
    ("max_bytes: 1MiB", "max_bytes: 1 MB", "gateway.request.max_bytes", "must be a size"),
    ("    timeout: 60s", "    timeout: 1:00", "gateway.request.timeout", "must be a duration"),
    ("lifetime: 60s", "lifetime: 1h", "gateway.context.lifetime", "must be between 1s and 5m"),
    ("{env: ROWGATE_CONTEXT_KEY}", "{env: OTHER_KEY}", "gateway.context.signing_key", "OTHER_KEY, which is not set"),
    ("{env: ROWGATE_CONTEXT_KEY}", "{env: SUPABASE_URL}", "gateway.context.signing_key", "must be an Ed25519 key"),
    ("{env: ROWGATE_CONTEXT_KEY}", "hunter2", "gateway.context.signing_key", "must not stand in this file"),
    ("    format: json", "    format: jsno", "gateway.log.format", "Did you mean json?"),
    ("  url: ${SUPABASE_URL}", "  url: ${SUPABASE_URL", "supabase.url", "that is not ${NAME}"),
    ("    url: http://127.0.0.1:9000/mcp", "    url: notes:9000", "plugins.notes.url", "must be an http or https URL"),
    ("    url: http://127.0.0.1:9000/mcp", "    url: http://u:p@h/mcp", "plugins.notes.url", "user name or password"),
    ("    url: http://127.0.0.1:9000/mcp", "    url: https://mcp.example.com/x", "plugins.notes.url", "this gateway"),
    ("    required: false", "    required: off", "plugins.notes.required", "must be true or false"),
    ("credential: user_token", "credential: user-token", "plugins.notes.credential", "Did you mean user_token?"),
    ("max_connections: 100", "max_connections: 0", "plugins.notes.max_connections", "must be at least 1"),
    ("    path: /mcp", "    path: /mcp/", "servers.main.path", "must not end with /"),
    ("    path: /mcp", "    path: /a/../mcp", "servers.main.path", "dot segments"),
    ("    path: /mcp", "    path: /.well-known/mcp", "servers.main.path", "discovery documents"),
    ("    path: /mcp", "    path: /m%63p", "servers.main.path", "encoded characters"),
    ("    path: /partners/mcp", "    path: /mcp", "servers.partners.path", "path of the server main already"),
    (
        "    path: /partners/mcp",
        "    path: /mcp/oauth-protected-resource",
        "servers.partners.path",
        "resource metadata of main",
    ),
    ("    title: Acme notes", "    title: 2026", "servers.main.title", "Put it in quotes"),
    ("    title: Acme notes", "    title: Acme: notes", "", "is not valid YAML"),
    ("      mode: oauth", "      mode: pubic", "servers.main.auth.mode", "Did you mean public?"),
    ("advertised: [email]", "advertised: [openid]", "servers.main.scopes.advertised[0]", "takes an ID token"),
    ("advertised: [email]", "advertised: [offline_access]", "servers.main.scopes.advertised[0]", "offline_access"),
    ("advertised: [email]", 'advertised: ["notes:read"]', "servers.main.scopes.advertised[0]", "Supabase cannot issue"),
    ("      required: []", "      required: [notes]", "servers.main.scopes.required[0]", "nobody can issue"),
    ("      required: []", "      required:", "servers.main.scopes.required", "is empty"),
    ("      required: []", "      required: email", "servers.main.scopes.required", "must be a list"),
    (
        "issuable: [notes]",
        "issuable: [other]",
        "servers.partners.scopes.required[0]",
        "under scopes.issuable",
    ),
    ('"draft_*"]', '"get_*", "get_note"]', "servers.main.capabilities[0].tools[3]", "is named already"),
    (
        "tools: [delete_note]",
        "tools: [delete_note, get_note]",
        "servers.main.capabilities[1].tools[1]",
        "named already",
    ),
    ("tools: [forecast]", 'tools: ["fore cast"]', "servers.main.capabilities[2].tools[0]", "without blanks"),
    ('"note://**"', '"note://a/../**"', "servers.main.capabilities[0].resources[0]", "matches no URI"),
    ("- from: weather", "- from: wether", "servers.main.capabilities[2].from", "Did you mean weather?"),
    ("prefix: weather", "prefix: Weather", "servers.main.capabilities[2].prefix", "lower-case letters"),
    ("scopes: [email]", "scopes: [phone, openid]", "servers.main.capabilities[1].require.scopes[1]", "must not name"),
    (
        "          delete_note:",
        "          remove_note:",
        "servers.main.capabilities[1].hints.remove_note",
        "this entry",
    ),
    ("read_only: false", "read_only: true", "servers.main.capabilities[1].hints.delete_note", "says both"),
    (
        "algorithms: [ES256, RS256]",
        "algorithms: [HS256]",
        "servers.partners.auth.issuer.algorithms[0]",
        "with a public key",
    ),
    (
        "token_role: [authenticated]",
        "token_role: [service_role]",
        "servers.partners.auth.issuer.token_role[0]",
        "API keys",
    ),
    (
        "roles_claim: realm_access.roles",
        "roles_claim: user_metadata.roles",
        "servers.partners.auth.issuer.roles_claim",
        "users write that",
    ),
]
ELSEWHERE = {
    "says both": "          delete_note:",
    "Did you mean weather?": "      - from: wether",
    "under scopes.issuable": '      required: ["notes:read"]',
}
"""Phrases of problems that stand on another line than the change."""


@pytest.mark.parametrize(
    ("old", "new", "path", "phrase"), BREAKAGES, ids=[f"{case[2]}: {case[3]}" for case in BREAKAGES]
)
def test_one_broken_line_gives_one_clear_message_at_its_place(
    check: Check, example: str, old: str, new: str, path: str, phrase: str
) -> None:
    lines = [line for line in example.split("\n") if old in line and not line.lstrip().startswith("#")]
    broken = example.replace(lines[0], lines[0].replace(old, new), 1)
    where = ELSEWHERE.get(phrase, lines[0].replace(old, new))

    errors = [problem for problem in check(broken).problems if problem.severity == "error"]

    assert len(errors) == 1, errors
    (problem,) = errors
    assert problem.path == path
    assert phrase in f"{problem.message} ({problem.hint})"
    assert broken.split("\n")[problem.line - 1] == where
    assert "pydantic" not in problem.render("config.yaml")


@pytest.mark.parametrize(
    ("line", "path", "around"),
    [
        ("version: 1", "version", "# yaml-language-server: $schema=./config.schema.json"),
        ("  public_url: ${PUBLIC_URL:-https://mcp.example.com}", "gateway.public_url", "gateway:"),
        ("    url: http://127.0.0.1:9000/mcp", "plugins.notes.url", "  notes:"),
        ("    path: /mcp", "servers.main.path", "  main:"),
        ("      mode: oauth", "servers.main.auth.mode", "    auth:"),
        (
            '        audience: ["https://mcp.example.com/partners/mcp"]',
            "servers.partners.auth.issuer.audience",
            "      issuer:",
        ),
    ],
)
def test_a_missing_setting_is_reported_at_the_section_that_lacks_it(
    check: Check, example: str, line: str, path: str, around: str
) -> None:
    broken = example.replace(f"\n{line}\n", "\n", 1)
    (problem,) = check(broken).problems
    assert (problem.path, problem.message) == (path, "is missing")
    if path != "version":
        assert broken.split("\n")[problem.line - 1] == around


def test_all_problems_are_reported_at_once_and_in_file_order(check: Check, example: str) -> None:
    broken = (
        example.replace("0.0.0.0:8080", "nowhere")
        .replace("max_connections: 100", "max_conections: 100")
        .replace("path: /mcp", "path: mcp", 1)
        .replace("${SUPABASE_URL}/auth/v1\n", "${MISSING}\n", 1)
        .replace("- from: weather", "- from: nobody", 1)
        .replace('required: ["notes:read"]', "required: [unheard]")
    )
    problems = [problem for problem in check(broken).problems if problem.severity == "error"]
    assert [problem.path for problem in problems] == [
        "gateway.listen",
        "supabase.issuer",
        "plugins.notes.max_conections",
        "servers.main.path",
        "servers.main.capabilities[2].from",
        "servers.partners.scopes.required[0]",
    ]
    assert [problem.line for problem in problems] == sorted(problem.line for problem in problems)


def test_load_raises_every_error_with_the_name_of_the_file(tmp_path: Path, env: dict[str, str], example: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(example.replace("path: /mcp", "path: mcp", 1).replace("1MiB", "huge"))
    with pytest.raises(ConfigurationProblems) as caught:
        load(path, env)
    assert [problem.path for problem in caught.value.problems] == ["gateway.request.max_bytes", "servers.main.path"]
    first, second = str(caught.value).split("\n")
    assert first.startswith(f"{path}:")
    assert "servers.main.path: must begin with /" in second


@pytest.mark.parametrize(
    ("content", "phrase"),
    [(None, "cannot be read"), (b"\xff\xfe", "not UTF-8"), (b"", "is empty"), (b"# x" * 2**20, "larger than")],
)
def test_a_file_that_is_no_text_is_a_configuration_problem(tmp_path: Path, content: bytes | None, phrase: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationProblems, match=phrase):
        load(path, {})
