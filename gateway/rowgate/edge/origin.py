"""Host and origin guard (DNS rebinding), and CORS for clients that run in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from multidict import MultiMapping

from rowgate.errors import ConfigurationError, HostNotAllowed, OriginNotAllowed

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
MAX_AGE: Final = "7200"
"""Seconds that a preflight is remembered; no browser keeps one longer."""
REFLECTED: Final = 64
"""`Mcp-Param-*` names that one preflight may ask for."""

_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID"
)
_EXPOSED_HEADERS: Final = "WWW-Authenticate, Retry-After, X-Request-Id, MCP-Protocol-Version"
_DEFAULT_PORTS: Final = MappingProxyType({"http": "80", "https": "443"})
_PARAM_HEADER: Final = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?")


class OriginPolicy:
    """Which `Host` and `Origin` values are ours.

    The port of the public URL's scheme is the same as no port. While the public URL is a loopback name, all loopback
    names are allowed, and web origins on them whatever their port (a browser inspector); hosts with another port only
    if the gateway also listens on loopback.
    """

    def __init__(
        self,
        public_url: str,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        listen_is_loopback: bool = False,
    ) -> None:
        url = urlsplit(public_url)
        port = _DEFAULT_PORTS.get(url.scheme, "")
        public_host = url.netloc.lower()
        loopback = _name(public_host) in LOOPBACK
        self._any_loopback_origin = loopback
        self._any_loopback_port = loopback and listen_is_loopback
        hosts = [public_host, *(host.lower() for host in allowed_hosts)]
        if loopback:
            hosts += [name + public_host.removeprefix(_name(public_host)) for name in LOOPBACK]
        self._hosts = frozenset(spelling for host in hosts for spelling in _spellings(host, port))
        self._answers = {
            origin: _answer(origin) for origin in map(_canonical, [f"{url.scheme}://{url.netloc}", *allowed_origins])
        }

    def check(self, headers: MultiMapping[str]) -> str | None:
        """The request's origin, if it names one. Raises HostNotAllowed or OriginNotAllowed."""
        self.check_host(headers)
        return self.check_origin(headers)

    def check_host(self, headers: MultiMapping[str]) -> None:
        given = headers.getall("Host", ())
        if len(given) != 1:
            raise HostNotAllowed(reason="host_missing" if not given else "host_repeated")
        host = given[0].lower()
        if host not in self._hosts and not (self._any_loopback_port and _is_loopback(_HOST.fullmatch(host), 1)):
            raise HostNotAllowed(reason="host")

    def check_origin(self, headers: MultiMapping[str]) -> str | None:
        given = headers.getall("Origin", ())
        if not given:
            return None
        if len(given) > 1:
            raise OriginNotAllowed(reason="origin_repeated")
        if not self._allows(given[0]):
            raise OriginNotAllowed(reason="origin")
        return given[0]

    def preflight(self, headers: MultiMapping[str]) -> dict[str, str]:
        """The headers of the 204 that answers OPTIONS on an endpoint. It comes before authentication: a preflight
        carries no credentials (Fetch, section 3.3.5). Raises as `check` does."""
        origin = self.check(headers)
        if origin is None:
            return {"Allow": "POST, OPTIONS", "Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST, OPTIONS",
            "Access-Control-Allow-Headers": ", ".join([_ALLOWED_HEADERS, *_param_headers(headers)]),
            "Access-Control-Max-Age": MAX_AGE,
            "Vary": "Origin, Access-Control-Request-Headers",
        }

    def response_headers(self, origin: str | None) -> Mapping[str, str]:
        """What every answer of an endpoint carries, errors included: a browser hides an answer that does not name
        its origin, and with it the challenge."""
        if origin is None or not self._allows(origin):
            return _CLOSED
        return self._answers.get(origin) or _answer(origin)

    def _allows(self, origin: str) -> bool:
        return origin in self._answers or (self._any_loopback_origin and _is_loopback(_ORIGIN.fullmatch(origin), 2))


_CLOSED: Final[Mapping[str, str]] = MappingProxyType({"Vary": "Origin"})


def _answer(origin: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": _EXPOSED_HEADERS,
            "Vary": "Origin",
        }
    )


def _canonical(origin: str) -> str:
    """As browsers serialise it (RFC 6454 §6.2): lower case, without the scheme's own port."""
    match = _ORIGIN.fullmatch(origin.lower())
    if match is None:
        raise ConfigurationError(f"{origin!r} is not a web origin (scheme://host or scheme://host:port).")
    scheme, host, port = match.groups()
    return f"{scheme}://{host}" if port in (None, _DEFAULT_PORTS[scheme]) else f"{scheme}://{host}:{port}"


def _spellings(host: str, default_port: str) -> tuple[str, ...]:
    if host == _name(host):
        return host, f"{host}:{default_port}"
    return (host, _name(host)) if host.endswith(f":{default_port}") else (host,)


def _name(host: str) -> str:
    """The host without its port; brackets stay."""
    match = _HOST.fullmatch(host)
    if match is None:
        raise ConfigurationError(f"{host!r} is not a host or host:port.")
    return match[1]


def _is_loopback(match: re.Match[str] | None, group: int) -> bool:
    return match is not None and match[group] in LOOPBACK


def _param_headers(headers: MultiMapping[str]) -> list[str]:
    """`Mcp-Param-*` names come from tool schemas, so a browser's are let through by their form."""
    asked = ",".join(headers.getall("Access-Control-Request-Headers", ())).lower().split(",")
    names = dict.fromkeys(name for name in map(str.strip, asked) if _PARAM_HEADER.fullmatch(name))
    return list(names)[:REFLECTED]
