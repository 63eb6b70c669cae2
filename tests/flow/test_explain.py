"""`rowgate explain` and `rowgate access` say what a running gateway does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from flow.conftest import CONTEXT_KEY, Running


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def outcome(self) -> str:
        return self.report["steps"][-1]["detail"]

    def state(self, what: str) -> str:
        (step,) = [step for step in self.report["steps"] if step["what"] == what]
        return step["state"]


Rowgate = Callable[..., Any]


@pytest.fixture
def rowgate(tmp_path: Path) -> Rowgate:
    """Run a command with a configuration, as somebody at a terminal does."""

    async def run(tree: dict[str, Any], *arguments: str, stdin: str = "", **env: str) -> Done:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        key = json.dumps(CONTEXT_KEY.as_dict(private=True))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rowgate",
            "--config",
            str(path),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1]), "CONTEXT_KEY": key, **env},
        )
        out, err = await process.communicate(stdin.encode())
        return Done(process.returncode or 0, out.decode(), err.decode())

    return run


@pytest.fixture
async def served(start: Any) -> tuple[Running, dict[str, Any]]:
    kept: dict[str, Any] = {}

    def change(tree: dict[str, Any]) -> None:
        tree["servers"]["main"]["capabilities"].append(
            {"from": "notes", "tools": ["strong"], "require": {"aal": "aal2", "claims": {"app_metadata.plan": "pro"}}}
        )
        kept.update(tree)

    return await start(change), kept


def asked(name: str, *more: str) -> list[str]:
    return ["explain", "--server", "main", "--call", name, "--token", "-", "--json", *more]


async def test_what_is_explained_is_what_happens(served: tuple[Running, dict[str, Any]], rowgate: Rowgate) -> None:
    running, tree = served
    token = running.issuer.token()
    for name, claims, code in (
        ("echo", {}, ""),
        ("admin", {}, "RG118"),
        ("admin", {"app_metadata": {"roles": ["editor"]}}, ""),
        ("write", {}, "RG301"),
        ("write", {"scope": "notes:write"}, ""),
        ("nimda", {}, "RG118"),
        ("echo", {"aud": "other"}, "RG203"),
        ("echo", {"exp": 1}, "RG204"),
    ):
        token = running.issuer.token(**claims)
        done = await rowgate(tree, *asked(name), stdin=token)
        await running.client.call(name, token=token)
        assert (running.last.code or "") == code, name
        assert done.code == (1 if code else 0), (done.out, done.err)
        assert done.outcome.startswith(code or "allowed")
        assert token not in done.out + done.err


async def test_each_rule_is_a_step_of_its_own(served: tuple[Running, dict[str, Any]], rowgate: Rowgate) -> None:
    running, tree = served
    done = await rowgate(tree, *asked("strong"), stdin=running.issuer.token(app_metadata={"plan": "pro"}))
    assert done.code == 1
    assert (done.state("aal aal2"), done.state("claim app_metadata.plan is pro")) == ("no", "ok")


async def test_a_challenge_is_explained_with_its_scopes(
    served: tuple[Running, dict[str, Any]], rowgate: Rowgate
) -> None:
    running, tree = served
    done = await rowgate(tree, *asked("write"), stdin=running.issuer.token())
    assert done.outcome.endswith("Challenge: notes:write.")


async def test_a_token_on_the_command_line_is_refused_and_not_repeated(
    served: tuple[Running, dict[str, Any]], rowgate: Rowgate
) -> None:
    running, tree = served
    token = running.issuer.token()
    done = await rowgate(tree, "explain", "--server", "main", "--call", "echo", "--token", token)
    assert done.code == 2
    assert token not in done.out + done.err
    assert (await rowgate(tree, *asked("echo")[:-2], "env:TOKEN", "--json", TOKEN=token)).code == 0


async def test_with_arguments_a_hook_is_asked_as_for_a_call(
    served: tuple[Running, dict[str, Any]], rowgate: Rowgate
) -> None:
    running, tree = served
    tree["servers"]["main"]["policy"] = {"hook": "flow.rules_hook:hook"}
    token = running.issuer.token()
    open_ = await rowgate(tree, *asked("echo"), stdin=token)
    assert (open_.code, open_.outcome) == (0, "allowed so far")
    fine = await rowgate(tree, *asked("echo", "--arguments", '{"text": "x"}'), stdin=token)
    assert (fine.code, fine.outcome) == (0, "allowed")
    denied = await rowgate(tree, *asked("echo", "--arguments", '{"text": "a secret"}'), stdin=token)
    assert (denied.code, denied.outcome) == (1, "RG308 Secrets are read by people. Reason: hook.")


async def test_the_matrix_names_every_capability_and_the_same_input_gives_the_same_bytes(
    served: tuple[Running, dict[str, Any]], rowgate: Rowgate
) -> None:
    _, tree = served
    done = await rowgate(tree, "access", "--json")
    assert done.code == 0
    rows = {row["name"]: row["answers"] for row in done.report["capabilities"] if row["kind"] == "tool"}
    assert rows["echo"] == {
        "nobody": "no",
        "agent": "yes",
        "scope notes:write": "yes",
        "role editor": "yes",
        "meets capabilities[3]": "yes",
    }
    assert list(rows["admin"].values()) == ["no", "no", "no", "yes", "no"]
    assert list(rows["write"].values()) == ["no", "challenge", "yes", "yes", "yes"]
    assert list(rows["strong"].values()) == ["no", "no", "no", "no", "yes"]
    assert done.out == (await rowgate(tree, "access", "--json")).out
    text = (await rowgate(tree, "access")).out
    assert "server main" in text
    assert all(name in text for name in rows)


async def test_live_the_matrix_names_what_the_plugins_offer(
    served: tuple[Running, dict[str, Any]], rowgate: Rowgate
) -> None:
    _, tree = served
    tree["servers"]["main"]["capabilities"][0]["tools"] = ["e*", "who*"]
    done = await rowgate(tree, "access", "--json", "--live")
    tools = [row["name"] for row in done.report["capabilities"] if row["kind"] == "tool"]
    assert (done.code, tools) == (0, ["echo", "whoami", "admin", "write"])
    tree["plugins"]["notes"]["url"] = "http://127.0.0.1:1/mcp"
    gone = await rowgate(tree, "access", "--json", "--live")
    assert (gone.code, "notes" in gone.err) == (1, True)
