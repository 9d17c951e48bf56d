"""First fit: the constructive tier without backtracking, for gangs of any size.

It places group after group into the free capacity of a few domains, and skips a child that does not fit where another
may replace it (M3). Its cost is linear in the gang, plus one pass over the domains for every group. A placement that it
finds is valid; that it finds none proves nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.packing.packing import Assignments, Demand, NodeSet, assign_tightly
from muster.placement.requirements.tree import count_by_class, pods_by_class, sizes, subtree, whole_pods_by_class
from muster.placement.requirements.types import RequiredLevel, Requirement

if TYPE_CHECKING:
    from muster.placement.search.nested_search import Search

Ints = NDArray[np.int64]
DOMAINS = 16  # candidates tried for a group
DEEPEST = 100  # levels of a tree beyond which first fit gives up: it recurses
PLACE, ADD, NODES = 6, 3, 400  # steps per group in a node set, and per class of pods; nodes of a pass per step


class TrialOrder(Struct, frozen=True):
    """The order in which first fit tries children and domains."""

    by_size: bool = False  # large groups first, small ones where there is a choice; else by spec and rank
    growing: bool = False  # domains that can hold all extras first (X4)


class FirstFit:
    """Assignments of one gang's pods on its own copy of the capacity."""

    def __init__(
        self, search: "Search", requirement: Requirement, order: TrialOrder, whole: Requirement | None = None
    ) -> None:
        self.search, self.order = search, order
        self.capacity = search.base.copy()
        self.demands: list[Demand] = []
        self.assignments: list[list[tuple[int, int]]] = []
        self._least, self._requested = sizes(requirement), pods_by_class(requirement)
        self._whole = {} if whole is None else whole_pods_by_class(whole)  # by group: pods by class, extras included
        self._allowance = search.allowance
        self._taken = np.zeros(self.capacity.free.shape[1], dtype=np.int64)
        self._weights: dict[int, int] = {}
        self._depth = 0
        self._free: dict[tuple[str, int], Ints] = {}  # by level: free capacity of every domain
        search.spend(len(self._least) + len(self.capacity.free) // NODES)

    def placed(self) -> tuple[tuple[Demand, ...], Assignments]:
        """The demands, and the assignment of each."""
        return tuple(self.demands), dict(enumerate(self.assignments))

    # groups -----------------------------------------------------------------------------------------------------------

    def place(self, requirement: Requirement, enclosing: NodeSet) -> bool:
        """Place a requirement inside a node set; False, with nothing changed: it did not fit."""
        if self._depth > DEEPEST:
            return False
        self._depth += 1
        try:
            return any(self._settle(requirement, node_set) for node_set in self._regions(requirement, enclosing))
        finally:
            self._depth -= 1

    def _settle(self, requirement: Requirement, node_set: NodeSet) -> bool:
        self.search.spend(PLACE)
        start = len(self.demands)
        if self._seat(requirement, node_set) if requirement.is_leaf else self._place_children(requirement, node_set):
            return True
        while len(self.demands) > start:
            self._take_back()
        return False

    def _place_children(self, requirement: Requirement, node_set: NodeSet) -> bool:
        """Place as many children as needed; skip those that do not fit, and others of their kind."""
        met, hopeless = 0, set[int]()
        for child in self._ordered(requirement):
            if met == requirement.need:
                break
            if child.kind in hopeless:
                continue
            if self.place(child, node_set):
                met += 1
            elif requirement.need == len(requirement.children):
                return False
            else:
                hopeless.add(child.kind)
        return met == requirement.need

    def _ordered(self, requirement: Requirement) -> Sequence[Requirement]:
        """If all are needed: those with a level first, then large ones. If not: in order (M3), or small ones first."""
        if requirement.need < len(requirement.children):
            return sorted(requirement.children, key=self._weight) if self.order.by_size else requirement.children
        if self.order.growing:
            return sorted(requirement.children, key=self._whole_size)
        if self.order.by_size:
            return sorted(requirement.children, key=lambda child: (_is_flexible(child), -self._weight(child)))
        return sorted(requirement.children, key=lambda child: (_is_flexible(child), -self._least[child.kind]))

    def _whole_size(self, requirement: Requirement) -> tuple[bool, int]:
        return _is_flexible(requirement), -sum(self._whole[requirement.name].values())

    def _weight(self, requirement: Requirement) -> int:
        """The requirement's least share of all free capacity, in millionths, of the resource where that is largest."""
        if requirement.kind not in self._weights:
            least = self.search.domains.bounds.least(requirement)
            self._weights[requirement.kind] = int(
                (least * 1_000_000 // np.maximum(self.search.free_in_all, 1)).max(initial=0)
            )
        return self._weights[requirement.kind]

    # node sets --------------------------------------------------------------------------------------------------------

    def _regions(self, requirement: Requirement, enclosing: NodeSet) -> Iterator[NodeSet]:
        """The first few candidate node sets of a requirement."""
        if requirement.at_most:
            for node_set, _ in zip(self.search.domains.of(requirement, enclosing), range(DOMAINS), strict=False):
                yield node_set
            return
        for outer in self._narrowed(requirement, requirement.required, enclosing):
            yield from self._narrowed(requirement, requirement.tight, outer)

    def _narrowed(
        self, requirement: Requirement, constraint: RequiredLevel | None, enclosing: NodeSet
    ) -> Iterator[NodeSet]:
        if constraint is None:
            yield enclosing
            return
        least = self.search.domains.bounds.least(requirement)
        domains = self._domains_with_capacity(
            constraint,
            self.search.domains.candidates(requirement, constraint, enclosing),
            self._requested[requirement.kind],
            least,
        )
        if self.order.growing:
            domains = self._growing_first(requirement, constraint, domains)
        elif self.order.by_size and len(domains) > 1:
            domains = domains[np.argsort(self._fits_by_domain(requirement, constraint)[domains], kind="stable")]
        for domain in domains[:DOMAINS].tolist():
            yield self.search.domains.narrow(enclosing, constraint, domain)

    def _domains_with_capacity(
        self, constraint: RequiredLevel, domains: Ints, requested: Mapping[int, int], least: Ints
    ) -> Ints:
        """Domains where enough pods of every class still fit, with enough free capacity for all of them."""
        if not len(domains):
            return domains
        level = self.search.domains.level(constraint)
        self.search.spend((len(requested) * len(self.capacity.free) + len(domains)) // NODES)
        roomy = (self._free_of(constraint)[domains] >= least).all(axis=1)
        for pod_class, count in requested.items():
            roomy &= level.sums(self.capacity.fits(pod_class))[domains] >= count
        return domains[roomy]

    def _growing_first(self, requirement: Requirement, constraint: RequiredLevel, domains: Ints) -> Ints:
        """Domains that can hold all extras, tight ones first; then the others, the largest first."""
        requested = self._whole[requirement.name]
        requests = self.capacity.pod_classes.requests
        total = sum((requests[pod_class] * count for pod_class, count in requested.items()), np.zeros_like(self._taken))
        whole = self._domains_with_capacity(constraint, domains, requested, total)
        others = domains[~np.isin(domains, whole)]
        return np.concatenate(
            (whole, others[np.argsort(-self._fits_by_domain(requirement, constraint)[others], kind="stable")])
        )

    def _fits_by_domain(self, requirement: Requirement, constraint: RequiredLevel) -> Ints:
        """For every domain: how many pods still fit, summed over the classes of the requirement."""
        level = self.search.domains.level(constraint)
        classes = self.search.domains.bounds.classes(requirement)
        self.search.spend(len(classes) * len(self.capacity.free) // NODES)
        return np.asarray(sum(level.sums(self.capacity.fits(pod_class)) for pod_class in classes))

    def _free_of(self, constraint: RequiredLevel) -> Ints:
        key = (constraint.topology, constraint.level)
        if key not in self._free:
            self._free[key] = self.search.domains.level(constraint).sums(np.maximum(self.capacity.free, 0))
        return self._free[key]

    # pods -------------------------------------------------------------------------------------------------------------

    def _seat(self, leaf: Requirement, node_set: NodeSet) -> bool:
        """Assign the pods of a leaf: the first in the order of M4, else as many as fit of each class in order."""
        first: dict[int, int] = {}
        left = leaf.need
        for pod_class, length in leaf.pods:
            if taken := min(length, left):
                first[pod_class] = first.get(pod_class, 0) + taken
                left -= taken
        start = len(self.demands)
        if all(self.add(leaf, pod_class, first[pod_class], node_set) for pod_class in self._hardest_first(first)):
            return True
        offered = count_by_class(leaf.pods)
        if len(offered) == 1:
            return False
        while len(self.demands) > start:
            self._take_back()
        left = leaf.need
        for pod_class, there in offered.items():
            count = min(there, left, int(self.capacity.fits(pod_class)[node_set.nodes].sum()))
            if count and self.add(leaf, pod_class, count, node_set):
                left -= count
        return not left

    def _hardest_first(self, pod_classes: Mapping[int, int]) -> Sequence[int]:
        if len(pod_classes) == 1:
            return list(pod_classes)
        return sorted(pod_classes, key=lambda pod_class: (int(self.capacity.fits(pod_class).max(initial=0)), pod_class))

    def add(self, leaf: Requirement, pod_class: int, count: int, node_set: NodeSet) -> bool:
        """Assign `count` pods of a class of a leaf inside a node set; False: they do not fit."""
        self.search.spend(ADD)
        requested = self._taken + self.capacity.pod_classes.requests[pod_class] * count
        if self._allowance is not None and (requested > self._allowance).any():
            return False
        demand = Demand(self.search.leaf_index(leaf.name), pod_class, count, node_set)
        assignments = assign_tightly(self.capacity, demand)
        if assignments is None:
            return False
        self.put(demand, assignments)
        return True

    def put(self, demand: Demand, assignments: Sequence[tuple[int, int]]) -> None:
        """Add a demand with a known assignment."""
        self.demands.append(demand)
        self.assignments.append(list(assignments))
        self._hold(demand, assignments, 1)

    def _take_back(self) -> None:
        demand = self.demands.pop()
        self._hold(demand, self.assignments.pop(), -1)

    def _hold(self, demand: Demand, assignments: Sequence[tuple[int, int]], sign: int) -> None:
        requests = self.capacity.pod_classes.requests[demand.pod_class] * sign
        self._taken += requests * demand.count
        for node, count in assignments:
            self.capacity.hold(node, requests * count)
            for (topology, level), free in self._free.items():
                domain = self.search.domains.trees[self.search.domains.tree_index[topology]].levels[level].domain[node]
                if domain >= 0:
                    free[domain] -= requests * count


def _is_flexible(requirement: Requirement) -> bool:
    return requirement.is_leaf and requirement.required is None and requirement.tight is None


def is_supported(requirement: Requirement) -> bool:
    """Whether first fit can place the requirement: it does not support totals of pods (M5)."""
    return not any(part.total for part in subtree(requirement))
