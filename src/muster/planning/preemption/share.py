"""How many pods one cycle may evict or move (P8): a share of what runs, but always what one gang needs."""

from collections.abc import Iterable
from heapq import heappop, heappush

from muster.model.gang.gang import Gang
from muster.model.gang.state import Standing
from muster.planning.allocation.scheduling_queue import SchedulingQueue
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Eviction
from muster.planning.disturbance import CycleDisturbance, GangDisturbance

NO_END = 1 << 62


class DisturbanceShare:
    """How many pods may be disturbed, and how many are; stale gangs do not count, as they do no work."""

    def __init__(self, cycle_state: CycleState) -> None:
        snapshot = cycle_state.snapshot
        pods = snapshot.columns.index("pods")
        self.cycle_state = cycle_state
        self.running = int(
            (snapshot.used[:, pods] - snapshot.used_outside_gangs[:, pods]).sum()
        )  # of gangs, terminating too
        self.allowed = self.running * cycle_state.policy.max_disturbed_percent // 100
        self.spent = 0

    @property
    def left(self) -> int:
        """How many pods may be disturbed for the next gang: any number for the first, then the rest of the share."""
        return max(self.allowed - self.spent, 0) if self.spent else NO_END

    @property
    def could_run_out(self) -> bool:
        """Whether the victims of one gang may leave too little of the share for another."""
        return self.allowed < self.running

    def spend(self, pods: int) -> None:
        """Count the victims of a gang."""
        self.spent += pods

    def figures(self) -> CycleDisturbance:
        """How much the cycle disturbs, and for which gangs."""
        by_gang: dict[str, list[Eviction]] = {}
        for gang_state in self.cycle_state.gang_states.values():
            for eviction in gang_state.evictions:
                if eviction.reason != "Stale":
                    by_gang.setdefault(eviction.preemptor, []).append(eviction)
        gangs = [_gang_disturbance(gang, evictions) for gang, evictions in by_gang.items()]
        return CycleDisturbance(self.running, self.allowed, tuple(sorted(gangs)))


def _gang_disturbance(gang: str, evictions: list[Eviction]) -> GangDisturbance:
    moved = sum(bool(eviction.move_to) for eviction in evictions)
    return GangDisturbance(gang, len(evictions) - moved, moved, evictions[0].proof)


class ByPriority:
    """Higher priority first (P8): the share goes to gangs by priority, whatever the order of their queues (G4).

    A gang that does not fit is postponed while a gang of a higher priority below its minimum is still to be tried, and
    tried again on what is free then. A gang that fits is bound in the order of the queues as always.
    """

    def __init__(self) -> None:
        self.postponed: set[str] = set()
        self._expected: list[tuple[int, str]] = []  # gangs below their minimum that are still to be tried
        self._tried: set[str] = set()
        self._held_back: list[tuple[int, int, str]] = []  # by priority, then in the order of their attempts
        self._number = 0

    def expect(self, gang: Gang, now: Standing) -> None:
        """A gang is enqueued."""
        if not now.satisfied:
            heappush(self._expected, (-gang.priority, gang.key))

    def postpone(self, gang: Gang) -> bool:
        """Postpone a gang while gangs of a higher priority are to be tried; False: there are none."""
        self._tried.add(gang.key)
        if self._highest() <= gang.priority:
            return False
        self._number += 1
        self.postponed.add(gang.key)
        heappush(self._held_back, (-gang.priority, self._number, gang.key))
        return True

    @property
    def is_holding_back(self) -> bool:
        """Whether any gang is postponed, and so could be tried after any other."""
        return bool(self._held_back)

    def pass_over(self, gangs: Iterable[str]) -> None:
        """These gangs were tried together with the one before them."""
        self._tried.update(gangs)

    def next(self, scheduling_queue: SchedulingQueue) -> str | None:
        """The next gang to try: a postponed one where no higher priority is left, else by G4."""
        if self._held_back and self._highest() <= -self._held_back[0][0]:
            return self._released()
        gang = scheduling_queue.next()
        if gang is None:
            return self._released() if self._held_back else None
        self._tried.add(gang)
        return gang

    def _released(self) -> str:
        key = heappop(self._held_back)[-1]
        self.postponed.discard(key)
        return key

    def _highest(self) -> int:
        """The highest priority of a gang that is still to be tried."""
        while self._expected and self._expected[0][1] in self._tried:
            heappop(self._expected)
        return -self._expected[0][0] if self._expected else -NO_END
