"""Standard output is the log and nothing but the log."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from flow.client import Client
from flow.conftest import CONTEXT_KEY
from flow.issuer import BOB, Issuer
from process.conftest import CONTEXT_KEY_TEXT, Held, Start
from process.gateway import PYTHON, Gateway, environment, until, write_config

LEVELS = {"debug", "info", "warning", "error"}


async def misbehave(gateway: Gateway, client: Client, tokens: Issuer) -> None:
    """What a public endpoint meets on any day."""
    token = tokens.token()
    await client.call("echo", {"text": "hello"}, token=token)
    await client.call("nosuch", token=token)
    await client.call("write", token=token)
    await client.call("echo")
    await client.call("echo", token="not.a.token")
    await client.call("echo", token=tokens.token(exp=1))
    await client.call("echo", token=tokens.token(aud="elsewhere"))
    await client.send(b"{", token=token)
    await client.send(b"\xff\xfe", token=token)
    await client.send(None, method="DELETE", token=token)
    await client.send(None, method="GET", url=f"{gateway.public_url}/nosuch")
    await client.send(None, headers={"Host": "evil.example"})
    await client.send(None, headers={"Origin": "https://evil.example"})
    await malformed(gateway, b"\x16\x03\x01\x02\x00\x01\x00")
    await malformed(gateway, b"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"s" * 40_000 + b"\r\n\r\n")


async def malformed(gateway: Gateway, data: bytes) -> None:
    reader, writer = await asyncio.open_connection(*gateway.address)
    writer.write(data)
    writer.write_eof()
    await reader.read()
    writer.close()


async def test_every_line_is_one_json_object_with_time_level_and_event(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["log"] = {"level": "debug"}
    gateway = await start()
    await misbehave(gateway, client, tokens)
    assert await gateway.stop() == 0
    assert len(gateway.log) > 30
    for line in gateway.log:
        assert list(line)[:3] == ["ts", "level", "event"]
        assert datetime.fromisoformat(line["ts"]).tzinfo is not None
        assert line["level"] in LEVELS
    assert gateway.stderr == []


async def test_ordinary_refusals_leave_no_traceback_and_no_defect(
    gateway: Gateway, client: Client, tokens: Issuer
) -> None:
    await misbehave(gateway, client, tokens)
    assert await gateway.stop() == 0
    assert not [line for line in gateway.log if line["level"] == "error" or "exception" in line]
    assert "Traceback" not in "".join(gateway.stdout)
    assert not [line for line in gateway.log if line["event"] == "library_log"]


async def test_refusals_are_in_the_audit_stream_with_their_code(
    gateway: Gateway, client: Client, tokens: Issuer
) -> None:
    await client.call("echo", token=tokens.token(BOB))
    await client.call("write", token=tokens.token(BOB))
    await client.call("nosuch", token=tokens.token(BOB))
    await client.call("echo", token="not.a.token")
    assert await gateway.stop() == 0
    audit = [line for line in gateway.log if line.get("stream") == "audit"]
    assert [(line["outcome"], line.get("name"), line.get("subject"), line.get("code")) for line in audit] == [
        ("success", "echo", BOB, None),
        ("denied", "write", BOB, "RG301"),
        ("denied", "nosuch", BOB, "RG118"),
        ("denied", None, None, "RG203"),
    ]
    assert all(line["request_id"] for line in audit)


async def test_the_last_lines_before_the_exit_are_written(gateway: Gateway, client: Client, tokens: Issuer) -> None:
    """Lines are gathered for a moment; an exit must not lose that moment."""
    replies = await asyncio.gather(*(client.call("echo", token=tokens.token(), id=n) for n in range(50)))
    assert await gateway.stop() == 0
    logged = {line["request_id"] for line in gateway.log if line["event"] == "request_finished"}
    assert {reply.headers["X-Request-Id"] for reply in replies} <= logged
    assert gateway.log[-1] == {**gateway.log[-1], "event": "gateway_changed", "state": "stopped"}


async def test_no_secret_of_the_process_or_of_a_caller_is_written(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer, held: Held
) -> None:
    tree["gateway"]["log"] = {"level": "debug"}
    unrelated = {"SUPABASE_SERVICE_ROLE_KEY": "sb_secret_very-well-kept", "DATABASE_URL": "postgresql://u:pa55w0rd@h/d"}
    gateway = await start(**unrelated)
    held.released.set()
    await misbehave(gateway, client, tokens)
    token = tokens.token(BOB)
    marked = {"text": "an argument that is nobody's business"}
    assert (await client.call("echo", marked, token=token, headers={"X-Custom": "a-header-of-the-client"})).text == BOB
    assert await gateway.stop() == 0
    said = "".join(gateway.stdout + gateway.stderr)
    private = CONTEXT_KEY.as_dict(private=True)["d"]
    for secret in (token, token.split(".")[1], token.split(".")[2], private, "very-well-kept", "pa55w0rd", "ssssssss"):
        assert secret not in said
    for foreign in (marked["text"], "a-header-of-the-client", "alice@example.com", "bob@example.com"):
        assert foreign not in said
    assert BOB in said


async def test_the_level_hides_lines_and_never_the_audit_stream(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["log"] = {"level": "error"}
    gateway = await start()
    await client.call("echo", token="not.a.token")
    assert await gateway.stop() == 0
    assert [line["event"] for line in gateway.log] == ["mcp_request"]


async def test_the_console_format_is_for_people(
    start: Start, tree: dict[str, Any], client: Client, tokens: Issuer
) -> None:
    tree["gateway"]["log"] = {"format": "console"}
    gateway = await start()
    await client.legacy("tools/call", {"name": "erase\x1b[2J"}, token=tokens.token())
    assert await gateway.stop() == 0
    said = "".join(gateway.stdout)
    assert re.search(r"gateway_changed .*state=serving", said)
    assert "erase\\x1b[2J" in said
    assert "\x1b" not in said


async def test_a_log_that_nobody_reads_any_more_does_not_stop_the_service(
    tree: dict[str, Any], session: aiohttp.ClientSession, client: Client, tokens: Issuer, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        PYTHON,
        "-m",
        "rowgate",
        "serve",
        str(write_config(tmp_path, tree)),
        cwd=tmp_path,
        env=environment(CONTEXT_KEY=CONTEXT_KEY_TEXT),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    os.close(reading)
    address = tree["gateway"]["internal_listen"]
    gateway = Gateway(process, session, tree["gateway"]["public_url"], f"http://{address}")
    try:
        await gateway.ready()
        assert (await client.call("echo", {"text": "hello"}, token=tokens.token())).text == "hello"

        async def counted() -> bool | None:
            async with session.get(f"http://{address}/metrics") as answer:
                lost = re.search(r"^rowgate_log_lines_lost_total (\S+)$", await answer.text(), re.MULTILINE)
            return True if lost and float(lost[1]) > 0 else None

        await until(counted)
        process.terminate()
        _, stderr = await asyncio.wait_for(process.communicate(), 30)
        assert (process.returncode, stderr) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
