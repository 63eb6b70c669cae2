"""FastMCP's proxy with JWT verification, as its documentation builds it. Runs in a virtual environment of its own.

isolated: a session with the upstream for each call, so that no two users share one; FastMCP's default. The client is
told not to build a TLS context, which its default does for each call even towards http://, and which would take
three quarters of the time.
shared: one connected client for everybody, which FastMCP warns about: faster, and the wrong thing for users.

    python bench/fastmcp_proxy.py PORT UPSTREAM_URL JWKS_URL ISSUER isolated|shared
"""

from __future__ import annotations

import logging
import sys
from contextlib import asynccontextmanager

import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import JWTVerifier


def verifier(jwks_url: str, issuer: str) -> JWTVerifier:
    return JWTVerifier(
        jwks_uri=jwks_url, issuer=issuer, audience="authenticated", algorithm="ES256", required_scopes=["email"]
    )


async def serve(proxy: FastMCP, port: int) -> None:
    app = proxy.http_app(path="/mcp", stateless_http=True, json_response=True)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", access_log=False, loop="uvloop")
    await uvicorn.Server(config).serve()


@asynccontextmanager
async def target(upstream: str, kind: str):
    transport = StreamableHttpTransport(upstream, verify=False)
    if kind == "isolated":
        yield transport
        return
    async with Client(transport, mode="2026-07-28") as client:
        yield client


async def main(port: str, upstream: str, jwks_url: str, issuer: str, kind: str) -> None:
    async with target(upstream, kind) as behind:
        await serve(create_proxy(behind, name="gateway", auth=verifier(jwks_url, issuer)), int(port))


if __name__ == "__main__":
    import uvloop

    logging.disable(logging.WARNING)
    uvloop.run(main(*sys.argv[1:]))
