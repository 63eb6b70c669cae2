"""How a plugin may be reached, and what a section that says it wrongly is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import OctKey

from rowgate.config.load import Checked
from rowgate.config.secret import Secret

Check = Callable[..., Checked]
URL = 'url: "http://127.0.0.1:9000/mcp"'
COMMAND = "command: [python, -m, team_notes]"
SOCKET = "socket: /run/notes.sock"


@pytest.fixture
def reached(check: Check, minimal: str) -> Check:
    """The minimal file, with its plugin reached in another way."""

    def reached(section: str, **env: str) -> Checked:
        return check(minimal.replace(URL, section), **env)

    return reached


@pytest.mark.parametrize(
    "section",
    [
        SOCKET,
        f"{SOCKET}, socket_owner: notes, path: /v1/mcp",
        COMMAND,
        'command: [/usr/bin/node, "server.mjs", "--name", "a b"]',
        f"{COMMAND}, cwd: /srv/notes, env: {{LEVEL: debug, MODE: '${{MODE:-fast}}'}}, restart: {{backoff: 500ms..1m}}",
        f"{COMMAND}, env: {{API_KEY: {{env: SUPABASE_SECRET_KEY}}, SUPABASE_PUBLISHABLE_KEY: sb_publishable_x}}",
        f"{SOCKET}, credential: user_token",
        "url: https://notes.example.com/mcp, tls: {server_name: notes.internal}",
        "url: https://notes.example.com/mcp, tls: {ca: /absent/ca.pem, certificate: /absent/a.pem, key: /absent/a.key}",
    ],
)
def test_each_way_to_reach_a_plugin_is_valid_alone(reached: Check, section: str) -> None:
    assert reached(section).problems == ()


@pytest.mark.parametrize(
    ("section", "path", "phrase"),
    [
        ("required: true", "url", "is missing (A plugin is reached by a url"),
        (f"{URL}, {SOCKET}", "socket", "cannot stand beside url (A plugin is reached by exactly one"),
        (f"{SOCKET}, {COMMAND}", "command", "cannot stand beside socket"),
        (f"{URL}, path: /mcp", "path", "does nothing without socket or command"),
        (f"{URL}, socket_owner: notes", "socket_owner", "does nothing without socket"),
        (f"{COMMAND}, socket_owner: notes", "socket_owner", "does nothing without socket"),
        (f"{SOCKET}, env: {{A: b}}", "env", "does nothing without command"),
        (f"{URL}, cwd: /srv", "cwd", "does nothing without command"),
        (f"{URL}, restart: {{backoff: 1s..2s}}", "restart", "does nothing without command"),
        (f"{SOCKET}, tls: {{ca: /ca.pem}}", "tls", "does nothing without url"),
        ("socket: notes.sock", "socket", "must be an absolute path"),
        (f"socket: /run/{'x' * 100}", "socket", "is longer than 100 bytes"),
        ("command: python -m team_notes", "command", "must be a list, one item for each argument"),
        ('command: ["python -m team_notes"]', "command[0]", "must be a program, with its arguments as further items"),
        ("command: [./notes]", "command[0]", "must be an absolute path, or a name that is looked up in PATH"),
        ("command: []", "command", "must not be empty"),
        ('command: [""]', "command[0]", "must be a program"),
        ("command: [notes, 7]", "command[1]", "must be text"),
        (f"{COMMAND}, cwd: notes", "cwd", "must be an absolute path"),
        (f"{COMMAND}, path: mcp", "path", "must be a path such as /mcp"),
        (f"{COMMAND}, restart: {{backoff: 5s}}", "restart.backoff", "must be two durations"),
        (f"{COMMAND}, restart: {{backoff: 5s..1s}}", "restart.backoff", "must begin with the shorter"),
        (f"{COMMAND}, restart: {{backoff: 0s..1s}}", "restart.backoff", "must be between 100ms and 1h"),
        (f"{COMMAND}, env: {{A: 7}}", "env.A", "must be text (Put it in quotes.)"),
        (f"{COMMAND}, env: {{A: }}", "env.A", "is empty"),
        (f"{COMMAND}, env: {{A: {{env: ABSENT}}}}", "env.A", "ABSENT, which is not set"),
        (f"{COMMAND}, env: {{A: {{value: x}}}}", "env.A", "must be {env: NAME} or {file: PATH}"),
        (f"{COMMAND}, env: {{a-b: x}}", "env.a-b", "must be the name of an environment variable"),
        (f"{COMMAND}, env: {{LISTEN_FDS: x}}", "env.LISTEN_FDS", "is set by the gateway itself"),
        (f"{COMMAND}, env: {{ROWGATE_CONTEXT_JWKS: x}}", "env.ROWGATE_CONTEXT_JWKS", "is set by the gateway itself"),
        (f"{COMMAND}, env: {{OPENAI_API_KEY: abc}}", "env.OPENAI_API_KEY", "must not stand in this file"),
        (f"{COMMAND}, env: {{DB_PASSWORD: abc}}", "env.DB_PASSWORD", "must not stand in this file"),
        (f"{COMMAND}, env: {{KEY: sb_secret_abc}}", "env.KEY", "must not stand in this file"),
        (f"{URL}, tls: {{ca: /ca.pem}}", "tls", "does nothing with an http url"),
        ("url: https://notes.example.com, tls: {}", "tls", "says nothing"),
        ("url: https://notes.example.com, tls: {key: /a.key}", "tls.key", "needs certificate beside it"),
        ("url: https://notes.example.com, tls: {certificate: /a}", "tls.certificate", "needs key beside it"),
        ("url: https://notes.example.com, tls: {server_name: Notes}", "tls.server_name", "lower-case host name"),
        (f"url: https://notes.example.com, tls: {{ca: {__file__}}}", "tls", "holds no certificates"),
    ],
)
def test_each_mistake_has_one_message_at_its_place(reached: Check, section: str, path: str, phrase: str) -> None:
    checked = reached(section)
    (problem,) = checked.problems
    assert (checked.config, problem.path, problem.line) == (None, f"plugins.notes.{path}", 5)
    assert phrase in f"{problem.message} ({problem.hint})"


def test_a_secret_of_a_command_is_never_shown(reached: Check) -> None:
    config = reached(f"{COMMAND}, env: {{API_KEY: {{env: PRIVATE}}, MODE: fast}}", PRIVATE="swordfish-0451").config
    assert config is not None
    given = config.plugins["notes"].env
    assert isinstance(given["API_KEY"], Secret)
    assert given["API_KEY"].reveal() == "swordfish-0451"
    for shown in (repr(config), str(config.model_dump()), config.model_dump_json()):
        assert "swordfish" not in shown
    assert json.loads(config.model_dump_json())["plugins"]["notes"]["env"] == {
        "API_KEY": {"env": "PRIVATE"},
        "MODE": "fast",
    }


def test_a_command_never_gets_a_key_that_it_could_sign_with(check: Check, minimal: str) -> None:
    key = json.dumps(OctKey.generate_key(256).as_dict(private=True))
    text = minimal.replace(URL, COMMAND).replace(
        'gateway: {public_url: "https://mcp.example.com"}',
        'gateway: {public_url: "https://mcp.example.com", context: {signing_key: {env: SHARED}}}',
    )
    (problem,) = check(text, SHARED=key).problems
    assert (problem.path, problem.message) == (
        "plugins.notes.command",
        "cannot verify contexts that are signed with a symmetric key",
    )


def test_a_command_that_gets_tokens_but_not_their_project_is_warned_about(reached: Check) -> None:
    (problem,) = reached(f"{COMMAND}, credential: user_token").problems
    assert (problem.severity, problem.path) == ("warning", "plugins.notes.credential")


def test_tls_files_that_do_not_fit_are_found_before_the_start(reached: Check, tmp_path: Path) -> None:
    for name in ("a.pem", "a.key"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    tls = f"tls: {{certificate: {tmp_path}/a.pem, key: {tmp_path}/a.key}}"
    (problem,) = reached(f"url: https://notes.example.com, {tls}").problems
    assert problem.path == "plugins.notes.tls"
    assert "certificate and key that fit" in problem.message
