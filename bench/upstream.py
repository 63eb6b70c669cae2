"""The fixed upstream of every measurement: a plugin that costs next to nothing and always answers the same.

It reads the method and the id of a request with two searches, verifies nothing and never looks at an argument, so
that what differs between two targets is the target. GET answers the issuer's key set.

    python bench/upstream.py PORT JWKS_FILE
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import cast

import uvloop

MARK = b"benchmark answer"
"""Part of the one tool's text. The load generator accepts no answer without it."""
TOOL = "query"

_META = b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"upstream","version":"1"}}'
_SCHEMA = (
    b'{"type":"object","properties":{"q":{"type":"string"},"limit":{"type":"integer"},"filters":{"type":"object"}}}'
)
_RESULTS = {
    b"tools/call": b'"content":[{"type":"text","text":"%b: 20 rows in 4 ms"}],"isError":false' % MARK,
    b"tools/list": b'"ttlMs":600000,"cacheScope":"public","tools":[{"name":"%b","title":"Query","description":"Query.",'
    b'"inputSchema":%b,"annotations":{"readOnlyHint":true}}]' % (TOOL.encode(), _SCHEMA),
    b"server/discover": b'"ttlMs":600000,"cacheScope":"public","supportedVersions":["2026-07-28"],'
    b'"capabilities":{"tools":{}},"serverInfo":{"name":"upstream","version":"1"}',
    b"initialize": b'"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"upstream","version":"1"}',
    b"prompts/list": b'"ttlMs":600000,"cacheScope":"public","prompts":[]',
    b"resources/list": b'"ttlMs":600000,"cacheScope":"public","resources":[]',
    b"resources/templates/list": b'"ttlMs":600000,"cacheScope":"public","resourceTemplates":[]',
}
_METHOD = re.compile(rb'"method"\s*:\s*"([^"]+)"')
_ID = re.compile(rb'"id"\s*:\s*("[^"]*"|-?\d+)')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class Upstream(asyncio.Protocol):
    def __init__(self, jwks: bytes) -> None:
        self._jwks = jwks
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[: end + 2]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._rest) < whole:
                return
            body, self._rest = self._rest[end + 4 : whole], self._rest[whole:]
            self._transport.write(answer(body) if body else http(self._jwks))


def answer(body: bytes) -> bytes:
    identifier, method = _ID.search(body), _METHOD.search(body)
    if identifier is None or method is None:  # a notification
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    result = _RESULTS.get(method[1])
    members = b'"resultType":"complete",%b,%b' % (result, _META) if result else b'"resultType":"complete"'
    return http(b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (identifier[1], members))


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def serve(port: int, jwks: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(jwks), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
