"""The real gateway, `python -m rowgate serve`, run by the interpreter that ROWGATE_PYTHON names.

The default is the interpreter of the tests; that of an environment with the installed wheel puts the wheel to the
test instead. The process starts in a directory of its own with an environment of its own, so that it imports nothing
of a checkout that is not installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import yaml

T = TypeVar("T")

PYTHON = os.environ.get("ROWGATE_PYTHON", sys.executable)
PATIENCE = 30.0
"""Seconds after which a test gives up on what should happen in a moment."""


def environment(**more: str) -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | more


async def until(probe: Callable[[], Awaitable[T | None]], *, within: float = PATIENCE) -> T:
    """Ask again and again until the answer is not None."""
    async with asyncio.timeout(within):
        while (found := await probe()) is None:  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(0.02)
    return found


@dataclass
class Finished:
    code: int
    stdout: str
    stderr: str


async def rowgate(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Finished:
    """A command that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        PYTHON,
        "-m",
        "rowgate",
        *arguments,
        cwd=cwd,
        env=environment() if env is None else dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return Finished(process.returncode, stdout.decode(), stderr.decode())


@dataclass
class Gateway:
    process: asyncio.subprocess.Process
    session: aiohttp.ClientSession
    public_url: str
    internal_url: str
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    _said: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"{self.public_url}/mcp"

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.public_url.removeprefix("http://").partition(":")
        return host, int(port)

    async def logged(self, **fields: Any) -> dict[str, Any]:
        """The first line with these fields, once it is there."""

        def found() -> dict[str, Any] | None:
            return next((line for line in self.log if fields.items() <= line.items()), None)

        async with asyncio.timeout(PATIENCE), self._said:
            await self._said.wait_for(found)
        line = found()
        assert line is not None
        return line

    async def readiness(self) -> tuple[int, dict[str, Any]]:
        async with self.session.get(f"{self.internal_url}/readyz") as answer:
            return answer.status, await answer.json()

    async def alive(self) -> None:
        """Until the internal listener answers; ready or not."""
        await until(self._alive)

    async def ready(self) -> None:
        await until(self._ready)

    async def refuses(self) -> None:
        """Until nobody can connect to the public listener any more."""

        async def attempt() -> bool | None:
            try:
                _, writer = await asyncio.open_connection(*self.address)
            except ConnectionRefusedError:
                return True
            writer.close()
            return None

        await until(attempt)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exits(self, *, within: float = PATIENCE) -> int:
        """The exit code. What was written is complete then."""
        async with asyncio.timeout(within):
            code = await self.process.wait()
            async with self._said:
                await self._said.wait_for(lambda: self._ended == 2)
        return code

    async def stop(self) -> int:
        self.send(signal.SIGTERM)
        return await self.exits()

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident(self) -> int:
        """Bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def loaded(self, name: str) -> bool:
        """Whether a compiled module is in the process."""
        return name in Path(f"/proc/{self.pid}/maps").read_text()

    async def _alive(self) -> bool | None:
        self._assert_running()
        try:
            async with self.session.get(f"{self.internal_url}/healthz") as answer:
                return True if answer.status == 200 else None
        except aiohttp.ClientConnectionError:
            return None

    async def _ready(self) -> bool | None:
        if await self._alive() is None:
            return None
        status, _ = await self.readiness()
        return True if status == 200 else None

    def _assert_running(self) -> None:
        assert self.process.returncode is None, f"exited with {self.process.returncode}: {self.stderr}"

    _ended: int = 0

    async def _read(self, stream: asyncio.StreamReader | None, lines: list[str]) -> None:
        assert stream is not None
        while line := await stream.readline():
            async with self._said:
                lines.append(line.decode())
                self._said.notify_all()
        async with self._said:
            self._ended += 1
            self._said.notify_all()


def write_config(directory: Path, tree: Mapping[str, Any]) -> Path:
    path = directory / "rowgate.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


@asynccontextmanager
async def serve(
    tree: Mapping[str, Any],
    directory: Path,
    *,
    env: Mapping[str, str],
    session: aiohttp.ClientSession,
    python: str = PYTHON,
) -> AsyncIterator[Gateway]:
    """`tree` is the configuration. Does not wait for anything: see `alive` and `ready`."""
    process = await asyncio.create_subprocess_exec(
        python,
        "-m",
        "rowgate",
        "serve",
        str(write_config(directory, tree)),
        cwd=directory,
        env=environment(**env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    settings = tree["gateway"]
    it = Gateway(process, session, f"http://{settings['listen']}", f"http://{settings['internal_listen']}")
    readers = asyncio.gather(it._read(process.stdout, it.stdout), it._read(process.stderr, it.stderr))
    try:
        yield it
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await readers
