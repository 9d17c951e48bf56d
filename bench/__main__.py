"""`python -m bench`: every figure as Markdown, to be pasted into docs/performance.md."""

import platform
import sys
from collections.abc import Iterator

from bench import busy, queues
from bench.model import COMMANDS, SUBJECTS, Point, Subject, growth, measure, wall
from bench.placement import CASES, BenchCase, Figure, figure
from bench.queues import CASES as QUEUE_CASES
from bench.queues import QueueCase


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}; CPU times, best of 3.")
    print("*Reference*: building one plain dict for each SubGroup, measured in the same run.\n")
    print("| what | size | time | ÷ reference | growth |")
    print("|---|---:|---:|---:|---|")
    for subject in SUBJECTS:
        print(f"measuring: {subject.name}", file=sys.stderr)
        for line in rows(subject, measure(subject)):
            print(line, flush=True)
    print(
        "\n| placement | nodes | pods | plan | pods/s | ÷ one pass over the nodes | `take` | ledger copy | to reach |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for case in CASES:
        print(f"measuring: {case.name}", file=sys.stderr)
        print(placed(case, figure(case)), flush=True)
    print("\n| queues and evictions | nodes | pods | nominated | evicted | cycle | ÷ one pass | to reach |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for queue_case in QUEUE_CASES:
        print(f"measuring: {queue_case.name}", file=sys.stderr)
        print(disturbed(queue_case, queues.figure(queue_case)), flush=True)
    print("measuring: busy clusters (all of it: python -m bench.busy)", file=sys.stderr)
    print()
    for line in busy.short():
        print(line, flush=True)
    print("\n| command | median of 10 | ÷ `python -c pass` |")
    print("|---|---:|---:|")
    times = {name: wall(command) for name, command in COMMANDS.items()}
    bare = times["`python -c pass`"]
    for name, taken in times.items():
        print(f"| {name} | {shown(taken)} | {taken / bare:.1f} |")


def rows(subject: Subject, points: list[Point]) -> Iterator[str]:
    """One line for each size; the name stands in the first."""
    factors = [points[i].size / points[i - 1].size for i in range(1, len(points))]
    notes = ["", *(f"×{size:g} size → ×{time:.1f} time" for size, time in zip(factors, growth(points), strict=True))]
    for i, (point, note) in enumerate(zip(points, notes, strict=True)):
        name = "" if i else subject.name
        yield f"| {name} | {point.size:,} | {shown(point.seconds)} | {point.ratio:.1f} | {note} |"


def placed(case: BenchCase, measured: Figure) -> str:
    """One case as a row."""
    rate = f"{measured.pods / measured.taken:,.0f}" if measured.pods else ""
    ratio = f"{measured.taken / measured.reference:,.0f}"
    return (
        f"| {case.name} | {measured.nodes:,} | {measured.pods:,} | {shown(measured.taken)} | {rate} | {ratio} "
        f"| {shown(measured.snapshot)} | {shown(measured.supposed)} | {case.goal} |"
    )


def disturbed(case: QueueCase, measured: queues.Figure) -> str:
    """One full cluster as a row."""
    return (
        f"| {case.name} | {measured.nodes:,} | {measured.pods:,} | {measured.nominated:,} | {measured.evicted:,} "
        f"| {shown(measured.taken)} | {measured.taken / measured.reference:,.0f} | {case.goal} |"
    )


def shown(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


if __name__ == "__main__":
    main()
