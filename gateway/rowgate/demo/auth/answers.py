"""What Supabase Auth puts on the wire: JSON, its two families of errors, redirects."""

from __future__ import annotations

import html
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_VERSION = "X-Supabase-Api-Version"
_NAMED_ERRORS = "2024-01-01"


class AuthError(Exception):
    """`{"code", "error_code", "msg"}`, the error of Supabase Auth's own endpoints."""

    def __init__(self, status: int, error_code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message

    def answer(self, version: str) -> web.Response:
        """Clients that name a version of the API get another shape, and are told that they do."""
        headers = {"x-sb-error-code": self.error_code}
        if version >= _NAMED_ERRORS:
            headers[_VERSION] = _NAMED_ERRORS
            return json_answer({"code": self.error_code, "message": self.message}, status=self.status, headers=headers)
        body = {"code": self.status, "error_code": self.error_code, "msg": self.message}
        return json_answer(body, status=self.status, headers=headers)


class OAuthError(Exception):
    """`{"error", "error_description"}` (RFC 6749 §5.2). Supabase Auth gives it for a part of the failures only."""

    def __init__(self, error: str, description: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.headers = headers or {}

    def answer(self) -> web.Response:
        body = {"error": self.error, "error_description": self.description}
        return json_answer(body, status=400, headers=self.headers)


def invalid(message: str) -> AuthError:
    return AuthError(400, "validation_failed", message)


def json_answer(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # The real one sends no charset.
    return web.Response(
        body=json.dumps(body, separators=(",", ":")).encode(),
        status=status,
        headers={"content-type": "application/json", **(headers or {})},
    )


def redirect(location: str) -> web.Response:
    return web.Response(
        status=302,
        headers={"location": location, "content-type": "text/html; charset=utf-8"},
        text=f'<a href="{html.escape(location)}">Found</a>.\n\n',
    )


def with_query(url: str, **parameters: str) -> str:
    """`url` with the non-empty parameters added, sorted by name as Go's encoder sorts them."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query |= {name: value for name, value in parameters.items() if value}
    return urlunsplit(parts._replace(query=urlencode(sorted(query.items()))))


def timestamp(seconds: float) -> str:
    """RFC 3339, in UTC, with what fraction there is."""
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".") + "Z"


async def json_body(request: web.Request, message: str = "Invalid JSON body") -> dict[str, Any]:
    try:
        body = json.loads(await request.read() or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise AuthError(400, "bad_json", message)
    return body


def text(body: dict[str, Any], name: str) -> str:
    """A string member; absent and null are empty, as they are to Go."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AuthError(400, "bad_json", "Invalid JSON body")
    return value


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except AuthError as error:
        return error.answer(request.headers.get(_VERSION, ""))
    except OAuthError as error:
        return error.answer()
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found\n")
    except web.HTTPMethodNotAllowed as error:
        return web.Response(status=405, headers={"allow": ",".join(sorted(error.allowed_methods))})
