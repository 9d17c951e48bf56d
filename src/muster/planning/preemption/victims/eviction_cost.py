"""Eviction cost: how many pods must be evicted for a place. A capacity with cheap places first, and a lower bound.

The cost guides the search, the bound proves that no smaller set exists; `selection` decides on the victims.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import Level
from muster.placement.capacity import Capacity
from muster.planning.preemption.candidates import Candidates, Mask, Units

Ints = NDArray[np.int64]
UNLIMITED_PODS = int(np.iinfo(np.int64).max)
POD = 1 << 20  # one pod weighs more than all priorities together


class CandidatePods:
    """The pods of some units."""

    def __init__(self, candidates: Candidates, numbers: Units) -> None:
        self.candidates = candidates
        self.rows = candidates.rows(numbers)  # among all pods

    def stacks(self, column: int, ask: int, nodes: Mask) -> "Stacks":
        """The pods of some nodes, on each those that free most of a column first."""
        order = self.candidates.most_useful_first(column, ask)
        pod_node = self.candidates.pod_node
        order = order[(self.rows & nodes[pod_node])[order]]
        row = np.cumsum(nodes) - 1  # of every node in the tables
        node = row[pod_node[order]]
        counts = np.bincount(node, minlength=int(row[-1]) + 1 if len(row) else 0)
        start = np.cumsum(counts) - counts
        places = np.arange(len(order)) - start[node] + 1
        return Stacks(self.candidates, order, node, places, (len(counts), int(counts.max(initial=0)) + 1))


class Stacks(Struct, frozen=True, eq=False):
    """The pods of every node in an order: sums over its first 0, 1, 2 … pods."""

    candidates: Candidates
    order: Ints  # by rows of the candidates' pods
    node: Ints  # of every pod, in that order: its row
    place: Ints  # of every pod on its node, from 1
    size: tuple[int, int]  # nodes, and places on each

    def freed(self, column: int) -> Ints:
        """What they free of a column."""
        return self._sums(self.candidates.asks[self.candidates.pod_class[self.order], column])

    def weights(self) -> Ints:
        """The cost of evicting them: fewest pods, then lower priorities."""
        _, priority = np.unique(self.candidates.priority[self.candidates.pod_unit[self.order]], return_inverse=True)
        return self._sums(POD + priority)

    def _sums(self, values: Ints) -> Ints:
        sums = np.zeros(self.size, dtype=np.int64)
        sums[self.node, self.place] = values
        return np.cumsum(sums, axis=1, out=sums)


class CostCapacity(Capacity):
    """The capacity without some units, on which every place costs the pods that must be evicted for it."""

    def __init__(self, free: Capacity, vacated: Capacity, candidates: Candidates, numbers: Units) -> None:
        """`vacated`: the capacity without these units."""
        super().__init__(vacated.pod_classes, vacated.free, vacated.inter_pod)
        self.vacated = vacated
        self.free_before = free.free
        self.pods = CandidatePods(candidates, numbers)
        self._costs: dict[int, list[tuple[int, Ints]]] = {}

    def fits(self, pod_class: int) -> Ints:
        """Pods that fit by node without the units; costs do not change it."""
        return self.vacated.fits(pod_class)

    @property
    def has_preferences(self) -> bool:
        """Domains of a low eviction cost come first."""
        return True

    def costs(self, pod_class: int) -> list[tuple[int, Ints]]:
        """Pods that fit by node for every cost, cheapest first."""
        if pod_class not in self._costs:
            self._costs[pod_class] = self._count_costs(pod_class)
        return self._costs[pod_class]

    def _count_costs(self, pod_class: int) -> list[tuple[int, Ints]]:
        columns = self.pod_classes.columns[pod_class]
        asks = self.pod_classes.requests[pod_class][columns]
        scarce = (
            int(np.argmin((np.maximum(self.free_before[:, columns], 0) // asks).sum(axis=0))) if len(columns) else 0
        )
        usable = self.fits(pod_class) > 0
        stacks = self.pods.stacks(int(columns[scarce]), int(asks[scarce]), usable)
        weight = stacks.weights()
        fits = np.full(stacks.size, UNLIMITED_PODS)
        free, nodes = self.free_before[usable], np.flatnonzero(usable)
        for column, ask in zip(columns.tolist(), asks.tolist(), strict=True):
            np.minimum(fits, (free[:, None, column] + stacks.freed(column)) // ask, out=fits)
        by_cost: dict[int, Ints] = {}
        for rows, costs in _costs_by_pod(fits, weight):
            for value in np.unique(costs).tolist():
                there = by_cost.setdefault(value, np.zeros(len(usable), dtype=np.int64))
                there[nodes[rows[costs == value]]] += 1
        return sorted(by_cost.items(), key=lambda item: item[0])

    def tiers(self, pod_class: int) -> list[Ints] | None:
        """Nodes of a low eviction cost come first."""
        return [fits for _, fits in self.costs(pod_class)]

    def preference_score(self, pod_class: int, nodes: Ints, need: int) -> int:
        """The lowest cost of `need` pods on these nodes, negated."""
        total = 0
        for cost, fits in self.costs(pod_class):
            taken = min(need, int(fits[nodes].sum()))
            total -= taken * cost
            need -= taken
            if not need:
                break
        return total

    def preference_scores(self, pod_class: int, level: Level, domains: Ints, need: int) -> Ints:
        """The same for domains of a level."""
        total = np.zeros(len(domains), dtype=np.int64)
        lacking = np.full(len(domains), need, dtype=np.int64)
        for cost, fits in self.costs(pod_class):
            taken = np.minimum(lacking, level.sums(fits)[domains])
            total -= taken * cost
            lacking -= taken
            if not lacking.any():
                break
        return total


def _costs_by_pod(fits: Ints, weight: Ints) -> Iterator[tuple[Ints, Ints]]:
    """For the first, the second, … pod on a node: the rows of nodes where it fits, and its cost there.

    Both tables are by node and by the number of pods evicted from it.
    """
    nodes = np.arange(len(fits))
    paid = np.zeros(len(fits), dtype=np.int64)
    number = 0
    while True:
        number += 1
        there = fits[:, -1] >= number
        nodes, fits, weight, paid = nodes[there], fits[there], weight[there], paid[there]
        if not len(nodes):
            return
        now = weight[np.arange(len(nodes)), (fits >= number).argmax(axis=1)]
        yield nodes, now - paid
        paid = now


def fewest_pods(free: Capacity, candidates: Candidates, numbers: Units, pod_class: int, fits: Ints, need: int) -> int:
    """A lower bound on the pods that must be evicted so that `need` pods of one class fit somewhere.

    `fits`: by node, without these units. The bound lets any pod be evicted by itself, and each column by itself.
    """
    usable = fits > 0
    most = min(int(fits.max(initial=0)), need)
    if not most:
        return 1
    pods, asks = CandidatePods(candidates, numbers), free.pod_classes.requests[pod_class]
    costs = np.zeros((int(usable.sum()), most), dtype=np.int64)
    for column in free.pod_classes.columns[pod_class].tolist():
        freed = pods.stacks(column, UNLIMITED_PODS, usable).freed(column)
        fitting = (free.free[usable, column, None] + freed) // asks[column]
        np.maximum(costs, _too_few(fitting, most), out=costs)
    return _cheapest_total(costs, fits[usable], need)


def _too_few(fits: Ints, most: int) -> Ints:
    """By node and number of pods, from 1: how many entries of its row are below that number."""
    nodes = len(fits)
    key = np.clip(fits, 0, most) + np.arange(nodes)[:, None] * (most + 1)
    counts = np.bincount(key.ravel(), minlength=nodes * (most + 1)).reshape(nodes, most + 1)
    return np.cumsum(counts, axis=1)[:, :most]


def _cheapest_total(costs: Ints, fits: Ints, need: int) -> int:
    """Sum the cheapest pods on the lower hull of each node's costs: never more than any real choice."""
    rows, counts = _distinct(np.column_stack((np.minimum(fits, costs.shape[1]), costs))[fits > 0])
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


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Distinct rows and their counts; rows are packed into one integer where that is large enough."""
    base = int(rows.max(initial=0)) + 1
    if base ** rows.shape[1] > UNLIMITED_PODS:
        unique = np.unique(rows, axis=0, return_counts=True)
        return unique[0], unique[1]
    keys = rows @ np.array([base**i for i in range(rows.shape[1])], dtype=np.int64)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return rows[first], counts
