"""Eviction cost: what a seat costs in pods that have to leave. A ledger on which cheap seats come first, and a bound.

The cost guides the search, the bound proves that no smaller set exists; what really leaves is decided in `victims`.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from muster.placement.ledger import Ledger
from muster.planning.preemption.candidates import Candidates

Ints = NDArray[np.int64]
POD = 1 << 20  # one pod weighs more than all priorities together


class CandidatePods:
    """The pods of some units, one row each: node, what it frees, and the number of its unit."""

    def __init__(self, candidates: Candidates, numbers: Sequence[int]) -> None:
        self.candidates = candidates
        rows = candidates.rows(numbers)
        self.unit, self.node = candidates.pod_unit[rows], candidates.pod_node[rows]
        self.freed = candidates.asks[candidates.pod_class[rows]]

    def stacked(self, columns: Ints, first: Ints, nodes: int) -> Ints:
        """By node: what its first 0, 1, 2 … pods free, in an order."""
        return self._stack(self.freed[:, columns], first, nodes)

    def weights(self, first: Ints, nodes: int) -> Ints:
        """By node: what it costs that its first 0, 1, 2 … pods leave: fewest pods, then the lower priorities."""
        _, priority = np.unique(self.candidates.priority[self.unit], return_inverse=True)
        return self._stack((POD + priority)[:, None], first, nodes)[:, :, 0]

    def _stack(self, values: Ints, first: Ints, nodes: int) -> Ints:
        order = np.lexsort((np.arange(len(first)), first, self.node))
        node = self.node[order]
        counts = np.bincount(node, minlength=nodes)
        start = np.concatenate(([0], np.cumsum(counts)[:-1]))
        place = np.arange(len(order)) - start[node] + 1
        found = np.zeros((nodes, int(counts.max(initial=0)) + 1, values.shape[1]), dtype=np.int64)
        found[node, place] = values[order]
        stacked: Ints = np.cumsum(found, axis=1)
        return stacked


class CostLedger(Ledger):
    """A ledger on which some units are gone, and every seat has a cost: the pods that must leave for it."""

    def __init__(self, free: Ledger, candidates: Candidates, numbers: Sequence[int]) -> None:
        gone = candidates.ledger_without(free, numbers)
        super().__init__(free.shapes, gone.free, gone.company)
        self.kept = free.free
        self.pods = CandidatePods(candidates, numbers)
        self._costs: dict[int, list[tuple[int, Ints]]] = {}

    @property
    def bidding(self) -> bool:
        """Cheap domains first."""
        return True

    def costs(self, shape: int) -> list[tuple[int, Ints]]:
        """Seats by node for every cost, cheapest first."""
        if shape not in self._costs:
            self._costs[shape] = self._count_costs(shape)
        return self._costs[shape]

    def _count_costs(self, shape: int) -> list[tuple[int, Ints]]:
        columns = self.shapes.columns[shape]
        asks = self.shapes.asks[shape][columns]
        scarce = int(np.argmin((np.maximum(self.kept[:, columns], 0) // asks).sum(axis=0))) if len(columns) else 0
        candidates, pods = self.pods.candidates, self.pods
        freed = np.minimum(pods.freed[:, columns[scarce]], asks[scarce])
        first = -freed * (len(candidates.units) + 1) + candidates.rank[pods.unit]
        stacked = pods.stacked(columns, first, len(self.kept))
        weight = pods.weights(first, len(self.kept))
        seats = np.maximum(((self.kept[:, None, columns] + stacked) // asks).min(axis=2), 0)
        allowed = self.allowed(shape)
        seats[~allowed] = 0
        found: dict[int, Ints] = {}
        paid = np.zeros(len(seats), dtype=np.int64)
        for number in range(1, int(seats.max(initial=0)) + 1):
            enough = seats >= number
            there = enough.any(axis=1)
            now = np.where(there, weight[np.arange(len(seats)), enough.argmax(axis=1)], 0)
            cost = np.where(there, now - paid, -1)
            paid = np.where(there, now, paid)
            for value in np.unique(cost[there]).tolist():
                found[value] = found.get(value, np.zeros(len(seats), dtype=np.int64)) + (cost == value)
        return sorted(found.items(), key=lambda item: item[0])

    def tiers(self, shape: int) -> list[Ints] | None:
        """Cheap seats first."""
        return [seats for _, seats in self.costs(shape)]

    def bid(self, shape: int, nodes: Ints, need: int) -> int:
        """The fewest pods that would leave for so many seats, with a minus."""
        total = 0
        for cost, seats in self.costs(shape):
            taken = min(need, int(seats[nodes].sum()))
            total -= taken * cost
            need -= taken
        return total


def fewest_pods(free: Ledger, candidates: Candidates, numbers: Sequence[int], shape: int, need: int) -> int:
    """A number of pods that must leave at least so that `need` pods of one class fit somewhere: a bound.

    Any pod may leave by itself here, and of each column only as many as that column lacks.
    """
    pods = CandidatePods(candidates, numbers)
    columns = free.shapes.columns[shape]
    asks = free.shapes.asks[shape]
    costs: Ints | None = None
    gone = free.free.copy()
    np.add.at(gone, pods.node, pods.freed)
    room = (gone[:, columns] // asks[columns]).min(axis=1)
    seats = np.where(free.shapes.allowed(shape), np.maximum(room, 0), 0)
    most = min(int(seats.max(initial=0)), need)
    for column in columns.tolist():
        stacked = pods.stacked(np.array([column]), -pods.freed[:, column], len(free.free))
        have = free.free[:, column, None] + stacked[:, :, 0]
        mine = (
            np.stack([(have < asks[column] * number).sum(axis=1) for number in range(1, most + 1)], axis=1)
            if most
            else np.zeros((len(have), 0), dtype=np.int64)
        )
        costs = mine if costs is None else np.maximum(costs, mine)
    if costs is None or not most:
        return 1
    return _cheapest(costs, seats, need)


def _cheapest(costs: Ints, seats: Ints, need: int) -> int:
    """Seats one by one, each node's on the lower hull of its costs: never more than any choice of whole seats."""
    rows, counts = np.unique(np.column_stack((np.minimum(seats, costs.shape[1]), costs)), axis=0, return_counts=True)
    steps: list[tuple[Fraction, int]] = []
    for row, times in zip(rows.tolist(), counts.tolist(), strict=True):
        at, have = 0, 0
        while at < row[0]:
            slope, end = min((Fraction(row[there] - have, there - at), -there) for there in range(at + 1, row[0] + 1))
            steps.append((slope, (-end - at) * times))
            at, have = -end, row[-end]
    total = Fraction(0)
    for slope, number in sorted(steps):
        taken = min(number, need)
        total += slope * taken
        need -= taken
        if not need:
            break
    return max(-(-total.numerator // total.denominator), 1)
