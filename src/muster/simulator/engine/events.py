"""What can happen in a simulation, and the heap that orders it: by time, then by kind, then as it was scheduled."""

import heapq
from itertools import count

from msgspec import Struct


class PodStarted(Struct, frozen=True, gc=False):
    """A kubelet has started a bound pod."""

    pod: str  # namespace/name; names are never used twice


class PodStopped(Struct, frozen=True, gc=False):
    """A kubelet has stopped an evicted pod."""

    pod: str


class GangFinished(Struct, frozen=True, gc=False):
    """A gang has done its work; void where it was interrupted since."""

    gang: str  # namespace/name
    stretch: int  # of its work


class NodeLost(Struct, frozen=True, gc=False):
    """A node fails with its pods."""

    node: str


class NodeBack(Struct, frozen=True, gc=False):
    """A node is ready again."""

    node: str


class DrainBegun(Struct, frozen=True, gc=False):
    """A node takes no more pods, and its pods are evicted."""

    node: str


class DrainEnded(Struct, frozen=True, gc=False):
    """A node takes pods again."""

    node: str


class Wake(Struct, frozen=True, gc=False):
    """Time has passed by itself: a grace period or a minimum run time ends, or a plan had more to do."""


Event = PodStarted | PodStopped | GangFinished | NodeLost | NodeBack | DrainBegun | DrainEnded | Wake
ORDER: dict[type, int] = {  # of events at one moment: what frees resources comes before what is lost
    kind: i
    for i, kind in enumerate((PodStarted, GangFinished, PodStopped, NodeBack, DrainEnded, NodeLost, DrainBegun, Wake))
}


class EventHeap:
    """Events to come."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Event]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the next event is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def push(self, at_ms: int, event: Event) -> None:
        """Schedule an event."""
        heapq.heappush(self._heap, (at_ms, ORDER[type(event)], next(self._numbers), event))

    def pop_due(self, at_ms: int) -> Event | None:
        """The next event that is due by then; None: none is."""
        return heapq.heappop(self._heap)[3] if self._heap and self._heap[0][0] <= at_ms else None
