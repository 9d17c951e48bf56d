"""Where a group could be: domains of the levels it requires, by counts alone, tight ones first (X4).

A bound, never a proof: what is left out here cannot hold the group, what is offered may still turn out too small.
"""

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import NOWHERE, Level, TopologyTree
from muster.placement.bounds import Bounds
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, SupposedCapacity
from muster.placement.packing.packing import NodeSet
from muster.placement.requirements.tree import size
from muster.placement.requirements.types import RequiredLevel, Requirement

Ints = NDArray[np.int64]
FEW, NODES = 6, 200  # steps to count the domains of a region, and nodes for one step more


class Domains:
    """The regions of one search on one ledger, each made once."""

    def __init__(self, capacity: Capacity, topologies: dict[str, TopologyTree], budget: Budget) -> None:
        self.base = capacity
        self.budget = budget
        self.bounds = Bounds(capacity, topologies)
        self.trees, self.tree_index = self.bounds.trees, self.bounds.tree_index
        self.everywhere = NodeSet((), np.arange(len(capacity.free)))
        self.known: dict[tuple[int, ...], NodeSet] = {(): self.everywhere}
        self._candidates: dict[tuple[int, int, tuple[int, ...]], Ints] = {}

    def level(self, spot: RequiredLevel) -> Level:
        """The level that a spot names."""
        return self.trees[self.tree_index[spot.topology]].levels[spot.level]

    def of(self, requirement: Requirement, region: NodeSet) -> Iterator[NodeSet]:
        """Regions for a group: domains that it requires, and inside them those that it is held to in addition."""
        for outer in self.narrowed(requirement, requirement.required, region):
            for inner in self.narrowed(requirement, requirement.tight, outer):
                yield from self._few(requirement, inner)

    def _few(self, requirement: Requirement, region: NodeSet) -> Iterator[NodeSet]:
        """Parts of a region with no more domains of the preferred level than the goal may use, roomy ones first.

        Nodes outside of any domain count as one more (NOWHERE).
        """
        if not requirement.at_most:
            yield region
            return
        assert requirement.preferred is not None
        self.budget.spend(FEW + len(region.nodes) // NODES)
        domain = self.level(requirement.preferred).domain[region.nodes]
        known, at = np.unique(domain, return_inverse=True)
        room = np.bincount(at, weights=self.room(requirement)[region.nodes]).astype(np.int64) if len(known) else known
        rooms = dict(zip(known.tolist(), room.tolist(), strict=True))
        held = requirement.preferred.placed
        others = sorted((d for d in rooms if rooms[d] and d not in held), key=lambda d: (-rooms[d], d))
        number = requirement.at_most - len(held)
        if len(others) <= number:
            yield region
            return
        need = size(requirement) - sum(rooms.get(d, 0) for d in held)
        if sum(rooms[d] for d in others[:number]) < need:
            return
        seen = tuple(d for d in requirement.first if d not in held)
        for chosen in chain([seen] if seen else [], combinations(others, number)):
            self.budget.spend()
            if sum(rooms.get(d, 0) for d in chosen) >= need:
                self.budget.spend(len(domain))  # each is a search of its own over all nodes
                yield self._only(region, requirement.preferred, (*held, *chosen))

    def narrowed(self, requirement: Requirement, spot: RequiredLevel | None, region: NodeSet) -> Iterator[NodeSet]:
        """The part of a region in every domain of a level in which the goal could be."""
        if spot is None:
            yield region
            return
        for domain in self.domains(requirement, spot, region).tolist():
            yield self.narrow(region, spot, domain)

    def domains(self, requirement: Requirement, spot: RequiredLevel, region: NodeSet) -> Ints:
        """Domains in which a group could be, by bounds; tight ones first, then by name (X4)."""
        key = (requirement.kind, spot.level, region.key)
        if key not in self._candidates:
            self._candidates[key] = self._rank_domains(requirement, spot, region)
        return self._candidates[key]

    def _rank_domains(self, requirement: Requirement, spot: RequiredLevel, region: NodeSet) -> Ints:
        tree = self.tree_index[spot.topology]
        level = self.trees[tree].levels[spot.level]
        domains = self._domains_in(tree, spot.level, region)
        if spot.pinned is not None:
            domains = domains[domains == spot.pinned]
        domains = domains[self.bounds.copies(requirement, tree, spot.level)[domains] > 0]
        if len(domains) <= 1:
            return domains
        room = np.zeros(len(domains), dtype=np.int64)
        for pod_class in self.bounds.classes(requirement):
            room += self.bounds.seats_by_domain(pod_class, tree, spot.level)[domains]
        order: Ints = np.lexsort((domains, room, -self._bids(requirement, level, domains)))
        return domains[order]

    def _bids(self, requirement: Requirement, level: Level, domains: Ints) -> Ints:
        """For every domain: what it is worth to as many pods as the goal needs."""
        found = np.zeros(len(domains), dtype=np.int64)
        if self.base.bidding:
            need = size(requirement)
            for pod_class in self.bounds.classes(requirement):
                found += self.base.bids(pod_class, level, domains, need)
        return found

    def _domains_in(self, tree: int, level: int, region: NodeSet) -> Ints:
        """Domains of a level that have nodes in a region."""
        known = self.trees[tree].levels[level]
        if region is self.everywhere:
            return np.arange(len(known.paths), dtype=np.int64)
        if len(region.key) == 3 and region.key[0] == tree and region.key[1] < level:
            above = self.trees[tree].levels[region.key[1]].domain[known.order[known.start[:-1]]]
            return np.flatnonzero(above == region.key[2])
        domains: Ints = np.unique(known.domain[region.nodes])
        return domains[int(np.searchsorted(domains, 0)) :]  # NOWHERE sorts first

    def _only(self, region: NodeSet, spot: RequiredLevel, within: tuple[int, ...]) -> NodeSet:
        """The part of a region that is in some domains of a level."""
        tree = self.tree_index[spot.topology]
        key = (*region.key, tree, spot.level, *sorted(within), NOWHERE)
        if key not in self.known:
            inside = np.isin(self.trees[tree].levels[spot.level].domain[region.nodes], within)
            self.known[key] = NodeSet(key, region.nodes[inside])
        return self.known[key]

    def room(self, requirement: Requirement) -> Ints:
        """How much room every node has, in pods that the goal has."""
        total = np.zeros(len(self.base.free), dtype=np.int64)
        for pod_class in self.bounds.classes(requirement):
            total += self.base.fits(pod_class)
        return total

    def seats_left(self, spot: RequiredLevel, pod_class: int, capacity: SupposedCapacity) -> Ints:
        """For every domain of a level: how many pods of a class it could take beside what is seated."""
        tree, level = self.tree_index[spot.topology], self.level(spot)
        nodes, more = capacity.differences(pod_class)
        domain = level.domain[nodes]
        left = self.bounds.seats_by_domain(pod_class, tree, spot.level).copy()
        np.add.at(left, domain[domain != NOWHERE], more[domain != NOWHERE])
        return left

    def narrow(self, region: NodeSet, spot: RequiredLevel, domain: int) -> NodeSet:
        """The part of a region that is in one domain of a level."""
        tree = self.tree_index[spot.topology]
        nodes = self.trees[tree].levels[spot.level].nodes(domain)
        if region is self.everywhere:
            key: tuple[int, ...] = (tree, spot.level, domain)
            if key not in self.known:
                self.known[key] = NodeSet(key, nodes)
            return self.known[key]
        shared = np.intersect1d(region.nodes, nodes, assume_unique=True)
        if len(shared) == len(region.nodes):
            return region
        key = (tree, spot.level, domain) if len(shared) == len(nodes) else (*region.key, tree, spot.level, domain)
        if key not in self.known:
            self.known[key] = NodeSet(key, np.sort(shared))
        return self.known[key]
