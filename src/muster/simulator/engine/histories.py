"""What a report shows over time: queues, domains, and why gangs waited. Each history is bounded, or grows by gang."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.api.names import GPU
from muster.simulator.engine.resource_usage import ResourceUsage

MOST_SAMPLES = 480  # of domains; beyond it every second one is dropped
MOST_REASONS = 200  # of one gang; beyond it the last one goes on


class WaitReason(Struct):
    """A time in which a gang waited for one reason; None: it still does."""

    from_ms: int
    to_ms: int | None
    reason: str


class WaitHistory:
    """Why each gang waited, stretch by stretch."""

    def __init__(self) -> None:
        self.by_gang: dict[str, list[WaitReason]] = {}
        self._open: dict[str, WaitReason] = {}

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


class DomainSamples:
    """GPUs in use in every domain of the finest level, at a bounded number of times."""

    def __init__(self, usage: ResourceUsage) -> None:
        self.usage = usage
        self._interval_ms = self._next_ms = 0
        self.at_ms: list[int] = []
        self.used: list[list[int]] = []
        self.capacity: list[list[int]] = []

    def sample(self, at_ms: int) -> None:
        """Something happened."""
        if self.usage.domain_of is None or at_ms < self._next_ms:
            return
        used, capacity = self.usage.gpus_by_domain()
        self.at_ms.append(at_ms)
        self.used.append(used)
        self.capacity.append(capacity)
        if len(self.at_ms) > MOST_SAMPLES:
            del self.at_ms[1::2], self.used[1::2], self.capacity[1::2]
            self._interval_ms = (at_ms - self.at_ms[0]) // len(self.at_ms)
        self._next_ms = at_ms + self._interval_ms
