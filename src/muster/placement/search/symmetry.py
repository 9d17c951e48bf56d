"""Symmetry of search states: symmetric states fail alike, so the search tries one of them.

Domains with equal nodes and equal loads are interchangeable.
"""

import numpy as np

from muster.placement.domains import Domains
from muster.placement.packing.packing import Demand, NodeSet
from muster.placement.requirements.types import Requirement

Loads = dict[tuple[int, ...], list[tuple[int, int, int]]]


class Symmetry:
    """Signatures of domains on one capacity, as far as pods of some classes can tell them apart."""

    def __init__(self, domains: Domains, pod_classes: list[int], identity: bool) -> None:
        self.domains, self.pod_classes = domains, pod_classes
        self.identity = identity  # under inter-pod rules no two domains are interchangeable
        self._symmetry: dict[tuple[int, int, int], bytes] = {}
        self._overlaps: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

    def of(self, agenda: tuple[tuple[Requirement, NodeSet], ...], demands: tuple[Demand, ...]) -> object:
        """The signature of a state: by node set, the groups still to be placed inside it and the pods assigned."""
        loads: Loads = {}
        for requirement, node_set in agenda:
            loads.setdefault(node_set.key, []).append((0, requirement.kind, 0))
        for demand in demands:
            loads.setdefault(demand.node_set.key, []).append((1, demand.pod_class, demand.count))
        return tuple(sorted((self._appearance(key, loads), tuple(sorted(load))) for key, load in loads.items()))

    def _appearance(self, key: tuple[int, ...], loads: Loads) -> bytes:
        """The signature of a domain that is interchangeable with its equals; otherwise its own key."""
        if (
            self.identity
            or len(key) != 3
            or any(other_key and other_key != key and self._overlap(key, other_key) for other_key in loads)
        ):
            return repr(key).encode()
        tree, level, domain = key
        if (tree, level, domain) not in self._symmetry:
            self._symmetry[tree, level, domain] = self._symmetry_of(tree, level, domain)
        return self._symmetry[tree, level, domain]

    def _overlap(self, first_key: tuple[int, ...], second_key: tuple[int, ...]) -> bool:
        if (first_key, second_key) not in self._overlaps:
            first, second = self.domains.known[first_key].nodes, self.domains.known[second_key].nodes
            self._overlaps[first_key, second_key] = bool(np.isin(first, second, assume_unique=True).any())
        return self._overlaps[first_key, second_key]

    def _symmetry_of(self, tree: int, level: int, domain: int) -> bytes:
        """All that placement sees of the nodes: free capacity, filters, and the domains of every level and Topology."""
        trees, base = self.domains.trees, self.domains.base
        nodes = trees[tree].levels[level].nodes(domain)
        rows = np.column_stack(
            [base.free[nodes]]
            + [base.allowed(pod_class)[nodes].astype(np.int64) for pod_class in self.pod_classes]
            + [
                known.domain[nodes]
                for i, other_tree in enumerate(trees)
                for j, known in enumerate(other_tree.levels)
                if i != tree or j < level
            ]
        )
        finer = [np.unique(known.domain[nodes], return_inverse=True)[1] for known in trees[tree].levels[level + 1 :]]
        groups: dict[tuple[int, ...], list[bytes]] = {}
        for i in range(len(nodes)):
            groups.setdefault(tuple(int(fine[i]) for fine in finer), []).append(rows[i].tobytes())
        return repr((level, sorted((len(where), sorted(inside)) for where, inside in groups.items()))).encode()
