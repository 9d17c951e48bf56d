"""Cells: groups of nodes that no inter-pod rule distinguishes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.api.names import HOSTNAME
from muster.placement.capacity import Capacity
from muster.placement.packing.packing import Demand

Ints = NDArray[np.int64]


class Cells:
    """Nodes that fit some of the pods, in groups that no rule distinguishes; domain by domain, tight ones first."""

    def __init__(
        self, capacity: Capacity, demands: Sequence[Demand], items: Sequence[Demand], rules: Sequence[int]
    ) -> None:
        self.capacity, self.demands = capacity, demands
        fits = np.zeros((len(items), len(capacity.free)), dtype=np.int64)
        for i, item in enumerate(items):
            fits[i, item.node_set.nodes] = capacity.fits(item.pod_class)[item.node_set.nodes]
        useful = np.flatnonzero(fits.any(axis=0))
        inter_pod = capacity.inter_pod
        keys = {rule.key: inter_pod.places(rule) for rule in (inter_pod.rules[number] for number in rules)}
        if HOSTNAME in keys:
            useful = self._thinned(useful, fits, items, rules, keys)
        columns = sorted((places[useful] for places in keys.values()), key=lambda column: len(np.unique(column)))
        counting = [
            inter_pod.counting(inter_pod.rules[n])[useful] for n in rules if inter_pod.rules[n].kind == "spread"
        ]
        fits_in_all = fits[:, useful].sum(axis=0)
        order: list[Ints] = []
        for column in columns:
            total = np.bincount(column + 1, weights=fits_in_all) if len(column) else np.zeros(1)
            order += [total[column + 1].astype(np.int64), column]
        order += [mask.astype(np.int64) for mask in counting]
        at = np.lexsort((useful, *reversed(order)))
        self.nodes: list[Ints] = []
        if len(useful):
            rows = np.column_stack(order)[at] if order else np.zeros((len(useful), 1), dtype=np.int64)
            cuts = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
            self.nodes = [np.sort(part) for part in np.split(useful[at], cuts)]
        self.solo = [tuple(int(n) for n in fits[:, nodes].sum(axis=1)) for nodes in self.nodes]

    def _thinned(
        self, useful: Ints, fits: Ints, items: Sequence[Demand], rules: Sequence[int], keys: dict[str, Ints]
    ) -> Ints:
        """The nodes, of identical ones no more than there are pods: by hostname every node is its own domain."""
        capacity, inter_pod = self.capacity, self.capacity.inter_pod
        requested = np.flatnonzero(np.any([capacity.pod_classes.requests[item.pod_class] for item in items], axis=0))
        facts = [fits[:, useful].T, capacity.free[np.ix_(useful, requested)]]
        facts += [places[useful, None] for key, places in keys.items() if key != HOSTNAME]
        facts += [inter_pod.selected.row(number)[useful, None] for number in rules]
        spreads = [inter_pod.rules[number] for number in rules if inter_pod.rules[number].kind == "spread"]
        facts += [inter_pod.counting(rule)[useful, None].astype(np.int64) for rule in spreads]
        rows = np.column_stack(facts)
        order = np.lexsort((useful, *rows.T))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
        first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
        keep = np.arange(len(order)) - first < sum(item.count for item in self.demands)
        return np.sort(useful[order[keep]])
