"""Pods by rule and node, sparse: most rules concern a few pods on a few nodes, whatever the size of the cluster."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class NodeCounts:
    """The number of pods on every node, by rule. The cost of a copy depends on the rules with pods, not on the pods."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._by_rule: dict[int, dict[int, int]] = {}
        self._owned: set[int] = set()  # rules whose counts no copy shares

    def copy(self) -> "NodeCounts":
        """A copy for a hypothesis; counts are shared until they change."""
        duplicate = NodeCounts(self.nodes)
        duplicate._by_rule = dict(self._by_rule)
        self._owned = set()
        return duplicate

    def add(self, rule: int, node: int, count: int) -> None:
        """Add pods to a node; a negative count removes them."""
        if rule not in self._owned:
            self._by_rule[rule] = dict(self._by_rule.get(rule, ()))
            self._owned.add(rule)
        counts = self._by_rule[rule]
        counts[node] = counts.get(node, 0) + count
        if not counts[node]:
            del counts[node]

    def row(self, rule: int) -> Ints:
        """The pods of one rule, by node."""
        by_node = np.zeros(self.nodes, dtype=np.int64)
        counts = self._by_rule.get(rule)
        if counts:
            by_node[list(counts)] = list(counts.values())
        return by_node

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Rule, node and number of pods, in order, wherever it is not zero."""
        for rule in sorted(self._by_rule):
            yield from ((rule, node, count) for node, count in sorted(self._by_rule[rule].items()))
