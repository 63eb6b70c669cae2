"""Who is at the other end: the client's address and the request's id, past the proxies that are trusted."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from multidict import MultiMapping

IPNetwork = IPv4Network | IPv6Network
IPAddress = IPv4Address | IPv6Address

UNIX = "unix"
"""The address of a peer on a Unix socket: a local proxy, trusted as soon as any proxy is."""

# Proxies write addresses bare, in brackets, and (some) with the port they saw. A zone (fe80::1%eth0) is free text.
_ENTRY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15}))(?::[0-9]{1,5})?|([0-9A-Fa-f:.]{2,45})")
# Short enough that the log does not take it for key material.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,39}")

mint_request_id: Callable[[], str] = partial(secrets.token_hex, 16)


def client_address(peer: str | None, headers: MultiMapping[str], trusted: Sequence[IPNetwork]) -> str:
    """The nearest address that is not a trusted proxy's.

    `X-Forwarded-For` is read from the right, because everything left of the first untrusted address is the client's
    own writing. An entry that is no address ends the walk at the proxy that passed it on.
    """
    if not trusted and peer and peer[0].isdigit() and ":" not in peer:
        return peer  # an IPv4 address as the socket gave it: nothing to decide
    if not trusted:
        return _peer_text(peer)
    address = _peer(peer)
    if not _is_trusted(address, trusted):
        return str(address)
    for entry in reversed(",".join(headers.getall("X-Forwarded-For", ())).split(",")):
        forwarded = _address(entry)
        if forwarded is None:
            break
        address = forwarded
        if not _is_trusted(address, trusted):
            break
    return str(address)


def request_id(
    peer: str | None,
    headers: MultiMapping[str],
    trusted: Sequence[IPNetwork],
    mint: Callable[[], str] = mint_request_id,
) -> str:
    """A trusted proxy's `X-Request-Id` if there is one and it is sane, else a new one of 128 random bits."""
    if trusted and _is_trusted(_peer(peer), trusted):
        given = headers.getall("X-Request-Id", ())
        if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
            return given[0]
    return mint()


@lru_cache(maxsize=4096)
def _peer_text(peer: str | None) -> str:
    return str(_peer(peer))


def _peer(peer: str | None) -> IPAddress | str:
    if not peer or peer.startswith(("/", "@", "\0")):
        return UNIX
    try:
        return _unmapped(ip_address(peer))
    except ValueError:
        return "unknown"


def _address(entry: str) -> IPAddress | None:
    match = _ENTRY.fullmatch(entry.strip(" \t"))
    if match is None:
        return None
    try:
        return _unmapped(ip_address(match[1] or match[2] or match[3]))
    except ValueError:
        return None


def _unmapped(address: IPAddress) -> IPAddress:
    """A dual-stack socket shows IPv4 peers as ::ffff:192.0.2.1; one client must not have two names."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _is_trusted(address: IPAddress | str, trusted: Sequence[IPNetwork]) -> bool:
    if isinstance(address, str):
        return address == UNIX and bool(trusted)
    return any(address in network for network in trusted)
