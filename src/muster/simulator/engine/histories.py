"""What a report shows over time: queues, domains, and why gangs waited. Each history is bounded, or grows by gang."""

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.api.names import GPU
from muster.simulator.engine.resource_usage import ResourceUsage

MOST_SAMPLES = 480  # of domains; beyond it every second one is dropped
MOST_QUEUE_SAMPLES = 2_000_000  # of all queues together
FEWEST_MOMENTS = 1_000  # of each, however many there are
MOST_REASONS = 200  # of one gang; beyond it the last one goes on
LONGEST_WAITS = 10  # finished gangs whose reasons are kept: those that waited longest


class WaitReason(Struct, gc=False):
    """A time in which a gang waited for one reason; None: it still does."""

    from_ms: int
    to_ms: int | None
    reason: str


class WaitHistory:
    """Why each gang waited, stretch by stretch."""

    def __init__(self) -> None:
        self.by_gang: dict[str, list[WaitReason]] = {}
        self.longest: list[tuple[int, str]] = []  # finished gangs: minus how long they waited, in order
        self._open: dict[str, WaitReason] = {}

    def restore(self, by_gang: dict[str, list[WaitReason]], longest: list[tuple[int, str]]) -> None:
        """Goes on from a saved state."""
        self.by_gang, self.longest = by_gang, longest
        self._open = {gang: stretches[-1] for gang, stretches in by_gang.items() if stretches[-1].to_ms is None}

    def note(self, gang: str, since_ms: int, at_ms: int, reason: str) -> None:
        """A plan says why a gang waits, that has waited since then."""
        stretch = self._open.get(gang)
        if stretch is None:
            self._open_at(gang, since_ms, reason)
        elif stretch.reason != reason and len(self.by_gang[gang]) < MOST_REASONS:
            stretch.to_ms = at_ms
            self._open_at(gang, at_ms, reason)

    def end(self, gang: str, at_ms: int) -> None:
        """A gang waits no longer."""
        if (stretch := self._open.pop(gang, None)) is not None:
            stretch.to_ms = at_ms

    def finish(self, gang: str, waited_ms: int) -> None:
        """A gang is done: why it waited is kept only if few waited longer, so that this is bounded."""
        if gang not in self.by_gang:
            return
        insort(self.longest, (-waited_ms, gang))
        for _, shorter in self.longest[LONGEST_WAITS:]:
            del self.by_gang[shorter]
        del self.longest[LONGEST_WAITS:]

    def _open_at(self, gang: str, at_ms: int, reason: str) -> None:
        self._open[gang] = WaitReason(at_ms, None, reason)
        self.by_gang.setdefault(gang, []).append(self._open[gang])


class QueueHistory:
    """What queues held and deserved of one resource, at every moment of the timeline."""

    def __init__(self, resources: Sequence[str]) -> None:
        self.resource = GPU if GPU in resources else "cpu"
        self.allocated: dict[str, list[int]] = {}
        self.fair_share: dict[str, list[int]] = {}

    def sample(self, moment: int, held: Mapping[str, Mapping[str, int]], fair: Mapping[str, Mapping[str, int]]) -> None:
        """The state at a moment, by its number; a second sample of the same moment replaces the first."""
        for queue in self.allocated.keys() | held.keys() | fair.keys():
            for columns, amounts in ((self.allocated, held), (self.fair_share, fair)):
                column = columns.setdefault(queue, [])
                column += [0] * (moment + 1 - len(column))
                column[moment] = amounts.get(queue, {}).get(self.resource, 0)

    @property
    def most_moments(self) -> int:
        """How many moments can be kept: a thousand queues have fewer."""
        return max(MOST_QUEUE_SAMPLES // max(len(self.allocated), 1), FEWEST_MOMENTS)

    def keep(self, moments: Sequence[int]) -> None:
        """Leaves only these moments."""
        for columns in (self.allocated, self.fair_share):
            for column in columns.values():
                column[:] = [column[moment] for moment in moments]


class DomainSamples:
    """GPUs in use in every domain of the finest level, at a bounded number of times."""

    def __init__(self, usage: ResourceUsage) -> None:
        self.usage = usage
        self.interval_ms = self.next_ms = 0
        self.at_ms: list[int] = []
        self.used: list[list[int]] = []
        self.capacity: list[list[int]] = []

    def sample(self, at_ms: int) -> None:
        """Something happened."""
        if self.usage.domain_of is None or at_ms < self.next_ms:
            return
        used, capacity = self.usage.gpus_by_domain()
        self.at_ms.append(at_ms)
        self.used.append(used)
        self.capacity.append(capacity)
        if len(self.at_ms) > MOST_SAMPLES:
            del self.at_ms[1::2], self.used[1::2], self.capacity[1::2]
            self.interval_ms = (at_ms - self.at_ms[0]) // len(self.at_ms)
        self.next_ms = at_ms + self.interval_ms

    def save(self) -> dict[str, Any]:
        """The samples, and when the next is due."""
        return {name: getattr(self, name) for name in _SAVED}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Goes on from a saved state."""
        for name in _SAVED:
            setattr(self, name, saved[name])


_SAVED = ("at_ms", "used", "capacity", "interval_ms", "next_ms")
