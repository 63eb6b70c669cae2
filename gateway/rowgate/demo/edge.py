"""What stands in front of a hosted project's services: API keys, CORS, and which paths go without a key."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Middleware
from multidict import CIMultiDict
from yarl import URL

from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.answers import Handler, json_answer

BANNER = "stand-in for Supabase Auth; loopback only"

_KEYLESS = re.compile(r"/auth/v1/(?:\.well-known/.+|oauth/.+|health|verify|callback|authorize)")
_ROLE_TOKEN_LIFETIME = 3600


@dataclass(frozen=True, slots=True)
class ApiKeys:
    publishable: str
    """Not a secret; names the project, and becomes the role anon where no user signed in."""
    secret: str = field(repr=False)
    """Becomes service_role, which passes Row Level Security."""

    def role(self, presented: str) -> str | None:
        for known, role in ((self.publishable, "anon"), (self.secret, "service_role")):
            if hmac.compare_digest(presented.encode(), known.encode()):
                return role
        return None


class ProjectEdge:
    """The middleware of the whole origin."""

    def __init__(self, origin: str, keys: ApiKeys, auth: AuthServer, *, clock: Callable[[], float] = time.time) -> None:
        self._hosts = _names(origin)
        self._keys = keys
        self._auth = auth
        self._clock = clock

    @property
    def middleware(self) -> Middleware:
        @web.middleware
        async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                answer = await self._answer(request, handler)
            except web.HTTPException as refusal:
                _label(request, refusal)
                raise
            _label(request, answer)
            return answer

        return edge

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # A web page whose name was rebound to loopback reads nothing here.
        if request.headers.get("Host", "") not in self._hosts:
            return web.Response(status=421, text="This project answers on loopback only.\n")
        if not _is_service(request.path):
            return await handler(request)
        if request.method == "OPTIONS":
            return _preflight(request)
        admitted = self._admit(request)
        return admitted if isinstance(admitted, web.Response) else await handler(admitted)

    def _admit(self, request: web.Request) -> web.Request | web.Response:
        """The request with its key turned into a role, or the refusal."""
        presented = request.headers.get("apikey") or request.query.get("apikey", "")
        role = self._keys.role(presented) if presented else None
        if role is None:
            if _KEYLESS.fullmatch(request.path) or request.path.startswith("/.well-known/"):
                return request
            return _refused(presented)
        headers = CIMultiDict(request.headers)
        headers.popall("apikey", None)
        bearer = headers.get("Authorization", "")
        # A user's token passes; a key in its place, which is what clients put there before sign-in, is swapped.
        if not bearer or bearer.lower().startswith("bearer sb_"):
            headers["Authorization"] = f"Bearer {self._role_token(role)}"
        url = URL(str(request.rel_url), encoded=True)
        return request.clone(headers=headers, rel_url=url.without_query_params("apikey"))

    def _role_token(self, role: str) -> str:
        now = int(self._clock())
        return self._auth.mint({"iss": self._auth.issuer, "role": role, "iat": now, "exp": now + _ROLE_TOKEN_LIFETIME})


def _label(request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers["X-Rowgate-Demo"] = BANNER
    if _is_service(request.path):
        answer.headers["Access-Control-Allow-Origin"] = "*"


def _is_service(path: str) -> bool:
    return path.startswith(("/auth/v1/", "/rest/v1/", "/.well-known/"))


def _names(origin: str) -> frozenset[str]:
    authority = origin.removeprefix("http://")
    return frozenset({authority, f"localhost:{authority.rpartition(':')[2]}"})


def _refused(presented: str) -> web.Response:
    if presented:
        body = {"message": "Invalid API key", "hint": "Double check your API key."}
    else:
        body = {
            "message": "No API key found in request",
            "hint": "No `apikey` request header or url param was found.",
        }
    return json_answer(body, status=401)


def _preflight(request: web.Request) -> web.Response:
    asked = request.headers.get("Access-Control-Request-Headers", "")
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            "Access-Control-Allow-Headers": asked,
            "Access-Control-Max-Age": "3600",
            "Vary": "Access-Control-Request-Headers",
        },
    )
