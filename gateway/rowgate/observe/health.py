"""Whether the process lives and whether it should get traffic, and the internal listener that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from rowgate.edge.forwarded import mint_request_id
from rowgate.errors import NotFound
from rowgate.observe.events import CatalogLoaded, Event, GatewayChanged, KeysRefreshed, PluginProcessChanged
from rowgate.observe.metrics import Metrics
from rowgate.protocol.render import PROBLEM, problem

READY = "ok"
CHANGES: frozenset[type] = frozenset({GatewayChanged, KeysRefreshed, PluginProcessChanged, CatalogLoaded})
"""The events that change it."""


class Health:
    """Named readiness checks, kept up by events. Liveness is that the loop answers; it asks nobody."""

    def __init__(self, issuers: Iterable[str] = (), required_plugins: Iterable[str] = ()) -> None:
        self._checks = {"gateway": "starting"}
        self._checks |= {f"keys:{issuer}": "never fetched" for issuer in issuers}
        self._checks |= {f"plugin:{plugin}": "not reached yet" for plugin in required_plugins}

    def emit(self, event: Event) -> None:
        match event:
            case GatewayChanged():
                self._checks["gateway"] = READY if event.state == "serving" else event.state
            case KeysRefreshed():
                self._keys(event)
            case PluginProcessChanged(state="exited"):
                self._note(f"plugin:{event.plugin}", "not running")
            case CatalogLoaded():
                self._note(f"plugin:{event.plugin}", "not reachable" if event.outcome == "failed" else READY)

    def ready(self) -> tuple[bool, dict[str, Any]]:
        missing = [name for name, state in self._checks.items() if state != READY]
        return not missing, {"ready": not missing, "missing": missing, "checks": dict(self._checks)}

    def _keys(self, event: KeysRefreshed) -> None:
        name = f"keys:{event.issuer}"
        if self._checks.get(name) == READY:
            return  # the last good set stays in use when its source fails
        self._note(name, {"ok": READY, "empty": "no keys published"}.get(event.outcome, "never fetched"))

    def _note(self, name: str, state: str) -> None:
        if name in self._checks:
            self._checks[name] = state


def internal_app(metrics: Metrics, health: Health, context_jwks: Callable[[], bytes]) -> web.Application:
    """What the internal listener serves: health, metrics, and the public keys of the context. No configuration."""

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"alive": True}, headers=_FRESH)

    async def readyz(request: web.Request) -> web.Response:
        ready, body = health.ready()
        return web.json_response(body, status=200 if ready else 503, headers=_FRESH)

    async def exposition(request: web.Request) -> web.Response:
        # Off the loop: with many series the text takes longer than a call may wait.
        body, content_type = await asyncio.to_thread(metrics.render, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type, **_FRESH})

    async def jwks(request: web.Request) -> web.Response:
        return web.Response(body=context_jwks(), content_type="application/jwk-set+json", headers=_FRESH)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)
    app.router.add_get("/context/jwks.json", jwks)
    app.router.add_route("*", "/{path:.*}", _not_found)
    return app


_FRESH = {"Cache-Control": "no-store"}


async def _not_found(request: web.Request) -> web.Response:
    body = problem(NotFound(), mint_request_id())
    return web.Response(body=body, status=NotFound.status, headers={"Content-Type": PROBLEM})
