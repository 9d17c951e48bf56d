"""Candidate domains of a group at the levels it requires, by counts alone, tight ones first (X4).

A bound, not a proof: a domain that is left out cannot hold the group; a candidate may still turn out too small.
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
FEW, NODES = 6, 200  # steps to count the domains of a node set; nodes per further step


class Domains:
    """The node sets of one search on one capacity, each built once."""

    def __init__(self, capacity: Capacity, topologies: dict[str, TopologyTree], budget: Budget) -> None:
        self.base = capacity
        self.budget = budget
        self.bounds = Bounds(capacity, topologies)
        self.trees, self.tree_index = self.bounds.trees, self.bounds.tree_index
        self.everywhere = NodeSet((), np.arange(len(capacity.free)))
        self.known: dict[tuple[int, ...], NodeSet] = {(): self.everywhere}
        self._ranked: dict[tuple[int, int, tuple[int, ...]], Ints] = {}

    def level(self, constraint: RequiredLevel) -> Level:
        """The level of a constraint."""
        return self.trees[self.tree_index[constraint.topology]].levels[constraint.level]

    def of(self, requirement: Requirement, node_set: NodeSet) -> Iterator[NodeSet]:
        """Candidate node sets of a group: domains of its required level, and inside them of its tight level."""
        for outer in self.narrowed(requirement, requirement.required, node_set):
            for inner in self.narrowed(requirement, requirement.tight, outer):
                yield from self._few(requirement, inner)

    def _few(self, requirement: Requirement, node_set: NodeSet) -> Iterator[NodeSet]:
        """Parts of a node set with at most as many preferred domains as the requirement may use, most capacity first.

        Nodes outside any domain count as one more domain (NOWHERE).
        """
        if not requirement.at_most:
            yield node_set
            return
        assert requirement.preferred is not None
        self.budget.spend(FEW + len(node_set.nodes) // NODES)
        domain = self.level(requirement.preferred).domain[node_set.nodes]
        known, at = np.unique(domain, return_inverse=True)
        total_fits = (
            np.bincount(at, weights=self.fits(requirement)[node_set.nodes]).astype(np.int64) if len(known) else known
        )
        fits_of = dict(zip(known.tolist(), total_fits.tolist(), strict=True))
        held = requirement.preferred.placed
        others = sorted((d for d in fits_of if fits_of[d] and d not in held), key=lambda d: (-fits_of[d], d))
        number = requirement.at_most - len(held)
        if len(others) <= number:
            yield node_set
            return
        need = size(requirement) - sum(fits_of.get(d, 0) for d in held)
        if sum(fits_of[d] for d in others[:number]) < need:
            return
        seen = tuple(d for d in requirement.first if d not in held)
        for chosen in chain([seen] if seen else [], combinations(others, number)):
            self.budget.spend()
            if sum(fits_of.get(d, 0) for d in chosen) >= need:
                self.budget.spend(len(domain))  # each is a search of its own over all nodes
                yield self._only(node_set, requirement.preferred, (*held, *chosen))

    def narrowed(
        self, requirement: Requirement, constraint: RequiredLevel | None, node_set: NodeSet
    ) -> Iterator[NodeSet]:
        """For every candidate domain of a level: the part of the node set inside it."""
        if constraint is None:
            yield node_set
            return
        for domain in self.candidates(requirement, constraint, node_set).tolist():
            yield self.narrow(node_set, constraint, domain)

    def candidates(self, requirement: Requirement, constraint: RequiredLevel, node_set: NodeSet) -> Ints:
        """Candidate domains of a group, by bounds; tight ones first, then by name (X4)."""
        key = (requirement.kind, constraint.level, node_set.key)
        if key not in self._ranked:
            self._ranked[key] = self._rank_domains(requirement, constraint, node_set)
        return self._ranked[key]

    def _rank_domains(self, requirement: Requirement, constraint: RequiredLevel, node_set: NodeSet) -> Ints:
        tree = self.tree_index[constraint.topology]
        level = self.trees[tree].levels[constraint.level]
        domains = self._domains_in(tree, constraint.level, node_set)
        if constraint.pinned is not None:
            domains = domains[domains == constraint.pinned]
        domains = domains[self.bounds.copies(requirement, tree, constraint.level)[domains] > 0]
        if len(domains) <= 1:
            return domains
        total_fits = np.zeros(len(domains), dtype=np.int64)
        for pod_class in self.bounds.classes(requirement):
            total_fits += self.bounds.fits_by_domain(pod_class, tree, constraint.level)[domains]
        order: Ints = np.lexsort((domains, total_fits, -self._preference_scores(requirement, level, domains)))
        return domains[order]

    def _preference_scores(self, requirement: Requirement, level: Level, domains: Ints) -> Ints:
        """For every domain: its preference score for as many pods as the requirement needs."""
        scores = np.zeros(len(domains), dtype=np.int64)
        if self.base.has_preferences:
            need = size(requirement)
            for pod_class in self.bounds.classes(requirement):
                scores += self.base.preference_scores(pod_class, level, domains, need)
        return scores

    def _domains_in(self, tree: int, level: int, node_set: NodeSet) -> Ints:
        """Domains of a level that have nodes in a node set."""
        known = self.trees[tree].levels[level]
        if node_set is self.everywhere:
            return np.arange(len(known.paths), dtype=np.int64)
        if len(node_set.key) == 3 and node_set.key[0] == tree and node_set.key[1] < level:
            above = self.trees[tree].levels[node_set.key[1]].domain[known.order[known.start[:-1]]]
            return np.flatnonzero(above == node_set.key[2])
        domains: Ints = np.unique(known.domain[node_set.nodes])
        return domains[int(np.searchsorted(domains, 0)) :]  # NOWHERE sorts first

    def _only(self, node_set: NodeSet, constraint: RequiredLevel, within: tuple[int, ...]) -> NodeSet:
        """The part of a node set that is in some domains of a level."""
        tree = self.tree_index[constraint.topology]
        key = (*node_set.key, tree, constraint.level, *sorted(within), NOWHERE)
        if key not in self.known:
            inside = np.isin(self.trees[tree].levels[constraint.level].domain[node_set.nodes], within)
            self.known[key] = NodeSet(key, node_set.nodes[inside])
        return self.known[key]

    def fits(self, requirement: Requirement) -> Ints:
        """For every node: how many pods fit, summed over the classes of the requirement."""
        total = np.zeros(len(self.base.free), dtype=np.int64)
        for pod_class in self.bounds.classes(requirement):
            total += self.base.fits(pod_class)
        return total

    def fits_left(self, constraint: RequiredLevel, pod_class: int, capacity: SupposedCapacity) -> Ints:
        """For every domain of a level: how many pods of a class fit beside those assigned already."""
        tree, level = self.tree_index[constraint.topology], self.level(constraint)
        nodes, more = capacity.differences(pod_class)
        domain = level.domain[nodes]
        left = self.bounds.fits_by_domain(pod_class, tree, constraint.level).copy()
        np.add.at(left, domain[domain != NOWHERE], more[domain != NOWHERE])
        return left

    def narrow(self, node_set: NodeSet, constraint: RequiredLevel, domain: int) -> NodeSet:
        """The part of a node set that is in one domain of a level."""
        tree = self.tree_index[constraint.topology]
        nodes = self.trees[tree].levels[constraint.level].nodes(domain)
        if node_set is self.everywhere:
            key: tuple[int, ...] = (tree, constraint.level, domain)
            if key not in self.known:
                self.known[key] = NodeSet(key, nodes)
            return self.known[key]
        shared = np.intersect1d(node_set.nodes, nodes, assume_unique=True)
        if len(shared) == len(node_set.nodes):
            return node_set
        key = (
            (tree, constraint.level, domain)
            if len(shared) == len(nodes)
            else (*node_set.key, tree, constraint.level, domain)
        )
        if key not in self.known:
            self.known[key] = NodeSet(key, np.sort(shared))
        return self.known[key]
