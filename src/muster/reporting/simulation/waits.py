"""How long gangs waited for their first start, by size, class and queue.

A gang that never started has waited at least from its arrival to the horizon. It counts with that time, and a
percentile that it could raise is a lower bound.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from muster.reporting.simulation.report import GangColumns

CURVE_POINTS = 100
MOST_GROUPS = 40


class Wait(Struct, frozen=True, gc=False):
    """The wait of one gang."""

    seconds: float
    is_over: bool  # False: it never started, and would have waited longer


class WaitGroup(Struct, frozen=True, kw_only=True):
    """The waits of some gangs. A percentile is None where there are none."""

    label: str
    gangs: int
    never_started: int
    p50: float | None
    p95: float | None
    p99: float | None
    longest: float | None
    bounded_from: float | None  # waits from here on are lower bounds; None: none is
    curve: list[float]  # waits at equal steps of rank, ascending


def collect_waits(gangs: GangColumns, horizon_seconds: float) -> list[Wait]:
    """The wait of every gang, in the order of the columns."""
    return [
        Wait(max(horizon_seconds - arrived, 0.0), is_over=False) if waited is None else Wait(waited, is_over=True)
        for arrived, waited in zip(gangs.arrived_seconds, gangs.first_wait_seconds, strict=True)
    ]


def group_waits(
    waits: Sequence[Wait], labels: Sequence[str], order: Callable[[str], int | str] = str
) -> list[WaitGroup]:
    """A group for each label; beyond `MOST_GROUPS` the smaller ones are one group together."""
    by_label: dict[str, list[Wait]] = defaultdict(list)
    for wait, label in zip(waits, labels, strict=True):
        by_label[label].append(wait)
    largest = sorted(by_label, key=lambda label: (-len(by_label[label]), label))
    kept, merged = largest[:MOST_GROUPS], largest[MOST_GROUPS:]
    groups = [summarize(label, by_label[label]) for label in sorted(kept, key=order)]
    if merged:
        groups.append(summarize(f"{len(merged)} others", (wait for label in merged for wait in by_label[label])))
    return groups


def summarize(label: str, waits: Iterable[Wait]) -> WaitGroup:
    """Percentiles by nearest rank, so that each is the wait of a gang."""
    ordered = sorted(waits, key=lambda wait: wait.seconds)
    seconds = [wait.seconds for wait in ordered]
    unfinished = [wait.seconds for wait in ordered if not wait.is_over]
    return WaitGroup(
        label=label,
        gangs=len(ordered),
        never_started=len(unfinished),
        p50=percentile(seconds, 0.5),
        p95=percentile(seconds, 0.95),
        p99=percentile(seconds, 0.99),
        longest=seconds[-1] if seconds else None,
        bounded_from=unfinished[0] if unfinished else None,
        curve=_curve(seconds),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The least value that so many are not above; None: there are no values."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None


def _curve(ordered: Sequence[float]) -> list[float]:
    if len(ordered) <= CURVE_POINTS:
        return [round(value, 1) for value in ordered]
    last = len(ordered) - 1
    return [round(ordered[step * last // (CURVE_POINTS - 1)], 1) for step in range(CURVE_POINTS)]


def size_label(size: int) -> str:
    """The size class of a gang, by powers of two: `1`, `2`, `3–4`, `5–8`, …."""
    if size <= 2:
        return str(size)
    upper = 1 << (size - 1).bit_length()
    return f"{upper // 2 + 1}–{upper}"


def size_order(label: str) -> int:
    """Size classes from small to large."""
    return int(label.split("–", 1)[0])
