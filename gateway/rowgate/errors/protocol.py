"""RG1xx: the request itself, at the edge and as MCP."""

from __future__ import annotations

from mcp_types import jsonrpc as rpc

from rowgate.errors.error import GatewayError


class NotFound(GatewayError):
    code = "RG101"
    status = 404
    sentence = "Nothing is served at this path."
    hint = "MCP endpoints stand at `servers.*.path`; health and metrics on the internal listener."


class MethodNotAllowed(GatewayError):
    code = "RG102"
    status = 405
    sentence = "This endpoint takes POST."
    hint = "The gateway keeps no session: there is no GET stream to open and no session to DELETE."


class UnsupportedMediaType(GatewayError):
    code = "RG103"
    status = 415
    sentence = "The body must be application/json."
    hint = "Send `Content-Type: application/json`, without a content encoding."


class NotAcceptable(GatewayError):
    code = "RG104"
    status = 406
    sentence = "The client must accept application/json and text/event-stream."
    hint = "MCP Streamable HTTP lets the server choose either for each answer."


class BodyTooLarge(GatewayError):
    code = "RG105"
    status = 413
    sentence = "The request body is larger than this gateway takes."
    hint = "`gateway.request.max_bytes` sets the limit."


class HostNotAllowed(GatewayError):
    code = "RG106"
    status = 421
    sentence = "This gateway does not answer for that host."
    hint = "Allowed are the host of `gateway.public_url` and `gateway.allowed_hosts` (DNS rebinding protection)."


class OriginNotAllowed(GatewayError):
    code = "RG107"
    status = 403
    sentence = "Requests from this web origin are not allowed."
    hint = "Add the origin to `gateway.allowed_origins`."


class MalformedRequest(GatewayError):
    code = "RG108"
    status = 400
    sentence = "The request is not well-formed HTTP."
    hint = "Raised by the HTTP parser or by a path with dot segments, encoded slashes or empty segments."


class HeadersTooLarge(GatewayError):
    code = "RG109"
    status = 431
    sentence = "A request header is larger than this gateway takes."
    hint = "One header line may have 32 KiB. Large tokens usually come from large `app_metadata`."


class ParseError(GatewayError):
    code = "RG110"
    status = 400
    rpc_code = rpc.PARSE_ERROR
    sentence = "The body is not valid I-JSON."
    hint = "RFC 7493: UTF-8, no duplicate keys, finite numbers, no unpaired surrogates; at most 64 levels deep."


class InvalidRequest(GatewayError):
    code = "RG111"
    status = 400
    rpc_code = rpc.INVALID_REQUEST
    sentence = "The body is not a JSON-RPC 2.0 request or notification."
    hint = "One object with jsonrpc, method and, for requests, a string or integer id."


class BatchNotSupported(GatewayError):
    code = "RG112"
    status = 400
    rpc_code = rpc.INVALID_REQUEST
    sentence = "Batch requests are not supported: send one message in each POST."
    hint = "Only revision 2025-03-26 had batches; docs/decisions/0004 says why they are refused."


class InvalidParams(GatewayError):
    code = "RG113"
    status = 400
    rpc_code = rpc.INVALID_PARAMS
    sentence = "The parameters of this request are not valid."
    hint = "Compare the request with the MCP schema of its protocol version."


class HeaderMismatch(GatewayError):
    code = "RG114"
    status = 400
    rpc_code = rpc.HEADER_MISMATCH
    sentence = "The request headers disagree with the body."
    hint = "MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-* must mirror the body (SEP-2243)."


class UnsupportedProtocolVersion(GatewayError):
    code = "RG115"
    status = 400
    rpc_code = rpc.UNSUPPORTED_PROTOCOL_VERSION
    sentence = "This protocol version is not supported."
    hint = "The gateway serves 2026-07-28, 2025-11-25, 2025-06-18 and 2025-03-26."


class MethodNotFound(GatewayError):
    code = "RG116"
    status = 404
    rpc_code = rpc.METHOD_NOT_FOUND
    sentence = "This method does not exist here."
    hint = "Methods that a protocol revision removed, and extensions that no plugin serves, are unknown."


class UnknownCapability(GatewayError):
    """Unknown, undeclared and hidden capabilities are answered with these same bytes."""

    code = "RG118"
    status = 200
    rpc_code = rpc.INVALID_PARAMS
    sentence = "Unknown tool, prompt or resource."
    hint = "It is not offered, not declared in `capabilities`, or hidden by a rule; `rowgate explain` tells."


# RG120 was never raised and stays unused.


class RequestTimeout(GatewayError):
    code = "RG121"
    status = 408
    sentence = "The request body did not arrive in time."
    hint = "`gateway.request.timeout` bounds the time from the headers to the last byte of the body."
