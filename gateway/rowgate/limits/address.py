"""Which budget a client address belongs to."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_network
from typing import Final

IPV6_PREFIX: Final = 64
"""What one IPv6 customer gets at least, and can take any address of."""


def address_block(address: str) -> str:
    """IPv4 addresses stand for themselves, and so does whatever is no address."""
    return _ipv6_block(address) if ":" in address else address


@lru_cache(maxsize=4096)
def _ipv6_block(address: str) -> str:
    try:
        return str(ip_network((address, IPV6_PREFIX), strict=False))
    except ValueError:
        return address
