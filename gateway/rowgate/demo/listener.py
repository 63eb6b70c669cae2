"""Listening on loopback, and refusing to listen anywhere else."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from rowgate.errors import StartError

_HEADER_LIMIT = 32 * 1024


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket. Raises StartError for a host that is not a loopback address, before anything is bound.

    A name is not resolved: what it means is somebody else's to decide. Only `localhost` is taken, for 127.0.0.1.
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise StartError(f"The demo listens on a loopback address only, and {host!r} is none.")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        raise StartError(f"The demo cannot listen on {address} port {port}: {error.strerror}.") from None


def origin(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serve(app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    # Tokens grow with app_metadata; the limits are what the gateway itself takes.
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        max_line_size=_HEADER_LIMIT,
        max_field_size=_HEADER_LIMIT,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()
        listening.close()
