"""Upper bounds on what domains can hold (X1): what they exclude is impossible, what they leave is undecided.

A bound uses totals only: pods of a class against the nodes where they fit, requests against free capacity, groups
against the most of them that a domain could hold, nested k of n. It costs a few passes over the nodes for any gang.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.capacity import Capacity
from muster.placement.inter_pod.bounds import Distances
from muster.placement.requirements.tree import count_by_class, leaves, sizes, subtree
from muster.placement.requirements.types import RequiredLevel, Requirement, RequirementKinds

Ints = NDArray[np.int64]
EVERYWHERE = -1  # the level whose only domain is the whole cluster
ANY = np.iinfo(np.int64).max // 2
Asks = Sequence[Ints] | Mapping[int, Ints]  # by class


class _Question(Struct, frozen=True, eq=False):
    """A requirement, to be counted in every domain of a level."""

    requirement: Requirement
    tree: int
    level: int

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.requirement.kind, self.tree, self.level)


class Bounds:
    """Bounds for the requirements of one search on one capacity."""

    def __init__(self, capacity: Capacity, topologies: dict[str, TopologyTree]) -> None:
        self.capacity = capacity
        self.trees = list(topologies.values())
        self.tree_index = {name: i for i, name in enumerate(topologies)}
        self.distances: Distances | None = None  # anti-affinity between the gang's own pods
        self._copies: dict[tuple[int, int, int], Ints] = {}
        self._fits: dict[tuple[int, int, int], Ints] = {}
        self._fits_apart: dict[tuple[int, int, int], Ints] = {}  # the same, limited by anti-affinity
        self._usable: dict[tuple[tuple[int, ...], int, int], Ints] = {}
        self._sizes: dict[int, int] = {}
        self._facts: dict[int, tuple[tuple[int, ...], Ints]] = {}

    def copies(self, requirement: Requirement, tree: int, level: int) -> Ints:
        """For every domain of a level: how many requirements of this kind, and no others, it could hold at most."""
        self._facts_of(requirement)  # from the top: once for the whole subtree
        first = _Question(requirement, tree, level)
        ahead = [first]
        while ahead:  # without recursion: trees may be deep
            question = ahead[-1]
            if question.key in self._copies:
                ahead.pop()
                continue
            waiting = [below for below in self._below(question) if below.key not in self._copies]
            if waiting:
                ahead += waiting
                continue
            self._copies[question.key] = self._count(question)
            ahead.pop()
        return self._copies[first.key]

    @property
    def answered(self) -> int:
        """How many pairs of a kind of requirement and a level are counted so far."""
        return len(self._copies)

    def is_possible(self, requirement: Requirement) -> bool:
        """Whether totals leave it open that the cluster could hold the requirement."""
        if self.distances is not None and not self._find_distances(requirement, self.distances):
            return False
        trees = range(len(self.trees)) if self.trees else (0,)
        return all(self.copies(requirement, tree, EVERYWHERE)[0] > 0 for tree in trees)

    def _find_distances(self, requirement: Requirement, distances: Distances) -> bool:
        """Whether there are enough domains for pods of several classes with anti-affinity to each other."""
        classes = self.classes(requirement)
        shared = distances.shared(classes)
        if not shared:
            return True
        requests = {
            pod_class: np.array([number in distances.of_class(pod_class) for number in shared]) * 1
            for pod_class in classes
        }
        need = least_requests(requirement, requests).tolist()
        return all(n <= distances.places(number, classes) for n, number in zip(need, shared, strict=True))

    def prune(self, requirement: Requirement, kinds: RequirementKinds) -> Requirement | None:
        """The requirement without children and pods that fit nowhere; None: it is infeasible."""
        if not self.is_possible(requirement):
            return None
        by_id: dict[int, Requirement] = {}
        for part in reversed(list(subtree(requirement))):
            able = tuple(child for child in part.children if part.need == len(part.children) or self.is_possible(child))
            below = tuple(by_id[id(child)] for child in able)
            pods = self._placeable(part.pods)
            same = (
                len(below) == len(part.children) and all(map(_is, below, part.children)) and len(pods) == len(part.pods)
            )
            by_id[id(part)] = part if same else kinds.derive(part, children=below, pods=pods)
        return by_id[id(requirement)]

    def _placeable(self, runs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Pods whose class fits on some node."""
        return tuple(run for run in runs if self._fits_of(run[0], 0, EVERYWHERE)[0] > 0) if len(runs) > 1 else runs

    def classes(self, requirement: Requirement) -> tuple[int, ...]:
        """The classes of the pods that a requirement may use."""
        return self._facts_of(requirement)[0]

    def least(self, requirement: Requirement) -> Ints:
        """By column: the least that a requirement requests."""
        return self._facts_of(requirement)[1]

    # counting -------------------------------------------------------------------------------------------------------

    def _finer(self, question: _Question) -> int | None:
        """The requirement's own level, where it is finer than the level of the question."""
        constraint = question.requirement.required
        if (
            constraint is None
            or self.tree_index[constraint.topology] != question.tree
            or constraint.level <= question.level
        ):
            return None
        return constraint.level

    def _below(self, question: _Question) -> Iterable[_Question]:
        """The questions on whose answers this one depends."""
        finer = self._finer(question)
        if finer is not None:
            return (_Question(question.requirement, question.tree, finer),)
        known: dict[int, Requirement] = {child.kind: child for child in question.requirement.children}
        return (_Question(child, question.tree, question.level) for child in known.values())

    def _count(self, question: _Question) -> Ints:
        finer = self._finer(question)
        if finer is not None:
            return self._sum_by_outer(
                self._copies[question.requirement.kind, question.tree, finer], question.tree, finer, question.level
            )
        copies = self._by_totals(question)
        for limit in self._by_leaf(question) if question.requirement.is_leaf else self._by_children(question):
            np.minimum(copies, limit, out=copies)
        self._pin(copies, question.requirement.required, question)
        return copies

    def _by_totals(self, question: _Question) -> Ints:
        """The least requests of every copy, against the free capacity that its pods could use."""
        classes, least = self._facts_of(question.requirement)
        if len(classes) == 1 and (pods := self._sizes[question.requirement.kind]):  # of one class: fits decide
            return self._fits_of(classes[0], question.tree, question.level) // pods
        columns = np.flatnonzero(least)
        if not len(columns):
            return np.full(self._domains(question.tree, question.level), ANY, dtype=np.int64)
        usable = self._usable_by(classes, question.tree, question.level)
        copies: Ints = (usable[:, columns] // least[columns]).min(axis=1)
        return copies

    def _by_leaf(self, question: _Question) -> Iterable[Ints]:
        """Limits by pods: how many of each class fit in a domain."""
        if not question.requirement.need:
            return
        fits = {
            pod_class: self._fits_of(pod_class, question.tree, question.level)
            for pod_class, _ in question.requirement.pods
        }
        some = sum(
            np.minimum(fits[pod_class], most) for pod_class, most in count_by_class(question.requirement.pods).items()
        )
        yield np.where(np.asarray(some) >= question.requirement.need, ANY, 0)
        yield np.asarray(sum(fits.values())) // question.requirement.need

    def _by_children(self, question: _Question) -> Iterable[Ints]:
        """Limits by children: how many of each kind fit in a domain."""
        requirement = question.requirement
        if not requirement.need:
            return
        counts = Counter(child.kind for child in requirement.children)
        held = {kind: self._copies[kind, question.tree, question.level] for kind in counts}
        some = sum(np.minimum(held[kind], count) for kind, count in counts.items())
        yield np.where(np.asarray(some) >= requirement.need, ANY, 0)
        for kind, count in counts.items():
            always = requirement.need - (len(requirement.children) - count)  # so many of this kind are in every choice
            if always > 0:
                yield held[kind] // always

    def _pin(self, copies: Ints, constraint: RequiredLevel | None, question: _Question) -> None:
        """Exclude domains outside the one of the placed pods (T3)."""
        if (
            constraint is None
            or constraint.pinned is None
            or self.tree_index[constraint.topology] != question.tree
            or question.level < 0
        ):
            return
        level = self.trees[question.tree].levels[question.level]
        above = self.trees[question.tree].levels[constraint.level].domain[level.order[level.start[:-1]]]
        copies[above != constraint.pinned] = 0

    # per domain -------------------------------------------------------------------------------------------------------

    def _domains(self, tree: int, level: int) -> int:
        return 1 if level == EVERYWHERE else len(self.trees[tree].levels[level].paths)

    def _sum_by_domain(self, per_node: Ints, tree: int, level: int) -> Ints:
        if level == EVERYWHERE:
            everything: Ints = per_node.sum(axis=0, keepdims=True)
            return everything
        return self.trees[tree].levels[level].sums(per_node)

    def _sum_by_outer(self, copies: Ints, tree: int, fine: int, coarse: int) -> Ints:
        """Counts per domain of a finer level, summed by domain of a coarser one."""
        few = np.minimum(copies, ANY // max(len(copies), 1))
        if coarse == EVERYWHERE:
            everything: Ints = few.sum(keepdims=True)
            return everything
        inner, outer = self.trees[tree].levels[fine], self.trees[tree].levels[coarse]
        by_outer = np.zeros(len(outer.paths), dtype=np.int64)
        np.add.at(by_outer, outer.domain[inner.order[inner.start[:-1]]], few)
        return by_outer

    def fits_by_domain(self, pod_class: int, tree: int, level: int) -> Ints:
        """How many pods of a class fit in every domain, by capacity and filters."""
        key = (pod_class, tree, level)
        if key not in self._fits:
            self._fits[key] = self._sum_by_domain(self.capacity.fits(pod_class), tree, level)
        return self._fits[key]

    def _fits_of(self, pod_class: int, tree: int, level: int) -> Ints:
        """The same, also limited by anti-affinity between pods of the class."""
        if self.distances is None or not self.distances.of_class(pod_class):
            return self.fits_by_domain(pod_class, tree, level)
        key = (pod_class, tree, level)
        if key not in self._fits_apart:
            domains = self._domains(tree, level)
            everywhere = np.zeros(len(self.capacity.free), dtype=np.int64)
            domain = everywhere if level == EVERYWHERE else self.trees[tree].levels[level].domain
            most = self.distances.fits(pod_class, domain, domains)
            self._fits_apart[key] = np.minimum(self.fits_by_domain(pod_class, tree, level), most)
        return self._fits_apart[key]

    def _usable_by(self, classes: tuple[int, ...], tree: int, level: int) -> Ints:
        """By domain and column: the free capacity of nodes that pods of these classes could use."""
        key = (classes, tree, level)
        if key not in self._usable:
            requests = np.array([self.capacity.pod_classes.requests[pod_class] for pod_class in classes])
            columns = np.flatnonzero(requests.any(axis=0))  # few, though every host port is a column
            taken = np.zeros((len(self.capacity.free), len(columns)), dtype=np.int64)
            for pod_class, row in zip(classes, requests[:, columns], strict=True):
                taken += self.capacity.fits(pod_class)[:, None] * row
            per_node = np.minimum(np.maximum(self.capacity.free[:, columns], 0), taken)
            self._usable[key] = np.zeros((self._domains(tree, level), requests.shape[1]), dtype=np.int64)
            self._usable[key][:, columns] = self._sum_by_domain(per_node, tree, level)
        return self._usable[key]

    def _facts_of(self, requirement: Requirement) -> tuple[tuple[int, ...], Ints]:
        """The classes of a requirement, and its least requests by column; computed for its whole subtree at once."""
        if requirement.kind not in self._facts:
            known = least_requests_by_kind(requirement, self.capacity.pod_classes.requests)
            classes: dict[int, tuple[int, ...]] = {}
            for part in reversed(list(subtree(requirement))):
                below = {pod_class for child in part.children for pod_class in classes[child.kind]}
                classes[part.kind] = tuple(sorted(below.union(pod_class for pod_class, _ in part.pods)))
            self._sizes |= sizes(requirement)
            self._facts |= {kind: (classes[kind], row) for kind, row in known.items()}
        return self._facts[requirement.kind]


def _is(left: object, right: object) -> bool:
    return left is right


def least_requests(requirement: Requirement, requests: Asks) -> Ints:
    """By column: the least that any choice of children and pods requests, given the requests of each class."""
    return least_requests_by_kind(requirement, requests)[requirement.kind]


def least_requests_by_kind(requirement: Requirement, requests: Asks) -> dict[int, Ints]:
    """The same, for a requirement and all below it, by kind."""
    least: dict[int, Ints] = {}
    for part in reversed(list(subtree(requirement))):
        if part.kind in least:
            continue
        if part.is_leaf:
            least[part.kind] = _least_of(part.pods, part.need, requests)
            continue
        rows = np.array([least[child.kind] for child in part.children])
        least[part.kind] = np.sort(rows, axis=0)[: part.need].sum(axis=0)
        if part.total:
            below = [run for leaf in leaves(part) for run in leaf.pods]
            least[part.kind] = np.maximum(least[part.kind], _least_of(below, part.total, requests))
    return least


def _least_of(runs: Sequence[tuple[int, int]], need: int, requests: Asks) -> Ints:
    """By column: the least that `need` of these pods request."""
    counts = count_by_class(runs)
    if len(counts) == 1:
        return requests[next(iter(counts))] * need
    pod_classes, lengths = list(counts), np.array(list(counts.values()), dtype=np.int64)
    rows = np.array([requests[pod_class] for pod_class in pod_classes])
    order = np.argsort(rows, axis=0, kind="stable")
    sorted_rows, there = np.take_along_axis(rows, order, axis=0), lengths[order]
    taken = np.clip(need - (np.cumsum(there, axis=0) - there), 0, there)
    total: Ints = (sorted_rows * taken).sum(axis=0)
    return total
