"""Counters and histograms of what happens thousands of times a second, in plain numbers.

Those of prometheus-client take a lock for each of several numbers; here the event loop alone writes. A scrape reads
from another thread: it may miss what is counted meanwhile, and the next one shows it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from muster.observability.metric_table import PREFIX, TABLE, Metric

Labels = tuple[str, ...]


class CounterTally:
    """One series of a counter."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class HistogramTally:
    """One series of a histogram."""

    __slots__ = ("_bounds", "_numbers", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._numbers, self._total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Counts a value in the first bucket that has room for it."""
        self._numbers[bisect_left(self._bounds, value)] += 1
        self._total += value

    def add_to(self, family: HistogramMetricFamily, labels: Labels) -> None:
        """As Prometheus has it: each bucket counts those below it as well."""
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._numbers)), strict=True))
        family.add_metric(labels, buckets, self._total)


class Tallies(Collector):
    """The series of every tallied metric, by its labels; the caller bounds how many there are."""

    def __init__(self) -> None:
        tallied = [metric for metric in TABLE if metric.is_tallied]
        self._counters = {each.name: (each, dict[Labels, CounterTally]()) for each in tallied if each.kind == "counter"}
        self._histograms = {
            each.name: (each, dict[Labels, HistogramTally]()) for each in tallied if each.kind == "histogram"
        }

    def counter(self, name: str, *labels: str) -> CounterTally:
        """The series with these labels."""
        return self._counters[name][1].setdefault(labels, CounterTally())

    def histogram(self, name: str, *labels: str) -> HistogramTally:
        """The series with these labels."""
        metric, series = self._histograms[name]
        return series.setdefault(labels, HistogramTally(metric.buckets))

    def describe(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """The registry finds them by name."""
        return self.collect()

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Every family, also where it is empty."""
        for metric, counters in self._counters.values():
            counter = CounterMetricFamily(_name(metric), metric.about, labels=metric.labels)
            for labels, count in list(counters.items()):
                counter.add_metric(labels, count.number)
            yield counter
        for metric, histograms in self._histograms.values():
            histogram = HistogramMetricFamily(_name(metric), metric.about, labels=metric.labels)
            for labels, tally in list(histograms.items()):
                tally.add_to(histogram, labels)
            yield histogram


def _name(metric: Metric) -> str:
    return f"{PREFIX}_{metric.name}"
