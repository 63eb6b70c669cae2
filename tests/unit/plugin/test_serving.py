from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from recording_supabase import ALICE

from rowgate_plugin.keys import JWKS, SECRET
from rowgate_plugin.log import JsonFormatter
from rowgate_plugin.serving import KEEP_ALIVE, tools_without_hints
from rowgate_plugin.testing import SigningGateway, caller

AUTHOR = """
import asyncio, logging, os
from pathlib import Path
from typing import Annotated
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel
from rowgate_plugin import CurrentCaller, serve

server = MCPServer("notes")
log = logging.getLogger("author")

class Confirm(BaseModel):
    sure: bool

async def confirm() -> Elicit[Confirm]:
    return Elicit("Sure?", Confirm)

@server.tool(title="Who", annotations=ToolAnnotations(read_only_hint=True))
async def who(caller: CurrentCaller) -> str:
    log.info("asked who")
    return caller.subject

@server.tool(title="Crash", annotations=ToolAnnotations(read_only_hint=True))
async def crash(text: str) -> str:
    raise RuntimeError("it broke")

@server.tool(title="Ask", annotations=ToolAnnotations(destructive_hint=True))
async def ask(answer: Annotated[Confirm, Resolve(confirm)], caller: CurrentCaller) -> str:
    return f"{caller.subject} {answer.sure}"

@server.tool()
async def slow() -> str:
    log.info("slow began")
    while not Path(os.environ["RELEASE"]).exists():
        await asyncio.sleep(0.01)
    return "finished"

serve(server)
"""


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, str]] = []
        self.url = ""

    async def until(self, message: str) -> dict[str, str]:
        """The next log line whose message starts so."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(json.loads(line))
            if self.lines[-1]["message"].startswith(message):
                return self.lines[-1]
        raise AssertionError(f"the process ended before it logged {message!r}")


@asynccontextmanager
async def plugin(tmp_path: Path, environ: Mapping[str, str]) -> AsyncIterator[Process]:
    script = tmp_path / "author.py"
    script.write_text(AUTHOR)
    process = Process(await start(script, environ))
    try:
        line = await process.until("Uvicorn running on")
        process.url = line["message"].split()[3] + "/mcp"
        yield process
    finally:
        if process.process.returncode is None:
            process.process.kill()
        await process.process.communicate()


async def start(script: Path, environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=pipe, stderr=pipe, env={**inherited, "PORT": "0", **environ}
    )


def trusting(gateway: SigningGateway, **environ: str) -> dict[str, str]:
    return {JWKS: json.dumps({"keys": [gateway.key.as_dict(private=False)]}), **environ}


async def call(
    http: httpx2.AsyncClient, url: str, gateway: SigningGateway, tool: str, **params: Any
) -> httpx2.Response:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "gateway", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    params = {"_meta": meta, "name": tool, "arguments": {}, **params}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        **gateway.headers(body, caller(ALICE, token="alice.jwt")),
    }
    return await http.post(url, content=body, headers=headers, timeout=30)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, JWKS),
        ({JWKS: ""}, JWKS),
        ({SECRET: "do-not-show-me"}, SECRET),
        ({SECRET: "s" * 32, "SUPABASE_URL": "https://x.supabase.co"}, "SUPABASE_PUBLISHABLE_KEY"),
        (
            {
                SECRET: "s" * 32,
                "SUPABASE_URL": "https://x.supabase.co",
                "SUPABASE_PUBLISHABLE_KEY": "sb_secret_do-not-show-me",
            },
            "secret key",
        ),
        ({SECRET: "s" * 32, "ROWGATE_STATE_KEY": "do-not-show-me"}, "ROWGATE_STATE_KEY"),
        ({SECRET: "s" * 32, "PORT": "http"}, "PORT"),
    ],
)
async def test_an_unsafe_setting_stops_the_start(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    script = tmp_path / "author.py"
    script.write_text(AUTHOR)
    process = await start(script, environ)
    output, errors = await process.communicate()
    assert process.returncode == 78
    assert named in errors.decode()
    assert "Traceback" not in errors.decode()
    assert b"do-not-show-me" not in output + errors


async def test_a_served_plugin_answers_the_gateway_and_logs_its_request_id(tmp_path: Path) -> None:
    gateway = SigningGateway("notes")
    async with plugin(tmp_path, trusting(gateway)) as served, httpx2.AsyncClient() as http:
        hints = [line["message"] for line in served.lines if "hints" in line["message"]]
        assert len(hints) == 1
        assert "'slow'" in hints[0]
        for _ in range(2):
            response = await call(http, served.url, gateway, "who")
            assert response.json()["result"]["content"][0]["text"] == ALICE
            assert "server" not in response.headers
        line = await served.until("asked who")
        assert line["logger"] == "author"
        assert line["request_id"]
        assert (await http.post(served.url, content=b"{}")).json() == {"error": "context_refused", "reason": "missing"}
        crashed = await call(http, served.url, gateway, "crash", arguments={"text": "argument-of-the-user"})
        assert "it broke" not in crashed.text
        told = await served.until("")
        while "exception" not in told:
            told = await served.until("")
        assert "it broke" in told["exception"]
        assert all("argument-of-the-user" not in json.dumps(line) for line in served.lines)
        assert all("alice.jwt" not in json.dumps(line) for line in served.lines)


async def test_sigterm_lets_a_running_call_finish(tmp_path: Path) -> None:
    gateway = SigningGateway("notes")
    release = tmp_path / "release"
    environ = trusting(gateway, RELEASE=str(release))
    async with plugin(tmp_path, environ) as served, httpx2.AsyncClient() as http:
        running = asyncio.ensure_future(call(http, served.url, gateway, "slow"))
        await served.until("slow began")
        served.process.send_signal(signal.SIGTERM)
        await served.until("Shutting down")
        release.touch()
        response = await running
        assert response.json()["result"]["content"][0]["text"] == "finished"
        await served.process.wait()


async def test_two_processes_with_one_state_key_share_the_rounds_of_a_call(tmp_path: Path) -> None:
    gateway = SigningGateway("notes")
    shared = trusting(gateway, ROWGATE_STATE_KEY="k" * 32)
    alone = trusting(gateway)
    async with (
        plugin(tmp_path, shared) as first,
        plugin(tmp_path, shared) as second,
        plugin(tmp_path, alone) as third,
        httpx2.AsyncClient() as http,
    ):
        asked = (await call(http, first.url, gateway, "ask")).json()["result"]
        assert asked["resultType"] == "input_required"
        answers = {key: {"action": "accept", "content": {"sure": True}} for key in asked["inputRequests"]}
        again = {"inputResponses": answers, "requestState": asked["requestState"]}
        done = await call(http, second.url, gateway, "ask", **again)
        assert done.json()["result"]["content"][0]["text"] == f"{ALICE} True"
        refused = await call(http, third.url, gateway, "ask", **again)
        assert refused.json()["error"]["code"] == -32602


async def test_a_large_context_and_a_large_credential_pass_the_http_parser(tmp_path: Path) -> None:
    gateway = SigningGateway("notes")
    large = caller(ALICE, token="t" * 33_500, claims={"groups": ["g" * 100] * 230})
    async with plugin(tmp_path, trusting(gateway)) as served, httpx2.AsyncClient() as http:
        url = httpx2.URL(served.url)
        fields = {"Host": url.netloc.decode(), "Content-Length": "2", "Connection": "close"}
        fields |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        fields |= gateway.headers(b"{}", large)
        lines = [f"{name}: {value}" for name, value in fields.items()]
        request = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", "{}"]).encode()
        assert len(request) > 65_900
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(request[:65_800])
        await writer.drain()
        # Answered only after the loop of the plugin saw the unfinished head.
        await http.get(served.url)
        writer.write(request[65_800:])
        response = (await reader.read()).decode()
        writer.close()
        # Past the door: what answers is the SDK, about a body that is no JSON-RPC message.
        assert response.startswith("HTTP/1.1 400")
        assert "jsonrpc" in response


def test_an_idle_connection_outlives_the_gateway_s_interest_in_it() -> None:
    # aiohttp drops an idle connection from its pool after 15 s; a server that closes first loses a POST.
    assert KEEP_ALIVE > 60


async def test_a_tool_without_title_or_hints_is_named() -> None:
    server = MCPServer("notes", log_level="WARNING")
    for name, title, hints in (
        ("good", "Good", ToolAnnotations(read_only_hint=True)),
        ("titled_in_hints", None, ToolAnnotations(title="T", destructive_hint=False)),
        ("untitled", None, ToolAnnotations(read_only_hint=True)),
        ("unhinted", "Title", None),
        ("empty_hints", "Title", ToolAnnotations()),
    ):

        async def tool() -> str:
            return ""

        server.add_tool(tool, name=name, title=title, annotations=hints)
    assert await tools_without_hints(server) == ["untitled", "unhinted", "empty_hints"]


def test_a_log_line_is_one_json_object_whatever_is_logged() -> None:
    record = logging.LogRecord("author", logging.WARNING, __file__, 1, 'a "quoted"\nline %s', ("é",), None)
    record.created = time.time()
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == 'a "quoted"\nline é'
    assert "request_id" not in json.loads(line)
