"""`rowgate plugin check` and the vectors: plugins in Python and in Node pass, a server that checks nothing does not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OKPKey

import rowgate_plugin
from conformance.process import process
from ports import free_port
from process.gateway import PYTHON, Finished, environment, rowgate
from rowgate_plugin.contract import public_jwks

NODE = shutil.which("node")
NODE_PLUGIN = Path(__file__).parents[1] / "data" / "node-plugin"
VECTORS = Path(rowgate_plugin.__file__).parent / "vectors.json"
NAIVE = """
import os
import uvicorn
from mcp.server import MCPServer
server = MCPServer("naive")
@server.tool()
async def forecast(city: str) -> str:
    return "Sunny."
uvicorn.run(server.streamable_http_app(stateless_http=True), host="127.0.0.1", port=int(os.environ["PORT"]))
"""
needs_node = pytest.mark.skipif(NODE is None and "CI" not in os.environ, reason="Node is not installed")


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
def key() -> OKPKey:
    return OKPKey.generate_key("Ed25519", auto_kid=True)


@pytest.fixture
def key_file(key: OKPKey, tmp_path: Path) -> str:
    path = tmp_path / "key.pem"
    path.write_bytes(key.as_pem(private=True))
    return str(path)


async def run(stack: AsyncExitStack, key: OKPKey, *command: str, says: str, **env: str) -> None:
    given = {"ROWGATE_CONTEXT_JWKS": json.dumps(public_jwks([key])), "ROWGATE_PLUGIN": "notes", "PYTHONUNBUFFERED": "1"}
    it = await stack.enter_async_context(process(*command, env=environment(**given, **env)))
    await it.says(says)
    it.follow()


async def check(tmp_path: Path, *arguments: str) -> Finished:
    return await rowgate("plugin", "check", *arguments, cwd=tmp_path)


def checks(done: Finished) -> Mapping[str, Any]:
    return {one["name"]: one for one in json.loads(done.stdout)["checks"]}


async def test_the_example_plugin_passes_at_its_socket(
    stack: AsyncExitStack, key: OKPKey, key_file: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.sock"
    await run(stack, key, PYTHON, "-m", "team_notes", says="startup complete", SOCKET=str(path))
    done = await check(tmp_path, str(path), "--audience", "notes", "--key", key_file)
    *lines, last = done.stdout.splitlines()
    assert (done.code, last) == (0, "ok"), done.stdout
    assert len(lines) >= 25
    assert all(line.startswith("ok ") for line in lines)
    assert "(replayed)" in lines[-1]


@needs_node
async def test_a_plugin_in_node_passes(stack: AsyncExitStack, key: OKPKey, key_file: str, tmp_path: Path) -> None:
    assert NODE is not None
    port = str(free_port())
    await run(stack, key, NODE, str(NODE_PLUGIN / "server.mjs"), says="listening on", PORT=port)
    done = await check(tmp_path, f"http://127.0.0.1:{port}/mcp", "--audience", "notes", "--key", key_file, "--json")
    assert (done.code, json.loads(done.stdout)["passed"]) == (0, True), done.stdout


@needs_node
async def test_a_verifier_in_node_judges_every_vector_as_ours_does() -> None:
    assert NODE is not None
    child = await asyncio.create_subprocess_exec(
        NODE, str(NODE_PLUGIN / "vectors.mjs"), str(VECTORS), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await child.communicate()
    assert (child.returncode, said.decode().split(", ")[1]) == (0, "0 judged otherwise\n")


async def test_a_server_that_checks_nothing_is_broken_in_every_refusal(
    stack: AsyncExitStack, key: OKPKey, key_file: str, tmp_path: Path
) -> None:
    port = str(free_port())
    await run(stack, key, sys.executable, "-c", NAIVE, says="startup complete", PORT=port)
    url = f"http://127.0.0.1:{port}/mcp"
    done = await check(tmp_path, url, "--audience", "notes", "--key", key_file, "--json")
    found = checks(done)
    assert (done.code, json.loads(done.stdout)["passed"]) == (1, False)
    assert {name.split()[0] for name, one in found.items() if one["ok"]} == {"answers"}
    assert not any(one["ok"] for name, one in found.items() if name.startswith("refuses"))
    told = await check(tmp_path, url, "--audience", "notes", "--key", key_file)
    assert "BROKEN  refuses a request without a context (answered it)" in told.stdout
    assert told.stdout.splitlines()[-1].startswith("BROKEN: ")


async def test_a_plugin_that_refuses_everybody_proves_nothing(
    stack: AsyncExitStack, key: OKPKey, key_file: str, tmp_path: Path
) -> None:
    port = str(free_port())
    await run(stack, OKPKey.generate_key("Ed25519"), PYTHON, "-m", "team_notes", says="running on", PORT=port)
    done = await check(tmp_path, f"http://127.0.0.1:{port}/mcp", "--audience", "notes", "--key", key_file)
    assert done.code == 1
    assert "BROKEN  answers a user's question (refused it: unknown_key)" in done.stdout
    assert "ok  " not in done.stdout


async def test_a_plugin_that_is_not_there_is_said_once(key_file: str, tmp_path: Path) -> None:
    done = await check(tmp_path, f"http://127.0.0.1:{free_port()}/mcp", "--audience", "notes", "--key", key_file)
    assert done.code == 1
    assert done.stdout.count("RG501") == 1


@pytest.mark.parametrize(
    ("url", "file", "phrase"),
    [
        ("ftp://notes", None, "must be an http or https URL"),
        ("notes:9000", None, "must be an http or https URL"),
        ("http://127.0.0.1:1/mcp", "absent.pem", "cannot be read"),
        ("http://127.0.0.1:1/mcp", "public.pem", "is not a private Ed25519 key"),
        ("http://127.0.0.1:1/mcp", "nonsense", "is not a private Ed25519 key"),
    ],
)
async def test_what_cannot_be_tried_is_a_usage_error(
    key_file: str, tmp_path: Path, url: str, file: str | None, phrase: str
) -> None:
    (tmp_path / "public.pem").write_bytes(OKPKey.generate_key("Ed25519").as_pem(private=False))
    (tmp_path / "nonsense").write_text("swordfish-0451")
    done = await check(tmp_path, url, "--audience", "notes", "--key", file or key_file)
    assert (done.code, done.stdout) == (2, "")
    assert phrase in done.stderr
    assert "swordfish" not in done.stderr
