"""rowgate beside nginx, an ordinary aiohttp gateway and FastMCP's proxy, in one interleaved run on one machine.

    python bench/run.py [--quick] [--only NAME,…] [--before DIRECTORY] [--json FILE]

Everything listens on 127.0.0.1, and everything that is started is stopped. The figure to trust is CPU time for a
request and its ratio within a round: a neighbour on the machine changes requests per second far more.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop
from load import Probe, Sample, closed_loop
from processes import Ticks, cpu_seconds, interpreter, placement, processor, resident_mib, ticks
from report import Round, Row, quantile, record, table, verdict
from targets import FASTMCP, STARTERS, Scene, Target, install_fastmcp, nginx_binary

SLOW_CONNECTIONS = 8
RATE = 200
"""Requests per second, over all targets, while latency is measured; a tenth of it for the slow ones."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="about a minute; good enough to see a regression")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None, help="of each target in each round")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--samples", type=int, default=None, help="latency samples of each target")
    parser.add_argument("--only", default=",".join(STARTERS), help=f"of {', '.join(STARTERS)}")
    parser.add_argument("--before", type=Path, default=None, help="another checkout of rowgate, measured as well")
    parser.add_argument("--json", type=Path, default=None, help="where the whole record goes")
    given = parser.parse_args()
    rounds, seconds, samples = (6, 0.6, 300) if given.quick else (16, 1.5, 1500)
    given.rounds, given.seconds = given.rounds or rounds, given.seconds or seconds
    given.samples = given.samples or samples
    return given


def chosen(names: str) -> list[str]:
    wanted = [name for name in STARTERS if name in names.split(",")]
    if "nginx" in wanted and nginx_binary() is None:
        print("nginx is not installed (Debian: nginx-light): the run goes on without it.", file=sys.stderr)
        wanted.remove("nginx")
    if any(name.startswith("fastmcp") for name in wanted):
        install_fastmcp()
    return wanted


async def throughput(targets: Sequence[Target], rows: Sequence[Row], given: argparse.Namespace) -> None:
    for target in targets:
        await closed_loop(target.port, target.messages, connections=connections(target, given), seconds=1)
    pairs = list(zip(targets, rows, strict=True))
    for number in range(given.rounds):
        # In alternating direction, so that no target is always the one after another.
        for target, row in pairs if number % 2 == 0 else reversed(pairs):
            row.rounds.append(await one_round(target, row, given))
        print(f"round {number + 1} of {given.rounds}", end="\r", file=sys.stderr)


async def one_round(target: Target, row: Row, given: argparse.Namespace) -> Round:
    before, started = cpu_seconds(target.process.pid), time.perf_counter()
    sample = await closed_loop(
        target.port, target.messages, connections=connections(target, given), seconds=given.seconds
    )
    used, elapsed = cpu_seconds(target.process.pid) - before, time.perf_counter() - started
    collect(row, sample)
    answers = max(1, sample.answers)
    return Round(
        rate=answers / sample.seconds,
        cpu=used / answers,
        share=used / elapsed,
        p50=quantile(sample.latencies, 0.5),
        p99=quantile(sample.latencies, 0.99),
    )


async def latency(pairs: Sequence[tuple[Target, Row]], samples: int, rate: float) -> None:
    """One request at a time to targets in random order, the direct way first among them: what is added is a
    difference within one run."""
    probes = [Probe(target.port, target.messages) for target, _ in pairs]
    found = [Sample() for _ in pairs]
    order = list(range(len(pairs)))
    due = time.perf_counter()
    for _ in range(samples):
        random.shuffle(order)
        for index in order:
            due = max(due + 1 / rate, time.perf_counter())
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await probes[index].once(found[index])
    for probe, (_, row), sample in zip(probes, pairs, found, strict=True):
        probe.close()
        collect(row, sample)
        row.latencies, row.direct = sample.latencies, found[0].latencies


def collect(row: Row, sample: Sample) -> None:
    row.bad += sample.bad
    row.example = row.example or sample.example


def connections(target: Target, given: argparse.Namespace) -> int:
    return min(SLOW_CONNECTIONS, given.connections) if target.slow else int(given.connections)


def circumstances(given: argparse.Namespace, before: Ticks) -> dict[str, Any]:
    packages = ("aiohttp", "uvloop", "mcp", "joserfc", "pyjwt", "structlog", "prometheus-client")
    return {
        "machine": processor(),
        "interpreter": interpreter(),
        "versions": {**{name: version(name) for name in packages}, "fastmcp": FASTMCP, "rowgate": version("rowgate")},
        "load": "closed loop, uvloop protocols of bench/load.py",
        "connections": given.connections,
        "connections_slow": SLOW_CONNECTIONS,
        "rounds": given.rounds,
        "seconds": given.seconds,
        "load_average": os.getloadavg()[0],
        "steal_percent": round(ticks().steal_since(before), 2),
    }


async def measure(given: argparse.Namespace, directory: Path) -> tuple[list[Row], dict[str, Any]]:
    cores = placement()
    if cores:
        os.sched_setaffinity(0, {cores.load})
    else:
        print("Only one core: load and proxy share it, and requests per second mean nothing.", file=sys.stderr)
    before = ticks()
    with Scene(directory, cores) as scene:
        targets = await scene.start(chosen(given.only), given.before)
        rows = [Row(target.name) for target in targets]
        gc.disable()
        await throughput(targets, rows, given)
        pairs = list(zip(targets, rows, strict=True))
        slow = [(target, row) for target, row in pairs if target.slow]
        if slow:
            await latency([pairs[0], *slow], max(20, given.samples // 10), RATE / 10)
        await latency([(target, row) for target, row in pairs if not target.slow], given.samples, RATE)
        for target, row in pairs:
            row.resident_mib = resident_mib(target.process.pid)
    return rows, circumstances(given, before)


def main() -> int:
    given = options()
    with tempfile.TemporaryDirectory(prefix="rowgate-bench-") as directory:
        rows, known = uvloop.run(measure(given, Path(directory)))
    met, lines = verdict(rows)
    print(f"{known['machine']}\n{known['interpreter']}")
    print(", ".join(f"{name} {number}" for name, number in known["versions"].items()))
    print(f"{known['load']}; {given.connections} connections ({SLOW_CONNECTIONS} to FastMCP)")
    print(f"{given.rounds} rounds of {given.seconds} s; ", end="")
    print(f"load average {known['load_average']:.1f}, steal {known['steal_percent']} %\n")
    print(table(rows), "", *lines, sep="\n")
    if given.json:
        given.json.write_text(record(rows, known))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
