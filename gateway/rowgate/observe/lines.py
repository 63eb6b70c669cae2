"""Lines of text to one byte stream, gathered for a moment so that a request does not wait for a system call."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

INTERVAL = 0.2
"""Seconds that a line below warning may wait."""
GATHERED = 512
"""Lines after which a writer stops gathering: a stuck reader slows the gateway instead of filling its memory."""


class ByteStream(Protocol):
    """A raw, unbuffered stream: `write` says how much it took."""

    def write(self, data: memoryview, /) -> int | None: ...


def ignore(lost: int) -> None:
    """Whoever does not count lost lines."""


class LineWriter:
    """Writes whole lines, in order, from any thread and from destructors.

    A line leaves within `interval` seconds; at once when it is `urgent`, when many wait, and at `close()`. What a
    SIGKILL loses is therefore the lines below warning of the last `interval`. An `interval` of 0 gathers nothing.
    A stream that fails never raises here: `on_loss` is told how many lines it cost.
    """

    def __init__(
        self, stream: ByteStream, *, interval: float = INTERVAL, on_loss: Callable[[int], None] = ignore
    ) -> None:
        self._stream = stream
        self._interval = interval
        self._on_loss = on_loss
        # A destructor may log while its own thread is inside any of the methods below. Appending to a deque and
        # putting to a SimpleQueue are safe then; a lock or an Event is not.
        self._lines: deque[str] = deque()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._awake = False
        self._closing = threading.Event()
        self._turn = threading.RLock()
        self._writing = False
        self._thread: threading.Thread | None = None
        if interval > 0:
            self._thread = threading.Thread(target=self._run, name="rowgate-log", daemon=True)
            self._thread.start()

    def write(self, line: str, *, urgent: bool = False) -> None:
        self._lines.append(line)
        if urgent or self._interval <= 0 or self._closing.is_set() or len(self._lines) >= GATHERED:
            self.flush()
        elif not self._awake:
            self._awake = True
            self._wake.put(None)

    def flush(self) -> None:
        with self._turn:
            if self._writing:  # reentered from a destructor: the outer loop takes the line
                return
            self._writing = True
            try:
                while self._lines:
                    self._write_out([self._lines.popleft() for _ in range(len(self._lines))])
            finally:
                self._writing = False

    def close(self) -> None:
        """Writes what waits. Lines written afterwards go out one by one."""
        self._closing.set()
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join(timeout=1)
        if self._turn.acquire(timeout=1):  # a stream that nobody reads must not hold up the exit
            try:
                self.flush()
            finally:
                self._turn.release()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.get()
            self._closing.wait(self._interval)
            self._awake = False
            self.flush()

    def _write_out(self, lines: list[str]) -> None:
        lines.append("")
        rest = memoryview("\n".join(lines).encode(errors="backslashreplace"))
        try:
            while rest:
                taken = self._stream.write(rest)
                if not taken:
                    raise BlockingIOError
                rest = rest[taken:]
        except (OSError, ValueError):
            self._on_loss(len(lines) - 1)


class _Descriptor:
    """A file descriptor that stays open as long as the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: memoryview, /) -> int:
        return os.write(self._descriptor, data)


def stdout_writer(*, on_loss: Callable[[int], None] = ignore) -> LineWriter:
    """The process's standard output, past Python's own buffer. It is flushed at exit, however the exit comes about."""
    writer = LineWriter(_Descriptor(sys.stdout.fileno()), on_loss=on_loss)
    atexit.register(writer.close)
    return writer


def file_writer(path: Path, *, on_loss: Callable[[int], None] = ignore) -> LineWriter:
    """A file that is appended to, each line at once: for an audit trail that must survive a SIGKILL."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return LineWriter(_Descriptor(descriptor), interval=0, on_loss=on_loss)
