"""Exchanges over a leg, as the gateway makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rowgate.upstream.leg import Leg, Reply

PLENTY = 30.0


async def post(leg: Leg, body: bytes = b"{}", *, timeout: float = PLENTY) -> Reply:
    return await leg.post({"Content-Type": "application/json"}, body, timeout=timeout)


async def whole(reply: Reply) -> bytes:
    """All of the body; then the exchange is over."""
    try:
        received = reply.received()
        return received if received is not None else b"".join([chunk async for chunk in reply.chunks()])
    finally:
        reply.release()


async def until(condition: Callable[[], bool]) -> None:
    """For what a transport does by itself, which sets no event."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def ask(leg: Leg, body: bytes = b"{}") -> bytes:
    return await whole(await post(leg, body))
