"""Every refusal the gateway can give, in one tree.

    GatewayError
    ├── RG1xx  edge and protocol     the request itself
    ├── RG2xx  authentication        who calls
    ├── RG3xx  policy                may they
    ├── RG4xx  limits                how often
    ├── RG5xx  upstream              the plugin
    └── RG9xx  configuration, start  before the first request

A code is public API: it is never reused and never changes its meaning. `sentence` may reach a model or a
user, so it names what to do and nothing internal; `hint` is for the operator and stands in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mcp_types import jsonrpc as rpc


class GatewayError(Exception):
    """A refusal with a stable code.

    `detail` goes to the client and is written by the gateway only; `reason` is one word of a bounded set for
    logs and metrics; `data` becomes the JSON-RPC `error.data`.
    """

    code: ClassVar[str] = "RG100"
    status: ClassVar[int] = 500
    rpc_code: ClassVar[int] = rpc.INTERNAL_ERROR
    sentence: ClassVar[str] = "The gateway failed to answer."
    hint: ClassVar[str] = "A defect in the gateway: the log has a traceback under this request id."

    def __init__(
        self,
        detail: str = "",
        *,
        reason: str = "",
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or self.sentence)
        self.detail = detail
        self.reason = reason
        self.data = dict(data) if data else {}
        self.headers = dict(headers) if headers else {}

    @property
    def message(self) -> str:
        return self.detail or self.sentence

    @classmethod
    def urn(cls) -> str:
        """The `type` of its problem document (RFC 9457 §3.1.1)."""
        return f"urn:rowgate:error:{cls.code}"


# --- RG1xx: edge and protocol ------------------------------------------------------------------------------


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
    hint = "It is not offered, not declared in `capabilities`, or hidden from this caller by a role rule."


# RG120 was never raised and stays unused.


class RequestTimeout(GatewayError):
    code = "RG121"
    status = 408
    sentence = "The request body did not arrive in time."
    hint = "`gateway.request.timeout` bounds the time from the headers to the last byte of the body."


# --- RG2xx: authentication ---------------------------------------------------------------------------------


class AuthenticationError(GatewayError):
    """Answered with a challenge (RFC 6750 §3, RFC 9728 §5.1). `oauth_error` is its `error` parameter."""

    status = 401
    oauth_error: ClassVar[str | None] = "invalid_token"


class CredentialsMissing(AuthenticationError):
    code = "RG201"
    sentence = "Sign in to use this server."
    hint = "The request carried no Authorization header. Every client starts here."
    oauth_error = None


class CredentialsMalformed(AuthenticationError):
    code = "RG202"
    sentence = "The Authorization header must be `Bearer` and one token."
    hint = "Another scheme, an empty or doubled token, two Authorization headers, or characters no token has."
    oauth_error = None


class TokenRefused(AuthenticationError):
    code = "RG203"
    sentence = "The access token is not valid for this server."
    hint = "The log line has the reason. `rowgate` never says more to the client."


class TokenExpired(AuthenticationError):
    code = "RG204"
    sentence = "The access token expired."
    hint = "Clients refresh on this answer."


class ApiKeyRefused(AuthenticationError):
    code = "RG205"
    sentence = "The API key is not valid for this server."
    hint = "Unknown, ended, or not 32 characters long. The log line has the reason; the client learns no more."


class SessionOver(AuthenticationError):
    code = "RG206"
    sentence = "The sign-in behind this access token is over; sign in again."
    hint = "`auth.session`: the user signed out, was banned or deleted, or has not confirmed the email address."


class InsufficientAuthentication(AuthenticationError):
    """Answered with a challenge that names what to ask for (RFC 9470 §3)."""

    code = "RG207"
    sentence = "Sign in with a second factor to use this server."
    hint = "`auth.min_aal` asks for more than the token's `aal`. OAuth tokens of Supabase are always aal1."
    oauth_error = "insufficient_user_authentication"

    def __init__(self, level: str) -> None:
        super().__init__(reason="aal")
        self.level = level


class KeysUnavailable(GatewayError):
    code = "RG210"
    status = 503
    sentence = "Sign-in cannot be verified right now; try again."
    hint = "The issuer's key set was never fetched. Check `jwks_url`, and that the issuer publishes keys at all."


class IdentityUnavailable(GatewayError):
    code = "RG211"
    status = 503
    sentence = "Who you are cannot be verified right now; try again."
    hint = "Introspection, the key lookup or Supabase Auth gave no usable answer; the reason says which."


# --- RG3xx: policy -----------------------------------------------------------------------------------------


class InsufficientScope(GatewayError):
    """Answered with a challenge that names every scope the operation needs (RFC 6750 §3.1)."""

    code = "RG301"
    status = 403
    rpc_code = 301
    sentence = "The access token lacks a scope that this operation needs."
    hint = "Clients ask the user again with the scopes of the challenge (step-up)."

    def __init__(self, scopes: tuple[str, ...]) -> None:
        super().__init__(reason="scope", data={"scopes": list(scopes)})
        self.scopes = scopes


class ClientNotAllowed(GatewayError):
    """No new token would mend it, so it is no challenge."""

    code = "RG320"
    status = 403
    rpc_code = 320
    sentence = "This client may not use this server."
    hint = "Its client id is not among `auth.clients`."


# --- RG5xx: upstream ---------------------------------------------------------------------------------------


class UpstreamError(GatewayError):
    """The plugin's fault or absence. Nothing the plugin wrote is in it."""


class PluginUnreachable(UpstreamError):
    code = "RG501"
    status = 502
    rpc_code = 501
    sentence = "The service behind this capability is not reachable; try again later."
    hint = "Connecting to the plugin failed. Check `plugins.*.url` and that the process runs."


class PluginTimeout(UpstreamError):
    code = "RG502"
    status = 504
    rpc_code = 502
    sentence = "The service behind this capability took too long."
    hint = "`plugins.*.timeout` passed without an answer; the call was cancelled."


class PluginProtocolError(UpstreamError):
    code = "RG503"
    status = 502
    rpc_code = 503
    sentence = "The service behind this capability gave an answer that is not MCP."
    hint = "Not JSON-RPC, a foreign id, an unknown resultType, a redirect, or a status that no MCP server gives."


class PluginAnswerTooLarge(UpstreamError):
    code = "RG504"
    status = 502
    rpc_code = 504
    sentence = "The answer is too large; ask for less."
    hint = "`plugins.*.max_answer_bytes` sets the limit of one answer or one event."


class PluginRefusedContext(UpstreamError):
    code = "RG505"
    status = 502
    rpc_code = 505
    sentence = "The service behind this capability does not trust this gateway."
    hint = "The plugin answered 401: its key set, audience or clock does not fit this gateway's context."


class PluginDied(UpstreamError):
    code = "RG506"
    status = 502
    rpc_code = 506
    sentence = "The service behind this capability stopped in the middle of its answer."
    hint = "The connection closed before the result. tools/call is never repeated by the gateway."


class CredentialRefused(AuthenticationError):
    code = "RG507"
    sentence = "The access token expired while it was used."
    hint = "Supabase refused the user's token that the plugin presented; the client refreshes on this answer."


# --- RG9xx: configuration and start ------------------------------------------------------------------------


class ConfigurationError(GatewayError):
    code = "RG901"
    sentence = "The configuration is not valid."
    hint = "`rowgate config validate` lists every problem with its path and line."


class StartError(GatewayError):
    code = "RG902"
    sentence = "The gateway could not start."
    hint = "An address in use, an unreadable key, or a plugin marked `required` that does not answer."
