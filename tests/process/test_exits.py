"""What the process leaves behind when it does not run: an exit code for the supervisor and words for the operator."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from flow.conftest import CONTEXT_KEY
from process.conftest import CONTEXT_KEY_TEXT, Start
from process.gateway import Finished, Gateway, environment, rowgate, write_config


async def serving(tree: dict[str, Any], directory: Path, **env: str) -> Finished:
    env = {"CONTEXT_KEY": CONTEXT_KEY_TEXT, **env}
    return await rowgate("serve", str(write_config(directory, tree)), cwd=directory, env=environment(**env))


async def test_a_bad_configuration_exits_with_78_and_tells_every_problem_with_its_line(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    tree["gateway"]["public_url"] = "mcp.example.com"
    tree["servers"]["main"]["path"] = "mcp"
    tree["plugins"]["notes"]["tiemout"] = "1s"
    done = await serving(tree, tmp_path)
    assert (done.code, done.stdout) == (78, "")
    text = (tmp_path / "rowgate.yaml").read_text().splitlines()
    problems = done.stderr.splitlines()
    for member, setting in (
        ("public_url: mcp", "gateway.public_url"),
        ("path: mcp", "servers.main.path"),
        ("tiemout:", "plugins.notes.tiemout"),
    ):
        line = next(number for number, it in enumerate(text, 1) if member in it)
        assert any(f"rowgate.yaml:{line}:" in it and f": {setting}: " in it for it in problems), problems


async def test_a_missing_secret_is_a_bad_configuration(tree: dict[str, Any], tmp_path: Path) -> None:
    done = await rowgate("serve", str(write_config(tmp_path, tree)), cwd=tmp_path)
    assert (done.code, done.stdout) == (78, "")
    assert "CONTEXT_KEY" in done.stderr


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"version: 1\n  bad: [", b""])
async def test_a_file_that_cannot_be_read_as_configuration_exits_with_78(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "rowgate.yaml"
    if content is not None:
        path.write_bytes(content)
    done = await rowgate("serve", str(path), cwd=tmp_path)
    assert (done.code, done.stdout) == (78, "")
    assert done.stderr.startswith(f"{path}:")
    assert "Traceback" not in done.stderr


async def test_a_directory_in_the_place_of_the_file_exits_with_78(tmp_path: Path) -> None:
    done = await rowgate("serve", str(tmp_path), cwd=tmp_path)
    assert (done.code, done.stdout) == (78, "")
    assert "Is a directory" in done.stderr


@pytest.mark.parametrize("listener", ["listen", "internal_listen"])
async def test_an_address_in_use_exits_with_3_and_names_it(tree: dict[str, Any], tmp_path: Path, listener: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        tree["gateway"][listener] = address
        done = await serving(tree, tmp_path)
    assert done.code == 3
    assert done.stderr.startswith("rowgate: RG902: ")
    assert address in done.stderr
    assert "ddress already in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "key",
    [
        "secret but not a key",
        '{"kty": "OKP", "crv": "Ed25519", "d": "AAAAsecretAAAA", "x": "AAAA"}',
        json.dumps(CONTEXT_KEY.as_dict(private=False)),
        json.dumps(ECKey.generate_key("P-256").as_dict(private=True)),
    ],
    ids=["no key", "broken", "public", "another curve"],
)
async def test_an_unusable_signing_key_is_a_bad_configuration_and_is_not_quoted(
    tree: dict[str, Any], tmp_path: Path, key: str
) -> None:
    done = await serving(tree, tmp_path, CONTEXT_KEY=key)
    assert (done.code, done.stdout) == (78, "")
    assert ": gateway.context.signing_key: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not [part for part in key.replace('"', " ").split() if len(part) > 20 and part in done.stderr]
    assert "secret" not in done.stderr


@pytest.mark.parametrize("arguments", [["nosuch"], ["serve", "--nosuch"], ["serve", "one", "two"], ["health", "--url"]])
async def test_wrong_usage_exits_with_2(arguments: list[str], tmp_path: Path) -> None:
    done = await rowgate(*arguments, cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert "Error: " in done.stderr


async def test_without_arguments_the_commands_are_told(tmp_path: Path) -> None:
    done = await rowgate(cwd=tmp_path)
    assert done.code == 2
    assert [command for command in ("serve", "config", "health") if f"\n  {command} " in done.stderr] == [
        "serve",
        "config",
        "health",
    ]


async def test_the_version_is_told(tmp_path: Path) -> None:
    done = await rowgate("--version", cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    name, _, version = done.stdout.strip().partition(", version ")
    assert name == "rowgate"
    assert version.split(".")[0].isdecimal()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_with_0(gateway: Gateway, number: signal.Signals) -> None:
    gateway.send(number)
    assert await gateway.exits() == 0
    assert [line["state"] for line in gateway.log if line["event"] == "gateway_changed"] == [
        "starting",
        "serving",
        "draining",
        "stopped",
    ]
    assert gateway.stderr == []


async def test_health_exits_with_0_when_ready_and_with_1_when_not(start: Start, tokens: Any, tmp_path: Path) -> None:
    tokens.published = False
    gateway = await start(ready=False)
    question = ("health", "--url", f"{gateway.internal_url}/readyz")
    early = await rowgate(*question, cwd=tmp_path)
    assert (early.code, early.stdout) == (1, "")
    assert f"keys:{tokens.url}" in json.loads(early.stderr)["missing"]
    tokens.published = True
    await gateway.ready()
    ready = await rowgate(*question, cwd=tmp_path)
    assert (ready.code, ready.stderr) == (0, "")
    assert json.loads(ready.stdout)["ready"] is True
    assert await gateway.stop() == 0
    late = await rowgate(*question, cwd=tmp_path)
    assert (late.code, late.stdout) == (1, "")
    assert late.stderr.startswith("no answer: ")


@pytest.mark.parametrize("url", ["not a url", "nosuch:whatever"])
async def test_health_says_that_nobody_answers_at_a_url_that_is_none(url: str, tmp_path: Path) -> None:
    done = await rowgate("health", "--url", url, cwd=tmp_path)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("no answer: ")


async def test_health_asks_the_gateway_and_not_the_proxy_of_the_environment(gateway: Gateway, tmp_path: Path) -> None:
    env = environment(http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    done = await rowgate("health", "--url", f"{gateway.internal_url}/readyz", cwd=tmp_path, env=env)
    assert (done.code, done.stderr) == (0, "")
