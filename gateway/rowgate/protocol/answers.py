"""What the gateway answers itself: initialize, ping, server/discover, and the legacy calls that have no effect here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from rowgate import __version__
from rowgate.auth.principal import Principal
from rowgate.errors import InvalidParams
from rowgate.policy.authorizer import Check
from rowgate.policy.catalog import Catalog
from rowgate.protocol.call import LIST_METHODS, Call
from rowgate.protocol.message import LEGACY_VERSIONS


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """How one server of the configuration presents itself."""

    name: str
    title: str | None = None
    instructions: str | None = None

    @property
    def info(self) -> dict[str, str]:
        return {"name": self.name, "version": __version__, **({"title": self.title} if self.title else {})}


def advertised(offered: Iterable[str]) -> dict[str, Any]:
    """No `listChanged` and no `subscribe`: this gateway has no stream to say so on."""
    return {member: {} for member in sorted(offered)}


def initialize(call: Call, server: ServerIdentity, offered: Iterable[str]) -> dict[str, Any]:
    """MCP 2025-11-25, lifecycle: a version that we serve is echoed, anything else gets our newest legacy one."""
    requested = call.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise InvalidParams("params.protocolVersion must be a string.")
    return {
        "protocolVersion": requested if requested in LEGACY_VERSIONS else LATEST_HANDSHAKE_VERSION,
        "capabilities": advertised(offered),
        "serverInfo": server.info,
        **({"instructions": server.instructions} if server.instructions else {}),
    }


def discover(server: ServerIdentity, offered: Iterable[str], ttl_ms: int) -> dict[str, Any]:
    return cacheable(
        {
            "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
            "capabilities": advertised(offered),
            **({"instructions": server.instructions} if server.instructions else {}),
        },
        ttl_ms,
    )


def own_result(
    call: Call,
    caller: Principal,
    catalog: Catalog,
    server: ServerIdentity,
    ttl_ms: int,
    permitted: frozenset[Check] = frozenset(),
) -> dict[str, Any]:
    """Lists and capabilities are the caller's own. `permitted`: what an authorizer said of the catalog's checks."""
    if call.method == "initialize":
        return initialize(call, server, catalog.offered(caller))
    if call.method == "server/discover":
        return discover(server, catalog.offered(caller), ttl_ms)
    if member := LIST_METHODS.get(call.method):
        return cacheable({member: catalog.list(call.method, caller, permitted)}, ttl_ms)
    # ping, and the legacy requests that nothing could remember: logging/setLevel, resources/subscribe, unsubscribe.
    return {}


def cacheable(result: dict[str, Any], ttl_ms: int) -> dict[str, Any]:
    """Private, because every list and the capabilities depend on who asks."""
    return {**result, "resultType": "complete", "ttlMs": ttl_ms, "cacheScope": "private"}


def identified(result: dict[str, Any], server: ServerIdentity) -> dict[str, Any]:
    """To its client the gateway is the server: what a plugin calls itself is replaced."""
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), SERVER_INFO_META_KEY: server.info}
    return result
