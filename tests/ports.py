"""Ports for processes that are told theirs."""

from __future__ import annotations

import random
import socket

_GIVEN: set[int] = set()


def free_port() -> int:
    """One that nobody has now, that no other call was given, and that no outgoing connection takes in the meantime:
    below the range from which the system takes those."""
    while True:
        port = random.randrange(20_000, 32_000)
        if port not in _GIVEN and _is_free(port):
            _GIVEN.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
