"""Eviction cost: what a seat costs in pods that have to leave. A ledger on which cheap seats come first, and a bound.

The cost guides the search, the bound proves that no smaller set exists; what really leaves is decided in `victims`.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import Level
from muster.placement.ledger import Ledger
from muster.planning.preemption.candidates import Candidates

Ints = NDArray[np.int64]
MOST_SEATS = np.iinfo(np.int64).max
POD = 1 << 20  # one pod weighs more than all priorities together


class CandidatePods:
    """The pods of some units, one row each: node, what it frees, and the number of its unit."""

    def __init__(self, candidates: Candidates, numbers: Sequence[int]) -> None:
        self.candidates = candidates
        rows = candidates.rows(numbers)
        self.unit, self.node = candidates.pod_unit[rows], candidates.pod_node[rows]
        self.freed = candidates.asks[candidates.pod_class[rows]]

    def stacks(self, first: Ints, nodes: int) -> "Stacks":
        """The pods of every node in an order."""
        order = np.lexsort((first, self.node))
        node = self.node[order]
        counts = np.bincount(node, minlength=nodes)
        start = np.concatenate(([0], np.cumsum(counts)[:-1]))
        return Stacks(
            self, order, node, np.arange(len(order)) - start[node] + 1, (nodes, int(counts.max(initial=0)) + 1)
        )


class Stacks(Struct, frozen=True, eq=False):
    """The pods of every node in an order: sums over its first 0, 1, 2 … pods."""

    pods: CandidatePods
    order: Ints
    node: Ints  # of every pod, in that order
    place: Ints  # of every pod on its node, from 1
    shape: tuple[int, int]  # nodes, and places on each

    def freed(self, column: int) -> Ints:
        """What they free of a column."""
        return self._sums(self.pods.freed[:, column])

    def weights(self) -> Ints:
        """What it costs that they leave: fewest pods, then the lower priorities."""
        _, priority = np.unique(self.pods.candidates.priority[self.pods.unit], return_inverse=True)
        return self._sums(POD + priority)

    def _sums(self, values: Ints) -> Ints:
        found = np.zeros(self.shape, dtype=np.int64)
        found[self.node, self.place] = values[self.order]
        return np.cumsum(found, axis=1, out=found)


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
        stacks = pods.stacks(first, len(self.kept))
        weight = stacks.weights()
        seats = np.full(stacks.shape, MOST_SEATS)
        for column, ask in zip(columns.tolist(), asks.tolist(), strict=True):
            np.minimum(seats, (self.kept[:, None, column] + stacks.freed(column)) // ask, out=seats)
        seats = np.maximum(seats, 0)
        seats[~self.allowed(shape)] = 0
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
            if not need:
                break
        return total

    def bids(self, shape: int, level: Level, domains: Ints, need: int) -> Ints:
        """The same for domains of a level."""
        total = np.zeros(len(domains), dtype=np.int64)
        lacking = np.full(len(domains), need, dtype=np.int64)
        for cost, seats in self.costs(shape):
            taken = np.minimum(lacking, level.sums(seats)[domains])
            total -= taken * cost
            lacking -= taken
            if not lacking.any():
                break
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
        have = free.free[:, column, None] + pods.stacks(-pods.freed[:, column], len(free.free)).freed(column)
        mine = _too_few(have // asks[column], most)
        costs = mine if costs is None else np.maximum(costs, mine)
    if costs is None or not most:
        return 1
    return _cheapest(costs, seats, need)


def _too_few(seats: Ints, most: int) -> Ints:
    """By node and number of seats, from 1: how many entries of its row are below that number."""
    nodes = len(seats)
    key = np.clip(seats, 0, most) + np.arange(nodes)[:, None] * (most + 1)
    counts = np.bincount(key.ravel(), minlength=nodes * (most + 1)).reshape(nodes, most + 1)
    return np.cumsum(counts, axis=1)[:, :most]


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
