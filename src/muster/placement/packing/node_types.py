"""Node types: nodes in the same node sets, on which the same mixes of pods fit (patterns).

Where there are too many mixes to list, nodes with the same free capacity are of one type.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.packing.packing import NodeSet
from muster.placement.packing.patterns import Pattern, mixes

Ints = NDArray[np.int64]
Mixes = tuple[tuple[int, ...], tuple[Pattern, ...]]  # classes, and counts of each
Keys = tuple[tuple[int, ...], ...]  # of node sets
MOST_PATTERNS = 4_000  # of one type; more are not listed
STEPS_PER_PATTERN = 20  # that a pattern may take to find
MOST_IN_ALL = 150_000  # counts in the patterns of all types together
NOT_BINDING = -1


class NodeType(Struct, frozen=True, eq=False):
    """Nodes that are interchangeable."""

    nodes: tuple[int, ...]
    node_sets: tuple[tuple[int, ...], ...]  # the node sets that they are in, by key
    pod_classes: tuple[int, ...]  # classes that fit
    patterns: tuple[Pattern, ...]  # the largest mixes of these classes that fit on one of the nodes; empty: too many


def find_types(
    capacity: Capacity, most: Mapping[int, int], node_sets: Mapping[int, Sequence[NodeSet]], budget: Budget
) -> list[NodeType]:
    """The types of all nodes on which some of the pods fit: at most `most` of each class, each in its node sets."""
    pod_classes = sorted(pod_class for pod_class in most if node_sets[pod_class])
    if not pod_classes:
        return []
    fits = _fits(capacity, most, node_sets, pod_classes)
    inside = _memberships(node_sets, len(capacity.free))
    useful = np.flatnonzero(fits.any(axis=1)).tolist()
    budget.spend(len(useful) // 4 + len(pod_classes) * len(capacity.free) // 200)
    rows = _binding(capacity, fits, pod_classes)
    alike: dict[tuple[Keys, bytes], list[int]] = {}
    for node in useful:
        alike.setdefault((inside[node], rows[node].tobytes()), []).append(node)
    most_patterns = min(MOST_PATTERNS, MOST_IN_ALL // (len(alike) * len(pod_classes)))
    known: dict[bytes, Mixes] = {}
    merged: dict[tuple[Keys, Mixes, bytes], list[int]] = {}
    for (where, row), nodes in alike.items():
        if row not in known:
            known[row] = _patterns(capacity, nodes[0], fits[nodes[0]], pod_classes, most, budget, most_patterns)
        merged.setdefault((where, known[row], b"" if known[row][1] else row), []).extend(nodes)
    return [NodeType(tuple(sorted(nodes)), where, *patterns) for (where, patterns, _), nodes in merged.items()]


def _fits(
    capacity: Capacity, most: Mapping[int, int], node_sets: Mapping[int, Sequence[NodeSet]], pod_classes: list[int]
) -> Ints:
    """By node and class: how many pods of the class, and no others, fit on the node."""
    fits = np.zeros((len(capacity.free), len(pod_classes)), dtype=np.int64)
    for i, pod_class in enumerate(pod_classes):
        allowed = np.zeros(len(capacity.free), dtype=bool)
        for node_set in node_sets[pod_class]:
            allowed[node_set.nodes] = True
        fits[:, i] = np.where(allowed, np.minimum(capacity.fits(pod_class), most[pod_class]), 0)
    return fits


def _memberships(node_sets: Mapping[int, Sequence[NodeSet]], nodes: int) -> list[Keys]:
    """For every node the node sets that it is in."""
    keys_of: list[list[tuple[int, ...]]] = [[] for _ in range(nodes)]
    known = {node_set.key: node_set for some in node_sets.values() for node_set in some}
    for key in sorted(known):
        for node in known[key].nodes.tolist():
            keys_of[node].append(key)
    return [tuple(keys) for keys in keys_of]


def _binding(capacity: Capacity, fits: Ints, pod_classes: list[int]) -> Ints:
    """By node: free capacity of the columns that could run out there, and fits by class: equal rows, equal patterns.

    A column that another one always exhausts first is left out. Estimates are rounded up, so this is safe.
    """
    requests = np.array([capacity.pod_classes.requests[pod_class] for pod_class in pod_classes], dtype=np.int64)
    columns = np.flatnonzero(requests.any(axis=0))
    requests, free = requests[:, columns], capacity.free[:, columns]
    taken = fits @ requests
    bound = taken.astype(np.float64)
    for other in range(len(columns)):
        if not (requests[:, other] > 0).all():
            continue
        rate = requests / requests[:, other, None]  # of every column for one unit of the other
        bound = np.minimum(bound, free[:, other, None] * rate.max(axis=0) * (1 + 1e-9) + 1)
    row = np.where(free >= bound, NOT_BINDING, free)
    return np.column_stack([row, fits])


def _patterns(
    capacity: Capacity,
    node: int,
    fits: Ints,
    pod_classes: list[int],
    most: Mapping[int, int],
    budget: Budget,
    at_most: int,
) -> Mixes:
    """The classes that fit on a node, largest first, and every maximal mix of them.

    No mixes where there are more than `at_most`, or where finding them takes too many steps.
    """
    requests = {pod_class: capacity.pod_classes.requests[pod_class] for pod_class in pod_classes}
    own_classes = [pod_class for i, pod_class in enumerate(pod_classes) if fits[i]]
    columns = np.flatnonzero(np.any([requests[pod_class] for pod_class in own_classes], axis=0))
    order = tuple(sorted(own_classes, key=lambda pod_class: (int(fits[pod_classes.index(pod_class)]), pod_class)))
    rows = [tuple(requests[pod_class][columns].tolist()) for pod_class in order]
    counts = [most[pod_class] for pod_class in order]
    patterns: list[Pattern] = []
    part = budget.part(at_most * STEPS_PER_PATTERN)
    try:
        for pattern in mixes(rows, counts, tuple(capacity.free[node, columns].tolist()), part):
            patterns.append(pattern)
            if len(patterns) > at_most:
                return order, ()
    except OutOfSteps:
        if not budget.left:
            raise
        return order, ()
    return order, tuple(patterns)
