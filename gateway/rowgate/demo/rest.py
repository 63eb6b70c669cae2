"""`/rest/v1`: passes requests on to PostgREST as they are."""

from __future__ import annotations

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from rowgate.demo.auth.answers import json_answer

PREFIX = "/rest/v1"
_HOP_BY_HOP = frozenset(
    name.lower()
    for name in (
        *(hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.PROXY_AUTHENTICATE, hdrs.PROXY_AUTHORIZATION),
        *(hdrs.TE, hdrs.TRAILER, hdrs.TRANSFER_ENCODING, hdrs.UPGRADE),
    )
)
_NOT_FORWARDED = _HOP_BY_HOP | {"host", "content-length", "cookie"}


class RestProxy:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        target = URL(self._url + request.rel_url.raw_path_qs.removeprefix(PREFIX), encoded=True)
        try:
            return await self._pass(request, target)
        except (TimeoutError, aiohttp.ClientConnectionError):
            return json_answer({"message": "PostgREST does not answer."}, status=502)

    async def _pass(self, request: web.Request, target: URL) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            target,
            headers=_end_to_end(request.headers, _NOT_FORWARDED),
            data=await request.read() if request.can_read_body else None,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as answer:
            return web.Response(
                status=answer.status,
                reason=answer.reason,
                headers=_end_to_end(answer.headers, _HOP_BY_HOP | {"content-length"}),
                body=await answer.read(),
            )


def rest_session() -> aiohttp.ClientSession:
    """No cookie of one user may travel with another's request, and bodies pass undecoded."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, timeout=aiohttp.ClientTimeout(total=60)
    )


def _end_to_end(headers: CIMultiDictProxy[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    listed = {name.strip().lower() for name in headers.get(hdrs.CONNECTION, "").split(",")}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped | listed)
