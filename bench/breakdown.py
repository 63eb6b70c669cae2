"""Where the time of a request goes: py-spy watches rowgate under load, and each sample is counted for one part.

python bench/breakdown.py [--seconds 20] [--stacks FILE] [--target rowgate|baseline]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import uvloop
from load import closed_loop
from processes import cpu_seconds, placement
from targets import Scene, Target

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("log and metrics", ("rowgate/observe/",)),
    ("context signing", ("rowgate/upstream/context.py", "rowgate_plugin/contract.py")),
    ("authentication", ("rowgate/auth/",)),
    ("policy and catalog", ("rowgate/policy/",)),
    ("limits", ("rowgate/limits/",)),
    ("parsing and JSON", ("rowgate/protocol/ijson.py", "rowgate/protocol/message.py", "mcp/shared/inbound.py")),
    ("response", ("rowgate/protocol/stream.py", "rowgate/protocol/render.py", "rowgate/protocol/answers.py")),
    ("host, origin, body", ("rowgate/edge/origin.py", "rowgate/edge/body.py", "rowgate/edge/forwarded.py")),
    ("HTTP out", ("rowgate/upstream/leg.py", "rowgate/upstream/pooled.py", "aiohttp/client", "aiohttp/connector.py")),
    ("exchange with the plugin", ("rowgate/upstream/",)),
    ("pipeline and door", ("rowgate/pipeline.py", "rowgate/relay.py", "rowgate/door.py")),
    ("HTTP in", ("aiohttp/web_protocol.py", "aiohttp/web", "rowgate/edge/listener.py")),
    ("event loop", ("",)),
)
"""A sample belongs to the first part of which a frame is on its stack: the innermost concern comes first."""
WAITING = "LineWriter._run"
"""The log's own thread, which sleeps; py-spy takes its timed wait for work."""


def part_of(stack: str) -> str:
    return next(part for part, places in PARTS if any(place in stack for place in places))


async def watched(target: Target, seconds: int, stacks: Path) -> tuple[int, float]:
    """Answers, and CPU seconds, while py-spy looked on."""
    await closed_loop(target.port, target.messages, connections=32, seconds=2)
    command = ["record", "-p", str(target.process.pid), "-d", str(seconds), "-r", "500", "-f", "raw", "-F"]
    spy = await asyncio.create_subprocess_exec(
        spy_binary(), *command, "--full-filenames", "-o", str(stacks), stdout=asyncio.subprocess.DEVNULL
    )
    before = cpu_seconds(target.process.pid)
    sample = await closed_loop(target.port, target.messages, connections=32, seconds=seconds + 0.5)
    used = cpu_seconds(target.process.pid) - before
    await spy.wait()
    if sample.bad:
        raise SystemExit(f"bad answers: {sample.example}")
    return sample.answers, used


def spy_binary() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise SystemExit("py-spy is not installed: pip install py-spy")
    return found


def table(stacks: Path, microseconds: float) -> str:
    counts: Counter[str] = Counter()
    for line in stacks.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if WAITING in stack:
            continue
        counts[part_of(stack)] += int(count)
    total = sum(counts.values())
    lines = ["| part | share | µs |", "| --- | ---: | ---: |"]
    for part, samples in counts.most_common():
        lines.append(f"| {part} | {100 * samples / total:.0f} % | {microseconds * samples / total:.0f} |")
    return "\n".join([*lines, f"| all, {total} samples | 100 % | {microseconds:.0f} |"])


async def main(given: argparse.Namespace, directory: Path) -> None:
    cores = placement()
    if cores:
        os.sched_setaffinity(0, {cores.load})
    with Scene(directory, cores) as scene:
        target = (await scene.start([given.target]))[1]
        stacks = given.stacks or directory / "stacks"
        answers, used = await watched(target, given.seconds, stacks)
        print(table(stacks, used / answers * 1e6))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--stacks", type=Path, help="where the collapsed stacks go, for a flame graph")
    parser.add_argument("--target", default="rowgate")
    with tempfile.TemporaryDirectory(prefix="rowgate-bench-") as scratch:
        uvloop.run(main(parser.parse_args(), Path(scratch)))
