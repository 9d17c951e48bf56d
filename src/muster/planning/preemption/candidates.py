"""Candidates: every unit of pods that could be evicted in this cycle (P3, P4), as arrays."""

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.quantity import Resources
from muster.model.gang.gang import Gang
from muster.model.gang.types import Leaf, Member
from muster.model.inter_pod_rules import RuleMatches
from muster.model.roles import Unit, resources, units_of
from muster.placement.capacity import Capacity
from muster.planning.cycle_state import CycleState, Pods

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Units = frozenset[int]  # numbers of candidates
MOST_ORDERS = 64  # of pods that are cached
PER_STEP = 64  # nodes and pods that one step of a pass pays for


class Candidate(Struct, frozen=True, eq=False):
    """A unit of a gang, and the units that must be evicted with it."""

    gang: Gang
    pods: Pods  # its own
    nodes: tuple[int, ...]  # where they are
    inside: tuple[int, ...]  # by number
    around: tuple[int, ...]  # units that it is inside of
    is_core: bool
    order: int  # of eviction, in its gang


class Candidates:
    """All units of a cycle; evicted ones are no candidates any more."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self.units: list[Candidate] = list(self._collect_units())
        number = len(self.units)
        self.remaining = np.ones(number, dtype=bool)
        self.priority = np.array([unit.gang.priority for unit in self.units], dtype=np.int64)
        self.created = np.array([unit.gang.created for unit in self.units], dtype=np.float64)
        self.order = np.array([unit.order for unit in self.units], dtype=np.int64)
        self.queues = {name: i for i, name in enumerate(sorted({unit.gang.queue for unit in self.units}))}
        self.queue = np.array([self.queues[unit.gang.queue] for unit in self.units], dtype=np.int64)
        self.gangs = {key: i for i, key in enumerate(dict.fromkeys(unit.gang.key for unit in self.units))}
        self.gang = np.array([self.gangs[unit.gang.key] for unit in self.units], dtype=np.int64)
        pairs = [(number, inner) for number, unit in enumerate(self.units) for inner in unit.inside]
        self._nested = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2).T  # units, and those inside
        self.own_pods = np.array([len(unit.pods) for unit in self.units], dtype=np.int64)
        self.total_pods = np.array([self._total_pods(i) for i in range(number)], dtype=np.int64)  # with those inside
        self.only_node = np.array([self._only_node(i) for i in range(number)], dtype=np.int64)  # -1: several
        self._tabulate_pods()
        self.freed = self._freed()
        self._held: dict[int, Resources] = {}
        self.retention_order: Ints = np.lexsort((-self.order, self.created, -self.priority))
        self.eviction_order: Ints = np.lexsort((self.order, -self.created, self.priority, self.total_pods))
        self.rank = _places(self.eviction_order)  # in the eviction order
        self._retention_rank = _places(self.retention_order)
        self._orders: dict[tuple[int, int], Ints] = {}

    def _collect_units(self) -> Iterator[Candidate]:
        first = 0
        for gang in self.cycle_state.snapshot.gangs:
            if gang.broken or (gang.preemptibility == NON_PREEMPTIBLE and not gang.leftovers):
                continue
            units = tuple(self._evictable(gang))
            around: dict[int, list[int]] = {}
            for i, unit in enumerate(units):
                for inner in unit.inside:
                    around.setdefault(inner, []).append(first + i)
            for i, unit in enumerate(units):
                nodes = tuple(self.cycle_state.snapshot.node_index[member.node] for _, member in unit.pods)
                inside = tuple(first + inner for inner in unit.inside)
                yield Candidate(gang, unit.pods, nodes, inside, tuple(around.get(i, ())), unit.core, i)
            first += len(units)

    def _evictable(self, gang: Gang) -> Iterable[Unit]:
        """All of a preemptible gang, all but the core of a semi-preemptible one; leftovers of any (N4)."""
        units = self._units(gang)
        match gang.preemptibility:
            case kind if kind == NON_PREEMPTIBLE:
                return (unit for unit in units if unit.leftover)
            case kind if kind == SEMI_PREEMPTIBLE:
                return units[:-1]
            case _:
                return units

    def _units(self, gang: Gang) -> tuple[Unit, ...]:
        """Units with pods on existing nodes; most gangs of a busy cluster are one core."""
        root = gang.root
        if isinstance(root, Leaf) and len(root.placed) <= root.need and not gang.leftovers:
            units: tuple[Unit, ...] = (Unit(tuple((root.name, pod) for pod in root.placed), core=True),)
        else:
            units = units_of(gang)
        known = self.cycle_state.snapshot.node_index
        if not all(member.node in known for unit in units for _, member in unit.pods):
            return ()  # pods of a node that no longer exists are about to be deleted: do not judge the rest
        return units if any(unit.pods for unit in units) else ()

    def _total_pods(self, number: int) -> int:
        unit = self.units[number]
        return len(unit.pods) + sum(len(self.units[inner].pods) for inner in unit.inside)

    def _only_node(self, number: int) -> int:
        unit = self.units[number]
        nodes = set(unit.nodes).union(*(self.units[inner].nodes for inner in unit.inside))
        return nodes.pop() if len(nodes) == 1 else -1

    def _tabulate_pods(self) -> None:
        """One row per pod: its unit, node and class; and the pods that inter-pod rules select."""
        cycle_state = self.cycle_state
        rows = [
            (number, node, cycle_state.pod_class(unit.gang, member.name))
            for number, unit in enumerate(self.units)
            for (_, member), node in zip(unit.pods, unit.nodes, strict=True)
        ]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
        self.pod_unit, self.pod_node, self.pod_class = (np.ascontiguousarray(row) for row in table.T)
        self._first_row = np.searchsorted(self.pod_unit, np.arange(len(self.units) + 1))  # of every unit's pods
        self.asks = np.array(cycle_state.pod_classes.requests, dtype=np.int64).reshape(
            -1, len(cycle_state.snapshot.columns)
        )
        self.marked = [
            (number, node, rule_matches)
            for number, unit in enumerate(self.units if cycle_state.snapshot.inter_pod_rules.running else ())
            for (_, member), node in zip(unit.pods, unit.nodes, strict=True)
            if (rule_matches := cycle_state.rule_matches(unit.gang, member)) != RuleMatches()
        ]

    def _freed(self) -> Ints:
        """What each unit, with those inside, frees in all."""
        own = np.zeros((len(self.units), len(self.cycle_state.snapshot.columns)), dtype=np.int64)
        np.add.at(own, self.pod_unit, self.asks[self.pod_class])
        rows = own.copy()
        for number, unit in enumerate(self.units):
            if unit.inside:
                rows[number] += own[list(unit.inside)].sum(axis=0)
        return rows

    # queries --------------------------------------------------------------------------------------------------------

    @property
    def pass_steps(self) -> int:
        """The steps of a few passes over all nodes and pods, with which every question about all units begins (X7)."""
        return (len(self.cycle_state.snapshot.free) + len(self.pod_unit)) // PER_STEP

    def of(self, gang: str) -> Mask:
        """The units of one gang."""
        mask: Mask = self.gang == self.gangs.get(gang, -1)
        return mask

    def rows(self, numbers: Iterable[int]) -> Mask:
        """The pods of some units, among all pods."""
        chosen = np.zeros(len(self.units), dtype=bool)
        chosen[list(numbers)] = True
        mask: Mask = chosen[self.pod_unit]
        return mask

    def capacity_without(self, capacity: Capacity, numbers: Iterable[int]) -> Capacity:
        """The capacity without some units."""
        numbers = set(numbers)
        after = capacity.copy()
        rows = self.rows(numbers)
        after.release_all(self.pod_node[rows], self.asks[self.pod_class[rows]])
        for number, node, rule_matches in self.marked:
            if number in numbers:
                after.uncount_pod(node, rule_matches)
        return after

    def freed_by(self, numbers: Iterable[int]) -> Ints:
        """By column what some units free, each by itself."""
        freed: Ints = self.asks[self.pod_class[self.rows(numbers)]].sum(axis=0)
        return freed

    def freed_on(self, number: int, node: int) -> Ints:
        """What a unit by itself frees on a node."""
        rows = slice(self._first_row[number], self._first_row[number + 1])
        freed: Ints = self.asks[self.pod_class[rows][self.pod_node[rows] == node]].sum(axis=0)
        return freed

    def by_retention(self, numbers: Iterable[int]) -> list[int]:
        """Some units, the last to be evicted first."""
        return sorted(numbers, key=self._retention_rank.__getitem__)

    def most_useful_first(self, column: int, ask: int) -> Ints:
        """All pods by node, those first that free most of a column, up to `ask`; then in eviction order."""
        if (column, ask) not in self._orders:
            if len(self._orders) >= MOST_ORDERS:
                self._orders.clear()
            freed = np.minimum(self.asks[self.pod_class, column], ask)
            self._orders[column, ask] = np.lexsort((self.rank[self.pod_unit], -freed, self.pod_node))
        return self._orders[column, ask]

    def on_nodes(self, nodes: Mask) -> Mask:
        """Units that have, by themselves or with those inside, pods on some nodes."""
        own = np.zeros(len(self.units), dtype=bool)
        own[self.pod_unit[nodes[self.pod_node]]] = True
        outer, inner = self._nested
        mask = own.copy()
        mask[outer[own[inner]]] = True
        return mask

    def all_of(self, mask: Mask) -> Units:
        """Many units at once, with every unit inside that is still there."""
        chosen = mask.copy()
        outer, inner = self._nested
        chosen[inner[mask[outer]]] = True
        return frozenset(np.flatnonzero(chosen & self.remaining).tolist())

    def whole(self, numbers: Iterable[int]) -> Units:
        """With every unit inside that is still there."""
        chosen = set(numbers)
        for number in tuple(chosen):
            chosen.update(self.units[number].inside)
        return frozenset(number for number in chosen if self.remaining[number])

    def outermost(self, numbers: Units) -> list[int]:
        """Units that are inside of no other one of them."""
        return [n for n in numbers if not any(outer in numbers for outer in self.units[n].around)]

    def members(self, numbers: Iterable[int]) -> Iterator[tuple[Candidate, str, Member]]:
        """Every pod of some units, with its leaf."""
        for number in sorted(numbers):
            unit = self.units[number]
            for leaf, member in unit.pods:
                yield unit, leaf, member

    def names(self, numbers: Iterable[int]) -> Iterator[str]:
        """Every pod of some units, by `namespace/name`."""
        return (f"{unit.gang.namespace}/{member.name}" for unit, _, member in self.members(numbers))

    def count(self, numbers: Iterable[int]) -> int:
        """How many pods some units have, without those inside."""
        return sum(len(self.units[number].pods) for number in numbers)

    def held(self, numbers: Iterable[int]) -> dict[str, Resources]:
        """By leaf queue what some units hold."""
        by_queue: dict[str, list[Member]] = {}
        for number in numbers:
            unit = self.units[number]
            by_queue.setdefault(unit.gang.queue, []).extend(member for _, member in unit.pods)
        return {queue: resources(members) for queue, members in by_queue.items()}

    def held_by(self, number: int) -> Resources:
        """What a unit by itself holds in its queue."""
        if number not in self._held:
            self._held[number] = resources(member for _, member in self.units[number].pods)
        return self._held[number]

    # what changes ---------------------------------------------------------------------------------------------------

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove evicted units; the units that contain them free so much less."""
        for number in numbers:
            unit = self.units[number]
            self.remaining[number] = False
            for outer in unit.around:
                self.total_pods[outer] -= len(unit.pods)
                for _, member in unit.pods:
                    self.freed[outer] -= self.cycle_state.pod_classes.requests[
                        self.cycle_state.pod_class(unit.gang, member.name)
                    ]


def _places(order: Ints) -> Ints:
    """The position of each number in an order."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places
