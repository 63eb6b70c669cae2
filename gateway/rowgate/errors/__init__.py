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

from rowgate.errors.authentication import (
    ApiKeyRefused,
    AuthenticationError,
    CredentialsMalformed,
    CredentialsMissing,
    IdentityUnavailable,
    InsufficientAuthentication,
    KeysUnavailable,
    SessionOver,
    TokenExpired,
    TokenRefused,
)
from rowgate.errors.error import GatewayError
from rowgate.errors.limits import (
    AddressLimitReached,
    CallerLimitReached,
    CapabilityLimitReached,
    LimitReached,
    LimitsUnavailable,
    PluginBusy,
    SubjectLimitReached,
    TooManyAtOnce,
    TooManyFailures,
    TooManyStreams,
)
from rowgate.errors.policy import (
    ApprovalRequired,
    ArgumentsRefused,
    AssuranceTooLow,
    AuthorizerFailed,
    ClientNotAllowed,
    HookFailed,
    InsufficientScope,
    ModelRefusal,
    PermissionDenied,
    PolicyError,
    RefusedByHook,
    ScopeNotGranted,
    ScopesUnavailable,
)
from rowgate.errors.protocol import (
    BatchNotSupported,
    BodyTooLarge,
    HeaderMismatch,
    HeadersTooLarge,
    HostNotAllowed,
    InvalidParams,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    MethodNotFound,
    NotAcceptable,
    NotFound,
    OriginNotAllowed,
    ParseError,
    RequestTimeout,
    UnknownCapability,
    UnsupportedMediaType,
    UnsupportedProtocolVersion,
)
from rowgate.errors.start import (
    ConfigurationError,
    StartError,
)
from rowgate.errors.upstream import (
    CredentialRefused,
    PluginAnswerTooLarge,
    PluginDied,
    PluginProtocolError,
    PluginRefusedContext,
    PluginSocketForeign,
    PluginTimeout,
    PluginUnreachable,
    UpstreamError,
)

__all__ = [
    "AddressLimitReached",
    "ApiKeyRefused",
    "ApprovalRequired",
    "ArgumentsRefused",
    "AssuranceTooLow",
    "AuthenticationError",
    "AuthorizerFailed",
    "BatchNotSupported",
    "BodyTooLarge",
    "CallerLimitReached",
    "CapabilityLimitReached",
    "ClientNotAllowed",
    "ConfigurationError",
    "CredentialRefused",
    "CredentialsMalformed",
    "CredentialsMissing",
    "GatewayError",
    "HeaderMismatch",
    "HeadersTooLarge",
    "HookFailed",
    "HostNotAllowed",
    "IdentityUnavailable",
    "InsufficientAuthentication",
    "InsufficientScope",
    "InvalidParams",
    "InvalidRequest",
    "KeysUnavailable",
    "LimitReached",
    "LimitsUnavailable",
    "MalformedRequest",
    "MethodNotAllowed",
    "MethodNotFound",
    "ModelRefusal",
    "NotAcceptable",
    "NotFound",
    "OriginNotAllowed",
    "ParseError",
    "PermissionDenied",
    "PluginAnswerTooLarge",
    "PluginBusy",
    "PluginDied",
    "PluginProtocolError",
    "PluginRefusedContext",
    "PluginSocketForeign",
    "PluginTimeout",
    "PluginUnreachable",
    "PolicyError",
    "RefusedByHook",
    "RequestTimeout",
    "ScopeNotGranted",
    "ScopesUnavailable",
    "SessionOver",
    "StartError",
    "SubjectLimitReached",
    "TokenExpired",
    "TokenRefused",
    "TooManyAtOnce",
    "TooManyFailures",
    "TooManyStreams",
    "UnknownCapability",
    "UnsupportedMediaType",
    "UnsupportedProtocolVersion",
    "UpstreamError",
]
