"""Secrets are named in the file, held elsewhere and never shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rowgate.config.load import Checked, check_text
from rowgate.config.secret import Secret

Check = Callable[..., Checked]
PATH = "gateway.context.signing_key"


@pytest.fixture
def with_key(check: Check, minimal: str) -> Callable[..., Checked]:
    def with_key(key: str, **env: str) -> Checked:
        gateway = f'gateway: {{public_url: "https://mcp.example.com", context: {{signing_key: {key}}}}}'
        return check(minimal.replace('gateway: {public_url: "https://mcp.example.com"}', gateway), **env)

    return with_key


def test_a_secret_comes_from_the_environment(with_key: Check, signing_key: str) -> None:
    config = with_key("{env: KEY}", KEY=signing_key).config
    assert config is not None
    assert config.gateway.context.signing_key is not None
    assert config.gateway.context.signing_key.reveal() == signing_key


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_comes_from_a_file_beside_the_configuration(
    with_key: Check, signing_key: str, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "context.jwk").write_bytes((signing_key + ending).encode())
    config = with_key("{file: context.jwk}").config
    assert config is not None
    assert config.gateway.context.signing_key == Secret(signing_key, "file", "context.jwk")


@pytest.mark.parametrize(
    ("key", "phrase"),
    [
        ("hunter2", "must not stand in this file"),
        ("'${PASTED}'", "must not stand in this file"),
        ("{env: hunter2, file: hunter2}", "must be {env: NAME} or {file: PATH}"),
        ("{value: hunter2}", "must be {env: NAME} or {file: PATH}"),
        ("[hunter2]", "must be {env: NAME} or {file: PATH}"),
        ("{env: }", "must name a variable"),
        ("{env: hunter2+/=}", "must name an environment variable"),
        ("{env: UNSET}", "UNSET, which is not set"),
        ("{env: BLANK}", "is empty"),
        ("{env: CHANGE}", "is a placeholder"),
        ("{env: ANGLE}", "is a placeholder"),
        ("{env: PASTED}", "must be an Ed25519 key"),
        ("{env: DEEP}", "must be an Ed25519 key"),
        ("{file: missing.jwk}", "cannot be read"),
        ("{file: .}", "cannot be read"),
        ('{file: "a\\0b"}', "cannot be read"),
        ("{file: empty.jwk}", "is empty"),
        ("{file: binary.jwk}", "not UTF-8"),
        ("{file: large.jwk}", "larger than 64 KiB"),
        ("", "is empty"),
        ("null", "is empty"),
    ],
)
def test_a_secret_that_is_none_is_refused_without_repeating_it(
    with_key: Check, tmp_path: Path, key: str, phrase: str
) -> None:
    (tmp_path / "empty.jwk").write_text("\n")
    (tmp_path / "binary.jwk").write_bytes(b"\xff" * 8)
    (tmp_path / "large.jwk").write_text("hunter2" * 20_000)
    env = {"BLANK": " \n", "CHANGE": "change-me", "ANGLE": "<your key>", "PASTED": "hunter2", "DEEP": '{"kty":' * 9000}
    (problem,) = with_key(key, **env).problems
    assert phrase in problem.message
    assert problem.path == PATH
    assert "hunter2" not in problem.render("config.yaml").replace("config.yaml", "")


def test_an_optional_secret_may_be_left_out(check: Check, minimal: str) -> None:
    left_out = check(minimal).config
    assert left_out is not None
    assert left_out.gateway.context.signing_key is None


def test_a_public_key_cannot_sign(with_key: Check, signing_key: str) -> None:
    public = json.dumps({key: value for key, value in json.loads(signing_key).items() if key != "d"})
    (problem,) = with_key("{env: KEY}", KEY=public).problems
    assert problem.message == "is a public key: signing needs the private one"


def test_previous_keys_may_be_public(check: Check, minimal: str, signing_key: str) -> None:
    public = json.dumps({key: value for key, value in json.loads(signing_key).items() if key != "d"})
    keys = "context: {signing_key: {env: KEY}, previous_keys: [{env: OLD}]}"
    text = minimal.replace('"https://mcp.example.com"', f'"https://mcp.example.com", {keys}')
    assert check(text, KEY=signing_key, OLD=public).problems == ()


def test_previous_keys_without_a_signing_key_are_refused(check: Check, minimal: str, signing_key: str) -> None:
    keys = "context: {previous_keys: [{env: OLD}]}"
    text = minimal.replace('"https://mcp.example.com"', f'"https://mcp.example.com", {keys}')
    (problem,) = check(text, OLD=signing_key).problems
    assert problem.path == "gateway.context.previous_keys"


def test_no_way_to_print_a_configuration_shows_a_secret(example: str, env: dict[str, str], tmp_path: Path) -> None:
    config = check_text(example, env, tmp_path).config
    assert config is not None
    secret = json.loads(env["ROWGATE_CONTEXT_KEY"])["d"]
    key = config.gateway.context.signing_key
    shown = [repr(config), str(config), repr(key), f"{key}", f"{key!s:>10}", config.model_dump_json()]
    shown += [str(config.model_dump()), str(config.model_dump(mode="json")), repr(config.gateway.context)]
    assert not any(secret in text for text in shown)
    assert config.model_dump(mode="json")["gateway"]["context"]["signing_key"] == {"env": "ROWGATE_CONTEXT_KEY"}
