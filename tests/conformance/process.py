"""A real process whose standard output is read line by line: until it says what a test waits for, and to the end."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tail: deque[str] = deque(maxlen=200)
        self._reading: asyncio.Task[None] | None = None

    @property
    def output(self) -> str:
        return "\n".join(self._tail)

    async def says(self, pattern: str) -> re.Match[str]:
        """The first line that matches. When it does not come, the failure tells everything that was said instead."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while (line := await self._line()) is not None:
                    if found := re.search(pattern, line):
                        return found
        except TimeoutError:
            raise AssertionError(f"the process does not say {pattern!r}:\n{self.output}") from None
        raise AssertionError(f"the process ended before it said {pattern!r}:\n{self.output}")

    def follow(self) -> None:
        """Go on reading, so that the process never waits for its reader."""
        self._reading = asyncio.create_task(self._read())

    async def stop(self) -> int:
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await (self._reading or self._read())
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    async def _read(self) -> None:
        while await self._line() is not None:
            pass

    async def _line(self) -> str | None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            return None
        self._tail.append(line.decode(errors="replace").rstrip())
        return self._tail[-1]


@asynccontextmanager
async def process(*command: str, env: Mapping[str, str]) -> AsyncIterator[Process]:
    it = Process(
        await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=2**20,
        )
    )
    try:
        yield it
    finally:
        await it.stop()
