"""The fast leg: kept-alive connections of our own, each over aiohttp's protocol and C parser.

What aiohttp's session does beside that serves clients of the open web (cookies, redirects, proxies, tracing) and
costs more than everything that the gateway itself does with a call; `bench/` has the figures.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from yarl import URL

from rowgate.config.plugin import Plugin
from rowgate.errors import PluginDied, PluginTimeout, PluginUnreachable
from rowgate.upstream.leg import IDLE, MAX_FIELD, Leg, Reply, SessionLeg
from rowgate.upstream.tls import tls_context
from rowgate.upstream.unix import UnixSocket, listeners

_PRINTABLE = bytes(range(0x20, 0x7F))
_FAILURES = (aiohttp.ClientError, ConnectionError, HttpProcessingError)


def leg_to(plugin: Plugin, socket: str | None = None) -> Leg:
    """`socket`: where a plugin listens that the gateway starts. Raises StartError for TLS files and users that are
    not there."""
    most, patience = plugin.max_connections, plugin.connect_timeout
    if plugin.url is not None and plugin.url.startswith("https://"):
        name = plugin.tls.server_name if plugin.tls else None
        tls = tls_context(plugin.tls)
        return SessionLeg(plugin.url, max_connections=most, connect_timeout=patience, tls=tls, server_name=name)
    path = socket or plugin.socket
    listening = UnixSocket(path, listeners(plugin.socket_owner)) if path else None
    return PooledLeg(plugin.endpoint, max_connections=most, connect_timeout=patience, socket=listening)


class PooledLeg:
    """`Leg` for plugins that are reached by http:// or by a Unix socket."""

    def __init__(
        self,
        url: str,
        *,
        max_connections: int,
        connect_timeout: float,
        idle: float = IDLE,
        socket: UnixSocket | None = None,
    ) -> None:
        target = URL(url, encoded=True)
        assert target.raw_host, "the configuration takes absolute URLs only"
        assert target.port
        self._address = (target.raw_host, target.port)
        self._socket = socket
        self._start = f"POST {target.raw_path_qs} HTTP/1.1\r\nHost: {target.host_port_subcomponent}"
        self._connect_timeout = connect_timeout
        self._kept_for = idle
        self._slots = _Slots(max_connections)
        self._idle: deque[_Connection] = deque()
        self._busy: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, headers: Mapping[str, str], body: bytes, *, timeout: float) -> Reply:
        request = request_bytes(self._start, headers, body)
        now = self._now()
        deadline = now + timeout
        if not self._slots.take():
            await self._slot(deadline)
        connection = self._kept(now - self._kept_for)
        if connection is None:
            connection = await self._connected(deadline)
        self._busy.add(connection)
        answered = False
        try:
            message, payload = await connection.ask(request, deadline)
            answered = True
        except TimeoutError:
            raise PluginTimeout(reason="timeout") from None
        except _FAILURES:
            raise PluginDied(reason="died") from None
        finally:
            if not answered:
                self.give_back(connection, finished=False)
        return _PooledReply(self, connection, message, payload)

    def give_back(self, connection: _Connection, *, finished: bool) -> None:
        self._busy.discard(connection)
        self._slots.give()
        if finished and connection.rest():
            self._idle.append(connection)
        else:
            connection.abort()

    @property
    def idle_connections(self) -> int:
        return sum(connection.is_connected() for connection in self._idle)

    @property
    def paused_connections(self) -> int:
        """Connections on which the plugin sends faster than the answer is read."""
        return sum(connection.paused for connection in self._busy)

    async def close(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()

    async def _slot(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.wait()
        except TimeoutError:
            raise PluginTimeout(reason="timeout") from None

    async def _connected(self, deadline: float) -> _Connection:
        try:
            return await self._connect(deadline)
        except BaseException:
            self._slots.give()
            raise

    def _now(self) -> float:
        # The loop is asked for once: Python 3.11 looks for a fork each time, which is a system call.
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _kept(self, oldest: float) -> _Connection | None:
        """The connection that was used last, so that the others can grow old and go."""
        while self._idle and (self._idle[0].resting_since < oldest or not self._idle[0].is_connected()):
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected():
                return connection
        return None

    async def _connect(self, deadline: float) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_timeout)):
                if self._socket is None:
                    _, connection = await loop.create_connection(lambda: _Connection(loop), *self._address)
                else:
                    reached = await self._socket.connect()
                    _, connection = await loop.create_unix_connection(lambda: _Connection(loop), sock=reached)
        except OSError:  # a TimeoutError is one
            raise PluginUnreachable(reason="connect") from None
        return connection


class _Slots:
    """How many connections there may be at once, first come, first served. asyncio's semaphore goes through its
    waiters twice to be acquired, which took as long as writing the request."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether there was one without waiting."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()  # it was handed over just as nobody wanted it any more
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """Back, or on to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class _Connection(ResponseHandler):
    """One exchange at a time. Bytes that nobody asked for end the connection, so that no answer can be taken for
    the answer to a later request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._resting = True
        self.resting_since = 0.0

    async def ask(self, request: bytes, deadline: float) -> tuple[RawResponseMessage, StreamReader]:
        """The head of the answer and its body as it comes; `TimeoutError` at the deadline."""
        if self.transport is None:
            raise ConnectionResetError
        self._resting = False
        self.set_response_params(
            read_until_eof=True, auto_decompress=False, max_line_size=MAX_FIELD, max_field_size=MAX_FIELD
        )
        self.transport.write(request)
        late = self._loop.call_at(deadline, self.set_exception, TimeoutError())
        try:
            while True:
                message, payload = await self.read()
                # RFC 9110 §15.2: any number of interim answers may come first; 101 is none, and nobody asked for it.
                if message.code >= 200 or message.code == 101:
                    return message, payload
        finally:
            late.cancel()

    @property
    def paused(self) -> bool:
        return self._reading_paused

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for at every read; what aiohttp then does costs as much as the read, and does nothing here."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def rest(self) -> bool:
        """Whether another request may follow: the answer ended, the request was taken, and neither side closes."""
        transport = self.transport
        if self.should_close or transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return False
        if self._another_began():
            return False
        self._resting = True
        self.resting_since = self._loop.time()
        return True

    def _another_began(self) -> bool:
        """Whether bytes of one more answer came with the last. The parser holds them, and says so only at its end."""
        parser, self._parser = self._parser, None
        try:
            return parser is None or parser.feed_eof() is not None
        except Exception:  # what it raises depends on how far the answer came
            return True

    def data_received(self, data: bytes) -> None:
        if self._resting:
            self.abort()
        else:
            super().data_received(data)


class _PooledReply:
    __slots__ = ("_connection", "_leg", "_payload", "headers", "status")

    def __init__(
        self, leg: PooledLeg, connection: _Connection, message: RawResponseMessage, payload: StreamReader
    ) -> None:
        self._leg = leg
        self._connection = connection
        self._payload = payload
        self.status = message.code
        self.headers: Mapping[str, str] = message.headers

    def received(self) -> bytes | None:
        if self._payload.is_eof() and self._payload.exception() is None:
            return self._payload.read_nowait()
        return None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._payload.iter_any():
                yield chunk
        except _FAILURES:
            raise PluginDied(reason="died") from None

    def release(self) -> None:
        self._leg.give_back(self._connection, finished=self._payload.is_eof() and self._payload.exception() is None)


def request_bytes(start: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Head and body. `ValueError` for a field that is not printable ASCII: whoever could write a line break could
    write a request of their own."""
    fields = "".join([f"\r\n{name}: {value}" for name, value in headers.items()]).encode("ascii")
    # One look at all of them: the line breaks written here are all that may be left beside what a field can hold.
    if fields.translate(None, _PRINTABLE) != b"\r\n" * len(headers):
        raise ValueError("a header field holds a character that does not belong there")
    return b"".join([start.encode(), fields, b"\r\nContent-Length: %d\r\n\r\n" % len(body), body])
