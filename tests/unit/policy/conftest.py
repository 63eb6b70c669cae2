"""Plugins whose offers are plain data, callers, and a server of the configuration over them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from rowgate.auth.principal import Principal
from rowgate.config.models import Server
from rowgate.config.plugin import Plugin
from rowgate.errors import GatewayError, MethodNotFound
from rowgate.observe.events import CapabilityQuarantined, CatalogLoaded, Event
from rowgate.policy.catalogs import Catalogs
from rowgate.policy.hook import Hook
from rowgate.policy.rules import ScopePolicy
from rowgate.protocol.call import LIST_METHODS, Call


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": name.title(),
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
        **members,
    }


def resource(uri: str, **members: Any) -> dict[str, Any]:
    return {"uri": uri, "name": uri, **members}


def template(text: str, **members: Any) -> dict[str, Any]:
    return {"uriTemplate": text, "name": text, **members}


def prompt(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, **members}


class Offering:
    """What one plugin answers. A failure put into `failing` is raised for that method."""

    def __init__(
        self,
        *,
        tools: Iterable[dict[str, Any]] = (),
        resources: Iterable[dict[str, Any]] = (),
        templates: Iterable[dict[str, Any]] = (),
        prompts: Iterable[dict[str, Any]] = (),
        completions: bool = False,
    ) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {
            "tools/list": list(tools),
            "resources/list": list(resources),
            "resources/templates/list": list(templates),
            "prompts/list": list(prompts),
        }
        self.completions = completions
        self.failing: dict[str, BaseException] = {}
        self.capabilities: dict[str, Any] | None = None

    def answer(self, method: str) -> dict[str, Any]:
        if method in self.failing:
            raise self.failing[method]
        if method == "server/discover":
            return {"resultType": "complete", "capabilities": self._discovered()}
        return {"resultType": "complete", LIST_METHODS[method]: self.lists[method]}

    def _discovered(self) -> dict[str, Any]:
        if self.capabilities is not None:
            return self.capabilities
        offered = {
            "tools": self.lists["tools/list"],
            "resources": [*self.lists["resources/list"], *self.lists["resources/templates/list"]],
            "prompts": self.lists["prompts/list"],
            "completions": [1] if self.completions else [],
        }
        return {name: {} for name, items in offered.items() if items}

    def fail(self, error: BaseException | None = None) -> None:
        self.failing = {"server/discover": error or GatewayError(reason="down")}

    def recover(self) -> None:
        self.failing = {}


class Plugins:
    """All plugins of a gateway, as the injected `ask`. It records who asked for what, and can hold answers back."""

    def __init__(self, **offerings: Offering | Callable[[Principal | None], Offering]) -> None:
        self.offerings = offerings
        self.asked: list[tuple[str, str, str | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def __call__(
        self, plugin: str, method: str, params: Mapping[str, Any], principal: Principal | None
    ) -> dict[str, Any]:
        self.asked.append((plugin, method, principal.subject if principal else None))
        self.waiting.set()
        await self.gate.wait()
        offering = self.offerings[plugin]
        return (offering if isinstance(offering, Offering) else offering(principal)).answer(method)

    def hold(self) -> None:
        self.gate.clear()
        self.waiting.clear()

    def discovers(self, plugin: str) -> int:
        return sum(1 for name, method, _ in self.asked if (name, method) == (plugin, "server/discover"))


def caller(subject: str = "alice", *, scopes: Iterable[str] = (), roles: Iterable[str] = (), **more: Any) -> Principal:
    members = {"kind": "user", "issuer": "https://project.example/auth/v1", "client_id": "client"} | more
    return Principal(subject=subject, scopes=frozenset(scopes), roles=frozenset(roles), **members)


def server(*entries: Mapping[str, Any], **members: Any) -> Server:
    return Server.model_validate({"path": "/mcp", "auth": {"mode": "oauth"}, "capabilities": list(entries), **members})


def call(method: str, **params: Any) -> Call:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Call(message=message, method=method, id=1, params=params, era="modern", version="2026-07-28")


class House:
    """A gateway's catalogs over given plugins, with what they emitted."""

    def __init__(
        self,
        plugins: Plugins,
        servers: Mapping[str, Server],
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        issuable: Iterable[str] = (),
        clock: Clock | None = None,
        hooks: Mapping[str, Hook] | None = None,
    ) -> None:
        self.plugins = plugins
        self.clock = clock or Clock()
        self.events: list[Event] = []
        self.catalogs = Catalogs(
            servers=servers,
            plugins={
                name: Plugin.model_validate({"url": f"http://{name}:9000/mcp", **(settings or {}).get(name, {})})
                for name in plugins.offerings
            },
            scopes={name: ScopePolicy.of(entry.scopes, issuable=tuple(issuable)) for name, entry in servers.items()},
            ask=plugins,
            hooks=hooks,
            emit=self.events.append,
            clock=self.clock,
        )

    @property
    def quarantined(self) -> list[tuple[str, str, str]]:
        return [
            (event.plugin, event.capability, event.reason)
            for event in self.events
            if isinstance(event, CapabilityQuarantined)
        ]

    @property
    def loads(self) -> list[tuple[str, str]]:
        return [(event.plugin, event.outcome) for event in self.events if isinstance(event, CatalogLoaded)]

    async def names(self, method: str = "tools/list", principal: Principal | None = None) -> list[str]:
        catalog = await self.catalogs.of("main", principal or caller())
        key = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}.get(method, "name")
        return [definition[key] for definition in catalog.list(method, principal or caller())]


@pytest.fixture
def not_found() -> MethodNotFound:
    return MethodNotFound()
