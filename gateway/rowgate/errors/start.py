"""RG9xx: before the first request."""

from __future__ import annotations

from rowgate.errors.error import GatewayError


class ConfigurationError(GatewayError):
    code = "RG901"
    sentence = "The configuration is not valid."
    hint = "`rowgate config validate` lists every problem with its path and line."


class StartError(GatewayError):
    code = "RG902"
    sentence = "The gateway could not start."
    hint = "An address in use, an unreadable key, or a plugin marked `required` that does not answer."
