"""RG5xx: the plugin."""

from __future__ import annotations

from rowgate.errors.authentication import AuthenticationError
from rowgate.errors.error import GatewayError


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
