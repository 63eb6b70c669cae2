"""The demo's application: the consent page, which Supabase leaves to the builder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

_HERE = Path(__file__).parent
_FILES = {
    "/oauth/consent": ("consent.html", "text/html"),
    "/oauth/consent.js": ("consent.js", "text/javascript"),
    "/oauth/consent.css": ("consent.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whose sign-in the page fills in."""

    email: str
    password: str = field(repr=False)
    name: str = ""


def routes(publishable_key: str, people: Sequence[Person]) -> list[web.RouteDef]:
    facts = {
        "publishable_key": publishable_key,
        "people": [{"email": one.email, "password": one.password, "name": one.name} for one in people],
    }

    async def configuration(request: web.Request) -> web.Response:
        return web.json_response(facts, headers=HEADERS)

    pages = [web.get(path, _page(*file)) for path, file in _FILES.items()]
    return [*pages, web.get("/oauth/consent.json", configuration)]


def _page(name: str, content_type: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = (_HERE / name).read_bytes()

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=HEADERS)

    return page
