"""The next gang to try (G4): by the order of queues at every level, then by the order inside a queue."""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Any

from muster.api.quantity import Resources
from muster.fairness.order import Place
from muster.fairness.queue_usage import QueueUsage
from muster.model.queues import QueueNode

Rank = tuple[Any, ...]


class WaitingGangs:
    """The gangs of one queue in order. Most are added before the first is popped, so one sort serves all."""

    def __init__(self) -> None:
        self._entries: list[tuple[Rank, str]] = []
        self._first = 0  # earlier entries were popped
        self._is_sorted = False

    def __bool__(self) -> bool:
        return self._first < len(self._entries)

    def add(self, rank: Rank, gang: str) -> None:
        """Add a gang."""
        if self._is_sorted:
            insort(self._entries, (rank, gang), self._first)
        else:
            self._entries.append((rank, gang))

    def drop(self, gangs: int) -> None:
        """Pop the first so many."""
        self._first += gangs

    @property
    def first(self) -> str:
        """The one that comes next."""
        self._sort()
        return self._entries[self._first][1]

    def __iter__(self) -> Iterator[str]:
        self._sort()
        return (self._entries[i][1] for i in range(self._first, len(self._entries)))

    def _sort(self) -> None:
        if not self._is_sorted:
            self._entries.sort()
            self._is_sorted = True


class SchedulingQueue:
    """Gangs to be tried. The order of queues follows their usage, which changes with every placement."""

    def __init__(self, usage: Callable[[], QueueUsage]) -> None:
        self._usage = usage
        self._gangs: dict[str, WaitingGangs] = defaultdict(WaitingGangs)
        self._waiting_below: dict[str, int] = defaultdict(int)  # gangs at and below a queue
        self._open: dict[str, list[tuple[Place, str]]] = defaultdict(list)  # by parent: children that have gangs
        self._entered: dict[str, Place] = {}  # by child: the place of its latest entry; others are out of date
        self._paths: dict[str, tuple[QueueNode, ...]] = {}
        self._places: dict[str, tuple[Resources, Place]] = {}  # each with what the queue held

    def add(self, queue: str, rank: Rank, gang: str) -> None:
        """Add a gang to its queue."""
        self._gangs[queue].add(rank, gang)
        for node in self._path(queue):
            if not self._waiting_below[node.name]:
                self._push(node)
            self._waiting_below[node.name] += 1

    def usage_fell(self, queue: str) -> None:
        """Reorder a queue and those above it after their usage fell: they may come earlier."""
        for node in self._path(queue):
            if self._waiting_below[node.name] and self._place(node.name) < self._entered[node.name]:
                self._push(node)

    def _push(self, node: QueueNode) -> None:
        """Push a queue among the children of its parent."""
        place = self._entered[node.name] = self._place(node.name)
        heappush(self._open[node.parent], (place, node.name))

    def next(self) -> str | None:
        """Pop the first gang of the first queue, from the top level down."""
        at = ""
        while True:
            child = self._first(at)
            if child is None:
                return None
            if self._gangs.get(child):
                break
            at = child
        gang = self._gangs[child].first
        self.drop(child, 1)
        return gang

    def first_of(self, queue: str) -> str:
        """The first gang of a queue, whether or not that queue is next; empty: there is none."""
        gangs = self._gangs[queue]
        return gangs.first if gangs else ""

    def following(self, queue: str) -> Iterator[str]:
        """The gangs of a queue in order, where no other queue could come between them; else none."""
        top = self._path(queue)[0]
        is_alone = self._waiting_below[queue] == self._waiting_below[top.name]
        others = any(self._waiting_below[name] for _, name in self._open[""] if name != top.name)
        return iter(self._gangs[queue]) if is_alone and not others else iter(())

    def drop(self, queue: str, gangs: int) -> None:
        """Pop the first so many gangs of a queue."""
        self._gangs[queue].drop(gangs)
        for node in self._path(queue):
            self._waiting_below[node.name] -= gangs

    def _first(self, parent: str) -> str | None:
        """The child queue that comes first now; entries that are out of date are dropped."""
        entries = self._open[parent]
        while entries:
            place, child = entries[0]
            if not self._waiting_below[child] or place is not self._entered[child]:
                heappop(entries)
            elif len(entries) > 1 and place != (now := self._place(child)):
                self._entered[child] = now
                heapreplace(entries, (now, child))
            else:
                return child
        return None

    def _place(self, queue: str) -> Place:
        usage = self._usage()
        held = usage.allocated[queue]
        known = self._places.get(queue)
        if known is None or known[0] is not held:
            known = self._places[queue] = held, usage.place(queue)
        return known[1]

    def _path(self, queue: str) -> tuple[QueueNode, ...]:
        if queue not in self._paths:
            self._paths[queue] = self._usage().tree.path(queue)
        return self._paths[queue]
