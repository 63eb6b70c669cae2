"""The whole chain as it runs in production: project, plugin process, and two gateway processes that share one key."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from joserfc.jwk import OKPKey

from conformance.process import Process, process
from ports import free_port
from process.gateway import PYTHON, environment
from rls.wiretap import Wiretap, wiretap
from rowgate.demo.project import Project
from rowgate_plugin.contract import JWKS_PATH


@dataclass(frozen=True)
class Chain:
    first: str
    """Endpoint of one gateway, which reaches the plugin directly."""
    second: str
    """The same server at the other gateway, whose way to the plugin is tapped."""
    tolerant: str
    """A server of the first gateway that takes tokens five minutes after their end, when PostgREST no longer does."""
    plugin: str
    tap: Wiretap
    processes: tuple[Process, ...]

    @property
    def replicas(self) -> tuple[str, str]:
        return self.first, self.second


@asynccontextmanager
async def chain(project: Project) -> AsyncIterator[Chain]:
    key = OKPKey.generate_key("Ed25519", auto_kid=True)
    ports = [free_port() for _ in range(4)]
    public, internal = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plugin, running = await _plugin(stack, project, internal + JWKS_PATH)
        processes = [running]
        tap = await stack.enter_async_context(wiretap(plugin))
        for number, (listen, reached) in enumerate(((ports[:2], plugin), (ports[2:], tap.url))):
            config = files / f"{number}.yaml"
            config.write_text(yaml.safe_dump(configuration(project, public, listen, reached), sort_keys=False))
            processes.append(await _gateway(stack, key, config))
        second = f"http://127.0.0.1:{ports[2]}/mcp"
        yield Chain(f"{public}/mcp", second, f"{public}/tolerant/mcp", plugin, tap, tuple(processes))


def configuration(project: Project, public_url: str, listen: list[int], plugin: str) -> dict[str, Any]:
    exposed = {
        "from": "team-notes",
        "tools": ["search_notes", "get_note", "create_note", "delete_note"],
        "resources": ["notes://*"],
        "templates": ["notes://{id}"],
        "prompts": ["summarise_notes"],
    }
    tolerated = {
        "issuer": project.issuer,
        "jwks_url": f"{project.issuer}/.well-known/jwks.json",
        "audience": ["authenticated"],
        "token_role": ["authenticated"],
        "leeway": "5m",
    }
    return {
        "version": 1,
        "gateway": {
            "public_url": public_url,
            "listen": f"127.0.0.1:{listen[0]}",
            "internal_listen": f"127.0.0.1:{listen[1]}",
            "shutdown": {"timeout": "1s"},
            "context": {"signing_key": {"env": "CONTEXT_KEY"}},
        },
        "supabase": {"url": project.url},
        "plugins": {"team-notes": {"url": plugin, "credential": "user_token"}},
        "servers": {
            "main": {"path": "/mcp", "auth": {"mode": "oauth"}, "capabilities": [exposed]},
            "tolerant": {
                "path": "/tolerant/mcp",
                "auth": {"mode": "oauth", "issuer": tolerated},
                "scopes": {"issuable": ["email"]},
                "capabilities": [exposed],
            },
        },
    }


async def _plugin(stack: AsyncExitStack, project: Project, keys: str) -> tuple[str, Process]:
    environ = {
        "PORT": "0",
        "ROWGATE_CONTEXT_JWKS_URL": keys,
        "SUPABASE_URL": project.url,
        "SUPABASE_PUBLISHABLE_KEY": project.publishable_key,
    }
    plugin = await _started(stack, environ, "-m", "team_notes")
    origin = (await plugin.says(r"running on (http://127\.0\.0\.1:\d+)"))[1]
    plugin.follow()
    return f"{origin}/mcp", plugin


async def _gateway(stack: AsyncExitStack, key: OKPKey, config: Path) -> Process:
    environ = {"CONTEXT_KEY": json.dumps(key.as_dict(private=True))}
    gateway = await _started(stack, environ, "-m", "rowgate", "serve", str(config))
    await gateway.says(r'"serving"')
    gateway.follow()
    return gateway


async def _started(stack: AsyncExitStack, environ: Mapping[str, str], *arguments: str) -> Process:
    env = environment(**environ, PYTHONUNBUFFERED="1")
    return await stack.enter_async_context(process(PYTHON, *arguments, env=env))
