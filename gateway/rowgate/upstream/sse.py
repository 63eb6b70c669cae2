"""Server-sent events as bytes arrive (WHATWG HTML §9.2), as far as MCP uses them: data and comments."""

from __future__ import annotations

from collections.abc import Iterator

from rowgate.errors import PluginAnswerTooLarge


class EventParser:
    """Feed it chunks; it gives the data of each finished event, and `None` for a comment (a keep-alive)."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds one event, so that an endless line cannot fill the memory."""
        self._max_bytes = max_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        buffer = self._rest + chunk
        if not self._started:
            self._started = True
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        # A final CR may be half of a CRLF: it waits for the next chunk.
        lines = buffer.replace(b"\r\n", b"\n")
        held = b"\r" if lines.endswith(b"\r") else b""
        *complete, rest = lines.removesuffix(b"\r").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + held
        if len(self._rest) + self._size > self._max_bytes:
            raise PluginAnswerTooLarge(reason="too_large")
        for line in complete:
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[bytes | None]:
        if not line:
            if self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data
        elif line.startswith(b":"):
            yield None
        elif line.startswith(b"data:") or line == b"data":
            value = line[5:].removeprefix(b" ")
            self._size += len(value)
            if self._size > self._max_bytes:
                raise PluginAnswerTooLarge(reason="too_large")
            self._data.append(value)
