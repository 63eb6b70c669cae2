"""The embedded database: whoever starts it, whatever stops it."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import rowgate
from rowgate.demo.postgres import postgres
from rowgate.errors import StartError

ROOT = os.geteuid() == 0
SCRIPT = """
import asyncio, os, sys, asyncpg
from rowgate.demo.postgres import postgres

async def main():
    async with postgres() as database:
        connection = await asyncpg.connect(database.dsn)
        print(os.geteuid(), await connection.fetchval("select pg_backend_pid()"), flush=True)
        if "wait" in sys.argv:
            await asyncio.sleep(600)
        await connection.close()

asyncio.run(main())
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may pass through; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="rowgate-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def one(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_it_starts_cold_and_warm_and_keeps_what_was_written(place: Path) -> None:
    for run in (1, 2):
        async with postgres(place / "data") as database:
            await one(database.dsn, "create table if not exists kept (n int)")
            await one(database.dsn, "insert into kept values (1)")
            assert await one(database.dsn, "select count(*) from kept") == run
            assert await one(database.dsn, "show fsync") == "on"


async def test_without_a_directory_nothing_is_left() -> None:
    async with postgres() as database:
        private = database.socket_directory.parent
        assert private.exists()
    assert not private.exists()


async def test_it_listens_on_nothing_but_a_socket_that_is_closed_to_others() -> None:
    async with postgres() as database:
        assert await one(database.dsn, "show listen_addresses") == ""
        mode = stat.S_IMODE(database.socket_directory.stat().st_mode)
        assert mode == 0o700


async def test_a_role_without_its_password_is_not_let_in() -> None:
    async with postgres() as database:
        await one(database.dsn, "create role visitor login password 'right'")
        assert await one(database.uri("visitor", "right"), "select current_user") == "visitor"
        for password in ("wrong", None):
            with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)):
                await one(database.uri("visitor", password), "select 1")


async def test_a_directory_of_something_else_is_refused_with_what_the_server_said(place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "letter.txt").write_text("dear diary")
    with pytest.raises(StartError, match="exists but is not empty"):
        async with postgres(place / "data"):
            pass


async def test_a_second_server_on_the_same_data_is_refused(place: Path) -> None:
    async with postgres(place / "data"):
        with pytest.raises(StartError, match=r"postmaster\.pid"):
            async with postgres(place / "data"):
                pass


@pytest.mark.skipif(not ROOT, reason="only root may start it as somebody else")
async def test_as_root_the_server_runs_as_an_ordinary_user() -> None:
    async with postgres() as database:
        pid = await one(database.dsn, "select pid from pg_stat_activity where backend_type = 'checkpointer'")
        assert pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name == "nobody"


@pytest.mark.skipif(not ROOT, reason="root's own directories are closed to root's servant only")
async def test_as_root_a_directory_out_of_reach_is_refused(place: Path) -> None:
    os.chmod(place, 0o700)
    with pytest.raises(StartError, match="cannot reach"):
        async with postgres(place / "data"):
            pass
    assert not (place / "data").exists()


def interpreter_for_everybody() -> str | None:
    """A Python that user `nobody` can run and that takes this environment's packages."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        probe = [candidate, "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            said = subprocess.run(probe, user="nobody", capture_output=True, text=True, check=True, cwd="/").stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if said.split() == [str(part) for part in sys.version_info[:2]]:
            return candidate
    return None


@pytest.mark.skipif(not ROOT, reason="every other test of this file shows it")
def test_an_ordinary_user_needs_nobody_else() -> None:
    interpreter = interpreter_for_everybody()
    if interpreter is None:
        pytest.skip("no interpreter of this version that `nobody` may run")
    paths = [str(Path(rowgate.__file__).parents[1]), *(path for path in sys.path if path.endswith("site-packages"))]
    with tempfile.TemporaryDirectory() as home:
        shutil.chown(home, "nobody")
        ran = subprocess.run(
            [shutil.which("runuser") or "runuser", "-u", "nobody", "--", interpreter, "-c", SCRIPT],
            env={"PYTHONPATH": os.pathsep.join(paths), "HOME": home, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            cwd="/",
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[0] == str(pwd.getpwnam("nobody").pw_uid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_no_server_outlives_its_process(number: signal.Signals, place: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCRIPT, "wait"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(place)},
    )
    assert parent.stdout is not None
    _, backend = (await parent.stdout.readline()).split()
    postmaster = _parent(int(backend))
    parent.send_signal(number)
    await parent.wait()
    await asyncio.to_thread(_gone, postmaster)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _gone(pid: int) -> None:
    """Return when the process has ended; whoever adopted it may not have buried it yet."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.02)
    raise AssertionError("the server is still there")
