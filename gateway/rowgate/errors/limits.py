"""RG4xx: how often, and how many at once."""

from __future__ import annotations

import math

from rowgate.errors.error import GatewayError
from rowgate.errors.policy import ModelRefusal


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
