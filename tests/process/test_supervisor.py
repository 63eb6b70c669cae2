"""A plugin that the gateway starts itself: from the first call to the last process, in Python and in Node."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from flow.client import Client
from flow.issuer import ALICE, Issuer
from process.conftest import Start
from process.gateway import PATIENCE, PYTHON, Gateway, until

NODE = shutil.which("node")
NODE_PLUGIN = Path(__file__).parents[1] / "data" / "node-plugin" / "server.mjs"
AUTHOR = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from rowgate_plugin import CurrentCaller, serve

server = MCPServer("author")
READ = ToolAnnotations(read_only_hint=True)

@server.tool(title="Who", annotations=READ)
async def whoami(caller: CurrentCaller) -> str:
    return caller.subject

@server.tool(title="Facts", annotations=READ)
async def facts() -> str:
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})

@server.tool(title="Slow", annotations=READ)
async def slow() -> str:
    print("slow began")
    while not Path(os.environ["RELEASE"]).exists():
        await asyncio.sleep(0.01)
    return "finished"

@server.tool(title="Say", annotations=READ)
async def say(text: str) -> str:
    print(text)
    return "said"

@server.tool(title="Brood", annotations=READ)
async def brood() -> str:
    return str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)

serve(server)
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tmp_path / "release"


@pytest.fixture
def tree(tree: dict[str, Any], tmp_path: Path, release: Path) -> dict[str, Any]:
    """The gateway of the other tests, with a plugin of its own instead of a url."""
    script = tmp_path / "author.py"
    script.write_text(AUTHOR)
    tree["plugins"]["notes"] = {
        "command": [PYTHON, str(script)],
        "env": {"RELEASE": str(release), "OWN": {"env": "PLUGIN_SECRET"}},
        "restart": {"backoff": "100ms..200ms"},
        "required": True,
        "timeout": "60s",
    }
    tree["servers"]["main"]["capabilities"] = [{"from": "notes", "tools": ["*"]}]
    return tree


@pytest.fixture
async def gateway(start: Start) -> Gateway:
    return await start(PLUGIN_SECRET="swordfish-0451", GATEWAY_SECRET="not for plugins")


async def facts(client: Client, tokens: Issuer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await client.call("facts", token=tokens.token())).text)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    async def probe() -> bool | None:
        return None if alive(pid) else True

    await until(probe)


async def answering(client: Client, tokens: Issuer) -> None:
    async def probe() -> bool | None:
        reply = await client.call("whoami", token=tokens.token())
        return True if "result" in reply.json else None

    await until(probe)


async def test_a_call_reaches_the_plugin_that_the_gateway_started(
    gateway: Gateway, client: Client, tokens: Issuer
) -> None:
    assert (await client.call("whoami", token=tokens.token())).text == ALICE
    listed = await client.modern("tools/list", token=tokens.token())
    assert {tool["name"] for tool in listed.result["tools"]} >= {"whoami", "slow"}


async def test_the_plugin_knows_what_it_was_given_and_nothing_of_the_gateways_secrets(
    gateway: Gateway, client: Client, tokens: Issuer, tree: dict[str, Any]
) -> None:
    env = (await facts(client, tokens))["env"]
    assert env["OWN"] == "swordfish-0451"
    assert env["ROWGATE_PLUGIN"] == "notes"
    assert env["ROWGATE_CONTEXT_ISSUER"] == tree["gateway"]["public_url"]
    assert {"CONTEXT_KEY", "GATEWAY_SECRET", "PLUGIN_SECRET"}.isdisjoint(env)
    assert all("d" not in key for key in json.loads(env["ROWGATE_CONTEXT_JWKS"])["keys"])
    assert {"LISTEN_FDS", "LISTEN_PID"}.isdisjoint(env), "what the plugin starts must not take its socket"
    assert "swordfish" not in "".join(gateway.stdout + gateway.stderr)


async def test_a_plugin_that_dies_is_started_again_and_serves(gateway: Gateway, client: Client, tokens: Issuer) -> None:
    before = (await facts(client, tokens))["pid"]
    os.kill(before, signal.SIGKILL)
    line = await gateway.logged(event="plugin_process_changed", state="exited")
    assert (line["plugin"], line["cause"], line["level"]) == ("notes", "signal", "warning")
    await answering(client, tokens)
    assert (await facts(client, tokens))["pid"] != before
    async with gateway.session.get(f"{gateway.internal_url}/metrics") as response:
        metrics = await response.text()
    assert 'rowgate_plugin_exits_total{cause="signal",plugin="notes"} 1.0' in metrics
    assert 'rowgate_plugin_up{plugin="notes"} 1.0' in metrics


async def test_a_call_in_a_plugin_that_dies_is_answered_with_a_code_and_never_repeated(
    gateway: Gateway, client: Client, tokens: Issuer, release: Path
) -> None:
    pid = (await facts(client, tokens))["pid"]
    call = asyncio.create_task(client.call("slow", token=tokens.token()))
    await gateway.logged(event="plugin_output", message="slow began")
    os.kill(pid, signal.SIGKILL)
    assert (await call).error["data"]["code"] == "RG506"
    await answering(client, tokens)
    assert len([line for line in gateway.log if line.get("message") == "slow began"]) == 1


async def test_readiness_goes_with_the_process_and_comes_with_the_next_answer(
    start: Start, tree: dict[str, Any]
) -> None:
    tree["plugins"]["notes"]["restart"]["backoff"] = "5s..5s"
    gateway = await start(PLUGIN_SECRET="swordfish-0451")
    os.kill((await gateway.logged(event="plugin_process_changed", state="ready"))["pid"], signal.SIGKILL)

    async def missing() -> dict[str, Any] | None:
        status, body = await gateway.readiness()
        return body if status == 503 else None

    assert (await until(missing))["checks"]["plugin:notes"] == "not running"
    await gateway.ready()


async def test_a_plugin_that_never_comes_up_is_named_by_readiness_and_tried_again(
    start: Start, tree: dict[str, Any]
) -> None:
    tree["plugins"]["notes"]["command"] = [PYTHON, "-c", "import sys; sys.exit('no such table')"]
    gateway = await start(ready=False, PLUGIN_SECRET="swordfish-0451")
    await gateway.logged(event="plugin_output", message="no such table")

    async def restarted() -> bool | None:
        exits = [line for line in gateway.log if line.get("state") == "exited"]
        return True if len(exits) >= 3 else None

    await until(restarted)
    status, body = await gateway.readiness()
    assert (status, body["missing"]) == (503, ["plugin:notes"])


async def test_what_a_plugin_prints_is_logged_under_its_name_without_credentials(
    gateway: Gateway, client: Client, tokens: Issuer
) -> None:
    token = tokens.token()
    said = await client.call("say", {"text": f"Authorization: Bearer {token}\nsecond line"}, token=token)
    assert said.text == "said"
    line = await gateway.logged(event="plugin_output", message="second line")
    assert (line["plugin"], line["level"]) == ("notes", "info")
    assert token.split(".")[2] not in "".join(gateway.stdout)


async def test_sigterm_lets_the_last_call_finish_before_the_plugin_goes(
    gateway: Gateway, client: Client, tokens: Issuer, release: Path
) -> None:
    pid = (await facts(client, tokens))["pid"]
    call = asyncio.create_task(client.call("slow", token=tokens.token()))
    await gateway.logged(event="plugin_output", message="slow began")
    gateway.send(signal.SIGTERM)
    await gateway.refuses()
    assert alive(pid)
    os.close(os.open(release, os.O_CREAT))
    assert (await call).text == "finished"
    assert await gateway.exits() == 0
    assert not alive(pid)
    (stopped,) = [line for line in gateway.log if line.get("state") == "stopped" and "plugin" in line]
    assert stopped["detail"] == "SIGTERM"  # uvicorn ends by it, once it is done


async def test_a_gateway_that_is_killed_leaves_no_plugin_behind(
    gateway: Gateway, client: Client, tokens: Issuer, release: Path
) -> None:
    """Not even one with a call in it, which on SIGTERM would first finish that."""
    pid = (await facts(client, tokens))["pid"]
    call = asyncio.create_task(client.call("slow", token=tokens.token()))
    await gateway.logged(event="plugin_output", message="slow began")
    gateway.send(signal.SIGKILL)
    await gone(pid)
    with pytest.raises(Exception):  # noqa: B017 - how a client notices is its own affair
        await call


async def test_what_a_plugin_started_goes_with_it(gateway: Gateway, client: Client, tokens: Issuer) -> None:
    child = int((await client.call("brood", token=tokens.token())).text)
    assert alive(child)
    os.kill((await facts(client, tokens))["pid"], signal.SIGKILL)
    await gone(child)


async def test_the_socket_is_nobody_else_s_and_goes_with_the_gateway(
    gateway: Gateway, client: Client, tokens: Issuer
) -> None:
    await answering(client, tokens)
    path = _socket_of((await facts(client, tokens))["pid"])
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert await gateway.stop() == 0
    assert not os.access(path, os.F_OK)


def _socket_of(pid: int) -> str:
    """The path on which the process listens."""
    open_files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()]
    (path,) = {row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in open_files}
    return path


async def test_a_command_with_a_tls_file_that_is_not_there_stops_the_start(
    start: Start, tree: dict[str, Any], tmp_path: Path
) -> None:
    tree["plugins"]["weather"] = {"url": "https://weather.example.com/mcp", "tls": {"ca": str(tmp_path / "absent")}}
    tree["servers"]["main"]["capabilities"].append({"from": "weather", "tools": ["forecast"]})
    with pytest.raises(AssertionError, match="exited with 3"):
        await asyncio.wait_for(start(PLUGIN_SECRET="swordfish-0451"), PATIENCE)


@pytest.mark.skipif(NODE is None and "CI" not in os.environ, reason="Node is not installed")
async def test_a_plugin_in_node_is_started_on_the_same_terms(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    assert NODE is not None
    tree["plugins"]["notes"] |= {"command": [NODE, str(NODE_PLUGIN)], "env": {}}
    gateway = await start()
    assert (await client.call("whoami", token=tokens.token())).text == ALICE
    pid = (await gateway.logged(event="plugin_process_changed", state="ready"))["pid"]
    assert await gateway.stop() == 0
    assert not alive(pid)
