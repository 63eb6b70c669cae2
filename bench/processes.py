"""What the kernel knows of a process tree (CPU time, memory) and of the machine. Linux only."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
CORES: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Placement:
    """The proxy has one core to itself; the load and the upstream share another."""

    proxy: int
    load: int


def placement() -> Placement | None:
    return Placement(CORES[0], CORES[1]) if len(CORES) > 1 else None


def start(
    command: Sequence[str], *, core: int | None, log: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    pin = None if core is None else (lambda: os.sched_setaffinity(0, {core}))
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            preexec_fn=pin,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Of all threads of the process and its children, to the nanosecond (schedstat)."""
    total = 0
    for process in tree(pid):
        for thread in _threads(process):
            try:
                total += int((thread / "schedstat").read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def resident_mib(pid: int) -> float:
    total = 0
    for process in tree(pid):
        found = re.search(r"VmRSS:\s+(\d+)", (PROC / str(process) / "status").read_text())
        total += int(found[1]) if found else 0
    return total / 1024


def tree(pid: int) -> list[int]:
    found = [pid]
    for process in found:
        for thread in _threads(process):
            try:
                found += map(int, (thread / "children").read_text().split())
            except OSError:
                continue
    return found


def _threads(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class Ticks:
    """The machine's clock ticks so far: all, idle, and those that the hypervisor gave to others."""

    total: int
    idle: int
    stolen: int

    def steal_since(self, before: Ticks) -> float:
        return 100 * (self.stolen - before.stolen) / max(1, self.total - before.total)


def ticks() -> Ticks:
    fields = list(map(int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]))
    return Ticks(sum(fields), fields[3] + fields[4], fields[7])


def processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", (PROC / "cpuinfo").read_text())
    return f"{found[1] if found else platform.machine()}, {len(CORES)} cores, Linux {platform.release()}"


def interpreter() -> str:
    """An interpreter that was built without optimisation is a fifth slower, in everything that is compared here."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    built = "with" if "--enable-optimizations" in arguments else "without"
    return f"{platform.python_implementation()} {platform.python_version()}, built {built} --enable-optimizations"
