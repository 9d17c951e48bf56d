"""Who is next (G4): the order between queues at every level, then the order inside a queue."""

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import Any

from muster.fairness.order import Place
from muster.planning.preemption.queue_usage import QueueUsage

Rank = tuple[Any, ...]


class Line:
    """Gangs that wait for a grant. A queue's place is looked up anew whenever what it holds has changed."""

    def __init__(self, usage: Callable[[], QueueUsage]) -> None:
        self._usage = usage
        self._gangs: dict[str, list[tuple[Rank, str]]] = defaultdict(list)
        self._inside: dict[str, int] = defaultdict(int)  # gangs at and below a queue
        self._open: dict[str, list[tuple[Place, str]]] = defaultdict(list)  # by parent: children that have gangs

    def add(self, queue: str, rank: Rank, gang: str) -> None:
        """A gang joins its queue."""
        heappush(self._gangs[queue], (rank, gang))
        for node in self._usage().tree.path(queue):
            if not self._inside[node.name]:
                heappush(self._open[node.parent], (self._usage().place(node.name), node.name))
            self._inside[node.name] += 1

    def moved(self, queue: str) -> None:
        """What a queue holds has changed, and with it what those above hold; old places are skipped when met."""
        for node in self._usage().tree.path(queue):
            if self._inside[node.name]:
                heappush(self._open[node.parent], (self._usage().place(node.name), node.name))

    def next(self) -> str | None:
        """The first gang of the first queue of the first queue …, from the top down; it leaves the line."""
        at = ""
        while True:
            child = self._first(at)
            if child is None:
                return None
            if self._gangs.get(child):
                break
            at = child
        _, gang = heappop(self._gangs[child])
        for node in self._usage().tree.path(child):
            self._inside[node.name] -= 1
        return gang

    def _first(self, parent: str) -> str | None:
        """The child that stands first now; entries that are out of date are dropped on the way."""
        entries = self._open[parent]
        while entries:
            place, child = entries[0]
            if not self._inside[child]:
                heappop(entries)
            elif place != (now := self._usage().place(child)):
                heapreplace(entries, (now, child))
            else:
                return child
        return None
