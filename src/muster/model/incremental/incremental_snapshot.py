"""A snapshot that is kept up to date: equal to `take` of the same objects, at the cost of what has changed since.

Rule 1: a pod that changes is added to the sums of its node, and removed exactly as it was added. Rule 2: what depends
on several pods (host ports, exclusive columns, labels that rules select by) is computed for every snapshot, from the
few pods that it concerns. Rule 3: a snapshot that was returned never changes.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.model.gang.builder import build_gang
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, holds_resources, pod_state
from muster.model.incremental.interned_demands import DemandKinds, PodClassNumbers, Signatures, SignedPods
from muster.model.incremental.node_sums import Ints, NodeSums, Usage
from muster.model.incremental.ordered_gangs import OrderedGangs
from muster.model.incremental.sharded_dict import ShardedDict
from muster.model.incremental.shared_columns import SharedColumns
from muster.model.inter_pod_rules import collect_rules, rules_of, selected_label_keys
from muster.model.snapshot import (
    NodeTable,
    Snapshot,
    allocatable_of,
    build_classes,
    build_node_table,
    encode_demands,
    member_names,
    unsupported_rule,
    visible_labels,
)
from muster.model.topology import TopologyTree, arrange
from muster.validation.pods.membership import OURS, gang_of, is_ours
from muster.validation.pods.pods_by_gang import PodsByGang

SPARE = 4096  # entries of pods and nodes that are gone are dropped once they outnumber those in use by this many


class CountedPod(Struct, frozen=True, gc=False):
    """A pod as it is counted now."""

    kind: int  # of its demands
    usage: Usage | None = None  # None: it holds nothing on any node
    pending: bool = False  # a pod of a gang that can be placed
    placed: bool = False  # a pod of a gang on a node


class IncrementalSnapshot:
    """Receives changes of pods and PodGroups one by one; all other objects come with the call of `snapshot`."""

    def __init__(self, schedulers: Collection[str] = OURS) -> None:
        self._schedulers = frozenset(schedulers)
        self._pods: ShardedDict[Pod] = ShardedDict()
        self._groups: dict[str, PodGroup] = {}
        self._pods_by_gang = PodsByGang()
        self._gangs = OrderedGangs()
        self._members: dict[str, frozenset[str]] = {}  # by gang: pods in its leaves, and leftovers
        self._changed_pods: set[str] = set()
        self._changed_gangs: set[str] = set()
        self._rest = Objects()
        self._node_table = build_node_table(())
        self._topologies: dict[str, TopologyTree] = {}
        self._allocatable: tuple[NodeTable, tuple[str, ...], Ints] = (self._node_table, (), allocatable_of((), ()))
        self._reset()

    def _reset(self) -> None:
        """Forget every count."""
        self._kinds, self._signatures, self._sums = DemandKinds(), Signatures(), NodeSums()
        self._summed_table: NodeTable | None = None  # whose nodes the sums are for
        self._counted: dict[str, CountedPod] = {}
        self._pending: set[str] = set()  # pods of gangs
        self._placed: set[str] = set()
        self._pending_kinds: Counter[int] = Counter()
        self._signed = SignedPods()  # pending and placed pods, without special ones
        self._unsigned: set[str] = set()  # those of them whose signatures are not known yet
        self._label_keys: frozenset[str] = frozenset()  # labels that these signatures contain
        self._special: set[str] = set()  # pods with host ports or anti-affinity
        self._with_rules: set[str] = set()  # pods with rules about other pods

    # changes --------------------------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """Add a pod, or replace it."""
        name = key(pod.metadata)
        self._changed_gangs.update(self._pods_by_gang.update(self._pods.get(name), pod))
        self._pods[name] = pod
        self._changed_pods.add(name)

    def drop(self, name: str) -> None:
        """Remove a pod, if it is known."""
        pod = self._pods.pop(name, None)
        if pod is not None:
            self._changed_gangs.update(self._pods_by_gang.update(pod, None))
            self._changed_pods.add(name)

    def put_group(self, group: PodGroup) -> None:
        """Add a PodGroup, or replace it."""
        self._groups[key(group.metadata)] = group
        self._changed_gangs.add(key(group.metadata))

    def drop_group(self, name: str) -> None:
        """Remove a PodGroup, if it is known."""
        if self._groups.pop(name, None) is not None:
            self._changed_gangs.add(name)

    def gang(self, name: str, rest: Objects) -> Gang:
        """A gang that exists, with all changes so far; it is built once for this and for the next snapshot."""
        if name in self._changed_gangs:
            self._rebuild(name, rest)
            self._changed_gangs.discard(name)
        return self._gangs[name]

    # counting -------------------------------------------------------------------------------------------------------

    def fold(self, rest: Objects, with_nodes: bool = True) -> None:
        """Count the changes since the last call. `snapshot` calls it, too; only there nodes have to be up to date."""
        if not with_nodes:
            rest = replace(rest, nodes=self._rest.nodes, topologies=self._rest.topologies)
        if rest.priority_classes != self._rest.priority_classes:
            self._changed_gangs.update(self._groups)
        for gang in self._changed_gangs:
            self._rebuild(gang, rest)
        if self._is_overgrown(rest):
            self._reset()
            self._changed_pods = set(self._pods)
        changes: Counter[tuple[Usage, int]] = Counter()  # pods added less pods removed, by kind
        for name in self._changed_pods:
            self._recount(name, changes)
        self._sums.add(changes, self._kinds.requests)
        self._kinds.drop_unused(len(self._pods))
        self._changed_gangs, self._changed_pods = set(), set()
        if rest.nodes is not self._rest.nodes:
            self._node_table = build_node_table(rest.nodes)
        if rest.nodes is not self._rest.nodes or rest.topologies is not self._rest.topologies:
            nodes = self._node_table.nodes
            self._topologies = {topology.metadata.name: arrange(topology, nodes) for topology in rest.topologies}
        self._rest = rest

    def _is_overgrown(self, rest: Objects) -> bool:
        """Whether too many kinds, signatures and rows have outlived their pods and nodes."""
        known = len(self._kinds.requests) + len(self._signatures.examples) + len(self._sums.rows)
        return known > SPARE + 4 * (len(self._pods) + len(rest.nodes))

    def _rebuild(self, name: str, rest: Objects) -> None:
        """Build a gang again, and note the pods for which that makes a difference."""
        group, pods = self._groups.get(name), self._pods_by_gang.names(name)
        if (group is None) is (name in self._gangs):
            self._changed_pods.update(pods)  # the gang is new, or gone
        if group is None:
            self._gangs.drop(name)
            self._members.pop(name, None)
            return
        gang = build_gang(group, self._pods_by_gang.pods(name), rest.priority_classes, self._schedulers)
        self._gangs.put(name, gang)
        before = self._members.get(name, frozenset())
        after = self._members[name] = frozenset(f"{gang.namespace}/{member}" for member in member_names(gang))
        self._changed_pods.update((before ^ after).intersection(pods))

    def _recount(self, name: str, changes: Counter[tuple[Usage, int]]) -> None:
        """Remove a pod as it was counted, and count it as it is."""
        before = self._counted.pop(name, None)
        if before is not None:
            self._note_change(before, -1, changes)
            self._signed.drop(name)
            for names in (self._special, self._with_rules, self._pending, self._placed, self._unsigned):
                names.discard(name)
        pod = self._pods.get(name)
        if pod is None:
            return
        facts = self._kinds.facts_of(pod)
        after = self._counted[name] = self._count(name, pod, facts.kind)
        self._note_change(after, 1, changes)
        if after.pending:
            self._pending.add(name)
        if after.placed:
            self._placed.add(name)
        if facts.is_special:
            self._special.add(name)
        elif after.pending or after.placed:
            self._unsigned.add(name)
        if facts.has_rules:
            self._with_rules.add(name)

    def _count(self, name: str, pod: Pod, kind: int) -> CountedPod:
        gang = gang_of(pod)
        usage = None
        if pod.spec.node_name and holds_resources(pod):
            is_terminating = pod.metadata.deletion_timestamp is not None
            is_member = gang is not None and name in self._members.get(gang, ())
            usage = Usage(self._sums.row(pod.spec.node_name), is_terminating, is_member)
        is_counted, state = gang in self._groups and is_ours(pod, self._schedulers), pod_state(pod)
        return CountedPod(
            kind=kind,
            usage=usage,
            pending=is_counted and state is PodState.PENDING,
            placed=is_counted and state is PodState.PLACED,
        )

    def _note_change(self, pod: CountedPod, sign: int, changes: Counter[tuple[Usage, int]]) -> None:
        if pod.usage is not None:
            changes[pod.usage, pod.kind] += sign
        if pod.pending:
            self._pending_kinds[pod.kind] += sign

    # the snapshot ---------------------------------------------------------------------------------------------------

    def snapshot(self, rest: Objects, now: datetime | None = None) -> Snapshot:
        """The cluster with all pods and PodGroups received so far, and all other objects from `rest`."""
        self.fold(rest)
        table = self._node_table
        if self._summed_table is not table:
            self._summed_table = table
            self._sums.select_nodes(table.index)
        shared = self._shared_columns()
        columns = self._columns(shared)
        column_index = {name: i for i, name in enumerate(columns)}
        used, terminating, used_by_gangs = self._lay_out(columns, column_index, shared)
        signature_of, in_use = self._sign(shared, self._sums.has_pods_outside)
        signatures = self._signatures.signatures
        waiting = {signatures[i] for i in {signature_of[name] for name in self._pending}}
        examples = {signatures[i]: self._signatures.examples[i] for i in in_use}
        classes, index = build_classes(examples, waiting, column_index)
        class_numbers = [index.get(signature, -1) for signature in signatures]
        guarded = [self._pods[name] for name in self._special if self._is_bound(name)]
        has_rules = guarded or any(True for pods in classes[: len(waiting)] for _ in rules_of(pods.pod))
        bound = [pod for name, pod in self._pods.items() if self._is_bound(name)] if has_rules else []
        return Snapshot(
            nodes=table.nodes,
            columns=columns,
            allocatable=self._allocatable_in(columns),
            used=used,
            terminating=terminating,
            used_outside_gangs=used - used_by_gangs,
            topologies=self._topologies,
            gangs=self._gangs.in_order(),
            pods=self._pods.copy(),
            classes=classes,
            class_of=PodClassNumbers(signature_of, class_numbers),
            unsupported=tuple(unsupported_rule(pods.pod) for pods in classes),
            node_index=table.index,
            ready=table.ready,
            taints=table.taints,
            taints_of=table.taints_of,
            inter_pod_rules=collect_rules(
                [pods.pod for pods in classes], len(waiting), bound, table.index, rest.namespaces, columns, guarded
            ),
            objects=replace(rest, pods=tuple(self._pods.values()), pod_groups=tuple(self._groups.values())),
            now=now,
            schedulers=self._schedulers,
        )

    def _is_bound(self, name: str) -> bool:
        """Whether a pod holds resources on a node that exists."""
        return self._counted[name].usage is not None and self._pods[name].spec.node_name in self._node_table.index

    def _shared_columns(self) -> SharedColumns:
        bound = {name: self._pods[name] for name in self._special if self._is_bound(name)}
        waiting = {name: self._pods[name] for name in self._special & self._pending}
        return SharedColumns(bound, waiting, (name for name in bound if name in self._placed))

    def _columns(self, shared: SharedColumns) -> tuple[str, ...]:
        requested = (self._kinds.requests[kind] for kind, count in self._pending_kinds.items() if count)
        columns = {"pods", *self._node_table.stated, *self._sums.requested_columns()}
        return tuple(sorted(columns.union(shared.ports.columns, shared.exclusive, *requested)))

    def _lay_out(
        self, columns: tuple[str, ...], column_index: Mapping[str, int], shared: SharedColumns
    ) -> tuple[Ints, Ints, Ints]:
        """The arrays of what is used, what of it terminating pods hold, and what of it gangs hold."""
        sums = self._sums.lay_out(columns)
        if not shared.requests:
            return sums.used, sums.terminating, sums.used_by_gangs
        used, terminating, used_by_gangs = sums.used.copy(), sums.terminating.copy(), sums.used_by_gangs.copy()
        for name, requests in shared.requests.items():
            usage = self._counted[name].usage
            if usage is not None:
                node = self._node_table.index[self._pods[name].spec.node_name]
                arrays = ((used, True), (terminating, usage.terminating), (used_by_gangs, usage.in_gang))
                for array, is_counted in arrays:
                    for column, amount in requests.items() if is_counted else ():
                        array[node, column_index[column]] += amount
        return used, terminating, used_by_gangs

    def _sign(self, shared: SharedColumns, is_node_missing: bool) -> tuple[ShardedDict[int], set[int]]:
        """The signatures of pods that are pending, or placed on nodes that exist; and all that occur."""
        with_rules = (self._pods[name] for name in self._with_rules if name in self._pending or self._is_bound(name))
        label_keys = selected_label_keys(with_rules)
        if label_keys != self._label_keys:
            self._signed, self._label_keys = SignedPods(), label_keys
            self._unsigned = (self._pending | self._placed) - self._special
        for name in self._unsigned:
            counted, pod = self._counted[name], self._pods[name]
            signature = (self._kinds.demands[counted.kind], *visible_labels(pod, label_keys))
            self._signed.sign(name, self._signatures.number_of(signature, pod, self._kinds.requests[counted.kind]))
        self._unsigned = set()
        signature_of, in_use = self._signed.numbers.copy(), self._signed.in_use
        for name in shared.requests:
            if name not in self._pending and name not in self._placed:
                continue
            pod = self._pods[name]
            requests = {**self._kinds.requests[self._counted[name].kind], **shared.requests[name]}
            signature = (encode_demands(pod, requests), *visible_labels(pod, label_keys))
            signature_of[name] = self._signatures.number_of(signature, pod, requests)
            in_use.add(signature_of[name])
        if is_node_missing:
            for name in [name for name in signature_of if name not in self._pending and not self._is_bound(name)]:
                del signature_of[name]
            in_use = set(signature_of.values())
        return signature_of, in_use

    def _allocatable_in(self, columns: tuple[str, ...]) -> Ints:
        """The allocatable resources in these columns; the same array while nodes and columns are the same."""
        if self._allocatable[0] is not self._node_table or self._allocatable[1] != columns:
            self._allocatable = (self._node_table, columns, allocatable_of(self._node_table.nodes, columns))
        return self._allocatable[2]
