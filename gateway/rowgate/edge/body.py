"""The request body: its type, its size and its bytes."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from rowgate.errors import BodyTooLarge, MalformedRequest, NotAcceptable, RequestTimeout, UnsupportedMediaType


def require_media(request: web.BaseRequest) -> None:
    """Raise unless the request is JSON and its client takes both answers that MCP has."""
    if not _is_json(request.headers.get("Content-Type", "")):
        raise UnsupportedMediaType
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("The body must not be compressed.")
    if not _accepts_both(",".join(request.headers.getall("Accept", ()))):
        raise NotAcceptable


async def read_body(request: web.BaseRequest, *, max_bytes: int, timeout: float) -> bytes:
    announced = request.content_length
    if announced is not None and announced > max_bytes:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    try:
        if request.content.is_eof():  # it came with the head, as short ones do
            body = request.content.read_nowait()
            if len(body) > max_bytes:
                raise BodyTooLarge
            return body
        async with asyncio.timeout(timeout):
            await _invite(request)
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > max_bytes:
                    raise BodyTooLarge
                chunks.append(chunk)
    except TimeoutError:
        raise RequestTimeout from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise MalformedRequest from None
    return b"".join(chunks)


async def _invite(request: web.BaseRequest) -> None:
    """RFC 9110 §10.1.1: a client that asks before it sends its body waits for this, some of them for ever."""
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer itself was sent


@lru_cache(maxsize=64)
def _is_json(content_type: str) -> bool:
    """aiohttp asks the parser of mail headers, which takes half a minute for 32 KiB of semicolons."""
    media_type, *parameters = content_type.split(";")
    fields = (parameter.partition("=") for parameter in parameters)
    charsets = {value.strip(' \t"').lower() for name, _, value in fields if name.strip().lower() == "charset"}
    return media_type.strip().lower() == "application/json" and charsets <= {"utf-8", "utf8"}


@lru_cache(maxsize=64)
def _accepts_both(accept: str) -> bool:
    ranges = {part.partition(";")[0].strip().lower() for part in accept.split(",") if not _refuses(part)}
    if "*/*" in ranges:
        return True
    json = bool({"application/json", "application/*"} & ranges)
    stream = bool({"text/event-stream", "text/*"} & ranges)
    return json and stream


def _refuses(media_range: str) -> bool:
    """RFC 9110 §12.4.2: a weight of 0 means "not acceptable"."""
    return any(
        parameter.strip().lower().replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000")
        for parameter in media_range.split(";")[1:]
    )
