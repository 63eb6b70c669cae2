"""Every test here runs on the loop that the gateway uses and on the one that it falls back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop

from rowgate.upstream.pooled import PooledLeg
from unit.upstream.exchanges import PLENTY
from unit.upstream.rude_server import RudeServer, Script, rude_server


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
def start(stack: AsyncExitStack) -> Callable[..., Any]:
    async def run(script: Script, **settings: Any) -> tuple[RudeServer, PooledLeg]:
        server = await stack.enter_async_context(rude_server(script))
        leg = PooledLeg(server.url, **{"max_connections": 8, "connect_timeout": PLENTY, **settings})
        stack.push_async_callback(leg.close)
        return server, leg

    return run
