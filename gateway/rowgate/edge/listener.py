"""The HTTP server of the public listener, and what it says to bytes that are no request.

aiohttp's low-level server, because there is one handler and its own exact routing: a router and middlewares
would be paid for on every request and decide nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from rowgate.errors import GatewayError, HeadersTooLarge, MalformedRequest
from rowgate.observe.events import Defect, Emit, RequestMalformed
from rowgate.protocol.render import PROBLEM, problem

MAX_HEADER_BYTES = 32 * 1024
"""Of one header line. aiohttp's own limit of 8 KiB is less than the token of a user with many claims needs."""
MAX_HEADERS = 128
KEEP_ALIVE = 75.0
"""Seconds an idle connection of a client is kept: longer than load balancers keep theirs (60 s), or a request could
meet a connection that is just being closed."""
PATIENCE = 60.0
"""Seconds for which a client may take nothing of its answer."""
LEAST = 16 * 1024
"""Bytes that it has to take in that time: a byte a minute would hold an answer for years."""
HEAD_PATIENCE = 15.0
"""Seconds in which a new connection has to send its first request's head. Later heads have the keep-alive time."""
CUT = 1.0
"""Seconds that a cancelled handler has to release what it holds."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener(web.Server):
    """`handler_cancellation`: a client that goes away cancels the handler, and with it the plugin's call."""

    def __init__(
        self, handle: Handle, *, emit: Emit, patience: float = PATIENCE, head_patience: float = HEAD_PATIENCE
    ) -> None:
        """`patience`: seconds for which a client may take nothing of its answer before the connection is dropped."""
        super().__init__(
            handle,
            handler_cancellation=True,
            access_log=None,
            # What aiohttp would log of a broken request quotes it, header lines included.
            logger=logging.getLogger("rowgate.listener"),
            keepalive_timeout=KEEP_ALIVE,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            lingering_time=1.0,
        )
        self._emit = emit
        self._patience = patience
        self._head_patience = head_patience

    def __call__(self) -> RequestHandler:
        return _Connection(
            self,
            loop=self._loop,
            emit=self._emit,
            patience=self._patience,
            head_patience=self._head_patience,
            **self._kwargs,
        )


class _Connection(RequestHandler):
    __slots__ = ("_emit", "_head", "_head_patience", "_patience", "_stall")

    def __init__(
        self, manager: web.Server, *, emit: Emit, patience: float, head_patience: float, **settings: object
    ) -> None:
        super().__init__(manager, **settings)  # type: ignore[arg-type]
        self._emit = emit
        self._patience = patience
        self._head_patience = head_patience
        self._stall: asyncio.TimerHandle | None = None
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """aiohttp times idle connections only after their first answer."""
        super().connection_made(transport)
        self._head = self._loop.call_later(self._head_patience, self._judge_head)

    def _judge_head(self) -> None:
        if self._request_count == 0 and self.transport is not None:
            self.transport.abort()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for at every read; what aiohttp then does costs as much as the read, and does nothing here."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """aiohttp then waits for the client, however long: an answer that nobody reads would stay for ever."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._unwatch()
        if self._head is not None:
            self._head.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.transport is not None:
            waiting = self.transport.get_write_buffer_size()
            self._stall = self._loop.call_later(self._patience, self._judge, waiting)

    def _unwatch(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _judge(self, waiting: int) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size() > waiting - LEAST:
            self.transport.abort()
        else:
            self._watch()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """aiohttp would wait `timeout` seconds once more before it cancels a handler that did not end in the first,
        and for ever if that is 0."""
        running = self._task_handler
        if self._request_in_progress and running is not None:
            await asyncio.wait((running,), timeout=timeout)
            running.cancel()
        await super().shutdown(CUT)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp's answer quotes what it could not parse, which may be part of a token. Ours quotes nothing."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client left; there is nobody to answer and nothing to report
        error = _refusal(exc)
        if isinstance(exc, HttpProcessingError):
            self._emit(RequestMalformed(error.code, request.remote or ""))
        elif exc is not None:
            self._emit(Defect("connection", exc))
        if request.writer.output_size > 0:
            raise ConnectionError("an answer had begun")
        request_id = secrets.token_hex(16)
        response = web.Response(
            body=problem(error, request_id),
            status=error.status,
            headers={"Server": "rowgate", "Content-Type": PROBLEM, "X-Request-Id": request_id},
        )
        response.force_close()
        return response


def _refusal(error: BaseException | None) -> GatewayError:
    if isinstance(error, LineTooLong):
        return HeadersTooLarge()
    return MalformedRequest() if isinstance(error, HttpProcessingError) else GatewayError()
