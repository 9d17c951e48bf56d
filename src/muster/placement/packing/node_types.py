"""Nodes that are alike for some pods: in the same regions, and with the same mixes of pods that fit (patterns).

Where there are too many mixes to list, alike are nodes with the same room.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Ledger
from muster.placement.packing.packing import Region
from muster.placement.packing.patterns import Pattern, mixes

Ints = NDArray[np.int64]
Mixes = tuple[tuple[int, ...], tuple[Pattern, ...]]  # classes, and numbers of each
Keys = tuple[tuple[int, ...], ...]  # of regions
MOST_PATTERNS = 4_000  # of one type; more are not listed
LOOKS = 20  # steps that a pattern may take to find
MOST_IN_ALL = 150_000  # numbers in the patterns of all types together
NOT_BINDING = -1


class NodeType(Struct, frozen=True, eq=False):
    """Nodes that may take each other's place."""

    nodes: tuple[int, ...]
    regions: tuple[tuple[int, ...], ...]  # the regions that they are in, by key
    shapes: tuple[int, ...]  # classes that fit
    patterns: tuple[Pattern, ...]  # the largest mixes of these classes that one of the nodes takes; none: too many


def find_types(
    ledger: Ledger, most: Mapping[int, int], regions: Mapping[int, Sequence[Region]], budget: Budget
) -> list[NodeType]:
    """The types of all nodes that could take some of the pods: so many of each class at most, each in its regions."""
    shapes = sorted(shape for shape in most if regions[shape])
    if not shapes:
        return []
    fits = _fits(ledger, most, regions, shapes)
    inside = _memberships(regions, len(ledger.free))
    useful = np.flatnonzero(fits.any(axis=1)).tolist()
    budget.spend(len(useful) // 4 + len(shapes) * len(ledger.free) // 200)
    rows = _binding(ledger, fits, shapes)
    alike: dict[tuple[Keys, bytes], list[int]] = {}
    for node in useful:
        alike.setdefault((inside[node], rows[node].tobytes()), []).append(node)
    most_patterns = min(MOST_PATTERNS, MOST_IN_ALL // (len(alike) * len(shapes)))
    known: dict[bytes, Mixes] = {}
    merged: dict[tuple[Keys, Mixes, bytes], list[int]] = {}
    for (where, row), nodes in alike.items():
        if row not in known:
            known[row] = _patterns(ledger, nodes[0], fits[nodes[0]], shapes, most, budget, most_patterns)
        merged.setdefault((where, known[row], b"" if known[row][1] else row), []).extend(nodes)
    return [NodeType(tuple(sorted(nodes)), where, *found) for (where, found, _), nodes in merged.items()]


def _fits(ledger: Ledger, most: Mapping[int, int], regions: Mapping[int, Sequence[Region]], shapes: list[int]) -> Ints:
    """By node and class: how many pods of it, by themselves, the node could take."""
    found = np.zeros((len(ledger.free), len(shapes)), dtype=np.int64)
    for i, shape in enumerate(shapes):
        allowed = np.zeros(len(ledger.free), dtype=bool)
        for region in regions[shape]:
            allowed[region.nodes] = True
        found[:, i] = np.where(allowed, np.minimum(ledger.fits(shape), most[shape]), 0)
    return found


def _memberships(regions: Mapping[int, Sequence[Region]], nodes: int) -> list[Keys]:
    """For every node the regions that it is in."""
    found: list[list[tuple[int, ...]]] = [[] for _ in range(nodes)]
    known = {region.key: region for some in regions.values() for region in some}
    for key in sorted(known):
        for node in known[key].nodes.tolist():
            found[node].append(key)
    return [tuple(keys) for keys in found]


def _binding(ledger: Ledger, fits: Ints, shapes: list[int]) -> Ints:
    """By node what is free of the columns that could run out there, and which classes fit: equal rows, equal patterns.

    A column that another one keeps from ever running out says nothing. Estimates are rounded up, so this is safe.
    """
    asks = np.array([ledger.shapes.asks[shape] for shape in shapes], dtype=np.int64)
    columns = np.flatnonzero(asks.any(axis=0))
    asks, free = asks[:, columns], ledger.free[:, columns]
    taken = fits @ asks
    bound = taken.astype(np.float64)
    for other in range(len(columns)):
        if not (asks[:, other] > 0).all():
            continue
        rate = asks / asks[:, other, None]  # of every column for one unit of the other
        bound = np.minimum(bound, free[:, other, None] * rate.max(axis=0) * (1 + 1e-9) + 1)
    row = np.where(free >= bound, NOT_BINDING, free)
    return np.column_stack([row, fits])


def _patterns(
    ledger: Ledger, node: int, fits: Ints, shapes: list[int], most: Mapping[int, int], budget: Budget, at_most: int
) -> Mixes:
    """The classes that fit on a node, largest first, and every mix of them to which nothing can be added.

    No mix at all where there are more than `at_most`, or where too much has to be looked at to find them.
    """
    asks = {shape: ledger.shapes.asks[shape] for shape in shapes}
    mine = [shape for i, shape in enumerate(shapes) if fits[i]]
    columns = np.flatnonzero(np.any([asks[shape] for shape in mine], axis=0))
    order = tuple(sorted(mine, key=lambda shape: (int(fits[shapes.index(shape)]), shape)))
    rows = [tuple(asks[shape][columns].tolist()) for shape in order]
    counts = [most[shape] for shape in order]
    found: list[Pattern] = []
    part = budget.part(at_most * LOOKS)
    try:
        for pattern in mixes(rows, counts, tuple(ledger.free[node, columns].tolist()), part):
            found.append(pattern)
            if len(found) > at_most:
                return order, ()
    except OutOfSteps:
        if not budget.left:
            raise
        return order, ()
    return order, tuple(found)
