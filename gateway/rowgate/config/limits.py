"""How often, and how many at once: the sections that set limits, and the values in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from rowgate.config.secret import SECRET_SCHEMA, Secret, resolve
from rowgate.config.section import Section
from rowgate.config.values import Duration, Whole, refuse, seconds, whole

NONE = "none"
"""How a file says that there is no limit."""
MAX_AMOUNT = 1_000_000
MAX_PERIOD = 86_400
_RATE = r"[0-9]{1,7} ?(/|per) ?([0-9]{1,4} ?)?(second|minute|hour|day)s?"
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_STORE = r"memory|(rediss?|postgresql)://\S+"


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in so many seconds."""

    amount: int
    period: int

    def __str__(self) -> str:
        size, unit = next((size, unit) for size, unit in _UNITS if self.period % size == 0)
        multiple = self.period // size
        return f"{self.amount}/{unit}" if multiple == 1 else f"{self.amount}/{multiple} {unit}s"


def _rate(value: object) -> Rate:
    if isinstance(value, Rate):
        return value
    if not isinstance(value, str) or not re.fullmatch(_RATE, value, re.ASCII):
        raise refuse("must be a rate such as 60/minute, 5/second or 100/2 hours", "One rate for each limit.")
    # Here, because the library takes longer to import than the rest of the configuration together.
    from limits import parse

    item = parse(value)
    rate = Rate(item.amount, item.get_expiry())
    if not 1 <= rate.amount <= MAX_AMOUNT or not 1 <= rate.period <= MAX_PERIOD:
        raise refuse(f"must be a rate of 1 to {MAX_AMOUNT} in at most a day")
    return rate


def _count(value: object) -> int:
    number = whole(value)
    if not isinstance(number, int) or not 1 <= number <= MAX_AMOUNT:
        raise refuse(f"must be between 1 and {MAX_AMOUNT}")
    return number


def _spelt(value: object) -> object:
    return NONE if value is None else str(value) if isinstance(value, Rate) else value


LimitRate = Annotated[
    Rate | None,
    PlainValidator(lambda value: None if value == NONE else _rate(value)),
    PlainSerializer(_spelt, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^({NONE}|{_RATE})$"}),
]
"""A rate in the grammar of the library `limits`, `60/minute`, `5 per second`, `100/2 hours`, or `none`."""
Count = Annotated[
    int | None,
    PlainValidator(lambda value: None if value == NONE else _count(value)),
    PlainSerializer(_spelt, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_AMOUNT}, {"const": NONE}]}),
]
"""A whole number from 1, or `none`."""


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Where counters are kept. `url` may hold a password, so only `shown` is ever printed."""

    kind: Literal["memory", "redis", "postgresql"]
    url: str = field(default="", repr=False)
    shown: Any = "memory"


def _store(value: object, info: ValidationInfo) -> StoreUrl:
    if isinstance(value, StoreUrl):
        return value
    if isinstance(value, str):
        if _is_url(value) and _has_password(value):
            raise refuse("must not hold a password", "Write {env: NAME} or {file: PATH} for the whole URL.")
        return _located(value, value)
    secret: Secret = resolve(value, info)
    return _located(secret.reveal().strip(), secret.origin())


def _is_url(value: str) -> bool:
    try:
        return bool(re.fullmatch(_STORE, value, re.ASCII)) and urlsplit(value).port != 0
    except ValueError:
        return False


def _has_password(value: str) -> bool:
    url = urlsplit(value)
    return url.password is not None or "password" in parse_qs(url.query, keep_blank_values=True)


def _located(value: str, shown: Any) -> StoreUrl:
    if value == "memory":
        return StoreUrl("memory", shown=shown)
    if not _is_url(value):
        raise refuse("must be memory, or a URL that begins with redis://, rediss:// or postgresql://")
    return StoreUrl("postgresql" if value.startswith("postgresql") else "redis", value, shown)


CounterStore = Annotated[
    StoreUrl,
    PlainValidator(_store),
    PlainSerializer(lambda store: store.shown, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": f"^({_STORE})$"}, SECRET_SCHEMA]}),
]
"""`memory`, a URL of Redis or PostgreSQL without a password, or a secret that holds one with it."""


class GatewayLimits(Section):
    """Limits that hold for the gateway as a whole, and what their store may do to a request."""

    failed_authentications: LimitRate = Field(
        None,
        description="Refused credentials that one client address may present; further ones are answered 429, good "
        "ones never are.",
    )
    on_store_error: Literal["open", "closed"] = Field(
        "open", description="Whether requests pass uncounted or are answered 503 while limits_store fails."
    )
    store_timeout: Annotated[Duration, seconds(0.01, 10)] = Field(
        0.2, description="How long a request may wait for limits_store before it counts as failed."
    )


class ServerLimits(Section):
    """How often callers may ask this server, and how much at once. Each is off unless it is set."""

    address: LimitRate = Field(
        None,
        description="Requests of one client address (an IPv6 /64 counts as one); keep it wide, because hosted clients "
        "share addresses.",
    )
    subject: LimitRate = Field(None, description="Tool calls of one caller; a call counts as often as it costs.")
    lists: LimitRate = Field(
        default_factory=lambda data: data.get("subject"),
        description="Lists, discover and initialize of one caller; by default as many as subject, counted apart.",
    )
    reads: LimitRate = Field(
        default_factory=lambda data: data.get("subject"),
        description="Resources, prompts and completions that one caller reads; by default as many as subject, counted "
        "apart.",
    )
    concurrency: Count = Field(
        None, description="Calls and reads of one caller that may run at once in one gateway process."
    )
    streams: Count = Field(
        None, description="Event streams that one caller may have open at once in one gateway process."
    )


class EntryLimits(Section):
    """How often one caller may use each capability of an entry."""

    subject: LimitRate = Field(None, description="Uses of each of these capabilities by one caller.")
    cost: Annotated[Whole, Field(ge=1, le=10_000)] = Field(
        1, description="How much one call takes from the server's limits.subject."
    )

    @property
    def counts(self) -> bool:
        return self.subject is not None or self.cost > 1
