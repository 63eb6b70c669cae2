"""The leg to the plugin: one HTTP exchange behind an interface small enough that a faster client can take its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import aiohttp
from yarl import URL

from rowgate.errors import PluginDied, PluginTimeout, PluginUnreachable


class Reply(Protocol):
    """The head of an answer, and its body as it comes."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self) -> AsyncIterator[bytes]:
        """Bytes as they arrive. Raises PluginDied if the connection ends before the body does."""
        ...


class Leg(Protocol):
    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, connect_timeout: float
    ) -> AbstractAsyncContextManager[Reply]:
        """Send once, never repeat, never follow a redirect, keep no cookie. Leaving the context before the body
        ended closes the connection: that is how a plugin learns that nobody waits any more.

        Raises PluginUnreachable before a byte was sent, PluginDied after."""
        ...

    async def close(self) -> None: ...


class SessionLeg:
    """`Leg` over aiohttp's client."""

    def __init__(self, *, max_connections: int, idle: float = 30.0) -> None:
        """`idle`: seconds that an unused connection is kept. Shorter than any plugin's own keep-alive (the plugin
        library keeps 75 s), or a POST could meet a connection that is just being closed."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=max_connections, keepalive_timeout=idle),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
            max_line_size=32 * 1024,
            max_field_size=32 * 1024,
        )
        self._urls: dict[str, URL] = {}

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, connect_timeout: float
    ) -> AsyncIterator[Reply]:
        target = self._urls.get(url) or self._urls.setdefault(url, URL(url, encoded=True))
        try:
            response = await self._session.post(
                target,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout),
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise PluginUnreachable(reason="connect") from None
        except aiohttp.ServerTimeoutError:
            raise PluginTimeout(reason="timeout") from None
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            raise PluginDied(reason="died") from None
        finished = False
        try:
            yield _SessionReply(response)
            finished = response.content.at_eof()
        finally:
            # A finished exchange gives its connection back; any other must tell the plugin to stop.
            if finished:
                response.release()
            else:
                response.close()

    async def close(self) -> None:
        await self._session.close()


class _SessionReply:
    __slots__ = ("_response",)

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            raise PluginDied(reason="died") from None
