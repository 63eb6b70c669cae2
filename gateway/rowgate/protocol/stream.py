"""Answers on the wire: one JSON body, or an event stream once there is something to stream."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict

from rowgate.protocol import ijson
from rowgate.protocol.render import JSON

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    # nginx and those who copied it hold back a stream without this.
    "X-Accel-Buffering": "no",
}
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}
KEEP_ALIVE = b": keep-alive\r\n\r\n"


class Answer:
    """The one answer to a request. It stays JSON until the first notification or keep-alive makes it a stream;
    after that the status is 200 for good, and errors ride inside."""

    def __init__(self, request: web.BaseRequest, headers: Mapping[str, str]) -> None:
        self._request = request
        self._headers = headers
        self._stream: web.StreamResponse | None = None

    @property
    def streaming(self) -> bool:
        return self._stream is not None

    async def notify(self, message: Mapping[str, Any]) -> None:
        await (await self._opened()).write(_event(message))

    async def keep_alive(self) -> None:
        await (await self._opened()).write(KEEP_ALIVE)

    async def finish(
        self, message: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        if self._stream is None:
            return await self.send(ijson.dumps(message), status=status, headers=headers)
        await self._stream.write(_event(message))
        await self._stream.write_eof()
        return self._stream

    async def send(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> web.StreamResponse:
        """Answer without a stream."""
        fields = {"Cache-Control": "no-store", **self._headers, **(headers or {})}
        if body:
            fields["Content-Type"] = content_type
            if self._request.method == "POST" and self._request.version == HttpVersion11:
                return await self._written(body, status, fields)
        response = web.Response(body=body or None, status=status, headers=fields)
        await response.prepare(self._request)
        await response.write_eof()
        return response

    async def _written(self, body: bytes, status: int, fields: dict[str, str]) -> web.StreamResponse:
        """What web.Response would write, in two thirds of the time that its stages take for all that they can do."""
        keep_alive = self._request.keep_alive
        fields["Content-Length"] = str(len(body))
        fields["Date"] = rfc822_formatted_time()
        if not keep_alive:
            fields["Connection"] = "close"
        writer = self._request.writer
        await writer.write_headers(_STATUS_LINES[status], CIMultiDict(fields))
        await writer.write_eof(body)
        return Written(status, keep_alive)

    async def _opened(self) -> web.StreamResponse:
        if self._stream is None:
            self._stream = web.StreamResponse(headers={**STREAM_HEADERS, **self._headers})
            await self._stream.prepare(self._request)
        return self._stream


class Written(web.StreamResponse):
    """What aiohttp's server asks of an answer when its handler returns, for one that is on its way already."""

    def __init__(self, status: int, keep_alive: bool) -> None:
        self._written = status
        self._kept = keep_alive

    @property
    def status(self) -> int:
        return self._written

    @property
    def prepared(self) -> bool:
        return True

    @property
    def keep_alive(self) -> bool:
        return self._kept

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def _event(message: Mapping[str, Any]) -> bytes:
    return b"event: message\r\ndata: " + ijson.dumps(message) + b"\r\n\r\n"
