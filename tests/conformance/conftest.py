"""The suite against real processes: shim, gateway with sign-in, plugin behind the signed context."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from joserfc.jwk import OKPKey

from conformance.process import Process, process
from conformance.shim import shim
from conformance.suite import Suite, installed
from flow.issuer import Issuer, issuer
from rowgate_plugin.contract import public_jwks

HERE = Path(__file__).parent


def configuration(issuer: Issuer, plugin: str) -> dict[str, Any]:
    trusted = {
        "issuer": issuer.url,
        "jwks_url": issuer.jwks_url,
        "audience": ["authenticated"],
        "token_role": ["authenticated"],
    }
    return {
        "version": 1,
        "gateway": {
            # Without a port: the suite comes through the shim, whose port is another one anyway.
            "public_url": "http://127.0.0.1",
            "listen": "127.0.0.1:0",
            "internal_listen": "127.0.0.1:0",
            "shutdown": {"timeout": "1s"},
            "context": {"signing_key": {"env": "CONTEXT_KEY"}},
        },
        "plugins": {"conformance": {"url": plugin}},
        "servers": {
            "conformance": {
                "path": "/mcp",
                "title": "Conformance",
                "auth": {"mode": "oauth", "issuer": trusted},
                "scopes": {"issuable": ["email"], "advertised": ["email"]},
                "capabilities": [
                    {
                        "from": "conformance",
                        "tools": ["*"],
                        "prompts": ["*"],
                        "resources": ["test://**"],
                        "templates": ["test://template/{id}/data"],
                    }
                ],
            }
        },
    }


@pytest.fixture
async def suite() -> Suite:
    return await installed()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
async def tokens(stack: AsyncExitStack) -> Issuer:
    return await stack.enter_async_context(issuer())


@pytest.fixture
async def gateway(suite: Suite, tokens: Issuer, stack: AsyncExitStack, tmp_path: Path) -> str:
    """Its origin. The suite comes first, so that nothing starts where it cannot run."""
    key = OKPKey.generate_key("Ed25519", auto_kid=True)
    plugin = await start_plugin(stack, key)
    config = tmp_path / "rowgate.yaml"
    config.write_text(yaml.safe_dump(configuration(tokens, plugin), sort_keys=False))
    return await start_gateway(stack, key, config)


@pytest.fixture
async def endpoint(gateway: str, tokens: Issuer, stack: AsyncExitStack) -> str:
    """The gateway's endpoint as the suite calls it: through the shim."""
    return await stack.enter_async_context(shim(gateway, tokens.token())) + "/mcp"


async def start_plugin(stack: AsyncExitStack, key: OKPKey) -> str:
    jwks = json.dumps(public_jwks([key]))
    plugin = await start_python(stack, str(HERE / "fixture.py"), HOST="127.0.0.1", PORT="0", ROWGATE_CONTEXT_JWKS=jwks)
    origin = (await plugin.says(r"running on (http://127\.0\.0\.1:\d+)"))[1]
    plugin.follow()
    return f"{origin}/mcp"


async def start_gateway(stack: AsyncExitStack, key: OKPKey, config: Path) -> str:
    private = json.dumps(key.as_dict(private=True))
    gateway = await start_python(stack, "-m", "rowgate", "serve", str(config), CONTEXT_KEY=private)
    address = (await gateway.says(r"listening on (127\.0\.0\.1:\d+)"))[1]
    await gateway.says(r'"serving"')
    gateway.follow()
    return f"http://{address}"


async def start_python(stack: AsyncExitStack, *arguments: str, **env: str) -> Process:
    """Nothing that a developer's shell has set for rowgate reaches the process."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ROWGATE_", "SUPABASE_"))}
    return await stack.enter_async_context(process(sys.executable, *arguments, env={**inherited, **env}))
