"""A made-up cluster and load, run by a toy scheduler: just enough for figures of a report that belong together."""

import heapq
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

RACK_GPUS = 64
QUEUES = {"research": 4, "training": 3, "inference": 2, "batch": 1}  # with weights
CLASSES = {"train": (8, 3.0), "tune": (8, 1.2), "serve": (4, 6.0), "notebook": (1, 1.5)}  # GPUs a pod, hours
SCANNED = 40  # waiting gangs that one pass looks at


@dataclass
class ToyGang:
    """One gang of the made-up load."""

    name: str
    queue: str
    class_name: str
    size: int
    gpus: int
    arrived: float
    duration: float
    first_wait: float | None = None
    finished: float | None = None
    starts: int = 0
    evicted: int = 0
    moved: int = 0
    lost: float = 0.0
    racks: dict[int, int] = field(default_factory=dict)
    domains: int = 0
    stretches: list[tuple[float, float, str]] = field(default_factory=list)
    waits_since: float | None = None
    reason: str = ""

    @property
    def least_domains(self) -> int:
        """Racks that could hold it."""
        return math.ceil(self.gpus / RACK_GPUS)

    def set_reason(self, now: float, reason: str) -> None:
        """Begins a stretch of waiting; empty: the wait is over."""
        if reason == self.reason:
            return
        if self.waits_since is not None and now > self.waits_since:
            self.stretches.append((self.waits_since, now, self.reason))
        self.waits_since = now if reason else None
        self.reason = reason


def make_load(seed: int, gangs: int, seconds: float) -> list[ToyGang]:
    """Arrivals with a daily rhythm."""
    chance = random.Random(seed)
    arrivals: list[float] = []
    while len(arrivals) < gangs:
        at = chance.random() * seconds
        if chance.random() < 0.55 + 0.45 * math.sin(2 * math.pi * (at / 86400 - 0.3)):
            arrivals.append(at)
    return [_gang(chance, i, at) for i, at in enumerate(sorted(arrivals))]


def _gang(chance: random.Random, number: int, at: float) -> ToyGang:
    class_name = chance.choices(list(CLASSES), weights=(3, 4, 2, 5))[0]
    each, hours = CLASSES[class_name]
    size = 1 if class_name == "notebook" else chance.choice((1, 2, 2, 4, 4, 8, 8, 12, 16, 32))
    queue = chance.choices(list(QUEUES), weights=(4, 4, 2, 3))[0]
    name = f"{queue}/{class_name}-{number:05d}"
    return ToyGang(name, queue, class_name, size, size * each, at, 3600 * hours * chance.lognormvariate(0, 0.7))


class ToyRun:
    """First come, first served; later gangs may overtake where `is_backfilling`."""

    def __init__(self, load: list[ToyGang], racks: int, seconds: float, *, is_backfilling: bool) -> None:
        self.load, self.seconds = load, seconds
        self.is_backfilling = is_backfilling
        self.capacity = [RACK_GPUS] * racks
        self.free = [RACK_GPUS] * racks
        self.waiting: list[ToyGang] = []
        self.working: set[str] = set()
        self.by_queue: Counter[str] = Counter()
        self.rows: list[dict[str, float]] = []
        self.queue_rows: list[dict[str, tuple[float, float]]] = []
        self.heat_times: list[float] = []
        self.heat_used: list[list[int]] = []
        self.heat_capacity: list[list[int]] = []
        self._numbers = iter(range(10**9))
        self._heap: list[tuple[float, int, str, ToyGang | None]] = []

    def run(self) -> "ToyRun":
        """Runs to the end; one rack is away for a tenth of the time."""
        for gang in self.load:
            self._push(gang.arrived, "arrive", gang)
        self._push(0.36 * self.seconds, "lose", None)
        self._push(0.46 * self.seconds, "return", None)
        for step in range(200):
            self._push(step * self.seconds / 200, "heat", None)
        while self._heap and self._heap[0][0] <= self.seconds:
            now, _, event, subject = heapq.heappop(self._heap)
            self._handle(now, event, subject)
            self._start_waiting(now)
            self._sample(now)
        for gang in self.waiting:
            if gang.waits_since is not None:
                gang.stretches.append((gang.waits_since, self.seconds, gang.reason))
        return self

    def _push(self, at: float, event: str, gang: ToyGang | None) -> None:
        heapq.heappush(self._heap, (at, next(self._numbers), event, gang))

    def _handle(self, now: float, event: str, gang: ToyGang | None) -> None:
        match event, gang:
            case "arrive", ToyGang():
                self.waiting.append(gang)
            case "finish", ToyGang(name=name) if name in self.working:
                self._release(gang)
                gang.finished = now
            case "lose", _:
                self._lose_rack(now, 2)
            case "return", _:
                self.capacity[2] = self.free[2] = RACK_GPUS
            case "heat", _:
                self._heat(now)
            case _:
                pass  # the end of a stretch of work that was interrupted

    def _release(self, gang: ToyGang) -> None:
        self.working.discard(gang.name)
        self.by_queue[gang.queue] -= gang.gpus
        for rack, gpus in gang.racks.items():
            self.free[rack] += gpus

    def _lose_rack(self, now: float, rack: int) -> None:
        for gang in self.load:
            if gang.name in self.working and rack in gang.racks:
                self._release(gang)
                gang.evicted += gang.size
                gang.lost += gang.gpus * min(gang.duration, now - gang.arrived - (gang.first_wait or 0))
                self.waiting.insert(0, gang)
        self.capacity[rack] = self.free[rack] = 0

    def _start_waiting(self, now: float) -> None:
        scanned = SCANNED if self.is_backfilling else 4
        for position, gang in enumerate(list(self.waiting[:scanned])):
            racks = self._place(gang)
            if racks is None:
                gang.set_reason(now, self._refusal(gang, position))
                continue
            gang.racks, gang.domains = racks, gang.domains or len(racks)
            for rack, gpus in racks.items():
                self.free[rack] -= gpus
            gang.set_reason(now, "")
            gang.first_wait = now - gang.arrived if gang.first_wait is None else gang.first_wait
            gang.starts += 1
            self.waiting.remove(gang)
            self.working.add(gang.name)
            self.by_queue[gang.queue] += gang.gpus
            self._push(now + gang.duration, "finish", gang)
        for gang in self.waiting[scanned : scanned + 60]:
            gang.set_reason(now, "gangs of higher rank wait before it")

    def _place(self, gang: ToyGang) -> dict[int, int] | None:
        """Fewest racks; a gang that fits into one rack goes nowhere else unless it may span two."""
        fitting = [rack for rack, free in enumerate(self.free) if free >= gang.gpus]
        if fitting:
            return {min(fitting, key=lambda rack: self.free[rack]): gang.gpus}
        if gang.gpus <= RACK_GPUS and gang.class_name == "train":
            return None
        return self._span(gang.gpus)

    def _span(self, gpus: int) -> dict[int, int] | None:
        racks: dict[int, int] = {}
        for rack in sorted(range(len(self.free)), key=lambda rack: -self.free[rack]):
            racks[rack] = min(self.free[rack], gpus - sum(racks.values()))
            if sum(racks.values()) == gpus:
                return racks
        return None

    def _refusal(self, gang: ToyGang, position: int) -> str:
        idle = sum(self.free)
        if idle >= gang.gpus:
            best = max(range(len(self.free)), key=lambda rack: self.free[rack])
            return f"no rack holds it: best is `rack-{best:02d}` with {self.free[best]} of {gang.gpus} GPUs"
        if position:
            return "gangs of higher rank wait before it"
        return f"needs {gang.gpus} GPUs, {'none is' if not idle else 'too few are'} free"

    def _sample(self, now: float) -> None:
        idle = sum(self.free)
        used = sum(self.capacity) - idle
        is_stuck = bool(self.waiting) and max(self.free) < min(gang.gpus for gang in self.waiting[:SCANNED])
        self.rows.append(
            {
                "at_seconds": now,
                "capacity": sum(self.capacity),
                "allocated": used,
                "working": round(used * 0.96),
                "waiting_gangs": len(self.waiting),
                "working_gangs": len(self.working),
                "idle_gpus": idle,
                "stranded_gpus": idle if is_stuck else 0,
                "largest_free_node_gpus": min(8, max(self.free)),
                "largest_free_domain_gpus": max(self.free),
            }
        )
        self.queue_rows.append(dict(self._queue_shares()))

    def _queue_shares(self) -> Iterator[tuple[str, tuple[float, float]]]:
        requested: Counter[str] = Counter(self.by_queue)
        for gang in self.waiting:
            requested[gang.queue] += gang.gpus
        active = sum(weight for queue, weight in QUEUES.items() if requested[queue])
        for queue, weight in QUEUES.items():
            fair = min(requested[queue], sum(self.capacity) * weight // active) if requested[queue] else 0
            yield queue, (self.by_queue[queue], fair)

    def _heat(self, now: float) -> None:
        self.heat_times.append(now)
        self.heat_capacity.append(list(self.capacity))
        self.heat_used.append([capacity - free for capacity, free in zip(self.capacity, self.free, strict=True)])
