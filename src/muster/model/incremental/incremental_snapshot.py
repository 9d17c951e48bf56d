"""A snapshot that is kept up to date: equal to `take` of the same objects, at the cost of what has changed since.

Rule 1: pods are folded into sums by node when they change, and taken out of them as they were put in. Rule 2: what one
pod alone does not decide (host ports, one of a kind on a node, labels that others look at) is worked out anew in every
snapshot, from the few pods that have to do with it. Rule 3: a snapshot that was given out never changes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.model.gang.builder import build_gang
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, holds_resources, pod_state
from muster.model.inter_pod_rules import alone_columns, gather, keeps_away, kept_alone, looked_at, rules_of
from muster.model.snapshot import (
    Hosts,
    Ports,
    Signature,
    Snapshot,
    asks,
    classify,
    demands,
    host_ports,
    hosts,
    names_of,
    outside,
    room,
    unsupported,
)
from muster.model.topology import TopologyTree, arrange
from muster.validation.pods.membership import OURS, gang_of, is_ours

Ints = NDArray[np.int64]
Asked = Mapping[str, int]


SPARE = 4096  # what is no longer needed is forgotten once it is this much more than what is


class Held(Struct, frozen=True, gc=False):
    """What a pod adds to the sums of a node."""

    row: int
    leaves: bool
    member: bool  # of a gang


class CountedPod(Struct, frozen=True, gc=False):
    """A pod as it is counted now."""

    kind: int  # of its demands
    held: Held | None = None
    waits: bool = False  # a pod of a gang that can be placed
    placed: bool = False  # a pod of a gang on a node


class DemandKinds:
    """Demands that occur, each once: what is asked for, and the part of the signature that is the pods' own."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.demands: list[bytes] = []
        self.asked: list[Asked] = []

    def of(self, pod: Pod) -> int:
        """The number of a pod's demands."""
        asked = asks(pod.spec)
        own = demands(pod, asked)
        number = self._known.setdefault(own, len(self.asked))
        if number == len(self.asked):
            self.demands.append(own)
            self.asked.append(asked)
        return number


class Signs:
    """Signatures that occur, each once, with one pod that has it, or had, and what that asks for."""

    def __init__(self) -> None:
        self._known: dict[Signature, int] = {}
        self.signatures: list[Signature] = []
        self.alike: list[tuple[Pod, Asked]] = []

    def of(self, signature: Signature, pod: Pod, asked: Asked) -> int:
        """The number of a signature."""
        number = self._known.setdefault(signature, len(self.alike))
        if number == len(self.alike):
            self.signatures.append(signature)
            self.alike.append((pod, asked))
        return number


class Sums:
    """Amounts by row and column, both of which only grow; a row is a node's name, whether or not the node exists."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.columns: dict[str, int] = {}
        self.used = np.zeros((64, 16), dtype=np.int64)
        self.terminating, self.familiar, self.named = (np.zeros_like(self.used) for _ in range(3))

    def row(self, node: str) -> int:
        """Where a node is counted."""
        return self.rows.setdefault(node, len(self.rows))

    def add(self, held: Held, asked: Asked, pods: int) -> None:
        """So many pods come, or go as they came."""
        columns = [self.columns.setdefault(name, len(self.columns)) for name in asked]
        self.grow()
        amounts = np.fromiter(asked.values(), dtype=np.int64, count=len(asked)) * pods
        self.used[held.row, columns] += amounts
        self.named[held.row, columns] += pods
        if held.leaves:
            self.terminating[held.row, columns] += amounts
        if held.member:
            self.familiar[held.row, columns] += amounts

    def grow(self) -> None:
        """Until every known row and column has its place."""
        height, width = self.used.shape
        if len(self.rows) <= height and len(self.columns) <= width:
            return
        shape = (max(height, 2 * len(self.rows)), max(width, 2 * len(self.columns)))
        arrays = (self.used, self.terminating, self.familiar, self.named)
        self.used, self.terminating, self.familiar, self.named = (_larger(array, shape) for array in arrays)

    def on(self, nodes: Iterable[str]) -> Ints:
        """The rows of these nodes."""
        found = np.array([self.row(node) for node in nodes], dtype=np.int64)
        self.grow()
        return found

    def elsewhere(self, rows: Ints) -> bool:
        """Whether some pod is on none of these rows."""
        others = np.ones(len(self.named), dtype=bool)
        others[rows] = False
        return bool(self.named[others].any())

    def present(self, rows: Ints) -> set[str]:
        """Columns that some pod on these rows names."""
        some = np.flatnonzero(self.named[rows].any(axis=0))
        return {name for name, i in self.columns.items() if i in some}

    def laid_out(self, array: Ints, rows: Ints, columns: tuple[str, ...]) -> Ints:
        """A copy with these rows and columns, in this order; unknown columns are zero."""
        found = np.zeros((len(rows), len(columns)), dtype=np.int64)
        known = [i for i, name in enumerate(columns) if name in self.columns]
        found[:, known] = array[rows][:, [self.columns[columns[i]] for i in known]]
        return found


def _larger(array: Ints, shape: tuple[int, int]) -> Ints:
    found = np.zeros(shape, dtype=np.int64)
    found[: array.shape[0], : array.shape[1]] = array
    return found


class Extra:
    """What pods ask for that depends on other pods: host ports, and columns of those who want to be one of a kind."""

    def __init__(self, bound: Mapping[str, Pod], waiting: Mapping[str, Pod], placed: Iterable[str]) -> None:
        self.ports = Ports((*bound.values(), *waiting.values()))
        self.asked: dict[str, dict[str, int]] = {
            name: self.ports.taken(pod.spec) for name, pod in (*bound.items(), *waiting.items())
        }
        wanted = {name: alone_columns(pod) for name, pod in waiting.items()}
        self.alone = kept_alone({column for found in wanted.values() for column in found})
        for name in placed if self.alone else ():
            wanted[name] = alone_columns(bound[name])
        for name, found in wanted.items():
            self.asked[name].update(dict.fromkeys(self.alone.intersection(found), 1))


class IncrementalSnapshot:
    """Pods and PodGroups are told one by one; everything else comes with the question."""

    def __init__(self, schedulers: Collection[str] = OURS) -> None:
        self._schedulers = frozenset(schedulers)
        self._pods: dict[str, Pod] = {}
        self._groups: dict[str, PodGroup] = {}
        self._joined: dict[str, set[str]] = {}  # pods, by the PodGroup that they name
        self._gangs: dict[str, Gang] = {}
        self._members: dict[str, frozenset[str]] = {}  # by gang: pods in its leaves
        self._touched: set[str] = set()  # pods
        self._dirty: set[str] = set()  # gangs
        self._rest = Objects()
        self._hosts = hosts(())
        self._topologies: dict[str, TopologyTree] = {}
        self._room: tuple[Hosts, tuple[str, ...], Ints] = (self._hosts, (), room((), ()))
        self._forget()

    def _forget(self) -> None:
        """Nothing is counted."""
        self._kinds, self._signs, self._sums = DemandKinds(), Signs(), Sums()
        self._counted: dict[str, CountedPod] = {}
        self._waiting: set[str] = set()  # pods of gangs
        self._placed: set[str] = set()
        self._wanted: Counter[int] = Counter()  # kinds of those who wait
        self._signed: dict[str, int] = {}  # signatures of those who wait or are placed, but for special ones
        self._unsigned: set[str] = set()  # those of them whose signatures are not known yet
        self._selected: frozenset[str] = frozenset()  # labels that these signatures look at
        self._special: set[str] = set()  # with host ports or anti-affinity
        self._ruled: set[str] = set()  # with rules about others

    # telling --------------------------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """A pod is there, new or different."""
        name, gang = key(pod.metadata), gang_of(pod)
        self._leave(name)
        self._pods[name] = pod
        self._touched.add(name)
        if gang is not None:
            self._joined.setdefault(gang, set()).add(name)
            self._dirty.add(gang)

    def drop(self, name: str) -> None:
        """A pod is no more."""
        self._leave(name)
        if self._pods.pop(name, None) is not None:
            self._touched.add(name)

    def _leave(self, name: str) -> None:
        before = self._pods.get(name)
        gang = gang_of(before) if before is not None else None
        if gang is not None:
            self._dirty.add(gang)
            self._joined[gang].discard(name)
            if not self._joined[gang]:
                del self._joined[gang]

    def put_group(self, group: PodGroup) -> None:
        """A PodGroup is there, new or different."""
        self._groups[key(group.metadata)] = group
        self._dirty.add(key(group.metadata))

    def drop_group(self, name: str) -> None:
        """A PodGroup is no more."""
        if self._groups.pop(name, None) is not None:
            self._dirty.add(name)

    # counting -------------------------------------------------------------------------------------------------------

    def fold(self, rest: Objects, hosts_too: bool = True) -> None:
        """What was told since the last time; a snapshot does it by itself, and only there nodes have to be known."""
        if not hosts_too:
            rest = replace(rest, nodes=self._rest.nodes, topologies=self._rest.topologies)
        if rest.priority_classes != self._rest.priority_classes:
            self._dirty.update(self._groups)
        for gang in self._dirty:
            self._gather(gang, rest)
        if self._overgrown(rest):
            self._forget()
            self._touched = set(self._pods)
        moved: Counter[tuple[Held, int]] = Counter()  # who comes, less who goes, by kind
        for name in self._touched:
            self._count(name, moved)
        for (held, kind), pods in moved.items():
            if pods:
                self._sums.add(held, self._kinds.asked[kind], pods)
        self._dirty, self._touched = set(), set()
        if rest.nodes is not self._rest.nodes:
            self._hosts = hosts(rest.nodes)
        if rest.nodes is not self._rest.nodes or rest.topologies is not self._rest.topologies:
            self._topologies = {one.metadata.name: arrange(one, self._hosts.nodes) for one in rest.topologies}
        self._rest = rest

    def _overgrown(self, rest: Objects) -> bool:
        """Kinds, signatures and rows outlive their pods and nodes."""
        known = len(self._kinds.asked) + len(self._signs.alike) + len(self._sums.rows)
        return known > SPARE + 4 * (len(self._pods) + len(rest.nodes))

    def _gather(self, gang: str, rest: Objects) -> None:
        group, joined = self._groups.get(gang), self._joined.get(gang, set())
        if (group is None) is (gang in self._gangs):
            self._touched |= joined  # a gang that comes or goes
        if group is None:
            self._gangs.pop(gang, None)
            self._members.pop(gang, None)
            return
        built = self._gangs[gang] = build_gang(
            group, [self._pods[name] for name in joined], rest.priority_classes, self._schedulers
        )
        before = self._members.get(gang, frozenset())
        after = self._members[gang] = frozenset(f"{built.namespace}/{name}" for name in names_of(built))
        self._touched |= (before ^ after) & joined

    def _count(self, name: str, moved: Counter[tuple[Held, int]]) -> None:
        """Take a pod out as it was put in, and put it in as it is."""
        before = self._counted.pop(name, None)
        if before is not None:
            self._book(before, -1, moved)
        self._signed.pop(name, None)
        for few in (self._special, self._ruled, self._waiting, self._placed, self._unsigned):
            few.discard(name)
        pod = self._pods.get(name)
        if pod is None:
            return
        after = self._counted[name] = self._as_counted(name, pod)
        self._book(after, 1, moved)
        if after.waits:
            self._waiting.add(name)
        if after.placed:
            self._placed.add(name)
        if keeps_away(pod) or any(True for _ in host_ports(pod.spec)):
            self._special.add(name)
        elif after.waits or after.placed:
            self._unsigned.add(name)
        if pod.spec.affinity is not None or pod.spec.topology_spread_constraints:
            self._ruled.add(name)

    def _as_counted(self, name: str, pod: Pod) -> CountedPod:
        gang = gang_of(pod)
        held = None
        if pod.spec.node_name and holds_resources(pod):
            leaves = pod.metadata.deletion_timestamp is not None
            member = gang is not None and name in self._members.get(gang, ())
            held = Held(self._sums.row(pod.spec.node_name), leaves, member)
        ours, standing = gang in self._groups and is_ours(pod, self._schedulers), pod_state(pod)
        return CountedPod(
            self._kinds.of(pod), held, ours and standing is PodState.PENDING, ours and standing is PodState.PLACED
        )

    def _book(self, one: CountedPod, sign: int, moved: Counter[tuple[Held, int]]) -> None:
        if one.held is not None:
            moved[one.held, one.kind] += sign
        if one.waits:
            self._wanted[one.kind] += sign

    # asking ---------------------------------------------------------------------------------------------------------

    def snapshot(self, rest: Objects, now: datetime | None = None) -> Snapshot:
        """The cluster with what was told, and everything but pods and PodGroups from `rest`."""
        self.fold(rest)
        known, rows = self._hosts, self._sums.on(self._hosts.index)
        missing = self._sums.elsewhere(rows)
        extra = self._extra()
        columns = self._columns(rows, extra)
        place = {name: i for i, name in enumerate(columns)}
        used, terminating, familiar = self._laid_out(rows, columns, place, extra)
        signed = self._signatures(extra, missing)
        waiting = {self._signs.signatures[signed[name]] for name in self._waiting}
        alike = {self._signs.signatures[i]: self._signs.alike[i] for i in set(signed.values())}
        classes, number = classify(alike, waiting, place)
        numbers = [number.get(one, -1) for one in self._signs.signatures]
        guarded = [self._pods[name] for name in self._special if self._bound(name)]
        talked_about = guarded or any(True for one in classes[: len(waiting)] for _ in rules_of(one.pod))
        bound = [pod for name, pod in self._pods.items() if self._bound(name)] if talked_about else []
        return Snapshot(
            nodes=known.nodes,
            columns=columns,
            room=self._roomy(columns),
            used=used,
            terminating=terminating,
            strange=used - familiar,
            topologies=self._topologies,
            gangs=tuple(self._gangs[name] for name in sorted(self._gangs)),
            pods=dict(self._pods),
            classes=classes,
            class_of={name: numbers[i] for name, i in signed.items()},
            unsupported=tuple(unsupported(one.pod) for one in classes),
            node_index=known.index,
            ready=known.ready,
            taints=known.taints,
            taints_of=known.taints_of,
            inter_pod_rules=gather(
                [one.pod for one in classes], len(waiting), bound, known.index, rest.namespaces, columns, guarded
            ),
            objects=replace(rest, pods=tuple(self._pods.values()), pod_groups=tuple(self._groups.values())),
            now=now,
            schedulers=self._schedulers,
        )

    def _bound(self, name: str) -> bool:
        """Whether a pod takes room on a node that exists."""
        return self._counted[name].held is not None and self._pods[name].spec.node_name in self._hosts.index

    def _extra(self) -> Extra:
        bound = {name: self._pods[name] for name in self._special if self._bound(name)}
        waiting = {name: self._pods[name] for name in self._special & self._waiting}
        return Extra(bound, waiting, (name for name in bound if name in self._placed))

    def _columns(self, rows: Ints, extra: Extra) -> tuple[str, ...]:
        found = {"pods", *self._hosts.stated, *self._sums.present(rows), *extra.ports.columns, *extra.alone}
        return tuple(sorted(found.union(*(self._kinds.asked[kind] for kind, count in self._wanted.items() if count))))

    def _laid_out(
        self, rows: Ints, columns: tuple[str, ...], place: Mapping[str, int], extra: Extra
    ) -> tuple[Ints, Ints, Ints]:
        """Used, leaving, familiar."""
        sums = self._sums
        found = [sums.laid_out(array, rows, columns) for array in (sums.used, sums.terminating, sums.familiar)]
        for name, asked in extra.asked.items():
            held = self._counted[name].held
            if held is not None:
                node = self._hosts.index[self._pods[name].spec.node_name]
                for array, counts in zip(found, (True, held.leaves, held.member), strict=True):
                    for column, amount in asked.items() if counts else ():
                        array[node, place[column]] += amount
        return found[0], found[1], found[2]

    def _signatures(self, extra: Extra, missing: bool) -> dict[str, int]:
        """Of pods that wait, or are placed on nodes that exist."""
        about = (self._pods[name] for name in self._ruled if name in self._waiting or self._bound(name))
        selected = looked_at(about)
        if selected != self._selected:
            self._signed, self._selected = {}, selected
            self._unsigned = (self._waiting | self._placed) - self._special
        for name in self._unsigned:
            counted, pod = self._counted[name], self._pods[name]
            signature = (self._kinds.demands[counted.kind], *outside(pod, selected))
            self._signed[name] = self._signs.of(signature, pod, self._kinds.asked[counted.kind])
        self._unsigned = set()
        found = dict(self._signed)
        for name in extra.asked:
            if name not in self._waiting and name not in self._placed:
                continue
            pod = self._pods[name]
            asked = {**self._kinds.asked[self._counted[name].kind], **extra.asked[name]}
            found[name] = self._signs.of((demands(pod, asked), *outside(pod, selected)), pod, asked)
        if missing:
            return {name: sign for name, sign in found.items() if name in self._waiting or self._bound(name)}
        return found

    def _roomy(self, columns: tuple[str, ...]) -> Ints:
        if self._room[0] is not self._hosts or self._room[1] != columns:
            self._room = (self._hosts, columns, room(self._hosts.nodes, columns))
        return self._room[2]
