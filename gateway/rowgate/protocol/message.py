"""One parsed body to one Call: its era, and the agreement of its headers with it.

The era comes from the body and is cross-checked with the headers, never the other way round: a header decides
only where the body says nothing. Which check comes first is fixed by MCP 2026-07-28 (basic/transports) and by
what both official SDKs answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

from mcp.shared import inbound
from mcp_types import DEFAULT_NEGOTIATED_VERSION, PROTOCOL_VERSION_META_KEY
from mcp_types import jsonrpc as rpc
from mcp_types.methods import CLIENT_REQUESTS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from multidict import CIMultiDictProxy

from rowgate.errors import (
    BatchNotSupported,
    GatewayError,
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    UnsupportedProtocolVersion,
)
from rowgate.protocol.call import LIST_METHODS, Call, Era

Fields = list[tuple[str, str]]

LEGACY_VERSIONS = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)
NOT_SERVED = frozenset({"subscriptions/listen"})
"""Methods of the protocol that this gateway neither answers nor advertises."""

POSTED_RESPONSE = "(response)"
"""The method of a Call that is an answer to a request nobody made: accepted from legacy clients and dropped."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ROUTING_HEADERS = (inbound.MCP_PROTOCOL_VERSION_HEADER, inbound.MCP_METHOD_HEADER, inbound.MCP_NAME_HEADER)
_PARAM_PREFIX = inbound.MCP_PARAM_HEADER_PREFIX.lower()
_PREFIXES = frozenset("".join(letters) + "-" for letters in product("mM", "cC", "pP"))
"""How the name of any of them may begin: cheaper than to fold the case of every name."""
_MAX_PARAM_HEADERS = 32
_MAX_PARAM_HEADER_BYTES = 8192
_REJECTIONS: Mapping[int, type[GatewayError]] = {
    rpc.INVALID_PARAMS: InvalidParams,
    rpc.HEADER_MISMATCH: HeaderMismatch,
    rpc.UNSUPPORTED_PROTOCOL_VERSION: UnsupportedProtocolVersion,
}


def read_call(body: Any, headers: CIMultiDictProxy[str], era: Era) -> Call:
    """Raise an error of RG11x, or return the call. `era` is what `era_of` says of the same."""
    if isinstance(body, list):
        raise BatchNotSupported
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be one JSON object.")
    modern = era == "modern"
    method = _envelope(body, modern)
    routing, param_headers = _mirrored(headers)
    params = body.get("params", {})
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object.")
    if duplicated := inbound.find_duplicated_routing_header(routing):
        raise HeaderMismatch(f"{duplicated} header appears more than once")
    mirrored = dict(routing)
    if "id" not in body:
        return _notification(body, method, params, mirrored, modern)
    version = _modern_version(body, mirrored) if modern else _legacy_version(body, method, mirrored)
    if method in NOT_SERVED or (method, version) not in CLIENT_REQUESTS:
        raise MethodNotFound
    _require_shape(method, params)
    return Call(
        message=body,
        method=method,
        id=body["id"],
        params=params,
        era="modern" if modern else "legacy",
        version=version,
        param_headers=_checked(param_headers),
    )


def era_of(body: Any, headers: CIMultiDictProxy[str]) -> Era:
    """A body that carries the modern envelope is modern; without one the header decides, and none means legacy."""
    if isinstance(body, dict) and _claims_modern(body):
        return "modern"
    header = _version_header(headers)
    return "legacy" if header is None or header in LEGACY_VERSIONS else "modern"


def readable_id(body: Any) -> str | int | None:
    value = body.get("id") if isinstance(body, dict) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _mirrored(headers: CIMultiDictProxy[str]) -> tuple[Fields, Fields]:
    """The fields that say what the body says, in one pass: those that route, by their names in lower case, and
    `Mcp-Param-*`. aiohttp makes surrogates of bytes that are no UTF-8, and no JSON answer could quote those."""
    routing: Fields = []
    params: Fields = []
    for name, value in headers.items():
        if name[:4] not in _PREFIXES:
            continue
        lowered = name.lower()
        if lowered in _ROUTING_HEADERS:
            if not value.isascii():
                raise HeaderMismatch("a routing header has characters that must be encoded")
            routing.append((lowered, value.strip()))
        elif lowered.startswith(_PARAM_PREFIX):
            params.append((name, value.strip(" \t")))
    return routing, params


def _version_header(headers: CIMultiDictProxy[str]) -> str | None:
    value = headers.get(inbound.MCP_PROTOCOL_VERSION_HEADER)
    return None if value is None else value.strip()


def _claims_modern(body: Mapping[str, Any]) -> bool:
    params = body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def _envelope(body: dict[str, Any], modern: bool) -> str:
    """JSON-RPC 2.0 §4 and §5, with MCP's tightening: an id is a string or an integer, never null."""
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequest('jsonrpc must be "2.0".')
    if "id" in body and readable_id(body) is None:
        raise InvalidRequest("id must be a string or an integer.")
    method = body.get("method")
    if isinstance(method, str):
        if "result" in body or "error" in body:
            # Whoever reads the forwarded message could take it for either.
            raise InvalidRequest("A message is a request or a response, not both.")
        return method
    if "method" not in body and ("result" in body) != ("error" in body) and not modern:
        body.pop("id", None)
        return POSTED_RESPONSE
    raise InvalidRequest("method must be a string.")


def _notification(
    body: dict[str, Any], method: str, params: dict[str, Any], mirrored: Mapping[str, str], modern: bool
) -> Call:
    header = mirrored.get(inbound.MCP_PROTOCOL_VERSION_HEADER)
    if header is not None and header not in LEGACY_VERSIONS:
        _refuse(inbound.unsupported_protocol_version_rejection(header))
    version = header or DEFAULT_NEGOTIATED_VERSION
    return Call(body, method, None, params, "modern" if modern else "legacy", version)


def _modern_version(body: dict[str, Any], mirrored: Mapping[str, str]) -> str:
    header = mirrored.get(inbound.MCP_PROTOCOL_VERSION_HEADER)
    if header is not None and not _claims_modern(body) and _is_older(header):
        # A client of some revision that never was cannot be asked for an envelope that came later.
        _refuse(inbound.unsupported_protocol_version_rejection(header))
    verdict = inbound.classify_inbound_request(body, headers=mirrored)
    if isinstance(verdict, inbound.InboundLadderRejection):
        _refuse(verdict)
        raise AssertionError("a rejection was let through")
    if not isinstance(verdict.client_capabilities, dict):
        raise InvalidParams("clientCapabilities must be an object.")
    return verdict.protocol_version


def _is_older(version: str) -> bool:
    return _DATE.fullmatch(version) is not None and version < MODERN_PROTOCOL_VERSIONS[0]


def _legacy_version(body: dict[str, Any], method: str, mirrored: Mapping[str, str]) -> str:
    # Legacy clients need not mirror, but whoever does must not say two things at once.
    sent = mirrored.get(inbound.MCP_METHOD_HEADER)
    if sent is not None and sent != method:
        raise HeaderMismatch("mcp-method header does not match the request body's method")
    key = inbound.NAME_BEARING_METHODS.get(method)
    name = mirrored.get(inbound.MCP_NAME_HEADER)
    if key and name is not None and inbound.decode_header_value(name) != body.get("params", {}).get(key):
        raise HeaderMismatch(f"mcp-name header does not match the request body's {key!r} parameter")
    return mirrored.get(inbound.MCP_PROTOCOL_VERSION_HEADER) or DEFAULT_NEGOTIATED_VERSION


def _refuse(rejection: inbound.InboundLadderRejection | None) -> None:
    if rejection is not None:
        raise _REJECTIONS.get(rejection.code, InvalidRequest)(rejection.message, data=rejection.data)


def _require_shape(method: str, params: dict[str, Any]) -> None:
    """Only what policy and routing read; the plugin validates the rest, so that unknown fields pass."""
    if key := inbound.NAME_BEARING_METHODS.get(method):
        if not isinstance(params.get(key), str):
            raise InvalidParams(f"params.{key} must be a string.")
        if not isinstance(params.get("arguments"), dict | None):
            raise InvalidParams("params.arguments must be an object.")
    elif method == "completion/complete":
        if not isinstance(_referenced(params.get("ref")), str):
            raise InvalidParams("params.ref must name a prompt or a resource.")
    elif method in LIST_METHODS and params.get("cursor") is not None:
        raise InvalidParams("This cursor is not valid: lists are answered in one page.")


def _referenced(ref: Any) -> Any:
    kind = ref.get("type") if isinstance(ref, dict) else None
    key = {"ref/prompt": "name", "ref/resource": "uri"}.get(kind) if isinstance(kind, str) else None
    return ref.get(key) if key else None


def _checked(found: Fields) -> tuple[tuple[str, str], ...]:
    if not found:
        return ()
    if len(found) > _MAX_PARAM_HEADERS or sum(len(n) + len(v) for n, v in found) > _MAX_PARAM_HEADER_BYTES:
        raise HeaderMismatch("too many Mcp-Param-* headers")
    if not all(value.isascii() and value.isprintable() for _, value in found):
        raise HeaderMismatch("an Mcp-Param-* header has characters that must be encoded")
    return tuple(found)
