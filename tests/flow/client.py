"""A client that sends exactly what a test says, in either era."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

MODERN = "2026-07-28"


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.json, self.json
        return self.json["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.json, self.json
        return self.json["error"]

    @property
    def text(self) -> str:
        return self.result["content"][0]["text"]

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.body.decode().replace("\r\n", "\n").split("\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def envelope(method: str, params: dict[str, Any] | None = None, *, id: Any = 1, **meta: Any) -> dict[str, Any]:
    """A modern request; `meta` without its prefix replaces a member of the envelope, `None` removes it."""
    members = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": {"name": "t", "version": "1"}} | meta
    fields = {f"io.modelcontextprotocol/{k}": v for k, v in members.items() if v is not None}
    given = params or {}
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": method,
        "params": {**given, "_meta": {**fields, **given.get("_meta", {})}},
    }


def mirrored(message: dict[str, Any]) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"])
    if key and isinstance(message["params"].get(key), str):
        headers["Mcp-Name"] = message["params"][key]
    return headers


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def send(
        self,
        body: Any,
        *,
        token: str | None = None,
        headers: Any = None,
        method: str = "POST",
        url: str | None = None,
    ) -> Reply:
        fields = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        fields |= headers or {}
        data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        async with self.session.request(
            method, url or self.url, data=data, headers=fields, allow_redirects=False
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        id: Any = 1,
        **meta: Any,
    ) -> Reply:
        message = envelope(method, params, id=id, **meta)
        return await self.send(message, token=token, headers=mirrored(message) | (headers or {}))

    async def legacy(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        token: str | None = None,
        version: str | None = "2025-11-25",
        id: Any = 1,
    ) -> Reply:
        message = {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})}
        return await self.send(message, token=token, headers={"MCP-Protocol-Version": version} if version else {})

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Reply:
        return await self.modern("tools/call", {"name": name, "arguments": arguments or {}}, **options)
