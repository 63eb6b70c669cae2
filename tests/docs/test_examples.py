"""What the pages tell people to write works as it stands there."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn
import yaml
from joserfc.jwk import OKPKey
from markdown_pages import ROOT, Block, Document, documents, read

from databases import SupabaseProject
from flow.client import Client
from flow.conftest import config_of, free_port, settings
from flow.issuer import Issuer, issuer
from rowgate.app import gateway
from rowgate.config.load import Checked, check_text
from rowgate.observe.events import CapabilityQuarantined, Event
from rowgate.observe.health import Health
from rowgate.observe.metrics import Metrics
from rowgate_plugin.supabase import Project

HOW_TO = ROOT / "docs" / "how-to"


def blocks(language: str, start: str = "") -> list[Any]:
    found = [
        (document, block)
        for document in documents()
        for block in document.blocks
        if block.language == language and block.text.startswith(start)
    ]
    return [pytest.param(block, id=f"{document}-{number}") for number, (document, block) in enumerate(found)]


def python_of(page: Path) -> list[str]:
    return [block.text for block in read(page).blocks if block.language == "python"]


@pytest.fixture
def check(tmp_path: Path) -> Callable[[str], Checked]:
    """As in the reader's directory, with the secrets that the pages speak of."""
    key = OKPKey.generate_key("Ed25519")
    (tmp_path / "secrets").mkdir()
    jwk = json.dumps(key.as_dict(private=True))
    for name, content in {
        "context.jwk": jwk.encode(),
        "context.pem": key.as_pem(private=True),
        "context-new.pub.pem": key.as_pem(private=False),
    }.items():
        (tmp_path / "secrets" / name).write_bytes(content)
    env = {
        "SUPABASE_URL": "https://acme.supabase.co",
        "SUPABASE_PUBLISHABLE_KEY": "sb_publishable_0123456789abcdef",
        "SUPABASE_SECRET_KEY": "sb_secret_0123456789abcdef",
        "SUPPLIER_CLIENT_SECRET": "0123456789abcdef",
        "SUPPLIER_JWT_SECRET": "0123456789abcdef0123456789abcdef",
        "REPORTS_API_KEY": "0123456789abcdef0123456789abcdef",
        "ROWGATE_CONTEXT_KEY": jwk,
    }
    return lambda text: check_text(text.replace("/run/secrets/", f"{tmp_path}/secrets/"), env, tmp_path)


@pytest.mark.parametrize("block", blocks("yaml", "version:"))
def test_a_configuration_loads_without_a_warning(block: Block, check: Callable[[str], Checked]) -> None:
    assert check(block.text).problems == ()


@pytest.mark.parametrize("block", blocks("python"))
def test_python_compiles(block: Block) -> None:
    compile(block.text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", blocks("json"))
def test_json_is_json(block: Block) -> None:
    for text in block.text.splitlines():
        json.loads(text)


def test_every_make_target_that_is_named_exists(document: Document) -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)\b", "\n".join([*document.code, *_indented(document)])))
    makefile = ROOT / "Makefile"
    targets = re.findall(r"^([a-z][a-z-]*):", makefile.read_text(), re.MULTILINE) if makefile.exists() else []
    assert named <= set(targets)


def _indented(document: Document) -> list[str]:
    fenced = [line for block in document.blocks for line in block.text.splitlines()]
    return fenced + [line for line in document.prose.splitlines() if line.startswith("    ")]


async def test_the_plugin_of_the_page_shows_each_user_their_own_notes(team_notes_project: SupabaseProject) -> None:
    example, *_, test = python_of(HOW_TO / "write-a-plugin.md")
    names: dict[str, Any] = {"__name__": "plugin"}
    exec(example, names)
    exec(test, names)
    titles: Callable[[str, Project], Awaitable[list[str]]] = names["titles"]
    project = Project(team_notes_project.url, team_notes_project.publishable_key)
    alice, bob = [await team_notes_project.access_token(f"{name}@example.com") for name in ("alice", "bob")]
    assert await titles(alice, project) == ["Rocket skates roadmap"]
    assert await titles(bob, project) == ["Weather machine roadmap"]


async def test_the_existing_server_of_the_page_is_served_as_the_page_says() -> None:
    page = HOW_TO / "attach-an-existing-mcp-server.md"
    (code,) = python_of(page)
    names: dict[str, Any] = {"__name__": "weather"}
    exec(code, names)
    (text,) = [block.text for block in read(page).blocks if block.language == "yaml"]
    events: list[Event] = []
    async with serving(names["app"]) as url, issuer() as tokens, aiohttp.ClientSession() as session:
        port = free_port()
        config = config_of(attached(text, url, tokens, port))
        started = gateway(config, emit=events.append, metrics=Metrics("0"), health=Health())
        async with started:
            client = Client(session, f"http://127.0.0.1:{port}/mcp")
            listed = await client.modern("tools/list", token=tokens.token())
            called = await client.modern(
                "tools/call", {"name": "weather_forecast", "arguments": {"city": "Oslo"}}, token=tokens.token()
            )
    (tool,) = listed.result["tools"]
    assert (tool["title"], tool["annotations"]["readOnlyHint"]) == ("Weather forecast", True)
    assert called.text == "Sunny in Oslo."
    assert not [event for event in events if isinstance(event, CapabilityQuarantined)]


def attached(text: str, url: str, tokens: Issuer, port: int) -> dict[str, Any]:
    """The configuration of the page, with addresses of this machine."""
    tree: dict[str, Any] = yaml.safe_load(text)
    trusted = settings(tokens, {}, port)
    tree["gateway"] = trusted["gateway"]
    del tree["supabase"]
    tree["servers"]["main"]["auth"] = trusted["servers"]["main"]["auth"]
    tree["plugins"]["weather"]["url"] = url
    return tree


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    with socket.socket() as listening:
        # It listens before the server runs, so that nobody has to wait for that.
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running
