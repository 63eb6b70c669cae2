"""RG3xx: may they."""

from __future__ import annotations

from typing import Any, ClassVar

from mcp_types import jsonrpc as rpc

from rowgate.errors.error import GatewayError


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
