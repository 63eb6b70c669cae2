"""Counters and histograms that are counted on the event loop and rendered by prometheus_client.

The library guards each of its own with a lock, behind three Python calls; for the thirteen steps that one call makes
those took 3 % of its time.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Generic, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

OTHER: Final = "other"


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` rise, and each belongs to its bucket. What exceeds the last has one of its own."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


C = TypeVar("C", Counter, Histogram)


class Tally(Collector, Generic[C]):
    """One metric with its children by label values, bounded in number. One without labels is there from the start."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], series: int) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._series = series
        self._children: dict[tuple[str, ...], C] = {}
        if not labels:
            self()

    def __call__(self, *labels: str) -> C:
        child = self._children.get(labels)
        if child is None:
            if len(self._children) >= self._series:
                labels = (OTHER,) * len(labels)
            child = self._children.setdefault(labels, self._child())
        return child

    @abstractmethod
    def _child(self) -> C: ...


class Counters(Tally[Counter]):
    def collect(self) -> Iterable[Metric]:
        metric = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, counter in self._children.items():
            metric.add_metric(labels, counter.value)
        yield metric

    def _child(self) -> Counter:
        return Counter()


class Histograms(Tally[Histogram]):
    def __init__(self, name: str, text: str, labels: tuple[str, ...], series: int, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        super().__init__(name, text, labels, series)

    def collect(self) -> Iterable[Metric]:
        metric = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for labels, histogram in self._children.items():
            buckets = list(zip(names, accumulate(histogram.counts), strict=True))
            metric.add_metric(labels, buckets, histogram.total)
        yield metric

    def _child(self) -> Histogram:
        return Histogram(self._bounds)
