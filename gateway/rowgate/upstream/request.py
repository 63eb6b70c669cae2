"""From a judged call to the request that a plugin gets: always MCP 2026-07-28, headers built afresh.

What policy judged is the value in `Call.message`; the forwarded bytes and the headers that mirror them are made
from it and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared import inbound
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION
from multidict import CIMultiDict

from rowgate.errors import HeaderMismatch, InvalidParams
from rowgate.policy.catalog import Target
from rowgate.protocol.call import Call

_EVERY_REQUEST = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": LATEST_MODERN_VERSION,
}
MAX_PARAM_BYTES = 8192
"""Of arguments in headers: more is refused by the plugin's HTTP server, which would look like its failure."""
_LEGACY_LOG_LEVEL = "info"
"""A legacy client gets the log messages of its call without asking; a modern one only at the level it names."""


def forwarded_message(call: Call, target: Target, request_id: str) -> dict[str, Any]:
    """With an id that no other exchange has: clients count theirs from 1, so an answer that reached the wrong caller
    would look like their own."""
    params = {**target.params(call.params), "_meta": _envelope(call)}
    return {**call.message, "id": request_id, "params": params}


def own_message(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """A request that the gateway makes for itself. Each exchange has its own connection use, so one id serves all."""
    meta = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def protocol_headers(method: str, name: str | None) -> dict[str, str]:
    headers = {**_EVERY_REQUEST, "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = inbound.encode_header_value(name)
    return headers


def param_headers(call: Call, target: Target) -> list[tuple[str, str]]:
    """Recognised ones are rebuilt from the arguments, also for legacy callers; others pass, as the protocol demands.

    Raises HeaderMismatch when a modern caller's header and argument disagree, InvalidParams for what is too long."""
    recognised = target.capability.param_headers
    if not recognised and not call.param_headers:
        return []
    arguments = call.params.get("arguments") or {}
    if recognised and call.modern:
        sent = CIMultiDict(call.param_headers)
        if rejection := inbound.validate_mcp_param_headers(target.capability.input_schema, arguments, sent):
            raise HeaderMismatch(rejection.message)
    names = {f"{inbound.MCP_PARAM_HEADER_PREFIX}{token}".lower() for token in recognised.values()}
    passed = [(name, value) for name, value in call.param_headers if name.lower() not in names]
    rebuilt = inbound.mcp_param_headers(recognised, arguments)
    if sum(map(len, rebuilt.values())) > MAX_PARAM_BYTES:
        raise InvalidParams("An argument that travels in a header is too long.")
    return [*rebuilt.items(), *passed]


def _envelope(call: Call) -> dict[str, Any]:
    """Extensions are negotiated hop by hop, and this hop serves none: a plugin must not be told otherwise."""
    given = call.params.get("_meta")
    meta = dict(given) if isinstance(given, dict) else {}
    if call.modern:
        capabilities = dict(meta[CLIENT_CAPABILITIES_META_KEY])
        capabilities.pop("extensions", None)
        meta[CLIENT_CAPABILITIES_META_KEY] = capabilities
    else:
        meta[CLIENT_CAPABILITIES_META_KEY] = {}
        meta[LOG_LEVEL_META_KEY] = _LEGACY_LOG_LEVEL
    meta[PROTOCOL_VERSION_META_KEY] = LATEST_MODERN_VERSION
    return meta
