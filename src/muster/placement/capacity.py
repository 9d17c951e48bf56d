"""Free capacity of nodes, now and under hypothetical assignments. A hypothesis is a new value, never an undo."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muster.model.inter_pod_rules import RuleMatches
from muster.model.snapshot import Snapshot
from muster.model.topology import Level
from muster.placement.filters import Labels, Mask, Scene, allowed, preferred_weights, refused
from muster.placement.inter_pod.inter_pod_state import InterPodState
from muster.placement.packing.fit_index import DomainFitIndex, FitIndex, PodsByNode

Ints = NDArray[np.int64]
FEW = 8  # up to so many nodes, one by one is faster than one array operation


class PodClasses:
    """The pod classes of a snapshot for placement: the requests of each, and the nodes it may run on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.scene = Scene(snapshot, Labels(snapshot.nodes))
        self.requests = [pods.requests for pods in snapshot.classes]
        self.columns = [requests.nonzero()[0] for requests in self.requests]
        self.pairs = [
            list(zip(columns.tolist(), requests[columns].tolist(), strict=True))
            for columns, requests in zip(self.columns, self.requests, strict=True)
        ]
        self._allowed: dict[int, Mask] = {}
        self._refused: dict[int, dict[str, int]] = {}
        self._preferred_weights: dict[int, Ints | None] = {}
        self._preference_orders: dict[tuple[int, int], Ints] = {}  # by class, and the identity of a level

    @cached_property
    def has_preferences(self) -> bool:
        """Whether some class has preferred node affinity."""
        return any(self.preferred_weights(pod_class) is not None for pod_class in range(len(self.requests)))

    def preferred_weights(self, pod_class: int) -> Ints | None:
        """For every node its weight by the preferred node affinity of this class; None: it has none."""
        if pod_class not in self._preferred_weights:
            self._preferred_weights[pod_class] = preferred_weights(self.scene.snapshot.classes[pod_class], self.scene)
        return self._preferred_weights[pod_class]

    def preference_order(self, pod_class: int, level: Level) -> Ints:
        """The nodes of a level, domain by domain, those with the highest preferred weight first."""
        key = pod_class, id(level)
        if key not in self._preference_orders:
            preferred_weights = self.preferred_weights(pod_class)
            assert preferred_weights is not None
            nodes = level.order
            self._preference_orders[key] = nodes[np.lexsort((-preferred_weights[nodes], level.domain[nodes]))]
        return self._preference_orders[key]

    def allowed(self, pod_class: int) -> Mask:
        """Nodes that pass every filter for this class."""
        if pod_class not in self._allowed:
            self._allowed[pod_class] = allowed(self.scene.snapshot.classes[pod_class], self.scene)
        return self._allowed[pod_class]

    def refused(self, pod_class: int) -> dict[str, int]:
        """By filter: how many nodes it rejects for this class, of those that pass the filters before it."""
        if pod_class not in self._refused:
            self._refused[pod_class] = refused(self.scene.snapshot.classes[pod_class], self.scene)
        return self._refused[pod_class]


class Capacity:
    """Free capacity by node and column, and how many pods of each class fit on every node, kept up to date."""

    def __init__(self, pod_classes: PodClasses, free: Ints, inter_pod: InterPodState | None = None) -> None:
        self.pod_classes = pod_classes
        self.free = free
        self.inter_pod = inter_pod or InterPodState(pod_classes.scene)
        self._fits: dict[int, Ints] = {}
        self._fit_indexes: dict[int, FitIndex] = {}
        self._domain_fit_indexes: dict[int, dict[int, DomainFitIndex]] = {}  # by class, then by the identity of a level
        self._allowed: dict[int, Mask] = {}
        self._changed: list[int] = []  # nodes, in order of change
        self._seen: dict[int, int] = {}  # by class: how many of these changes its fits include
        self._others = 0  # changes to no single node: inter-pod rules, and packed assignments
        self._origin: tuple[Capacity, tuple[int, int]] | None = None  # of a copy: the original and its version
        self._redone: set[int] = set()  # classes whose fits differ from those of the origin

    def fit_index(self, pod_class: int) -> FitIndex:
        """Nodes by how many pods of this class fit on each."""
        fits = self.fits(pod_class)
        if pod_class not in self._fit_indexes:
            self._fit_indexes[pod_class] = FitIndex(fits)
        return self._fit_indexes[pod_class]

    def domain_fit_index(self, pod_class: int, level: Level) -> DomainFitIndex:
        """The same, by domain of a level."""
        fits, known = self.fits(pod_class), self._domain_fit_indexes.setdefault(pod_class, {})
        if id(level) not in known:
            known[id(level)] = DomainFitIndex(fits, level)
        return known[id(level)]

    def count_gangs(self, pod_class: int, level: Level | None, pods: int) -> int:
        """How many gangs of `pods` pods of a class fit, each in one domain of a level."""
        if level is None:
            return self.fit_index(pod_class).total // pods
        return int((self.domain_fit_index(pod_class, level).capacity // pods).sum())

    def pack(
        self, pod_class: int, level: Level | None, pods: int, limit: int
    ) -> tuple[list[PodsByNode], dict[int, int]]:
        """Assignments for up to `limit` gangs of `pods` pods, gang by gang; and all their pods by node.

        The fits of the class already exclude them: the caller takes the capacity (`put_packed`) or drops the class.
        """
        self._others += 1
        index = self.fit_index(pod_class) if level is None else self.domain_fit_index(pod_class, level)
        packed, counts = index.pack(pods, limit), dict[int, int]()
        for places in packed:
            for node, count in places:
                counts[node] = counts.get(node, 0) + count
        for other_index in self._indices(pod_class):
            for node, count in counts.items() if other_index is not index else ():
                left = int(self._fits[pod_class][node])
                other_index.move(node, left + count, left)
        return packed, counts

    def _indices(self, pod_class: int) -> Iterator[FitIndex | DomainFitIndex]:
        if pod_class in self._fit_indexes:
            yield self._fit_indexes[pod_class]
        yield from self._domain_fit_indexes.get(pod_class, {}).values()

    def copy(self) -> "Capacity":
        """A copy for other hypotheses; it copies the fits of a class on first use."""
        duplicate = Capacity(self.pod_classes, self.free.copy(), self.inter_pod.copy())
        duplicate._allowed = dict(self._allowed)
        duplicate._origin = self, self._version
        return duplicate

    @property
    def _version(self) -> tuple[int, int]:
        """Differs after every change."""
        return len(self._changed), self._others

    def _inherit(self, pod_class: int) -> bool:
        """Copy the fits of a class from the origin, unless that has changed."""
        if self._origin is None or pod_class in self._redone:
            return False
        origin, version = self._origin
        if origin._version != version:
            self._origin = None
            return False
        self._fits[pod_class] = origin.fits(pod_class).copy()
        return True

    def allowed(self, pod_class: int) -> Mask:
        """Nodes that a pod of this class may run on, by filters and inter-pod rules."""
        if pod_class not in self.inter_pod.touched:
            return self.pod_classes.allowed(pod_class)
        if pod_class not in self._allowed:
            self._allowed[pod_class] = self.pod_classes.allowed(pod_class) & self.inter_pod.allowed(pod_class)
        return self._allowed[pod_class]

    def fits(self, pod_class: int) -> Ints:
        """For every node: how many more pods of this class, and no others, fit.

        Updated on use from the nodes that changed: with many classes, most are used once.
        """
        seen = self._seen.get(pod_class, 0)
        if seen == len(self._changed) and pod_class in self._fits:
            return self._fits[pod_class]
        changed = self._changed[seen:]
        if len(changed) > len(self.free) // 4 or not (pod_class in self._fits or self._inherit(pod_class)):
            columns = self.pod_classes.columns[pod_class]
            whole = (self.free[:, columns] // self.pod_classes.requests[pod_class][columns]).min(axis=1)
            self.drop(pod_class)
            self._fits[pod_class] = np.where(self.allowed(pod_class), np.maximum(whole, 0), 0)
        else:
            for node in dict.fromkeys(changed):
                self._refresh(pod_class, node)
        self._seen[pod_class] = len(self._changed)
        return self._fits[pod_class]

    def fits_in(self, pod_class: int, nodes: Ints) -> Ints:
        """The same, for some nodes."""
        return self.fits(pod_class)[nodes]

    def _refresh(self, pod_class: int, node: int) -> None:
        fits, row = self._fits[pod_class], self.free[node].tolist()
        whole = min([row[column] // ask for column, ask in self.pod_classes.pairs[pod_class]])
        before, after = fits.item(node), max(whole, 0) if self.allowed(pod_class)[node] else 0
        if after == before:
            return
        fits[node] = after
        for index in self._indices(pod_class):
            index.move(node, before, after)

    def tiers(self, pod_class: int) -> list[Ints] | None:
        """Fits of a class by node, one array per preferred weight, highest first; None: it has no preferences."""
        preferred_weights = self.pod_classes.preferred_weights(pod_class)
        if preferred_weights is None:
            return None
        return [
            np.where(preferred_weights == weight, self.fits(pod_class), 0)
            for weight in np.unique(preferred_weights)[::-1]
        ]

    def preference_score(self, pod_class: int, nodes: Ints, need: int) -> int:
        """The highest sum of preferred weights that `need` pods of a class can reach on some nodes."""
        preferred_weights = self.pod_classes.preferred_weights(pod_class)
        if preferred_weights is None:
            return 0
        order = nodes[np.argsort(-preferred_weights[nodes], kind="stable")]
        fits = self.fits(pod_class)[order]
        taken = np.minimum(fits, np.maximum(need - (np.cumsum(fits) - fits), 0))
        return int((taken * preferred_weights[order]).sum())

    def preference_scores(self, pod_class: int, level: Level, domains: Ints, need: int) -> Ints:
        """The same, for domains of a level, all in one pass."""
        preferred_weights = self.pod_classes.preferred_weights(pod_class)
        if preferred_weights is None or not len(domains):
            return np.zeros(len(domains), dtype=np.int64)
        order, starts = self.pod_classes.preference_order(pod_class, level), level.start[:-1]
        fits = self.fits(pod_class)[order]
        before = np.cumsum(fits) - fits
        before -= np.repeat(before[starts], np.diff(level.start))
        taken = np.minimum(fits, np.maximum(need - before, 0))
        scores: Ints = np.add.reduceat(taken * preferred_weights[order], starts)[domains]
        return scores

    @property
    def has_preferences(self) -> bool:
        """Whether some class has preferred node affinity."""
        return self.pod_classes.has_preferences

    def put(self, node: int, pod_class: int, count: int) -> None:
        """Assign pods of a class to a node."""
        self.free[node] -= self.pod_classes.requests[pod_class] * count
        if pod_class in self.inter_pod.touched:
            self._count_pods(node, self.inter_pod.classes[pod_class], count)
        self._changed.append(node)

    def put_packed(self, pod_class: int, counts: Mapping[int, int]) -> None:
        """Assign pods of a class as `pack` returned them; no inter-pod rules concern them."""
        requests = self.pod_classes.requests[pod_class]
        if len(counts) > FEW:
            nodes, pods = np.array([*counts.items()], dtype=np.int64).T
            self.free[nodes] -= np.outer(pods, requests)
        else:
            for node, count in counts.items():
                row = self.free[node]
                row -= requests * count
        is_up_to_date = self._seen.get(pod_class) == len(self._changed)
        self._changed += counts
        if is_up_to_date:  # the fits of the class already exclude these pods
            self._seen[pod_class] = len(self._changed)

    def count_pods(self, node: int, pod_class: int, count: int) -> None:
        """Count pods of a class on a node for inter-pod rules alone."""
        if pod_class in self.inter_pod.touched:
            self._count_pods(node, self.inter_pod.classes[pod_class], count)

    def set_free(self, node: int, free: Ints) -> None:
        """Set what is free on a node."""
        self.free[node] = free
        self._changed.append(node)

    def free_all(self, amounts: Ints) -> None:
        """Add free capacity, by node and column."""
        self.free += amounts
        self._others += 1
        self._origin = None
        for pod_class in tuple(self._fits):
            self.drop(pod_class)

    def hold(self, node: int, amounts: Ints) -> None:
        """Reserve capacity on a node, by column; negative amounts return it."""
        self.free[node] -= amounts
        self._changed.append(node)

    def release(self, node: int, pod_class: int, rule_matches: RuleMatches) -> None:
        """Release the capacity of a running pod of a class."""
        self.free[node] += self.pod_classes.requests[pod_class]
        if rule_matches.selected_by or rule_matches.carries:
            self._count_pods(node, rule_matches, -1)
        self._changed.append(node)

    def release_all(self, nodes: Ints, amounts: Ints) -> None:
        """Release capacity by column, one row per entry of `nodes`; a node may occur several times."""
        np.add.at(self.free, nodes, amounts)
        self._changed += nodes.tolist()

    def uncount_pod(self, node: int, rule_matches: RuleMatches) -> None:
        """Remove a pod from a node for inter-pod rules alone."""
        self._count_pods(node, rule_matches, -1)

    def _count_pods(self, node: int, rule_matches: RuleMatches, count: int) -> None:
        """Add pods on a node to the inter-pod state, and drop the classes whose rules concern them."""
        self._others += 1
        self.inter_pod.put(node, rule_matches, count)
        for pod_class in self.inter_pod.about(rule_matches):
            self._allowed.pop(pod_class, None)
            self.drop(pod_class)

    def drop(self, pod_class: int) -> None:
        """Forget the fits of a class; the next use computes them again."""
        self._redone.add(pod_class)
        self._fits.pop(pod_class, None)
        self._fit_indexes.pop(pod_class, None)
        self._domain_fit_indexes.pop(pod_class, None)


class SupposedCapacity:
    """A capacity with further pods assigned. It holds only changed nodes: a hypothesis costs what it changes."""

    def __init__(self, base: Capacity, rows: dict[int, Ints] | None = None) -> None:
        self.base = base
        self.rows = rows or {}

    def copy(self) -> "SupposedCapacity":
        """A copy for another hypothesis."""
        return SupposedCapacity(self.base, dict(self.rows))

    def tiers(self, pod_class: int) -> list[Ints] | None:
        """The tiers of the base capacity."""
        return self.base.tiers(pod_class)

    def fits_in(self, pod_class: int, nodes: Ints) -> Ints:
        """For some nodes, in ascending order: how many more pods of this class fit on each."""
        fits = self.base.fits(pod_class)[nodes]
        if not self.rows:
            return fits
        pod_classes = self.base.pod_classes
        changed = np.fromiter(self.rows, dtype=np.int64, count=len(self.rows))
        at = np.minimum(np.searchsorted(nodes, changed), len(nodes) - 1)
        here = (nodes[at] == changed) & self.base.allowed(pod_class)[changed] if len(nodes) else np.zeros(0, dtype=bool)
        if here.any():
            columns = pod_classes.columns[pod_class]
            free = np.array([self.rows[node] for node in changed[here].tolist()])[:, columns]
            fits[at[here]] = np.maximum((free // pod_classes.requests[pod_class][columns]).min(axis=1), 0)
        return fits

    def differences(self, pod_class: int) -> tuple[Ints, Ints]:
        """Nodes that changed, and how many more pods of a class fit on each than in the base capacity."""
        changed = np.fromiter(self.rows, dtype=np.int64, count=len(self.rows))
        columns = self.base.pod_classes.columns[pod_class]
        free = np.array(list(self.rows.values()))[:, columns]
        whole = np.maximum((free // self.base.pod_classes.requests[pod_class][columns]).min(axis=1), 0)
        return changed, np.where(self.base.allowed(pod_class)[changed], whole, 0) - self.base.fits(pod_class)[changed]

    def put(self, node: int, pod_class: int, count: int) -> None:
        """Assign pods of a class to a node."""
        row = self.rows.get(node)
        self.rows[node] = (self.base.free[node] if row is None else row) - self.base.pod_classes.requests[
            pod_class
        ] * count
