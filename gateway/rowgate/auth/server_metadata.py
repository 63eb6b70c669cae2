"""What an authorization server says of itself (RFC 8414), asked once at start: will it issue what we advertise?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from rowgate.download import whole

MAX_DOCUMENT_BYTES: Final = 512 * 1024
_TIMEOUT: Final = ClientTimeout(total=5.0)


def metadata_urls(issuer: str) -> Iterator[str]:
    """In the order in which MCP clients try them (MCP 2025-11-25 and later, authorization server discovery)."""
    url = urlsplit(issuer)
    origin, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


async def refused_scopes(session: ClientSession, issuer: str, scopes: Iterable[str]) -> tuple[str, ...]:
    """Those of `scopes` that the server does not list. Empty when it lists none at all, or says nothing: a server need
    not list what it issues (RFC 8414 §2)."""
    for url in metadata_urls(issuer):
        document = await _fetch(session, url)
        if document is not None and document.get("issuer") == issuer:
            supported = document.get("scopes_supported")
            if not isinstance(supported, list):
                return ()
            return tuple(scope for scope in scopes if scope not in supported)
    return ()


async def _fetch(session: ClientSession, url: str) -> dict[str, Any] | None:
    try:
        async with session.get(
            url, allow_redirects=False, timeout=_TIMEOUT, headers={"Accept": "application/json"}
        ) as answer:
            if answer.status != 200:
                return None
            document = json.loads(await whole(answer, at_most=MAX_DOCUMENT_BYTES))
    except (ClientError, TimeoutError, OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
