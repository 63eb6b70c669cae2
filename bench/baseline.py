"""The ordinary gateway: what a competent developer writes in an afternoon with aiohttp's own parts.

An Application with three middlewares, PyJWT with a cache of verified tokens, scopes, a context that PyJWT signs with
HS256, a shared ClientSession, structlog as it comes and prometheus_client with `.labels()`. It does less than rowgate
(no checks of headers against bodies, no catalog, no limits, no cancellation, no streams); it is the measure for what
Python and aiohttp cost anyway.

    python bench/baseline.py PORT UPSTREAM_URL JWKS_URL ISSUER LOG_FILE
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import structlog
import uvloop
from aiohttp import web
from cachetools import TTLCache
from prometheus_client import Counter, Histogram, generate_latest

REQUESTS = Counter("requests", "Requests.", ["server", "method", "status"])
SECONDS = Histogram("request_seconds", "Duration.", ["server", "method"])
CONTEXT_SECRET = "a secret of the benchmark, and of nothing else"
FORWARDED = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")
ALLOWED = {"query": {"email"}}
"""Tools and the scopes that they need."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SESSION = web.AppKey("session", aiohttp.ClientSession)
KEYS = web.AppKey("keys", jwt.PyJWKClient)
TOKENS: web.AppKey[TTLCache[str, dict[str, Any]]] = web.AppKey("tokens", TTLCache)


@web.middleware
async def observed(request: web.Request, handler: Handler) -> web.StreamResponse:
    started = time.perf_counter()
    request["id"] = uuid.uuid4().hex
    response = await handler(request)
    elapsed = time.perf_counter() - started
    method, status = request.get("method", ""), str(response.status)
    REQUESTS.labels("main", method, status).inc()
    SECONDS.labels("main", method).observe(elapsed)
    request.config_dict[LOG].info(
        "request",
        request_id=request["id"],
        path=request.path,
        method=method,
        name=request.get("name", ""),
        subject=request.get("claims", {}).get("sub"),
        client_id=request.get("claims", {}).get("client_id"),
        address=request.remote,
        status=response.status,
        duration_ms=round(elapsed * 1000, 3),
    )
    return response


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except PermissionError as error:
        return web.json_response({"error": str(error)}, status=403)
    except jwt.PyJWTError as error:
        return web.json_response({"error": str(error)}, status=401, headers={"WWW-Authenticate": "Bearer"})


@web.middleware
async def authenticated(request: web.Request, handler: Handler) -> web.StreamResponse:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise jwt.InvalidTokenError("no bearer token")
    tokens = request.config_dict[TOKENS]
    digest = hashlib.sha256(token.encode()).hexdigest()
    claims = tokens.get(digest)
    if claims is None or claims["exp"] < time.time():
        key = request.config_dict[KEYS].get_signing_key_from_jwt(token)
        claims = tokens[digest] = jwt.decode(
            token, key, algorithms=["ES256"], audience="authenticated", issuer=request.config_dict[ISSUER]
        )
    request["claims"], request["token"] = claims, token
    return await handler(request)


async def call(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    message = json.loads(body)
    request["method"], request["name"] = message["method"], message.get("params", {}).get("name", "")
    if not ALLOWED.get(request["name"], {"nobody"}) <= set(request["claims"]["scope"].split()):
        raise PermissionError("insufficient scope")
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {request['token']}",
        "X-Request-Id": request["id"],
        "X-Context": context(request, body),
        **{name: request.headers[name] for name in FORWARDED if name in request.headers},
    }
    async with request.config_dict[SESSION].post(request.config_dict[UPSTREAM], data=body, headers=headers) as reply:
        return web.Response(status=reply.status, body=await reply.read(), content_type=reply.content_type)


def context(request: web.Request, body: bytes) -> str:
    claims, now = request["claims"], int(time.time())
    return jwt.encode(
        {
            "iss": "gateway",
            "aud": "upstream",
            "iat": now,
            "exp": now + 60,
            "jti": uuid.uuid4().hex,
            "sub": claims["sub"],
            "client_id": claims["client_id"],
            "scope": claims["scope"],
            "role": claims["role"],
            "session_id": claims["session_id"],
            "method": request["method"],
            "name": request["name"],
            "request_id": request["id"],
            "digest": hashlib.sha256(body).hexdigest(),
            "ath": hashlib.sha256(request["token"].encode()).hexdigest(),
        },
        CONTEXT_SECRET,
        algorithm="HS256",
    )


async def metrics(request: web.Request) -> web.Response:
    return web.Response(body=generate_latest())


async def session(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as app[SESSION]:
        yield


UPSTREAM = web.AppKey("upstream", str)
ISSUER = web.AppKey("issuer", str)
LOG: web.AppKey[Any] = web.AppKey("log", object)


def application(upstream: str, jwks_url: str, issuer: str, log: Path) -> web.Application:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(log.open("w")),
    )
    app = web.Application(middlewares=[observed, errors, authenticated])
    app[UPSTREAM], app[ISSUER], app[LOG] = upstream, issuer, structlog.get_logger()
    app[KEYS], app[TOKENS] = jwt.PyJWKClient(jwks_url), TTLCache(4096, 60)
    app.cleanup_ctx.append(session)
    app.router.add_post("/mcp", call)
    app.router.add_get("/metrics", metrics)
    return app


if __name__ == "__main__":
    port, upstream_url, keys_url, issuer_url, log_file = sys.argv[1:]
    web.run_app(
        application(upstream_url, keys_url, issuer_url, Path(log_file)),
        host="127.0.0.1",
        port=int(port),
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )
