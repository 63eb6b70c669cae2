"""What a scalar of the configuration may be: durations, sizes, addresses, URLs, names and secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

Network = IPv4Network | IPv6Network

NAME = r"^[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?$"
SCOPE = r"^[\x21\x23-\x5b\x5d-\x7e]{1,128}$"  # RFC 6749 §3.3
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)", re.ASCII)
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d{1,12})(B|KiB|MiB|GiB|kB|KB|MB|GB)?", re.ASCII)
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.ASCII)


def refuse(message: str, hint: str = "") -> PydanticCustomError:
    """The error of a validator. The sentence is shown as it stands, so it never repeats the value."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


# --- numbers -----------------------------------------------------------------------------------------------


def whole(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse("must be a whole number")
    return value


def _truth(value: object) -> object:
    # `${NAME}` always gives text, so the two words count; 1, yes and on do not.
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise refuse("must be true or false")
    return value


def parse_duration(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse("must be a duration such as 500ms, 30s, 10m or 24h")
    return float(match[1]) * _DURATION_UNITS[match[2]]


def duration_text(seconds: float) -> str:
    for unit, least in (("d", 2), ("h", 1), ("m", 2), ("s", 1)):
        if seconds % _DURATION_UNITS[unit] == 0 and seconds >= least * _DURATION_UNITS[unit]:
            return f"{int(seconds / _DURATION_UNITS[unit])}{unit}"
    return f"{round(seconds * 1000)}ms" if seconds else "0s"


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse("must be a size such as 512KiB or 4MiB")
    return int(match[1]) * _SIZE_UNITS[match[2] or "B"]


def size_text(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return f"{size}B"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The inclusive bounds of a duration in seconds or of a size in bytes."""

    least: float
    most: float
    text: Any

    def __call__(self, value: float) -> float:
        if not self.least <= value <= self.most:
            raise refuse(f"must be between {self.text(self.least)} and {self.text(self.most)}")
        return value


@dataclass(frozen=True, slots=True)
class Spread:
    """A shortest and a longest duration, in seconds."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{duration_text(self.least)}..{duration_text(self.most)}"


def _spread(value: object) -> Spread:
    if isinstance(value, Spread):
        return value
    least, dots, most = value.partition("..") if isinstance(value, str) else ("", "", "")
    if not dots or not _DURATION.fullmatch(least) or not _DURATION.fullmatch(most):
        raise refuse("must be two durations such as 1s..30s")
    parsed = Spread(parse_duration(least), parse_duration(most))
    if parsed.least > parsed.most:
        raise refuse("must begin with the shorter duration")
    return parsed


@dataclass(frozen=True, slots=True)
class SpreadBounds:
    """The inclusive bounds that both ends of a spread keep."""

    bounds: Bounds

    def __call__(self, value: Spread) -> Spread:
        self.bounds(value.least)
        self.bounds(value.most)
        return value


def spread(least: float, most: float) -> AfterValidator:
    return AfterValidator(SpreadBounds(Bounds(least, most, duration_text)))


def seconds(least: float, most: float) -> AfterValidator:
    return AfterValidator(Bounds(least, most, duration_text))


def size(least: int, most: int) -> AfterValidator:
    return AfterValidator(Bounds(least, most, size_text))


Whole = Annotated[int, BeforeValidator(whole)]
Flag = Annotated[bool, BeforeValidator(_truth)]
Duration = Annotated[
    float,
    PlainValidator(parse_duration),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$"}),
]
"""Seconds. Written as `30s`, `500ms`, `10m`, `24h`; a bare number counts seconds."""
Backoff = Annotated[
    Spread,
    PlainValidator(_spread),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+(ms|s|m|h|d)\.\.[0-9.]+(ms|s|m|h|d)$"}),
]
"""Written as `1s..30s`."""
Size = Annotated[
    int,
    PlainValidator(_size),
    PlainSerializer(size_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\d{1,12}(B|KiB|MiB|GiB|kB|KB|MB|GB)?$"}),
]
"""Bytes. Written as `256KiB`, `1MiB`; a bare number counts bytes."""


# --- text --------------------------------------------------------------------------------------------------


def printable(value: str) -> str:
    if not value.strip():
        raise refuse("must not be blank")
    if any((ord(char) < 32 and char not in "\n\t") or ord(char) == 127 for char in value):
        raise refuse("must not contain control characters")
    return value


def _scope(value: str) -> str:
    if not re.match(SCOPE, value):
        raise refuse("must be a scope: visible ASCII without blanks, quotes and backslashes (RFC 6749 section 3.3)")
    return value


def _name(value: str) -> str:
    if not re.match(NAME, value):
        raise refuse(
            "must be a name of 1 to 32 lower-case letters, digits, - and _",
            "It begins and ends with a letter or digit.",
        )
    return value


Text = Annotated[str, AfterValidator(printable)]
Name = Annotated[str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME})]
ScopeName = Annotated[str, AfterValidator(_scope), WithJsonSchema({"type": "string", "pattern": SCOPE})]


# --- where things are --------------------------------------------------------------------------------------


def is_loopback(host: str | None) -> bool:
    """Whether a URL's host names this machine only. Names other than localhost may resolve anywhere."""
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _split(value: str) -> SplitResult:
    if not re.fullmatch(r"[\x21-\x7e]{1,2048}", value):
        raise refuse("must be a URL of visible ASCII characters")
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        raise refuse("must be a URL") from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise refuse("must be an http or https URL with a host")
    if not value.startswith(("http://", "https://")) or any(char in value for char in '"<>\\^`{|}'):
        raise refuse("must be a URL in its usual form")
    if "@" in url.netloc:
        raise refuse("must not contain a user name or password")
    if "#" in value:
        raise refuse("must not have a fragment")
    return url


def _protected(url: SplitResult) -> None:
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise refuse("must use https", "Clear http is accepted for localhost, 127.0.0.0/8 and [::1] only.")


def _origin_url(value: str) -> str:
    url = _split(value)
    _protected(url)
    if url.path not in ("", "/") or "?" in value:
        raise refuse("must have no path and no query", "Paths stand at `servers.*.path`.")
    if url.netloc != url.netloc.lower() or url.port == {"https": 443, "http": 80}[url.scheme]:
        raise refuse("must be written in lower case and without the default port, as clients send it")
    return f"{url.scheme}://{url.netloc}"


def _base_url(value: str) -> str:
    _protected(url := _split(value))
    if url.query or value.endswith("?"):
        raise refuse("must not have a query")
    return value.rstrip("/")


def _trusted_url(value: str) -> str:
    _protected(_split(value))
    return value


def _plugin_url(value: str) -> str:
    _split(value)
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/") or len(value) > 4096 or any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise refuse("must be an absolute path")
    return value


def _web_origin(value: str) -> str:
    if value == "*":
        raise refuse("must not be *", "Any web page could then call this gateway: list the exact origins.")
    match = _ORIGIN.fullmatch(value)
    if match is None:
        raise refuse(
            "must be a web origin such as https://claude.ai: scheme, lower-case host and port, nothing after them"
        )
    if (value.startswith("https:") and match["port"] == "443") or (value.startswith("http:") and match["port"] == "80"):
        raise refuse("must not name the default port: browsers leave it out of the origin")
    return value


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise refuse("must be a lower-case host or host:port", "Wildcards are not supported.")
    return value


def _network(value: object) -> Network:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        network = ip_network(value) if isinstance(value, str) else None
    except ValueError:
        network = None
    if network is None:
        raise refuse("must be an address or a network such as 10.0.0.0/8", "Host bits after the prefix must be zero.")
    if network.prefixlen < (8 if network.version == 4 else 16):
        raise refuse(
            "must not cover so wide a range",
            "Whoever is trusted here can claim any client address: name your proxies' networks only.",
        )
    return network


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds. Port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ValueError unless `text` is host:port; IPv6 hosts stand in brackets."""
        match = re.fullmatch(r"(\[([0-9a-fA-F:.]+)\]|[A-Za-z0-9._-]+):(\d{1,5})", text, re.ASCII)
        if match is None or int(match[3]) > 65535:
            raise ValueError("not host:port")
        if match[2]:
            ip_address(match[2])
        return cls(match[2] or match[1], int(match[3]))


def _address(value: object) -> Address:
    if isinstance(value, Address):
        return value
    try:
        if isinstance(value, str):
            return Address.parse(value)
    except ValueError:
        pass
    raise refuse("must be host:port, such as 0.0.0.0:8080 or [::]:8080")


PublicUrl = Annotated[str, AfterValidator(_origin_url)]
"""An origin without a final slash: https, or http on loopback."""
BaseUrl = Annotated[str, AfterValidator(_base_url)]
"""https, or http on loopback; final slashes are dropped."""
TrustedUrl = Annotated[str, AfterValidator(_trusted_url)]
"""https, or http on loopback; kept byte for byte."""
PluginUrl = Annotated[str, AfterValidator(_plugin_url)]
"""http or https; kept byte for byte."""
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
WebOrigin = Annotated[str, AfterValidator(_web_origin)]
Host = Annotated[str, AfterValidator(_host)]
Proxies = Annotated[
    Network, PlainValidator(_network), PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string"})
]
Listen = Annotated[
    Address,
    PlainValidator(_address),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\S+:\d{1,5}$"}),
]
