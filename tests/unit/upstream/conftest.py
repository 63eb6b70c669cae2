"""Every test here runs on the loop that the gateway uses and on the one that it falls back to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
