"""What can happen in a simulation, and the heap that orders it: by time, then by kind, then as it was scheduled."""

import heapq
from collections.abc import Iterable

from msgspec import Struct


class PodStarted(Struct, frozen=True, gc=False, tag=True):
    """A kubelet has started a bound pod."""

    pod: str  # namespace/name; names are never used twice


class PodStopped(Struct, frozen=True, gc=False, tag=True):
    """A kubelet has stopped an evicted pod."""

    pod: str


class GangFinished(Struct, frozen=True, gc=False, tag=True):
    """A gang has done its work; void where it was interrupted since."""

    gang: str  # namespace/name
    stretch: int  # of its work


class NodeLost(Struct, frozen=True, gc=False, tag=True):
    """A node fails with its pods."""

    node: str


class NodeBack(Struct, frozen=True, gc=False, tag=True):
    """A node is ready again."""

    node: str


class DrainBegun(Struct, frozen=True, gc=False, tag=True):
    """A node takes no more pods, and its pods are evicted."""

    node: str


class DrainEnded(Struct, frozen=True, gc=False, tag=True):
    """A node takes pods again."""

    node: str


class GangScaled(Struct, frozen=True, gc=False, tag=True):
    """The time of day wants more or fewer pods of a gang."""

    gang: str


class Wake(Struct, frozen=True, gc=False, tag=True):
    """Time has passed by itself: a grace period or a minimum run time ends, or a plan had more to do."""


Event = PodStarted | PodStopped | GangFinished | GangScaled | NodeLost | NodeBack | DrainBegun | DrainEnded | Wake
ORDER: dict[type, int] = {  # of events at one moment: what frees resources comes before what is lost
    kind: i
    for i, kind in enumerate(
        (PodStarted, GangFinished, PodStopped, NodeBack, DrainEnded, GangScaled, NodeLost, DrainBegun, Wake)
    )
}


ScheduledEvent = tuple[int, int, int, Event]  # when, its kind, the how manieth it is


class EventHeap:
    """Events to come."""

    def __init__(self) -> None:
        self._heap: list[ScheduledEvent] = []
        self.next_number = 0

    def restore(self, events: Iterable[ScheduledEvent], next_number: int) -> None:
        """Goes on from a saved state; sorted events are a heap."""
        self._heap, self.next_number = list(events), next_number

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def scheduled(self) -> list[ScheduledEvent]:
        """All of them, in order."""
        return sorted(self._heap, key=lambda one: one[:3])

    @property
    def next_ms(self) -> int | None:
        """When the next event is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def push(self, at_ms: int, event: Event) -> None:
        """Schedule an event."""
        heapq.heappush(self._heap, (at_ms, ORDER[type(event)], self.next_number, event))
        self.next_number += 1

    @property
    def next_event(self) -> Event | None:
        """The next event; None: there is none."""
        return self._heap[0][3] if self._heap else None

    def drop_next(self) -> None:
        """Takes the next event away."""
        heapq.heappop(self._heap)

    def pop_due(self, at_ms: int) -> Event | None:
        """The next event that is due by then; None: none is."""
        return heapq.heappop(self._heap)[3] if self._heap and self._heap[0][0] <= at_ms else None
