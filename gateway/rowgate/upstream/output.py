"""What a plugin's process writes, line by line, as events: bounded in length and in number, and searched for
credentials: a plugin may print anything."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from rowgate.observe.events import Emit, OutputLevel, PluginOutput
from rowgate.observe.redaction import redact

LINE = 4096
"""Characters of one line. The rest of a longer one is left out."""
RATE = 100
"""Lines in a second. What comes beyond is counted only."""
_LEVELS: dict[object, OutputLevel] = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "error",
    "critical": "error",
    "fatal": "error",
}


class Output:
    def __init__(self, plugin: str, emit: Emit, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plugin = plugin
        self._emit = emit
        self._monotonic = monotonic
        self._second = 0.0
        self._lines = 0
        self._dropped = 0

    async def follow(self, descriptor: int) -> None:
        """Read a pipe to its end, and close it."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        pipe = os.fdopen(descriptor, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        try:
            await self.read(reader)
        finally:
            transport.close()

    async def read(self, stream: asyncio.StreamReader) -> None:
        """To the end. It never stops reading, so that no plugin waits for its log."""
        rest = ""
        try:
            # Chunks, not lines: a line may be longer than any buffer.
            while chunk := await stream.read(65536):
                *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
                rest = rest[:LINE]
                for line in lines:
                    self._line(line)
            self._line(rest)
        finally:
            self._settle()

    def _line(self, line: str) -> None:
        line = line[:LINE].rstrip()
        if not line:
            return
        now = self._monotonic()
        if now - self._second >= 1.0:
            self._settle()
            self._second, self._lines = now, 0
        self._lines += 1
        if self._lines > RATE:
            self._dropped += 1
            return
        self._emit(self._event(line))

    def _settle(self) -> None:
        if self._dropped:
            self._emit(PluginOutput(self._plugin, "Lines were left out.", "warning", dropped=self._dropped))
            self._dropped = 0

    def _event(self, line: str) -> PluginOutput:
        """JSON lines, as the plugin library writes them, keep their level and the request that they belong to."""
        members = _members(line) if line.startswith("{") else {}
        message = members.get("message")
        if not isinstance(message, str):
            return PluginOutput(self._plugin, redact(line), "info")
        exception = members.get("exception")
        text = f"{message}\n{exception}" if isinstance(exception, str) else message
        request_id = members.get("request_id")
        level = members.get("level")
        return PluginOutput(
            self._plugin,
            redact(text),
            _LEVELS.get(level.lower() if isinstance(level, str) else None, "info"),
            request_id=request_id if isinstance(request_id, str) else None,
        )


def _members(line: str) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}
