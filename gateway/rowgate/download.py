"""The whole of an answer, as far as we are ready to hold one."""

from __future__ import annotations

from aiohttp import ClientResponse


class AnswerTooLarge(ValueError):
    """Its text is ours and fit for a log."""


async def whole(answer: ClientResponse, *, at_most: int) -> bytes:
    """Raises AnswerTooLarge beyond `at_most` bytes, without reading on."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > at_most:
            raise AnswerTooLarge(f"more than {at_most} bytes")
    return bytes(body)
