"""Supabase as the caller: thin clients for one request over one connection pool for all of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from postgrest import AsyncPostgrestClient, AsyncRequestBuilder, AsyncRPCFilterRequestBuilder, CountMethod
from storage3 import AsyncStorageClient
from supabase_functions import AsyncFunctionsClient

from rowgate_plugin.settings import SettingsError

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
MAX_CONNECTIONS = 100
KEEP_ALIVE = 30.0
MAX_HEADER_BYTES = 32 * 1024

_SERVICES = ("/rest/v1/", "/storage/v1/", "/functions/v1/")
"""The official clients put names of tables, functions and buckets into paths as they are, and `..` in one that a model
chose would reach Auth, where the caller's token changes passwords and approves other clients."""
_REFUSED_BY_POSTGREST = ("PGRST301", "PGRST303")
_REFUSED_BY_STORAGE = ("claim timestamp check failed", "jwt expired")


@dataclass(frozen=True, slots=True)
class Project:
    url: str
    publishable_key: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
            raise SettingsError("SUPABASE_URL is not the http(s) URL of a project")
        object.__setattr__(self, "url", self.url.rstrip("/"))
        if _is_secret(self.publishable_key):
            raise SettingsError(
                "SUPABASE_PUBLISHABLE_KEY holds a secret key, which passes Row Level Security by: "
                "use the key that starts with sb_publishable_, or the legacy anon key"
            )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Project | None:
        """None when neither variable is set; `SettingsError` when only one is, or the key is a secret one."""
        url = environ.get("SUPABASE_URL", "").strip()
        key = (environ.get("SUPABASE_PUBLISHABLE_KEY") or environ.get("SUPABASE_ANON_KEY", "")).strip()
        if not url and not key:
            return None
        if not url or not key:
            raise SettingsError("SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY belong together: one of them is not set")
        return cls(url, key)


class Connections:
    """The project's connection pool. It knows no caller: it holds no header, cookie or credential."""

    def __init__(self, project: Project) -> None:
        self.project = project
        # httpx's own pool goes through all connections for every waiting request: 13 ms of CPU a request at a hundred
        # concurrent ones, where aiohttp's needs 0.6 ms at any number.
        self._transport = AiohttpTransport(trust_env=False, client=self._open)

    def client(self, token: str | None, on_refused: Callable[[], None]) -> Supabase:
        """A client for one caller. `on_refused` is called when Supabase refuses the token itself."""
        return Supabase(self.project.url, _Lease(self._transport, self.project, token, on_refused))

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _open(self) -> aiohttp.ClientSession:
        # A session keeps cookies by default and would send one user's to the next.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CONNECTIONS, keepalive_timeout=KEEP_ALIVE, ssl=self._transport.ssl_context
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )


class Supabase:
    """What a handler uses: tables, functions and storage of the project, always and only as its caller.

    Built from the official clients, each at its first use. Closing one, or `auth()` on it, concerns nobody else and
    does not change whose credential is sent.
    """

    __slots__ = ("_functions", "_http", "_lease", "_postgrest", "_storage", "_url")

    def __init__(self, url: str, lease: httpx.AsyncBaseTransport) -> None:
        self._url = url
        self._lease = lease
        self._http: httpx.AsyncClient | None = None
        self._postgrest: AsyncPostgrestClient | None = None
        self._storage: AsyncStorageClient | None = None
        self._functions: AsyncFunctionsClient | None = None

    def __repr__(self) -> str:
        return "Supabase(as the caller)"

    def table(self, name: str) -> AsyncRequestBuilder:
        return self._rest().from_(name)

    def from_(self, name: str) -> AsyncRequestBuilder:
        return self.table(name)

    def rpc(
        self,
        function: str,
        params: dict[str, Any] | None = None,
        *,
        count: CountMethod | None = None,
        head: bool = False,
        get: bool = False,
    ) -> AsyncRPCFilterRequestBuilder:
        return self._rest().rpc(function, params or {}, count=count, head=head, get=get)

    def schema(self, name: str) -> AsyncPostgrestClient:
        return self._rest().schema(name)

    @property
    def storage(self) -> AsyncStorageClient:
        if self._storage is None:
            self._storage = AsyncStorageClient(f"{self._url}/storage/v1/", {}, http_client=self._session())
        return self._storage

    @property
    def functions(self) -> AsyncFunctionsClient:
        if self._functions is None:
            self._functions = AsyncFunctionsClient(f"{self._url}/functions/v1", {}, http_client=self._session())
        return self._functions

    def _rest(self) -> AsyncPostgrestClient:
        if self._postgrest is None:
            # Its retries sleep for seconds inside a call that the gateway bounds.
            self._postgrest = AsyncPostgrestClient(
                f"{self._url}/rest/v1", headers={}, http_client=self._session(), retry_enabled=False
            )
        return self._postgrest

    def _session(self) -> httpx.AsyncClient:
        # The official clients expose their session, and headers, cookies, hooks or auth set on a shared one would
        # reach the next caller. So each caller has a session and all sessions have one transport.
        if self._http is None:
            self._http = httpx.AsyncClient(
                transport=self._lease,
                timeout=TIMEOUT,
                follow_redirects=False,
                trust_env=False,
                cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            )
        return self._http


class _Lease(httpx.AsyncBaseTransport):
    """One caller's way through the pool: to the project only and with its own credential only. Closing does nothing."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        project: Project,
        token: str | None,
        on_refused: Callable[[], None],
    ) -> None:
        self._transport = transport
        url = httpx.URL(project.url)
        self._origin = _origin(url)
        self._base = url.path.rstrip("/")
        self._key = project.publishable_key
        self._token = token
        self._on_refused = on_refused

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if _origin(request.url) != self._origin:
            raise httpx.UnsupportedProtocol("the caller's credential goes to the Supabase project and nowhere else")
        path = request.url.path.removeprefix(self._base)
        if not path.startswith(_SERVICES) or ".." in path.split("/"):
            raise httpx.UnsupportedProtocol("a name led out of the project's tables, functions and storage")
        request.headers["Host"] = request.url.netloc.decode("ascii")
        request.headers["apikey"] = self._key
        request.headers.pop("Authorization", None)
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        response = await self._transport.handle_async_request(request)
        if self._token is not None and response.status_code in (400, 401, 403):
            await response.aread()
            if _token_refused(request.url.path, response):
                self._on_refused()
        return response


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _token_refused(path: str, response: httpx.Response) -> bool:
    """Whether the answer is about the token itself, not about what its holder may do."""
    try:
        body = response.json()
    except ValueError:
        return False
    if not isinstance(body, dict):
        return False
    if "/storage/v1/" in path:
        message = str(body.get("message", "")).lower()
        return any(words in message for words in _REFUSED_BY_STORAGE)
    return "/rest/v1/" in path and response.status_code == 401 and body.get("code") in _REFUSED_BY_POSTGREST


def _is_secret(key: str) -> bool:
    if key.startswith("sb_secret_"):
        return True
    segments = key.split(".")
    if len(segments) != 3:
        return False
    try:
        payload = json.loads(base64.urlsafe_b64decode(segments[1] + "=" * (-len(segments[1]) % 4)))
    except ValueError:
        return False
    # Every legacy key is a JWT, and only the one for `anon` is meant to be seen.
    return not isinstance(payload, dict) or payload.get("role") != "anon"
