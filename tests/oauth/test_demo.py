"""`rowgate demo`, as a newcomer runs it."""

from __future__ import annotations

import asyncio
import re
import signal
import sys

import aiohttp


async def test_the_check_prints_what_each_user_saw_and_exits_with_0() -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowgate", "demo", "--check"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await child.communicate()
    text = output.decode()
    assert child.returncode == 0, text + errors.decode()
    assert re.search(r"Alice sees [1-9]\d* notes:\n +Acme ", text)
    assert re.search(r"Bob sees [1-9]\d* notes:\n +Globex ", text)
    assert "BROKEN" not in text


async def test_it_reaches_its_banner_answers_and_stops_at_a_signal() -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowgate", "demo", "--port", "0"), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    seen = ""
    while "Ctrl-C stops it" not in seen:
        line = await child.stdout.readline()
        assert line, seen
        seen += line.decode()
    url = re.search(r"MCP endpoint +(\S+)", seen)
    assert url is not None
    async with aiohttp.ClientSession() as session, session.post(url[1], json={}) as answer:
        assert answer.status == 401
    assert "stand-in for Supabase Auth" in seen
    assert f"claude mcp add --transport http rowgate-demo {url[1]}" in seen
    child.send_signal(signal.SIGINT)
    await child.communicate()
    assert child.returncode == 0


async def test_a_port_that_is_taken_is_said_and_exits_with_3() -> None:
    taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    async with taken:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rowgate", "demo", "--port", str(port)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await child.communicate()
    assert child.returncode == 3
    assert b"RG902" in errors
    assert str(port).encode() in errors
