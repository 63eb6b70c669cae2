"""From an author's `MCPServer` to a process that only the gateway can use."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import Tool
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from rowgate_plugin.contract import ContextVerifier
from rowgate_plugin.keys import ContextKeys, keys_from_environment
from rowgate_plugin.listening import listening_socket
from rowgate_plugin.log import configure_logging
from rowgate_plugin.middleware import MAX_BODY_BYTES, ContextMiddleware, Extend
from rowgate_plugin.settings import EXIT_CONFIGURATION, SettingsError
from rowgate_plugin.state import install, request_state
from rowgate_plugin.supabase import Connections, Project

KEEP_ALIVE = 75
"""Seconds. Longer than the gateway keeps an idle connection, or it would send into one that is just closing."""
DRAIN = 30
_MAX_HEAD_BYTES = 128 * 1024

logger = logging.getLogger(__name__)


class PluginApp:
    """The ASGI application of one plugin. Its lifespan runs the server's and closes the connections to Supabase."""

    def __init__(
        self,
        server: MCPServer[Any],
        *,
        keys: ContextKeys,
        state: RequestStateSecurity,
        audience: str | None = None,
        issuer: str | None = None,
        project: Project | None = None,
        extend: Extend | None = None,
        json_only: bool = False,
        path: str = "/mcp",
        max_body_bytes: int = MAX_BODY_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        install(server, state)
        self._connections = Connections(project) if project else None
        self._starlette = server.streamable_http_app(
            streamable_http_path=path,
            json_response=json_only,
            stateless_http=True,
            max_request_body_size=max_body_bytes,
            # The signed context is the guard here: it also stops a browser, and it works under any service name.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._run_server = self._starlette.router.lifespan_context
        self._starlette.router.lifespan_context = self._lifespan
        verifier = ContextVerifier(keys.current, audience=audience or server.name, issuer=issuer, clock=clock)
        self._door = ContextMiddleware(
            self._starlette,
            verifier=verifier,
            keys=keys,
            connections=self._connections,
            extend=extend,
            max_body_bytes=max_body_bytes,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door(scope, receive, send)

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """For hosts that speak no ASGI lifespan: serve inside of it."""
        return self._lifespan(self._starlette)

    @asynccontextmanager
    async def _lifespan(self, starlette: Starlette) -> AsyncIterator[Any]:
        async with self._run_server(starlette) as state:
            try:
                yield state
            finally:
                if self._connections is not None:
                    await self._connections.aclose()


def app(
    server: MCPServer[Any],
    *,
    extend: Extend | None = None,
    json_only: bool = False,
    path: str = "/mcp",
    state: RequestStateSecurity | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    environ: Mapping[str, str] = os.environ,
) -> PluginApp:
    """The plugin as an ASGI application, configured by the environment; `SettingsError` when that is not safe."""
    project = Project.from_environment(environ)
    if project is None:
        logger.info("SUPABASE_URL is not set: caller.supabase is not available")
    return PluginApp(
        server,
        keys=keys_from_environment(environ),
        state=state or request_state(environ),
        audience=environ.get("ROWGATE_PLUGIN") or None,
        issuer=environ.get("ROWGATE_CONTEXT_ISSUER") or None,
        project=project,
        extend=extend,
        json_only=json_only,
        path=path,
        max_body_bytes=max_body_bytes,
    )


def serve(
    server: MCPServer[Any],
    *,
    host: str | None = None,
    port: int | None = None,
    extend: Extend | None = None,
    json_only: bool = False,
    path: str = "/mcp",
    state: RequestStateSecurity | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    log_level: str = "INFO",
) -> None:
    """Serve until SIGTERM, then let running calls finish. Exits with 78 when a setting is missing or not safe to use.

    A socket that was passed on (LISTEN_FDS, as the gateway and systemd do it), or the path in `SOCKET`, goes before
    `host` and `port`.
    `json_only` is faster and gives up progress and cancellation.
    """
    environ = os.environ
    configure_logging(log_level)
    try:
        plugin = app(server, extend=extend, json_only=json_only, path=path, state=state, max_body_bytes=max_body_bytes)
        listening = listening_socket(environ, pid=os.getpid())
        listen_host = host or environ.get("HOST") or "127.0.0.1"
        listen_port = port if port is not None else _port(environ.get("PORT") or "9000")
    except SettingsError as error:
        print(f"rowgate_plugin: {error}", file=sys.stderr)
        raise SystemExit(EXIT_CONFIGURATION) from None
    for name in asyncio.run(tools_without_hints(server)):
        logger.warning("tool %r has no title or no hints: a gateway may keep it from its clients", name)
    served = uvicorn.Server(_configuration(plugin, listen_host, listen_port))
    if listening is None:
        served.run()
        return
    logger.info("listening on the socket %s", listening.getsockname())
    served.run(sockets=[listening])


async def tools_without_hints(server: MCPServer[Any]) -> list[str]:
    return [tool.name for tool in await server.list_tools() if not _has_hints(tool)]


def _has_hints(tool: Tool) -> bool:
    hints = tool.annotations
    if hints is None or not (tool.title or hints.title):
        return False
    return hints.read_only_hint is not None or hints.destructive_hint is not None


def _configuration(plugin: PluginApp, host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        plugin,
        host=host,
        port=port,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=DRAIN,
        # A context and a credential may have 32 KiB each.
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
    )


def _port(value: str) -> int:
    if not value.isdecimal() or int(value) > 65_535:
        raise SettingsError("PORT is not a port number")
    return int(value)
