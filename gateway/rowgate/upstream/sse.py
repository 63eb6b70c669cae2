"""Server-sent events as bytes arrive (WHATWG HTML §9.2), as far as MCP uses them: data and comments."""

from __future__ import annotations

from collections.abc import Iterator

from rowgate.errors import PluginAnswerTooLarge


class EventParser:
    """Feed it chunks; it gives the data of each finished event, and `None` for a comment (a keep-alive)."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds one event, so that an endless line cannot fill the memory."""
        self._max_bytes = max_bytes
        self._rest = bytearray()
        """Of the line that has not ended."""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the data, with a line break each."""
        self._started = False
        self._after_cr = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # the other half of a CRLF
        self._after_cr = chunk.endswith(b"\r")
        # Only what is new is looked at: a long line that comes in many pieces must not be searched again with each.
        first, *others = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._hold(first)
        for piece in others:
            yield from self._line(self._ended())
            self._hold(piece)

    def _hold(self, piece: bytes) -> None:
        self._rest += piece
        if len(self._rest) + self._size > self._max_bytes:
            raise PluginAnswerTooLarge(reason="too_large")

    def _ended(self) -> bytes:
        line = bytes(self._rest)
        self._rest.clear()
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        return line

    def _line(self, line: bytes) -> Iterator[bytes | None]:
        if not line:
            if self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data
        elif line.startswith(b":"):
            yield None
        elif line.startswith(b"data:") or line == b"data":
            value = line[5:].removeprefix(b" ")
            self._size += len(value) + 1
            self._data.append(value)
