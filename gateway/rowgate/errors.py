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

import math
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

    def __init__(self, level: str = "aal2") -> None:
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


class ModelRefusal(GatewayError):
    """A refusal that the model should read and act on.

    A `tools/call` is answered with a tool error that has `kind` and `word` in it (HTTP 200, `isError`), because clients
    hide the bodies of other answers from the model; every other method with a JSON-RPC error."""

    status = 200
    kind: ClassVar[str] = "forbidden"
    word: ClassVar[str] = "FORBIDDEN"

    @property
    def structured(self) -> dict[str, Any]:
        return {"kind": self.kind, "code": self.word, **self.data}


class PolicyError(GatewayError):
    """The caller is known, and may not."""


class InsufficientScope(PolicyError):
    """Answered with a challenge that names every scope the operation needs (RFC 6750 §3.1)."""

    code = "RG301"
    status = 403
    rpc_code = 301
    sentence = "The access token lacks a scope that this operation needs."
    hint = "Clients ask the user again with the scopes of the challenge (step-up)."

    def __init__(self, scopes: tuple[str, ...]) -> None:
        super().__init__(reason="scope", data={"scopes": list(scopes)})
        self.scopes = scopes


class ScopeNotGranted(ModelRefusal, PolicyError):
    """Never a challenge: the scope comes from the application's grants, and no new token would bring it."""

    code = "RG311"
    rpc_code = 311
    word = "SCOPE_NOT_GRANTED"
    sentence = "The user has not granted this client what it needs for this."
    hint = "`servers.*.scopes.source` reads scopes from the application's grants; `grant_url` names where to give one."

    def __init__(self, scopes: tuple[str, ...] = (), grant_url: str | None = None) -> None:
        where = f" The user can allow it at {grant_url}" if grant_url else ""
        detail = f"The user has not granted this client: {' '.join(scopes)}.{where}" if scopes else ""
        data = {"scopes": list(scopes), **({"grant_url": grant_url} if grant_url else {})}
        super().__init__(detail, reason="grant", data=data)


class AssuranceTooLow(ModelRefusal, PolicyError):
    code = "RG303"
    rpc_code = 303
    word = "STRONGER_SIGN_IN_NEEDED"
    sentence = "This needs a sign-in with a second factor, which this session does not have."
    hint = "`require.aal`. OAuth tokens of Supabase are always aal1: no step-up of a client can mend it."

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail, reason="aal")


class PermissionDenied(ModelRefusal, PolicyError):
    code = "RG304"
    rpc_code = 304
    word = "PERMISSION_DENIED"
    sentence = "The application does not permit this to the user."
    hint = "The server's authorizer said no to the permission that `require.permission` names."

    def __init__(self, permission: str = "") -> None:
        super().__init__(reason="permission", data={"permission": permission} if permission else None)


class ApprovalRequired(ModelRefusal, PolicyError):
    code = "RG305"
    rpc_code = 305
    word = "APPROVAL_REQUIRED"
    sentence = "The application wants somebody to approve this first."
    hint = "The server's authorizer answered APPROVAL_REQUIRED for the permission that `require.permission` names."

    def __init__(self, permission: str = "") -> None:
        super().__init__(reason="approval", data={"permission": permission} if permission else None)


class AuthorizerFailed(ModelRefusal, PolicyError):
    """No answer is a no."""

    code = "RG306"
    rpc_code = 306
    kind = "unavailable"
    word = "PERMISSION_UNKNOWN"
    sentence = "Whether this is permitted cannot be found out right now; try again later."
    hint = "`servers.*.authorizer` did not answer, or not as it has to: the log line has the reason."

    def __init__(self, permission: str = "", *, reason: str = "authorizer") -> None:
        super().__init__(reason=reason, data={"permission": permission} if permission else None)


class ArgumentsRefused(ModelRefusal):
    """MCP 2025-11-25 and later: what is wrong with arguments is a tool error, so that the model can correct it."""

    code = "RG307"
    rpc_code = rpc.INVALID_PARAMS
    kind = "invalid_arguments"
    word = "INVALID_ARGUMENTS"
    sentence = "The arguments do not fit the input schema of this tool."
    hint = "Validated before an authorizer or a hook judges them; where there is neither, the plugin validates."


class RefusedByHook(ModelRefusal, PolicyError):
    """The sentence and the word are those of the hook."""

    code = "RG308"
    rpc_code = 308
    sentence = "This server's own rules do not allow this."
    hint = "The hook that `servers.*.policy.hook` names returned a denial."

    def __init__(self, detail: str = "", denied_as: str = "") -> None:
        super().__init__(detail, reason="hook", data={"code": denied_as} if denied_as else None)


class HookFailed(ModelRefusal, PolicyError):
    """An exception in a hook fails the call closed."""

    code = "RG309"
    rpc_code = 309
    kind = "unavailable"
    word = "RULES_FAILED"
    sentence = "This server's own rules could not be applied; try again later."
    hint = "The hook that `servers.*.policy.hook` names raised an exception: the log has a traceback."

    def __init__(self) -> None:
        super().__init__(reason="hook_failed")


class ScopesUnavailable(PolicyError):
    """Scopes come from a function, and it gave none: nobody is let in on a guess."""

    code = "RG310"
    status = 503
    rpc_code = 310
    sentence = "What the user granted cannot be read right now; try again."
    hint = "The function of `servers.*.scopes.function` failed, is not granted to users, or gave no list of text."

    def __init__(self, reason: str = "grants") -> None:
        super().__init__(reason=reason, headers={"Retry-After": "2"})


class ClientNotAllowed(PolicyError):
    """No new token would mend it, so it is no challenge."""

    code = "RG320"
    status = 403
    rpc_code = 320
    sentence = "This client may not use this server."
    hint = "Its client id is not among `auth.clients`."


# --- RG4xx: limits -----------------------------------------------------------------------------------------


class LimitReached(GatewayError):
    """Refused for now. `retry_after`: whole seconds after which it is worth trying again, at least 1."""

    status = 429

    def __init__(self, limit: str = "", wait: float = 1.0) -> None:
        """`limit` is the reason: the setting that was reached. `wait`: seconds."""
        self.retry_after = max(1, math.ceil(wait))
        seconds = f"{self.retry_after} second{'s' * (self.retry_after != 1)}"
        super().__init__(
            f"{self.sentence} Try again in {seconds}.",
            reason=limit,
            data={"retry_after": self.retry_after},
            headers={"Retry-After": str(self.retry_after)},
        )


class CallerLimitReached(LimitReached, ModelRefusal):
    """A limit of one caller: on a `tools/call` the model reads it and waits."""

    kind = "limited"
    word = "LIMIT_REACHED"
    status = 429


class AddressLimitReached(LimitReached):
    code = "RG401"
    rpc_code = 401
    sentence = "Too many requests came from this network address."
    hint = "`servers.*.limits.address`. Hosted clients share addresses: keep it wide, and limit subjects instead."


class SubjectLimitReached(CallerLimitReached):
    code = "RG402"
    rpc_code = 402
    sentence = "You have used this server as often as you may for now."
    hint = "`servers.*.limits`: subject for calls, lists for lists, reads for resources and prompts."


class CapabilityLimitReached(CallerLimitReached):
    code = "RG403"
    rpc_code = 403
    sentence = "You have used this tool, prompt or resource as often as you may for now."
    hint = "`limits.subject` of the entry in `servers.*.capabilities`."


class TooManyAtOnce(CallerLimitReached):
    code = "RG404"
    rpc_code = 404
    sentence = "Too many of your calls are running at once: wait for one to end."
    hint = "`servers.*.limits.concurrency`, counted in each gateway process."


class TooManyStreams(CallerLimitReached):
    code = "RG405"
    rpc_code = 405
    sentence = "Too many of your event streams are open at once; this call was cancelled."
    hint = "`servers.*.limits.streams`, counted in each process. A call streams once its plugin reports progress."


class PluginBusy(CallerLimitReached):
    code = "RG406"
    status = 503
    rpc_code = 406
    word = "BUSY"
    sentence = "The service behind this capability is busy."
    hint = "`plugins.*.concurrency`, counted in each gateway process. Nothing is queued."


class TooManyFailures(LimitReached):
    code = "RG407"
    rpc_code = 407
    sentence = "Too many refused credentials came from this network address."
    hint = "`gateway.limits.failed_authentications`. Good credentials from the same address are still accepted."


class LimitsUnavailable(LimitReached):
    code = "RG410"
    status = 503
    rpc_code = 410
    sentence = "Requests cannot be counted right now."
    hint = "`gateway.limits_store` failed, and `gateway.limits.on_store_error` is closed."

    def __init__(self) -> None:
        super().__init__("store")


# --- RG5xx: upstream ---------------------------------------------------------------------------------------


class UpstreamError(GatewayError):
    """The plugin's fault or absence. Nothing the plugin wrote is in it."""


class PluginUnreachable(UpstreamError):
    code = "RG501"
    status = 502
    rpc_code = 501
    sentence = "The service behind this capability is not reachable; try again later."
    hint = "Connecting to the plugin failed. Check how `plugins.*` says to reach it, and that the process runs."


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


class PluginSocketForeign(UpstreamError):
    code = "RG508"
    status = 502
    rpc_code = 508
    sentence = "The service behind this capability is not the one that should be there."
    hint = "Another user listens on the plugin's Unix socket: see `plugins.*.socket_owner`, and who may write there."


# --- RG9xx: configuration and start ------------------------------------------------------------------------


class ConfigurationError(GatewayError):
    code = "RG901"
    sentence = "The configuration is not valid."
    hint = "`rowgate config validate` lists every problem with its path and line."


class StartError(GatewayError):
    code = "RG902"
    sentence = "The gateway could not start."
    hint = "An address in use, an unreadable key, or a plugin marked `required` that does not answer."
