"""Between the suite, which cannot send a token, and the gateway: adds `Authorization` and changes nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

HOP_BY_HOP = ("Connection", "Keep-Alive", "Transfer-Encoding")


class Shim:
    """`Host` and `Origin` arrive as they were sent, streams as they come; who hangs up hangs up on the gateway."""

    def __init__(self, target: str, token: str, session: aiohttp.ClientSession) -> None:
        self._target = target
        self._token = token
        self._session = session

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = _end_to_end(request.headers)
        headers.add("Authorization", f"Bearer {self._token}")
        async with self._session.request(
            request.method,
            URL(self._target + request.rel_url.raw_path_qs, encoded=True),
            headers=headers,
            data=await request.read() if request.body_exists else None,
            allow_redirects=False,
        ) as answer:
            response = web.StreamResponse(
                status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers)
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        try:
            await response.write_eof()
        except ConnectionError:
            pass  # it had all it wanted
        return response


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in HOP_BY_HOP:
        kept.popall(name, None)
    return kept


@asynccontextmanager
async def shim(target: str, token: str) -> AsyncIterator[str]:
    """`target` and the result are origins, without a path."""
    timeout = aiohttp.ClientTimeout(total=None)
    skipped = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
    async with aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout, skip_auto_headers=skipped
    ) as session:
        server = web.Server(Shim(target, token, session).handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
