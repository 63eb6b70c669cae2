"""Plugins that the gateway starts: real processes, a pause that the test decides over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rowgate.config.plugin import Plugin, Restart
from rowgate.config.values import Spread
from rowgate.errors import PluginUnreachable
from rowgate.observe.events import Event, PluginOutput, PluginProcessChanged
from rowgate.upstream.supervisor import Supervisor, supervisor

ACCEPT = """
import json, os, socket, sys
print(json.dumps({"message": json.dumps({"env": dict(os.environ), "pid": os.getpid(), "cwd": os.getcwd(),
    "fds": sorted(map(int, os.listdir("/proc/self/fd"))), "sid": os.getsid(0)})}), flush=True)
listening = socket.socket(fileno=3)
while True:
    connection, _ = listening.accept()
    connection.close()
"""
PLENTY = 30.0
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


class Events:
    def __init__(self) -> None:
        self.all: list[Event] = []
        self._changed = asyncio.Event()

    def emit(self, event: Event) -> None:
        self.all.append(event)
        self._changed.set()

    async def wait(self, wanted: Callable[[Event], Any], number: int = 1) -> Any:
        async with asyncio.timeout(30):
            while len(found := [event for event in self.all if wanted(event)]) < number:
                self._changed.clear()
                await self._changed.wait()
        return found[number - 1]

    async def state(self, state: str, number: int = 1) -> PluginProcessChanged:
        def wanted(event: Event) -> bool:
            return isinstance(event, PluginProcessChanged) and event.state == state

        found = await self.wait(wanted, number)
        assert isinstance(found, PluginProcessChanged)
        return found

    async def line(self, number: int = 1) -> str:
        found = await self.wait(lambda event: isinstance(event, PluginOutput), number)
        assert isinstance(found, PluginOutput)
        return found.text


class Pauses:
    """Sleeps when it is told to go on, and notes how long it should have slept."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self.go_on = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self.go_on.acquire()

    async def next(self) -> float:
        return await asyncio.wait_for(self.asked.get(), 30)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as it:
        yield it


@pytest.fixture
def events() -> Events:
    return Events()


async def answers(plugin: str) -> None:
    """A probe that always succeeds."""


async def silent(plugin: str) -> None:
    await asyncio.Event().wait()


def environment(name: str, plugin: Plugin) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "NAME": name}


def running(script: str, **settings: Any) -> Plugin:
    return Plugin(command=(sys.executable, "-c", script), **settings)


async def one(stack: AsyncExitStack, plugin: Plugin, events: Events, *, grace: float = PLENTY) -> Supervisor:
    it = await stack.enter_async_context(supervisor({"notes": plugin}, environment, emit=events.emit, grace=grace))
    it.start(answers, answers)
    return it


def alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while alive(pid):  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(0.01)


async def test_a_command_gets_its_socket_as_systemd_would_pass_it(stack: AsyncExitStack, events: Events) -> None:
    it = await one(stack, running(ACCEPT, cwd="/usr"), events)
    said = json.loads(await events.line())
    assert (said["env"]["LISTEN_FDS"], said["env"]["LISTEN_PID"]) == ("1", str(said["pid"]))
    assert (said["cwd"], said["sid"]) == ("/usr", said["pid"])
    assert said["fds"] == [0, 1, 2, 3, 4], "the last one is that of the question"
    path = it.socket("notes")
    assert path is not None
    assert it.socket("others") is None
    reader, writer = await asyncio.open_unix_connection(path)
    assert await reader.read() == b""
    writer.close()


async def test_a_command_gets_the_given_environment_and_nothing_else(stack: AsyncExitStack, events: Events) -> None:
    await one(stack, running(ACCEPT), events)
    got = json.loads(await events.line())["env"].keys()
    assert got - {"LC_CTYPE"} == {"PATH", "NAME", "LISTEN_FDS", "LISTEN_PID"}  # Python sets LC_CTYPE itself


async def test_sockets_lie_where_nobody_else_comes_and_go_with_the_gateway(events: Events) -> None:
    async with AsyncExitStack() as stack:
        it = await one(stack, running(ACCEPT), events)
        pid = (await events.state("started")).pid
        directory = os.path.dirname(it.socket("notes") or "")
        assert os.stat(directory).st_mode & 0o777 == 0o700
        assert pid is not None
    assert os.path.basename(directory) not in os.listdir(os.path.dirname(directory))
    assert not alive(pid)
    assert (await events.state("stopped")).detail == "SIGTERM"


async def test_without_a_command_nothing_is_made(stack: AsyncExitStack, events: Events) -> None:
    plugins = {"notes": Plugin(url="http://127.0.0.1:1/mcp")}
    it = await stack.enter_async_context(supervisor(plugins, environment, emit=events.emit))
    it.start(answers, answers)
    assert it.socket("notes") is None
    assert events.all == []


async def test_a_plugin_that_is_down_refuses_connections(stack: AsyncExitStack, events: Events, tmp_path: Path) -> None:
    it, pauses = supervised(stack, running("import sys; sys.exit(3)"), events, tmp_path)
    await pauses.next()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(it.socket("notes"))
    exited = await events.state("exited")
    assert (exited.cause, exited.detail) == ("status", "status 3")


def supervised(
    stack: AsyncExitStack, plugin: Plugin, events: Events, directory: Path, clock: Callable[[], float] = lambda: 0.0
) -> tuple[Supervisor, Pauses]:
    pauses = Pauses()
    it = Supervisor(
        {"notes": plugin}, directory, environment, emit=events.emit, monotonic=clock, sleep=pauses, chance=lambda: 1.0
    )
    it.start(answers, answers)
    stack.push_async_callback(it.close)
    return it, pauses


async def test_pauses_double_up_to_the_longest(stack: AsyncExitStack, events: Events, tmp_path: Path) -> None:
    plugin = running("", restart=Restart(backoff=Spread(1.0, 5.0)))
    _, pauses = supervised(stack, plugin, events, tmp_path)
    found = []
    for _ in range(5):
        found.append(await pauses.next())
        pauses.go_on.release()
    assert found == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_pauses_count_afresh_after_a_healthy_time(stack: AsyncExitStack, events: Events, tmp_path: Path) -> None:
    now = 0.0
    plugin = running(ACCEPT, restart=Restart(backoff=Spread(1.0, 5.0)))
    _, pauses = supervised(stack, plugin, events, tmp_path, lambda: now)

    async def die(number: int, after: float) -> float:
        nonlocal now
        started = await events.state("ready", number)
        now += after
        assert started.pid is not None
        os.kill(started.pid, signal.SIGKILL)
        pause = await pauses.next()
        pauses.go_on.release()
        return pause

    assert [await die(number, after) for number, after in ((1, 1), (2, 4.9), (3, 5.1), (4, 1))] == [1, 2, 1, 2]
    assert {event.cause for event in events.all if isinstance(event, PluginProcessChanged)} == {None, "signal"}


async def test_each_start_is_ready_only_when_it_answered(stack: AsyncExitStack, events: Events, tmp_path: Path) -> None:
    refused, told = 0, []

    async def probe(plugin: str) -> None:
        nonlocal refused
        refused += 1
        if refused < 3:
            raise PluginUnreachable

    async def ready(plugin: str) -> None:
        told.append(plugin)
        raise RuntimeError("a defect elsewhere ends no supervision")

    it = Supervisor({"notes": running(ACCEPT)}, tmp_path, environment, emit=events.emit)
    it.start(probe, ready)
    stack.push_async_callback(it.close)
    first = await events.state("ready")
    assert (refused, told) == (3, ["notes"])
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    await events.state("ready", 2)
    assert told == ["notes", "notes"]


async def test_a_program_that_is_not_there_is_said_and_tried_again(
    stack: AsyncExitStack, events: Events, tmp_path: Path
) -> None:
    _, pauses = supervised(stack, Plugin(command=("no-such-program",)), events, tmp_path)
    assert await events.line() == "cannot run no-such-program: No such file or directory"
    assert (await events.state("exited")).detail == "status 127"
    await pauses.next()


async def test_a_directory_that_is_not_there_is_a_failed_start(
    stack: AsyncExitStack, events: Events, tmp_path: Path
) -> None:
    _, pauses = supervised(stack, running("", cwd="/no/such/directory"), events, tmp_path)
    await pauses.next()
    assert (await events.state("exited")).cause == "not_started"


@pytest.mark.parametrize("way", ["stopped", "killed"])
async def test_what_a_plugin_started_ends_with_it(events: Events, way: str) -> None:
    async with AsyncExitStack() as stack:
        await one(stack, running(STUBBORN), events, grace=0.1)
        grandchild = int(await events.line())
        pid = (await events.state("started")).pid
        assert pid is not None
        if way == "killed":
            os.kill(pid, signal.SIGKILL)
            await events.state("exited")
    await gone(grandchild)
    assert not alive(pid)


async def test_all_plugins_are_stopped_at_once(events: Events) -> None:
    async with AsyncExitStack() as stack:
        plugins = {name: running(STUBBORN) for name in ("a", "b", "c")}
        it = await stack.enter_async_context(supervisor(plugins, environment, emit=events.emit, grace=0.1))
        it.start(silent, answers)
        await events.line(3)
    assert {event.detail for event in events.all if isinstance(event, PluginProcessChanged) and event.detail} == {
        "SIGKILL"
    }
