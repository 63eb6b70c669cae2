"""An issuer, a plugin and a client inside of the gateway's network, in a container of the gateway's own image.

    python -m deploy.neighbors serve    print where they are and a token, and serve
    python -m deploy.neighbors ask      send the request that standard input describes, print the answer

`CONTEXT_KEY` is the gateway's key as a JWK."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
from joserfc.jwk import KeySet, import_key

from flow.client import Client
from flow.issuer import issuer
from flow.plugin import plugin


async def serve() -> None:
    async with AsyncExitStack() as stack:
        notes = await stack.enter_async_context(plugin("notes"))
        notes.keys = KeySet([import_key(json.loads(os.environ["CONTEXT_KEY"]))])
        tokens = await stack.enter_async_context(issuer())
        print(json.dumps({"issuer": tokens.url, "plugin": notes.url, "token": tokens.token()}), flush=True)
        await asyncio.Event().wait()


async def ask(request: dict[str, Any]) -> None:
    async with aiohttp.ClientSession() as session:
        client = Client(session, request["url"])
        if "call" in request:
            reply = await client.call(request["call"], request["arguments"], token=request.get("token"))
        else:
            reply = await client.send(None, method="GET")
    print(json.dumps({"status": reply.status, "headers": dict(reply.headers), "body": reply.json}))


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1] == "serve" else ask(json.load(sys.stdin)))
