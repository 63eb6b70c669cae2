"""The leg to the plugin: one HTTP exchange behind an interface small enough for two clients of different speed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import aiohttp
from yarl import URL

from rowgate.errors import PluginDied, PluginTimeout, PluginUnreachable

MAX_FIELD = 32 * 1024
"""Bytes of one header line of an answer."""
IDLE = 30.0
"""Seconds that an unused connection is kept. Shorter than any plugin's own keep-alive (the plugin library keeps
75 s), or a POST could meet a connection that is just being closed."""


class Reply(Protocol):
    """The head of an answer, and its body as it comes."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def received(self) -> bytes | None:
        """The whole body if it has come already and nothing of it was read, else None: most answers are short."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Bytes as they arrive. Raises PluginDied if the connection ends before the body does."""
        ...

    def release(self) -> None:
        """The exchange is over. If the body was not read to its end, the connection is closed: that is how a plugin
        learns that nobody waits any more. Otherwise it may be used again."""
        ...


class Leg(Protocol):
    async def post(self, headers: Mapping[str, str], body: bytes, *, timeout: float) -> Reply:
        """Send once, never repeat, never follow a redirect, keep no cookie. The reply must be released; a call that
        is cancelled or raises has closed its connection itself.

        `timeout`: seconds until the head of the answer must be there, waiting for a free connection included.
        Raises PluginUnreachable before a byte was sent, PluginDied or PluginTimeout after."""
        ...

    async def close(self) -> None: ...


class SessionLeg:
    """`Leg` over aiohttp's client: for plugins behind TLS."""

    def __init__(
        self,
        url: str,
        *,
        max_connections: int,
        connect_timeout: float,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        idle: float = IDLE,
    ) -> None:
        """`server_name`: whom the certificate must name, where that is not the host of `url`."""
        self._url = URL(url, encoded=True)
        self._server_name = server_name
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=max_connections, keepalive_timeout=idle, ssl=tls or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
            max_line_size=MAX_FIELD,
            max_field_size=MAX_FIELD,
        )

    async def post(self, headers: Mapping[str, str], body: bytes, *, timeout: float) -> Reply:
        try:
            async with asyncio.timeout(timeout):
                response = await self._session.post(
                    self._url, data=body, headers=headers, allow_redirects=False, server_hostname=self._server_name
                )
        except aiohttp.ClientSSLError:
            raise PluginUnreachable(reason="tls") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise PluginUnreachable(reason="connect") from None
        except TimeoutError:
            raise PluginTimeout(reason="timeout") from None
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            raise PluginDied(reason="died") from None
        return _SessionReply(response)

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

    def received(self) -> bytes | None:
        return None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            raise PluginDied(reason="died") from None

    def release(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
