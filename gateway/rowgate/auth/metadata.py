"""The OAuth protected resource metadata of each server (RFC 9728), as bytes that are built once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rowgate.config.defaults import issuers_of
from rowgate.errors import ConfigurationError
from rowgate.supabase.project import advertised_scopes

if TYPE_CHECKING:
    from rowgate.config.models import Config, Server

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Type": "application/json",
        "Cache-Control": "public, max-age=300",
        "Access-Control-Allow-Origin": "*",
        "X-Content-Type-Options": "nosniff",
    }
)
PREFLIGHT_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": "GET, OPTIONS",
        "Access-Control-Allow-Headers": "MCP-Protocol-Version",
        "Access-Control-Max-Age": "86400",
    }
)


@dataclass(frozen=True, slots=True)
class Document:
    server: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Resource:
    """What a challenge says about a server."""

    url: str
    metadata_url: str | None
    scope: tuple[str, ...]
    """What a client needs to begin with."""


def resource_url(config: Config, server: Server) -> str:
    """Byte for byte what users type into their client."""
    return config.gateway.public_url + server.path


def metadata_url(config: Config, server: Server) -> str | None:
    """The URL that challenges name. None where there is nothing to discover."""
    if server.auth.mode != "oauth":
        return None
    if server.metadata == "suffix":
        return config.gateway.public_url + _appended(server)
    return config.gateway.public_url + _inserted(server)


def resource(config: Config, server: Server) -> Resource:
    required = tuple(server.scopes.required)
    initial = required or (advertised_scopes(config, server) if server.auth.mode == "oauth" else ())
    return Resource(resource_url(config, server), metadata_url(config, server), initial)


def documents(config: Config) -> dict[str, Document]:
    """By exact path. Each URL answers for one server only; the root answers for none that has a path."""
    found: dict[str, Document] = {}
    for name, server in config.servers.items():
        for path in _paths(server):
            if path in found:
                raise ConfigurationError(f"Two servers publish metadata at {path}: {found[path].server} and {name}.")
            found[path] = Document(name, _body(config, server))
    return found


def _paths(server: Server) -> tuple[str, ...]:
    if server.auth.mode != "oauth":
        return ()
    return tuple(dict.fromkeys((_inserted(server), _appended(server), _endpoint(server) + "/oauth-protected-resource")))


def _body(config: Config, server: Server) -> bytes:
    # Strings as configured: URL types add or drop slashes, and clients compare bytes (RFC 9728 §3.3, RFC 8414 §3.3).
    document: dict[str, Any] = {
        "resource": resource_url(config, server),
        "authorization_servers": [issuer.issuer for issuer in issuers_of(config, server)],
    }
    if scopes := advertised_scopes(config, server):
        document["scopes_supported"] = list(scopes)
    document["bearer_methods_supported"] = ["header"]
    if server.title:
        document["resource_name"] = server.title
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _endpoint(server: Server) -> str:
    return server.path.rstrip("/")


def _inserted(server: Server) -> str:
    return WELL_KNOWN + _endpoint(server)


def _appended(server: Server) -> str:
    return _endpoint(server) + WELL_KNOWN
