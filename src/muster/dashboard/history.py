"""The last cycles, as the way back from the present: what each change replaced.

Rule 1: it is bounded in cycles and in bytes; the oldest goes first. Rule 2: it keeps no snapshot alive. Rule 3: the
state after a cycle is the first that was shown with it: where several cycles came at once, it has all of them.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

from msgspec import Raw, Struct

from muster.reporting.dashboard.cycles import RecordedCycle
from muster.reporting.dashboard.gangs import RecordedGang
from muster.reporting.dashboard.nodes import RecordedNode
from muster.reporting.dashboard.tables import apply, merge

MOST_CYCLES = 1_000
Record = RecordedNode | RecordedGang | Raw
Records = dict[str, dict[str, Record]]  # by table and key
Replaced = Mapping[str, Mapping[str, Record | None]]


class Publication(Struct, frozen=True):
    """One numbered change: what it replaced, and the cycles that came with it."""

    seq: int
    cycle: int  # the last one by then
    at: str
    replaced: Replaced
    cycles: tuple[RecordedCycle, ...] = ()

    @property
    def cost(self) -> int:
        """About how many bytes it takes."""
        records = (record for rows in self.replaced.values() for record in rows.values())
        return 500 + sum(200 + cost_of(record) for record in records) + sum(each.cost for each in self.cycles)


def cost_of(record: Record | None) -> int:
    """About how many bytes a record takes that nothing else holds."""
    match record:
        case None:
            return 0
        case Raw():
            return len(memoryview(record))
        case _:
            return record.cost


class CycleGone(Exception):
    """A cycle that is not kept: it is too old, or did not happen yet."""

    def __init__(self, cycle: int, oldest: int | None, newest: int) -> None:
        super().__init__(cycle)
        self.cycle, self.oldest, self.newest = cycle, oldest, newest

    @property
    def message(self) -> str:
        """What is kept instead."""
        if self.oldest is None:
            return f"cycle {self.cycle} is not kept: this replica has run no cycle"
        return f"cycle {self.cycle} is not kept: cycles {self.oldest} to {self.newest} are"


class DashboardHistory:
    """Publications, oldest first."""

    def __init__(self, most_bytes: int, most_cycles: int = MOST_CYCLES) -> None:
        self._most_bytes, self._most_cycles = most_bytes, most_cycles
        self._kept: deque[tuple[Publication, int]] = deque()  # each with its cost
        self.bytes = self.cycles = 0

    def add(self, publication: Publication) -> None:
        """Keep it, and drop what is too old for it."""
        cost = publication.cost
        self._kept.append((publication, cost))
        self.bytes += cost
        self.cycles += len(publication.cycles)
        while len(self._kept) > 1 and (self.bytes > self._most_bytes or self.cycles > self._most_cycles):
            dropped, freed = self._kept.popleft()
            self.bytes -= freed
            self.cycles -= len(dropped.cycles)

    def since(self, seq: int) -> list[Publication] | None:
        """All after this one; None: some of them are not kept."""
        if self._kept and self._kept[0][0].seq > seq + 1:
            return None
        newest_first = (publication for publication, _ in reversed(self._kept))
        return list(takewhile(lambda publication: publication.seq > seq, newest_first))[::-1]

    # the past

    def recent_cycles(self, before: int | None = None, limit: int = 100) -> list[RecordedCycle]:
        """Cycles before this one, newest first."""
        cycles = (each for publication, _ in reversed(self._kept) for each in reversed(publication.cycles))
        return list(islice((each for each in cycles if before is None or each.row.cycle < before), limit))

    def cycle(self, cycle: int) -> RecordedCycle:
        """One cycle; CycleGone: it is not kept."""
        for publication, _ in reversed(self._kept):
            for each in publication.cycles:
                if each.row.cycle == cycle:
                    return each
        raise CycleGone(cycle, self.oldest_cycle, self.newest_cycle)

    @property
    def oldest_cycle(self) -> int | None:
        """The first cycle that is kept."""
        return next((each.row.cycle for publication, _ in self._kept for each in publication.cycles), None)

    @property
    def newest_cycle(self) -> int:
        """The last cycle; 0: there was none."""
        return self._kept[-1][0].cycle if self._kept else 0

    def records_after(self, cycle: int, now: Records) -> Records:
        """Every record as it was after a cycle; CycleGone: it is not kept."""
        newest_first = reversed([publication.replaced for publication in self._after(cycle)])
        return apply(now, merge(newest_first))

    def record_after(self, cycle: int, table: str, key: str, now: Record | None) -> Record | None:
        """One record as it was after a cycle; None: it was not there."""
        for publication in self._after(cycle):
            if key in publication.replaced.get(table, {}):
                return publication.replaced[table][key]
        return now

    def _after(self, cycle: int) -> Iterator[Publication]:
        """Publications after the one that brought a cycle, oldest first."""
        self.cycle(cycle)
        publications = (publication for publication, _ in self._kept)
        for publication in publications:
            if any(each.row.cycle >= cycle for each in publication.cycles):
                break
        yield from publications
