"""Paired differences: the same gang in two variants, so that what differs from gang to gang cancels out."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from muster.reporting.simulation.report import GangColumns, ReportVariant
from muster.reporting.simulation.waits import MOST_GROUPS, percentile

SAME_SECONDS = 1.0  # smaller differences count as none
SHOWN_GANGS = 10  # that gained most, and that lost most
BIN_EDGES = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)  # seconds, to both sides of 0


class GangPair(Struct, frozen=True):
    """One gang in the baseline and in a variant."""

    gang: str
    queue: str
    class_name: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """Negative: shorter in the variant."""
        return self.after - self.before


class DifferenceBin(Struct, frozen=True):
    """Gangs whose difference is in a range; None: without end."""

    above: float | None
    up_to: float | None
    gangs: int


class DifferenceGroup(Struct, frozen=True):
    """The differences of some gangs."""

    label: str
    gangs: int
    shorter: int
    same: int
    longer: int
    mean: float | None
    p5: float | None
    p50: float | None
    p95: float | None


class PairedDifferences(Struct, frozen=True, kw_only=True):
    """One measure of a variant against the baseline, gang by gang."""

    measure: str
    variant: str
    only_baseline: int  # gangs that have the measure there alone
    only_variant: int
    neither: int
    all: DifferenceGroup
    by_queue: list[DifferenceGroup]
    by_class: list[DifferenceGroup]
    bins: list[DifferenceBin]
    gained: list[GangPair]  # most first
    lost: list[GangPair]


def compare_variants(variants: Sequence[ReportVariant]) -> list[PairedDifferences]:
    """Every variant but the first against the first: the wait for the first start, and the time until the end."""
    return [
        pair_gangs(measure, variants[0].gangs, variant.gangs, variant.name)
        for variant in variants[1:]
        for measure in MEASURES
    ]


def pair_gangs(measure: str, baseline: GangColumns, variant: GangColumns, name: str) -> PairedDifferences:
    """The gangs of both, by name; those that lack the measure in one of them are only counted."""
    before, after = MEASURES[measure](baseline), MEASURES[measure](variant)
    columns = zip(baseline.name, baseline.queue, baseline.class_name, strict=True)
    pairs = [
        GangPair(gang, queue, class_name, before[gang], after[gang])
        for gang, queue, class_name in columns
        if gang in before and gang in after
    ]
    pairs.sort(key=lambda pair: (pair.difference, pair.gang))
    return PairedDifferences(
        measure=measure,
        variant=name,
        only_baseline=len(before.keys() - after.keys()),
        only_variant=len(after.keys() - before.keys()),
        neither=len({*baseline.name, *variant.name} - before.keys() - after.keys()),
        all=_summarize("all gangs", pairs),
        by_queue=_group(pairs, [pair.queue for pair in pairs]),
        by_class=_group(pairs, [pair.class_name for pair in pairs]),
        bins=count_bins([pair.difference for pair in pairs]),
        gained=[pair for pair in pairs[:SHOWN_GANGS] if pair.difference < -SAME_SECONDS],
        lost=[pair for pair in reversed(pairs[-SHOWN_GANGS:]) if pair.difference > SAME_SECONDS],
    )


def _waits(gangs: GangColumns) -> dict[str, float]:
    columns = zip(gangs.name, gangs.first_wait_seconds, strict=True)
    return {name: waited for name, waited in columns if waited is not None}


def _turnarounds(gangs: GangColumns) -> dict[str, float]:
    columns = zip(gangs.name, gangs.arrived_seconds, gangs.finished_seconds, strict=True)
    return {name: finished - arrived for name, arrived, finished in columns if finished is not None}


MEASURES = {"wait": _waits, "turnaround": _turnarounds}


def count_bins(differences: Sequence[float]) -> list[DifferenceBin]:
    """How many gangs differ by how much: bins that widen to both sides, with the equal ones in the middle."""
    edges = [-math.inf, *(-edge for edge in reversed(BIN_EDGES)), *BIN_EDGES, math.inf]
    counts = [0] * (len(edges) - 1)
    for difference in differences:
        counts[max(bisect_left(edges, difference) - 1, 0)] += 1
    return [
        DifferenceBin(None if above == -math.inf else above, None if up_to == math.inf else up_to, count)
        for (above, up_to), count in zip(pairwise(edges), counts, strict=True)
    ]


def _group(pairs: Sequence[GangPair], labels: Sequence[str]) -> list[DifferenceGroup]:
    by_label: dict[str, list[GangPair]] = defaultdict(list)
    for pair, label in zip(pairs, labels, strict=True):
        by_label[label].append(pair)
    largest = sorted(by_label, key=lambda label: (-len(by_label[label]), label))[:MOST_GROUPS]
    return [_summarize(label, by_label[label]) for label in sorted(largest)]


def _summarize(label: str, pairs: Sequence[GangPair]) -> DifferenceGroup:
    """Of pairs in ascending order of their differences."""
    differences = [pair.difference for pair in pairs]
    shorter = sum(difference < -SAME_SECONDS for difference in differences)
    longer = sum(difference > SAME_SECONDS for difference in differences)
    return DifferenceGroup(
        label,
        gangs=len(pairs),
        shorter=shorter,
        same=len(pairs) - shorter - longer,
        longer=longer,
        mean=math.fsum(differences) / len(pairs) if pairs else None,
        p5=percentile(differences, 0.05),
        p50=percentile(differences, 0.5),
        p95=percentile(differences, 0.95),
    )
