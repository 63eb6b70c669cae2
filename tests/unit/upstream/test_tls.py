"""TLS to plugins: whom the gateway believes, and how it says who it is. Against a real server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowgate.config.plugin import Plugin, Tls
from rowgate.errors import PluginUnreachable, StartError, UpstreamError
from rowgate.upstream.pooled import leg_to
from rowgate.upstream.tls import tls_context
from unit.upstream.certificates import Authority


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "foreign")


async def serve(stack: AsyncExitStack, authority: Authority, host: str, clients: Authority | None = None) -> str:
    """A server with a certificate for `host`; with `clients`, only for those whom that authority knows."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pair = authority.issue(host)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.file)

    async def handle(request: web.BaseRequest) -> web.Response:
        peer: Any = request.transport.get_extra_info("peercert") if request.transport else None
        shown = dict(pair for names in (peer or {}).get("subject", ()) for pair in names)
        return web.Response(text=shown.get("commonName", "nobody"))

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    return f"https://localhost:{runner.addresses[0][1]}/mcp"


async def ask(stack: AsyncExitStack, url: str, tls: Tls | None) -> str:
    leg = leg_to(Plugin(url=url, tls=tls))
    stack.push_async_callback(leg.close)
    reply = await leg.post({}, b"{}", timeout=30)
    try:
        return b"".join([chunk async for chunk in reply.chunks()]).decode()
    finally:
        reply.release()


async def test_a_plugin_of_an_unknown_authority_is_not_believed(stack: AsyncExitStack, ours: Authority) -> None:
    url = await serve(stack, ours, "localhost")
    with pytest.raises(PluginUnreachable) as caught:
        await ask(stack, url, None)
    assert caught.value.reason == "tls"


async def test_the_configured_authority_is_believed_and_no_other(
    stack: AsyncExitStack, ours: Authority, foreign: Authority
) -> None:
    url, strange = await serve(stack, ours, "localhost"), await serve(stack, foreign, "localhost")
    assert await ask(stack, url, Tls(ca=ours.file)) == "nobody"
    with pytest.raises(PluginUnreachable):
        await ask(stack, strange, Tls(ca=ours.file))


async def test_a_certificate_for_another_name_is_not_believed(stack: AsyncExitStack, ours: Authority) -> None:
    url = await serve(stack, ours, "notes.internal")
    with pytest.raises(PluginUnreachable):
        await ask(stack, url, Tls(ca=ours.file))
    assert await ask(stack, url, Tls(ca=ours.file, server_name="notes.internal")) == "nobody"


async def test_a_plugin_may_demand_the_gateway_s_certificate(
    stack: AsyncExitStack, ours: Authority, foreign: Authority
) -> None:
    url = await serve(stack, ours, "localhost", clients=ours)
    own, strange = ours.issue("gateway"), foreign.issue("gateway")
    assert await ask(stack, url, Tls(ca=ours.file, certificate=own.certificate, key=own.key)) == "gateway"
    with pytest.raises(UpstreamError):
        await ask(stack, url, Tls(ca=ours.file))
    with pytest.raises(UpstreamError):
        await ask(stack, url, Tls(ca=ours.file, certificate=strange.certificate, key=strange.key))


def test_files_that_cannot_be_used_stop_the_start(ours: Authority, foreign: Authority) -> None:
    own, other, locked = ours.issue("gateway"), foreign.issue("gateway"), ours.issue("locked", password=b"secret words")
    for bad in (
        Tls(ca="/absent/ca.pem"),
        Tls(ca=own.key),
        Tls(certificate="/absent/gateway.pem", key=own.key),
        Tls(certificate=own.certificate, key=other.key),
        Tls(certificate=locked.certificate, key=locked.key),
    ):
        with pytest.raises(StartError):
            tls_context(bad)


def test_names_and_certificates_are_verified_without_any_setting() -> None:
    context = tls_context(None)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
