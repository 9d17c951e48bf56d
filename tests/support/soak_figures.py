"""What a soak measured, and whether it stayed the same while time passed."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field

WARM_SECONDS = 240.0  # a shorter run is not judged by how it changed
MOST_GROWTH = 1.3  # of memory and file descriptors, from the second third to the last
SPARE_MIB, SPARE_DESCRIPTORS, SPARE_SECONDS = 32, 16, 1.0


class Figures(Struct):
    """What was seen; what is measured again and again stands in lists, in order."""

    seconds: float = 0.0
    bound: int = 0  # pods
    started: int = 0  # gangs
    ended: int = 0
    lost_nodes: int = 0
    latencies: list[float] = field(default_factory=list)  # seconds from a probe to its binding
    rss: list[int] = field(default_factory=list)  # MiB, one a tick
    threads: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)  # open files and sockets
    progress: list[int] = field(default_factory=list)  # pods bound so far, one a tick
    longest_pause: float = 0.0  # seconds without a binding
    stopped: float = 0.0  # seconds from SIGTERM to the end
    broken: list[str] = field(default_factory=list)

    def measure(self, pid: int) -> None:
        """One tick: what the process has now."""
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        words = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if len(line.split()) > 1}
        self.rss.append(int(words.get("VmRSS", 0)) // 1024)
        self.threads.append(int(words.get("Threads", 0)))
        self.descriptors.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        self.progress.append(self.bound)

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.seconds:.0f} s: {self.bound} pods bound, {self.started} gangs started, {self.ended} ended"
        yield f"{self.lost_nodes} nodes lost; longest pause without a binding {self.longest_pause:.1f} s"
        p50, p99 = percentile(self.latencies, 50), percentile(self.latencies, 99)
        yield f"a pod that fits is bound after {p50 * 1000:.0f} ms (p50), {p99 * 1000:.0f} ms (p99)"
        warm = self.rss[len(self.rss) // 3] if self.rss else 0
        most, threads = max(self.rss, default=0), max(self.threads, default=0)
        yield f"RSS {warm} MiB when warm, {most} MiB at most; {threads} threads"
        yield from (
            f"in thirds: {name} {', '.join(f'{value:g}' for value in values)}" for name, values in self.thirds()
        )
        yield f"SIGTERM ended it in {self.stopped:.1f} s"
        yield from (f"BROKEN: {text}" for text in self.broken)

    def thirds(self) -> Iterator[tuple[str, list[float]]]:
        """How each figure was in the first, second and last third of the time."""
        cuts = [self.progress[i * (len(self.progress) - 1) // 3] for i in range(4)] if self.progress else [0] * 4
        yield "pods bound", [float(after - before) for before, after in pairwise(cuts)]
        yield "RSS in MiB", [float(max(part, default=0)) for part in _thirds(self.rss)]
        yield "file descriptors", [float(max(part, default=0)) for part in _thirds(self.descriptors)]
        yield "p99 in seconds", [round(percentile(part, 99), 3) for part in _thirds(self.latencies)]

    def uneven(self) -> list[str]:
        """Figures that changed from the second third to the last; the first is for warming up."""
        if self.seconds < WARM_SECONDS:
            return []
        spare = {"RSS in MiB": SPARE_MIB, "file descriptors": SPARE_DESCRIPTORS, "p99 in seconds": SPARE_SECONDS}
        findings = []
        for name, (_, before, after) in self.thirds():
            is_worse = after < before / 2 if name not in spare else after > before * MOST_GROWTH + spare[name]
            findings += [f"{name} went from {before:g} to {after:g}"] if is_worse else []
        return findings


def percentile(values: Sequence[float], percent: int) -> float:
    """Of two values or more; otherwise the largest, or 0."""
    if len(values) < 2:
        return max(values, default=0.0)
    return statistics.quantiles(values, n=100)[percent - 1]


def _thirds(values: Sequence[float]) -> list[Sequence[float]]:
    size = len(values)
    return [values[i * size // 3 : (i + 1) * size // 3] for i in range(3)]
