"""From the rounds of a run to a table, and to a verdict or the reason why there is none."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

CPU_TARGET = 0.7
"""rowgate's CPU time for a request, at most, in those of the ordinary gateway."""
RATE_TARGET = 10.0
"""rowgate's requests per second, at least, in those of FastMCP over a shared client."""


@dataclass(frozen=True, slots=True)
class Round:
    rate: float
    cpu: float
    """Seconds a request, of the whole process tree."""
    share: float
    """CPU time over wall-clock time: how much of its core the target had."""
    p50: float
    p99: float


@dataclass(slots=True)
class Row:
    name: str
    rounds: list[Round] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    """Latencies of the direct way, measured between those of this target."""
    resident_mib: float = 0.0
    bad: int = 0
    example: str = ""

    def median(self, of: Callable[[Round], float]) -> float:
        return statistics.median(map(of, self.rounds))

    def added(self, q: float) -> float:
        return quantile(self.latencies, q) - quantile(self.direct, q)


def quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


def paired(row: Row, other: Row, of: Callable[[Round], float]) -> float:
    """The median of the ratios within each round: what a busy neighbour does to both cancels out."""
    return statistics.median(of(mine) / of(theirs) for mine, theirs in zip(row.rounds, other.rounds, strict=True))


def spread(row: Row, other: Row, of: Callable[[Round], float]) -> tuple[float, float]:
    ratios = [of(mine) / of(theirs) for mine, theirs in zip(row.rounds, other.rounds, strict=True)]
    return quantile(ratios, 0.25), quantile(ratios, 0.75)


def cpu(it: Round) -> float:
    return it.cpu


def rate(it: Round) -> float:
    return it.rate


def table(rows: Sequence[Row]) -> str:
    rowgate = next((row for row in rows if row.name == "rowgate"), None)
    lines = [
        "| target | requests/s | CPU µs/request | CPU, rowgate = 1 | p50 ms | p99 ms | added p50 ms | added p99 ms "
        "| RSS MiB | core |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        relative = f"{paired(row, rowgate, cpu):.2f}" if rowgate else ""
        added = ("", "") if row.name == "direct" else (f"{row.added(0.5) * 1e3:.2f}", f"{row.added(0.99) * 1e3:.2f}")
        cells = [
            row.name,
            f"{row.median(rate):,.0f}",
            f"{row.median(cpu) * 1e6:,.0f}",
            relative,
            f"{row.median(lambda it: it.p50) * 1e3:.1f}",
            f"{row.median(lambda it: it.p99) * 1e3:.1f}",
            *added,
            f"{row.resident_mib:.0f}",
            f"{row.median(lambda it: it.share) * 100:.0f} %",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(rows: Sequence[Row]) -> tuple[bool, list[str]]:
    """Whether every target that could be judged is met, and a line for each."""
    if spoilt := [row for row in rows if row.bad]:
        return False, [f"No verdict: {row.name} gave {row.bad} bad answers, such as {row.example!r}" for row in spoilt]
    by_name = {row.name: row for row in rows}
    rowgate, lines, met = by_name.get("rowgate"), [], True
    if rowgate and (ordinary := by_name.get("ordinary aiohttp")):
        ratio, (low, high) = paired(rowgate, ordinary, cpu), spread(rowgate, ordinary, cpu)
        met &= ratio <= CPU_TARGET
        lines.append(
            f"CPU for a request: {ratio:.2f} of the ordinary aiohttp gateway (middle half of the rounds {low:.2f} to "
            f"{high:.2f}; target at most {CPU_TARGET}): {'met' if ratio <= CPU_TARGET else 'MISSED'}"
        )
    if rowgate and (shared := by_name.get("FastMCP proxy, shared")):
        ratio = paired(rowgate, shared, rate)
        met &= ratio >= RATE_TARGET
        lines.append(
            f"Requests per second: {ratio:.0f} times those of FastMCP's proxy over a shared client (target at least "
            f"{RATE_TARGET:.0f}): {'met' if ratio >= RATE_TARGET else 'MISSED'}"
        )
    return met, lines or ["No verdict: nothing to compare rowgate with."]


def record(rows: Sequence[Row], circumstances: dict[str, Any]) -> str:
    targets = [
        {
            "name": row.name,
            "requests_per_second": row.median(rate),
            "cpu_us_per_request": row.median(cpu) * 1e6,
            "added_p50_ms": row.added(0.5) * 1e3,
            "added_p99_ms": row.added(0.99) * 1e3,
            "resident_mib": row.resident_mib,
            "bad": row.bad,
            "rounds": [{"rate": it.rate, "cpu_us": it.cpu * 1e6, "share": it.share} for it in row.rounds],
        }
        for row in rows
    ]
    return json.dumps({**circumstances, "targets": targets}, indent=2)
