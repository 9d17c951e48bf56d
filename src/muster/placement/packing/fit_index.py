"""Nodes by how many pods of one class fit on each: tight assignments (X4) for one gang, or for many equal ones at once.

Rule: the same assignments as `packing.fill` returns for the same fits; a property holds the two equal.
"""

from bisect import bisect_left, insort
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import Level

Ints = NDArray[np.int64]
PodsByNode = list[tuple[int, int]]  # nodes, and how many pods on each


class FitIndex:
    """An index of some or all nodes: looks up the tightest node that holds a number of pods."""

    def __init__(self, fits: Ints, nodes: Ints | None = None) -> None:
        here = fits if nodes is None else fits[nodes]
        self.total = int(here.sum())
        order = here.argsort(kind="stable")
        order = order[here[order].searchsorted(1) :]  # those with at least one fit
        counts, known = here[order], (order if nodes is None else nodes[order]).tolist()
        starts = [0, *((counts[1:] != counts[:-1]).nonzero()[0] + 1).tolist(), len(known)] if known else []
        self._nodes = {int(counts[start]): known[start:end] for start, end in pairwise(starts)}  # each is a heap
        self._counts = list(self._nodes)
        self._fits = fits

    def move(self, node: int, before: int, after: int) -> None:
        """Update how many pods fit on a node; lookups skip its old entry."""
        self.total += after - before
        if after > 0 and after != before:
            if after not in self._nodes:
                self._nodes[after] = []
                insort(self._counts, after)
            heappush(self._nodes[after], node)

    def tightest(self, pods: int) -> PodsByNode | None:
        """The tightest node that holds all pods, else several, the tightest first; None: too few pods fit."""
        if self.total < pods:
            return None
        for count in self._counts[bisect_left(self._counts, pods) :]:
            node = self._first(count)
            if node is not None:
                return [(node, pods)]
        assignment: PodsByNode = []
        for count in self._counts:
            nodes = self._take_first(count, -(-pods // count))
            assignment += [(node, count) for node in nodes]
            pods -= len(nodes) * count
            if pods <= 0:
                assignment[-1] = nodes[-1], count + pods
                return assignment
        raise AssertionError("the total says that there is capacity")

    def pack(self, pods: int, most: int) -> list[PodsByNode]:
        """Tight assignments for as many gangs of `pods` pods as fit, up to `most`, gang by gang.

        A node that holds a gang stays the tightest while it holds another one, so it takes all of them at once. The
        fits exclude these pods afterwards: see `Capacity.pack`.
        """
        packed: list[PodsByNode] = []
        while len(packed) < most and (places := self.tightest(pods)) is not None:
            times = 1
            if len(places) == 1:
                times = min(int(self._fits[places[0][0]]) // pods, most - len(packed))
            packed += [places] * times
            for node, count in places:
                before = int(self._fits[node])
                self._fits[node] = before - count * times
                self.move(node, before, before - count * times)
        return packed

    def _first(self, count: int) -> int | None:
        nodes = self._nodes[count]
        while nodes and self._fits[nodes[0]] != count:
            heappop(nodes)
        return nodes[0] if nodes else None

    def _take_first(self, count: int, most: int) -> list[int]:
        """The first nodes on which exactly `count` pods fit; they stay in the index."""
        nodes, first = self._nodes[count], list[int]()
        while len(first) < most and (node := self._first(count)) is not None:
            heappop(nodes)
            if not first or first[-1] != node:  # a node that returned to a count has two entries
                first.append(node)
        for node in first:
            heappush(nodes, node)
        return first


class DomainFitIndex:
    """The same, for gangs that must be in one domain of a level: the tightest domain that holds all pods."""

    def __init__(self, fits: Ints, level: Level) -> None:
        self.capacity = level.sums(fits)
        self._fits, self._level = fits, level
        self._by_domain: dict[int, FitIndex] = {}

    def move(self, node: int, before: int, after: int) -> None:
        """Update how many pods fit on a node."""
        domain = int(self._level.domain[node])
        if domain < 0:
            return
        self.capacity[domain] += after - before
        if domain in self._by_domain:
            self._by_domain[domain].move(node, before, after)

    def inside(self, domain: int) -> FitIndex:
        """The nodes of one domain."""
        if domain not in self._by_domain:
            self._by_domain[domain] = FitIndex(self._fits, self._level.nodes(domain))
        return self._by_domain[domain]

    def tightest(self, pods: int) -> PodsByNode | None:
        """An assignment in the domain with the least capacity that holds all pods; None: there is no such domain."""
        domain = self._domain(pods)
        return None if domain is None else self.inside(domain).tightest(pods)

    def pack(self, pods: int, most: int) -> list[PodsByNode]:
        """Assignments for many equal gangs, each in one domain; a domain stays the tightest while it holds another."""
        packed: list[PodsByNode] = []
        while len(packed) < most and (domain := self._domain(pods)) is not None:
            times = min(int(self.capacity[domain]) // pods, most - len(packed))
            packed += self.inside(domain).pack(pods, times)
            self.capacity[domain] -= times * pods
        return packed

    def _domain(self, pods: int) -> int | None:
        enough = np.flatnonzero(self.capacity >= pods)
        return int(enough[self.capacity[enough].argmin()]) if len(enough) else None
