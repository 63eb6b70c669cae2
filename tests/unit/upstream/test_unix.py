"""Plugins behind Unix sockets: who may be listening there, and what happens when nobody is."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rowgate.config.plugin import Plugin
from rowgate.errors import PluginDied, PluginSocketForeign, PluginUnreachable, StartError
from rowgate.upstream.leg import Leg, Reply
from rowgate.upstream.pooled import PooledLeg, leg_to
from rowgate.upstream.unix import UnixSocket, listen, listeners
from unit.upstream.rude_server import Peer, Script, answer, rude_server, saying

NOBODY = 65_534


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


async def serve(stack: AsyncExitStack, listening: socket.socket, script: Script) -> list[bytes]:
    server = await stack.enter_async_context(rude_server(script, listening))
    return server.requests


def leg(stack: AsyncExitStack, at: Path, **settings: object) -> Leg:
    it = leg_to(Plugin.model_validate({"socket": str(at), **settings}))
    stack.push_async_callback(it.close)
    return it


async def post(leg: Leg) -> Reply:
    return await leg.post({"Content-Type": "application/json"}, b"{}", timeout=30)


async def test_a_plugin_behind_a_socket_is_asked_at_its_path_as_localhost(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    requests = await serve(stack, listen(tmp_path / "s"), saying(answer(b'{"a":1}')))
    it = leg(stack, tmp_path / "s", path="/v1/mcp?x=%2F")
    for _ in range(2):
        reply = await post(it)
        assert (reply.status, reply.received()) == (200, b'{"a":1}')
        reply.release()
    heads = [request.split(b"\r\n")[:2] for request in requests]
    assert heads == 2 * [[b"POST /v1/mcp?x=%2F HTTP/1.1", b"Host: localhost"]]


async def test_a_socket_where_nobody_listens_is_a_plugin_that_is_not_there(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    listen(tmp_path / "left behind").close()
    (tmp_path / "a file").write_text("")
    for name in ("left behind", "a file", "absent"):
        with pytest.raises(PluginUnreachable):
            await post(leg(stack, tmp_path / name))


async def test_a_full_queue_is_a_plugin_that_is_not_there_and_not_one_that_died(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    """Of a listener whose queue is full, the event loop says that it is connected."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(0)
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(tmp_path / "s"))
        with pytest.raises(PluginUnreachable):
            await post(leg(stack, tmp_path / "s"))
        for one in waiting:
            one.close()


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root can be two users")
async def test_nothing_is_sent_to_a_socket_on_which_somebody_else_listens(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    script = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setuid(65534);"
        "s.listen(); print(flush=True); s.settimeout(30); c, _ = s.accept(); print(len(c.recv(9)), flush=True)"
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(path), stdout=asyncio.subprocess.PIPE, cwd="/"
    )
    assert child.stdout is not None
    try:
        await child.stdout.readline()
        assert os.stat(path).st_uid == 0, "what the file says is not what counts"
        with pytest.raises(PluginSocketForeign):
            await post(leg(stack, path))
        assert await child.stdout.readline() == b"0\n"
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root can be two users")
async def test_the_configured_owner_may_listen(stack: AsyncExitStack, tmp_path: Path) -> None:
    assert listeners("nobody") == listeners(str(NOBODY)) == {0, NOBODY}
    assert listeners(None) == {os.geteuid(), 0}
    await serve(stack, listen(tmp_path / "s"), saying(answer(b"{}")))
    assert (await post(leg(stack, tmp_path / "s", socket_owner=str(NOBODY)))).status == 200  # root always may


def test_an_owner_whom_nobody_knows_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no user nosuchuser"):
        leg_to(Plugin(socket=str(tmp_path / "s"), socket_owner="nosuchuser"))


async def test_a_plugin_that_hangs_up_died(stack: AsyncExitStack, tmp_path: Path) -> None:
    async def hang_up(peer: Peer, request: bytes) -> None:
        peer.writer.close()

    await serve(stack, listen(tmp_path / "s"), hang_up)
    with pytest.raises(PluginDied):
        await post(leg(stack, tmp_path / "s"))


def test_a_new_socket_takes_the_place_of_an_old_one(tmp_path: Path) -> None:
    listen(tmp_path / "s").close()
    with listen(tmp_path / "s"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))


async def test_not_a_byte_goes_to_a_listener_who_is_none_of_the_owners(stack: AsyncExitStack, tmp_path: Path) -> None:
    requests = await serve(stack, listen(tmp_path / "s"), saying(answer(b"{}")))
    others = UnixSocket(str(tmp_path / "s"), frozenset({os.geteuid() + 1}))
    it = PooledLeg("http://localhost/mcp", max_connections=1, connect_timeout=30, socket=others)
    for _ in range(2):  # the place is free again
        with pytest.raises(PluginSocketForeign):
            await post(it)
    assert requests == []
