"""From what was decided to the JSON-RPC message or problem document that says it, in the caller's era."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import jsonrpc as rpc

from rowgate.errors import GatewayError, ModelRefusal
from rowgate.protocol import ijson, legacy
from rowgate.protocol.answers import ServerIdentity, identified
from rowgate.protocol.call import Call, Era

JSON = "application/json"
PROBLEM = "application/problem+json"

# What a plugin's own JSON-RPC error means in HTTP; the protocol fixes only these two (MCP 2026-07-28, transports).
# Everything else rides on 200, the one status under which every client shows the error to its user.
_STATUS_OF_CODE = {rpc.METHOD_NOT_FOUND: 404, rpc.MISSING_REQUIRED_CLIENT_CAPABILITY: 400}

_HTTP = frozenset({401, 403, 429, 503})
"""Said in HTTP to legacy callers too: what lies between them and the gateway acts on these."""

_MALFORMED = frozenset({"RG110", "RG111", "RG112", "RG114", "RG115"})
"""Refused before routing, so a 400 for legacy callers too; their later JSON-RPC errors ride on 200."""


def result_message(
    call: Call, result: dict[str, Any], server: ServerIdentity, definition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`definition` is the tool that a `tools/call` was for."""
    if call.modern:
        result.setdefault("resultType", "complete")
        return _response(call.id, result=identified(result, server))
    if result.get("resultType") == "input_required":
        return _needs_modern_client(call)
    return _response(call.id, result=legacy.downgrade_result(call.method, result, call.version, definition))


def plugin_error_message(call: Call, error: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """HTTP status and message of a JSON-RPC error that a plugin gave."""
    if call.modern:
        return _STATUS_OF_CODE.get(error["code"], 200), _response(call.id, error=error)
    if error["code"] == rpc.MISSING_REQUIRED_CLIENT_CAPABILITY:
        return 200, _needs_modern_client(call)
    return 200, _response(call.id, error={**error, "code": legacy.downgrade_code(error["code"])})


def refused_call(
    call: Call,
    error: GatewayError,
    request_id: str,
    server: ServerIdentity,
    definition: Mapping[str, Any] | None,
    **meta: Any,
) -> dict[str, Any]:
    """A refusal as the result of a `tools/call`, which is what clients show to the model."""
    named = error.structured if isinstance(error, ModelRefusal) else dict(error.data)
    result = legacy.tool_error(error.message)
    if isinstance(error, ModelRefusal) and definition is not None and "outputSchema" not in definition:
        # Clients hold structured content to the tool's own schema, even where it says that something failed.
        result["structuredContent"] = dict(named)
    result["_meta"] = {"rowgate/error": {**named, "error": error.code, "requestId": request_id}, **meta}
    if "retry_after" in named:
        result["_meta"]["rowgate/retry_after"] = named["retry_after"]
    return result_message(call, result, server, definition)


def error_message(error: GatewayError, request_id: str, rpc_id: str | int | None, era: Era | None) -> dict[str, Any]:
    code = error.rpc_code if era != "legacy" else legacy.downgrade_code(error.rpc_code)
    data = {**error.data, "code": error.code, "requestId": request_id}
    return _response(rpc_id, error={"code": code, "message": error.message, "data": data})


def error_status(error: GatewayError, era: Era | None) -> int:
    if era == "legacy" and error.code not in _MALFORMED and error.status not in _HTTP:
        return 200
    return error.status


def problem(error: GatewayError, request_id: str) -> bytes:
    """RFC 9457, with OAuth's own members where the error is OAuth's (RFC 6750 §3)."""
    oauth_error = getattr(error, "oauth_error", None)
    return ijson.dumps(
        {
            "type": error.urn(),
            "title": error.sentence,
            "status": error.status,
            "detail": error.message,
            "code": error.code,
            "request_id": request_id,
            **({"error": oauth_error, "error_description": error.message} if oauth_error else {}),
        }
    )


def _response(rpc_id: str | int | None, **member: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, **member}


def _needs_modern_client(call: Call) -> dict[str, Any]:
    if call.method == "tools/call":
        return _response(call.id, result=legacy.tool_error(legacy.NEEDS_MODERN_CLIENT))
    return _response(call.id, error={"code": rpc.INVALID_REQUEST, "message": legacy.NEEDS_MODERN_CLIENT})
