"""A Topology over the nodes of a cluster, as arrays (T1, T5). Static: it depends on nodes and labels only."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.core import Node
from muster.api.topology import Topology
from muster.validation.topology import find_level

Ints = NDArray[np.int64]
NOWHERE = -1


class Level(Struct, frozen=True, eq=False):
    """One level: which domain every node is in, and which nodes every domain has."""

    label: str
    domain: Ints  # of every node; NOWHERE: it lacks this label or one above (T5)
    paths: tuple[str, ...]  # identity of every domain: label values from the top level down
    parent: Ints  # of every domain: its domain one level up; NOWHERE at the top
    order: Ints  # nodes, domain by domain
    start: Ints  # where each domain begins in `order`, and one past the end

    def nodes(self, domain: int) -> Ints:
        """The nodes of one domain, in order."""
        return self.order[self.start[domain] : self.start[domain + 1]]

    def sums(self, per_node: Ints) -> Ints:
        """A number per node added up per domain."""
        if not len(self.paths):
            return np.zeros((0, *per_node.shape[1:]), dtype=np.int64)
        return np.add.reduceat(per_node[self.order], self.start[:-1])


class TopologyTree(Struct, frozen=True, eq=False):
    """The levels of one Topology, coarse to fine."""

    topology: Topology
    levels: tuple[Level, ...]

    def find(self, word: str) -> int | None:
        """The index of a level, by its label or the last part of it (T4)."""
        return find_level(self.topology, word)


def arrange(topology: Topology, nodes: Sequence[Node]) -> TopologyTree:
    """Arrange nodes in nested domains: a domain is the path of label values from the top level down."""
    labels = [level.node_label for level in topology.spec.levels]
    paths: list[tuple[str, ...] | None] = [()] * len(nodes)
    levels: list[Level] = []
    above: dict[tuple[str, ...], int] = {}
    for label in labels:
        paths = [
            (*path, node.metadata.labels[label]) if path is not None and label in node.metadata.labels else None
            for path, node in zip(paths, nodes, strict=True)
        ]
        index = {path: i for i, path in enumerate(sorted({path for path in paths if path is not None}))}
        levels.append(_level(label, paths, index, above))
        above = index
    return TopologyTree(topology, tuple(levels))


def _level(
    label: str,
    paths: Sequence[tuple[str, ...] | None],
    index: dict[tuple[str, ...], int],
    above: dict[tuple[str, ...], int],
) -> Level:
    domain = np.array([NOWHERE if path is None else index[path] for path in paths], dtype=np.int64)
    order = np.argsort(domain, kind="stable")
    order = order[np.searchsorted(domain[order], 0) :]
    return Level(
        label=label,
        domain=domain,
        paths=tuple("/".join(path) for path in index),
        parent=np.array([above.get(path[:-1], NOWHERE) for path in index], dtype=np.int64),
        order=order,
        start=np.searchsorted(domain[order], np.arange(len(index) + 1)),
    )
