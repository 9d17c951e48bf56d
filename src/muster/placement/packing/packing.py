"""Bin-packs pods onto nodes, once the pods and the node set of each are chosen.

`pack_greedily` is exact for one pod class; `pack_exactly` decides any mix: it finds a packing or proves that there is
none. A pod that also fits on an earlier node may always move there, so the search considers only full nodes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, SupposedCapacity
from muster.placement.packing.patterns import mixes

Ints = NDArray[np.int64]


class NodeSet(Struct, frozen=True, eq=False):
    """Nodes that a group may use, identified by key: a domain, or the intersection of several."""

    key: tuple[int, ...]
    nodes: Ints


class Demand(Struct, frozen=True, eq=False):
    """Pods of one class that must be in one node set."""

    leaf: int
    pod_class: int
    count: int
    node_set: NodeSet


Assignments = dict[int, list[tuple[int, int]]]  # demand -> (node, pods) …


def assign_tightly(capacity: SupposedCapacity | Capacity, demand: Demand) -> list[tuple[int, int]] | None:
    """Assign pods to preferred nodes, or those of least eviction cost, first; among these to the tightest (X4).

    None where too few pods fit in the node set. Large free nodes stay whole.
    """
    nodes = demand.node_set.nodes
    fits = capacity.fits_in(demand.pod_class, nodes)
    tiers = capacity.tiers(demand.pod_class)
    if tiers is None:
        return fill(nodes, fits, demand.count)
    taken = np.zeros(len(nodes), dtype=np.int64)
    left = demand.count
    for tier in tiers:
        here = np.minimum(tier[nodes], fits - taken)
        pods = min(left, int(here.sum()))
        for node, count in (fill(nodes, here, pods) or []) if pods else []:
            taken[np.searchsorted(nodes, node)] += count
        left -= pods
        if not left:
            used = np.flatnonzero(taken)
            return list(zip(nodes[used].tolist(), taken[used].tolist(), strict=True))
    return None


def fill(nodes: Ints, fits: Ints, count: int) -> list[tuple[int, int]] | None:
    """The tightest node that holds all pods, else several, the tightest first; None: too few pods fit."""
    order = np.argsort(fits, kind="stable")
    ascending = fits[order]
    first = int(np.searchsorted(ascending, 1))
    enough = int(np.searchsorted(ascending, count))
    if enough < len(order):
        return [(int(nodes[order[enough]]), count)]
    sums = np.cumsum(ascending[first:])
    if not len(sums) or sums[-1] < count:
        return None
    last = int(np.searchsorted(sums, count))
    counts = ascending[first : first + last + 1].copy()
    counts[-1] -= sums[last] - count
    return list(zip(nodes[order[first : first + last + 1]].tolist(), counts.tolist(), strict=True))


def pack_greedily(capacity: Capacity, demands: Sequence[Demand]) -> Assignments | None:
    """Assign every demand tightly, the largest pods and the smallest node sets first; None: one does not fit."""
    packed: Assignments = {}
    supposed = SupposedCapacity(capacity)
    for i in sorted(range(len(demands)), key=lambda i: (*_hardness(capacity, demands[i]), i)):
        assignment = assign_tightly(supposed, demands[i])
        if assignment is None:
            return None
        packed[i] = assignment
        for node, count in assignment:
            supposed.put(node, demands[i].pod_class, count)
    return packed


def _hardness(capacity: Capacity, demand: Demand) -> tuple[int, int]:
    return int(capacity.fits(demand.pod_class)[demand.node_set.nodes].max(initial=0)), len(demand.node_set.nodes)


def is_possible(capacity: Capacity, demands: Sequence[Demand], budget: Budget) -> bool:
    """Whether bounds by node set allow a packing: a pod at least as large as a class counts as one pod of it."""
    by_region: dict[tuple[int, ...], list[Demand]] = {}
    for demand in demands:
        by_region.setdefault(demand.node_set.key, []).append(demand)
    for inside in by_region.values():
        node_set = inside[0].node_set
        budget.spend(len({demand.pod_class for demand in inside}) * len(inside))
        for pod_class in {demand.pod_class for demand in inside}:
            requests, mask = capacity.pod_classes.requests[pod_class], capacity.allowed(pod_class)
            alike = sum(
                demand.count
                for demand in inside
                if demand.pod_class == pod_class
                or (
                    (capacity.pod_classes.requests[demand.pod_class] >= requests).all()
                    and not (capacity.allowed(demand.pod_class)[node_set.nodes] & ~mask[node_set.nodes]).any()
                )
            )
            if alike > capacity.fits(pod_class)[node_set.nodes].sum():
                return False
    return True


def pack(capacity: Capacity, demands: Sequence[Demand], budget: Budget) -> Assignments | None:
    """A packing of all demands, or None: there is none. OutOfSteps: unknown."""
    if not is_possible(capacity, demands, budget):
        return None
    budget.spend(len(demands) * (4 + len(demands) // 32))
    assignment = pack_greedily(capacity, demands)
    if assignment is not None:
        return assignment
    return pack_exactly(capacity, demands, budget)


def pack_exactly(capacity: Capacity, demands: Sequence[Demand], budget: Budget) -> Assignments | None:
    """Search node by node over full nodes only; failed states are tried once. None: there is no packing."""
    kinds = group_demands(demands)
    if len(kinds) == 1:
        return None  # for one kind, greedy packing is exact
    items = [demands[members[0]] for members in kinds]
    table = _Table(capacity, items, [sum(demands[i].count for i in members) for members in kinds])
    patterns = table.solve(budget)
    if patterns is None:
        return None
    filled = zip(table.nodes, patterns, strict=False)
    return share_out([(node, kind, n) for node, row in filled for kind, n in enumerate(row) if n], kinds, demands)


def group_demands(demands: Sequence[Demand]) -> list[list[int]]:
    """The indices of demands by kind: one class in one node set."""
    kinds: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for i, demand in enumerate(demands):
        kinds.setdefault((demand.pod_class, demand.node_set.key), []).append(i)
    return list(kinds.values())


def share_out(placed: Sequence[tuple[int, int, int]], kinds: list[list[int]], demands: Sequence[Demand]) -> Assignments:
    """Distribute assigned pods of each kind, as (node, kind, pods), over the demands of that kind."""
    assignments: Assignments = {i: [] for i in range(len(demands))}
    waiting = [[[i, demands[i].count] for i in members] for members in kinds]
    for node, kind, pods in placed:
        while pods:
            entry = waiting[kind][0]
            taken = min(pods, entry[1])
            assignments[entry[0]].append((node, taken))
            pods -= taken
            entry[1] -= taken
            if not entry[1]:
                waiting[kind].pop(0)
    return assignments


class _Table:
    """The packing problem in plain integers: nodes on which the fewest kinds fit come first."""

    def __init__(self, capacity: Capacity, items: Sequence[Demand], counts: list[int]) -> None:
        self.counts = tuple(counts)
        requests = np.array([capacity.pod_classes.requests[item.pod_class] for item in items])
        columns = np.flatnonzero(requests.any(axis=0))
        self.requests = [tuple(row) for row in requests[:, columns].tolist()]
        fits = np.zeros((len(items), len(capacity.free)), dtype=np.int64)
        for i, item in enumerate(items):
            fits[i, item.node_set.nodes] = capacity.fits(item.pod_class)[item.node_set.nodes]
        useful = np.flatnonzero(fits.any(axis=0))
        order = useful[np.lexsort((useful, fits[:, useful].sum(axis=0), (fits[:, useful] > 0).sum(axis=0)))]
        self.nodes: list[int] = order.tolist()
        self.free = [tuple(row) for row in capacity.free[np.ix_(order, columns)].tolist()]
        self.open = [tuple(row) for row in (fits[:, order].T > 0).tolist()]
        solo = fits[:, order]
        self.solo_left = [tuple(row) for row in _suffix_sums(solo.T).tolist()]
        free_left = _suffix_sums(np.maximum(capacity.free[np.ix_(order, columns)], 0))
        self.free_left = [tuple(row) for row in free_left.tolist()]

    def solve(self, budget: Budget) -> list[tuple[int, ...]] | None:
        """A pattern for every node up to the last one used; None: there is no packing."""
        failed: set[tuple[int, tuple[int, ...]]] = set()
        path: list[tuple[int, ...]] = []
        ahead = [self._patterns(0, self.counts, budget)] if self._hopeful(0, self.counts) else []
        left = [self.counts]
        while ahead:
            pattern = next(ahead[-1], None)
            if pattern is None:
                ahead.pop()
                failed.add((len(ahead), left.pop()))
                if path:
                    path.pop()
                continue
            budget.spend()
            rest = tuple(have - used for have, used in zip(left[-1], pattern, strict=True))
            at = len(ahead)
            if not any(rest):
                return [*path, pattern]
            if at < len(self.nodes) and (at, rest) not in failed and self._hopeful(at, rest):
                path.append(pattern)
                left.append(rest)
                ahead.append(self._patterns(at, rest, budget))
        return None

    def _hopeful(self, at: int, left: tuple[int, ...]) -> bool:
        """Whether the remaining pods could fit on the remaining nodes, by kind and by column."""
        if at >= len(self.nodes):
            return False
        if any(want > available for want, available in zip(left, self.solo_left[at], strict=True)):
            return False
        return all(
            sum(want * requests[column] for want, requests in zip(left, self.requests, strict=True)) <= available
            for column, available in enumerate(self.free_left[at])
        )

    def _patterns(self, at: int, left: tuple[int, ...], budget: Budget) -> Iterator[tuple[int, ...]]:
        """Every way to fill one node until none of the remaining pods fits."""
        counts = tuple(count if is_open else 0 for count, is_open in zip(left, self.open[at], strict=True))
        return mixes(self.requests, counts, self.free[at], budget)


def _suffix_sums(rows: Ints) -> Ints:
    return np.cumsum(rows[::-1], axis=0)[::-1]
