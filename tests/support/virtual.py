"""A cluster in virtual time, around plans: what binder, evictor, status writer, kubelets and workload controllers do.

Rule 1: plain manifests are the truth, so that an independent checker can read them; typed objects follow each change.
Rule 2: nothing here decides anything about scheduling. Rule 3: time moves only in `advance`; chance comes from outside.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from muster.api import names
from muster.api.core import Pod
from muster.api.decoding import decode, encode
from muster.api.moment import format_time
from muster.api.objects import FIELDS, KINDS, Objects
from muster.api.podgroup import PodGroup
from muster.model.incremental.incremental_snapshot import IncrementalSnapshot
from muster.model.snapshot import Snapshot, take
from muster.planning.decision import CyclePlan
from muster.reporting.annotations import stale_annotations
from muster.reporting.outcome import outcomes
from muster.reporting.status import pod_group_status
from tests.support import factories

Raw = dict[str, Any]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIELD_OF = {kind: FIELDS[struct] for (_, kind), struct in KINDS.items()}
KEPT_APART = ("Pod", "PodGroup")  # kinds that the incremental snapshot is given one by one


class LeafTemplate(Struct, frozen=True):
    """How many pods of a leaf there are to be, and what each asks for."""

    pods: int
    requests: Mapping[str, str]
    labels: Mapping[str, str] = {}


class Workload(Struct, frozen=True):
    """What a workload controller keeps alive: a PodGroup, and so many pods of each leaf."""

    group: Raw
    leaves: Mapping[str, LeafTemplate]
    is_eager: bool = True  # replaces a pod as soon as it terminates, as a Job; else once it is gone, as a StatefulSet
    scheduler: str = "muster"

    @property
    def key(self) -> str:
        """The PodGroup, by `namespace/name`."""
        return key_of(self.group)


def key_of(raw: Raw) -> str:
    """`namespace/name` (N3)."""
    return f"{raw['metadata'].get('namespace', names.DEFAULT_NAMESPACE)}/{raw['metadata']['name']}"


def gang_of(raw: Raw) -> str:
    """The PodGroup that a pod names, by `namespace/name`; empty: none."""
    name = (raw["metadata"].get("annotations") or {}).get(names.POD_GROUP)
    return f"{raw['metadata'].get('namespace', names.DEFAULT_NAMESPACE)}/{name}" if name else ""


def leaf_of(raw: Raw) -> str:
    """The leaf that a pod names; empty: none."""
    return str((raw["metadata"].get("labels") or {}).get(names.SUBGROUP, ""))


class VirtualCluster:
    """Objects, the clock, and the processes around a scheduler."""

    def __init__(self, objects: Iterable[Raw] = (), now: datetime = EPOCH) -> None:
        self.now = now
        self.raws: dict[str, dict[str, Raw]] = {kind: {} for _, kind in KINDS}
        self.workloads: dict[str, Workload] = {}
        self._typed: dict[str, dict[str, Any]] = {kind: {} for _, kind in KINDS}
        self._members: dict[str, set[str]] = defaultdict(set)  # pods, by the PodGroup that they name
        self._incremental = IncrementalSnapshot()
        self._rest: Objects | None = None
        self._ends: dict[str, datetime] = {}  # terminating pods: when their containers have stopped
        self._short: set[str] = set()  # workloads that may lack pods
        self._number = 0
        for raw in objects:
            self.put(raw)

    # objects --------------------------------------------------------------------------------------------------------

    def put(self, raw: Raw) -> None:
        """An object is created, or replaced by a new version of itself."""
        kind, key = raw["kind"], key_of(raw)
        typed, misfits = decode(raw, KINDS[raw["apiVersion"], kind])
        assert not misfits, misfits
        self.raws[kind][key] = raw
        self._typed[kind][key] = typed
        if isinstance(typed, Pod):
            self._incremental.put(typed)
            self._members[gang_of(raw)].add(key)
        elif isinstance(typed, PodGroup):
            self._incremental.put_group(typed)
        else:
            self._rest = None

    def remove(self, kind: str, key: str) -> None:
        """An object is gone."""
        raw = self.raws[kind].pop(key)
        del self._typed[kind][key]
        if kind == "Pod":
            self._incremental.drop(key)
            self._ends.pop(key, None)
            self._members[gang_of(raw)].discard(key)
            self._short.add(gang_of(raw))
        elif kind == "PodGroup":
            self._incremental.drop_group(key)
        else:
            self._rest = None

    def pods(self, gang: str | None = None) -> Iterator[Raw]:
        """All pods, or those of one gang, by name."""
        if gang is None:
            return iter(tuple(self.raws["Pod"].values()))
        return (self.raws["Pod"][key] for key in sorted(self._members.get(gang, ())))

    def manifests(self) -> list[Raw]:
        """Everything that is stored, as a checker reads it."""
        return [raw for by_key in self.raws.values() for raw in by_key.values()]

    def objects(self) -> Objects:
        """Everything that is stored, typed."""
        return self._collected(kind for _, kind in KINDS)

    def snapshot(self, is_incremental: bool = True) -> Snapshot:
        """The cluster now; by default from what has changed since the last one."""
        if not is_incremental:
            return take(self.objects(), self.now)
        if self._rest is None:
            self._rest = self._collected(kind for _, kind in KINDS if kind not in KEPT_APART)
        return self._incremental.snapshot(self._rest, self.now)

    def _collected(self, kinds: Iterable[str]) -> Objects:
        fields: dict[str, Any] = {FIELD_OF[kind]: tuple(self._typed[kind].values()) for kind in kinds}
        return Objects(**fields)

    def stamp(self) -> str:
        """The time as objects carry it."""
        return format_time(self.now)

    # workload controllers -------------------------------------------------------------------------------------------

    def submit(self, workload: Workload) -> None:
        """A workload arrives with its PodGroup and its pods."""
        self.workloads[workload.key] = workload
        self.put(self._stamped(workload.group))
        self._short.add(workload.key)
        self.reconcile()

    def scale(self, workload: Workload) -> None:
        """A workload wants more pods or fewer; surplus pods are deleted at once."""
        self.edit(workload)
        alive = Counter[str]()
        for pod in tuple(self.pods(workload.key)):
            alive[leaf_of(pod)] += 1
            if leaf_of(pod) in workload.leaves and alive[leaf_of(pod)] > workload.leaves[leaf_of(pod)].pods:
                self.remove("Pod", key_of(pod))
        self.reconcile()

    def edit(self, workload: Workload) -> None:
        """The spec of a PodGroup changes. Pods whose SubGroup is gone stay where they are, as leftovers (N4)."""
        self.workloads[workload.key] = workload
        self.put(self.raws["PodGroup"][workload.key] | {"spec": workload.group["spec"]})
        self._short.add(workload.key)
        self.reconcile()

    def finish(self, gang: str) -> None:
        """A workload is deleted with its PodGroup and its pods."""
        self.workloads.pop(gang, None)
        self.remove("PodGroup", gang)
        for pod in tuple(self.pods(gang)):
            self.remove("Pod", key_of(pod))

    def reconcile(self) -> None:
        """Controllers create the pods that are missing, each under a name that was never used before."""
        for gang in sorted(self._short & self.workloads.keys()):
            workload = self.workloads[gang]
            alive = Counter(leaf_of(pod) for pod in self.pods(gang) if not (workload.is_eager and is_terminating(pod)))
            for leaf, template in workload.leaves.items():
                for _ in range(template.pods - alive[leaf]):
                    self.put(self._member_pod(workload, leaf, template))
        self._short.clear()

    def _member_pod(self, workload: Workload, leaf: str, template: LeafTemplate) -> Raw:
        self._number += 1
        meta = workload.group["metadata"]
        raw = factories.pod(
            f"{meta['name']}-{self._number:06}",
            leaf,
            gang=meta["name"],
            namespace=meta.get("namespace", names.DEFAULT_NAMESPACE),
            phase="Pending",
            scheduler=workload.scheduler,
            labels={"app": meta["name"], **template.labels},
            **dict[str, Any](template.requests),
        )
        return self._stamped(raw)

    def _stamped(self, raw: Raw) -> Raw:
        return raw | {"metadata": {"creationTimestamp": self.stamp(), **raw["metadata"]}}

    # nodes and time -------------------------------------------------------------------------------------------------

    def lose_node(self, name: str) -> Raw:
        """A node goes, and its pods with it; what it was, for its return."""
        node = self.raws["Node"][f"default/{name}"]
        self.remove("Node", f"default/{name}")
        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                self.remove("Pod", key_of(pod))
        return node

    def advance(self, seconds: float) -> list[str]:
        """Time passes: terminating pods whose grace is over are gone, and controllers replace them."""
        self.now += timedelta(seconds=seconds)
        gone = sorted(pod for pod, end in self._ends.items() if end <= self.now)
        for pod in gone:
            self.remove("Pod", pod)
        self.reconcile()
        return gone

    @property
    def terminating(self) -> Mapping[str, datetime]:
        """Pods that are on their way out, and until when they hold their resources."""
        return dict(self._ends)

    # carrying out a plan --------------------------------------------------------------------------------------------

    def apply(self, snapshot: Snapshot, plan: CyclePlan, grace_seconds: Mapping[str, float] | float = 30.0) -> None:
        """Binder, evictor and status writer: what a cycle leaves behind in the API server."""
        nominated = {one.key: one.node for one in plan.nominations}
        for pod in snapshot.objects.pods if nominated or self._any_nominated(snapshot) else ():
            key = f"{pod.metadata.namespace or names.DEFAULT_NAMESPACE}/{pod.metadata.name}"
            if pod.status.nominated_node_name != nominated.get(key, "") and not pod.spec.node_name:
                self._write(key, status={"nominatedNodeName": nominated.get(key)})
        for binding in plan.bindings:
            status = {"phase": "Running", "nominatedNodeName": None, "startTime": self.stamp()}
            self._write(binding.key, spec={"nodeName": binding.node}, status=status)
        for eviction in plan.evictions:
            self.evict(
                eviction.key, grace_seconds if isinstance(grace_seconds, int | float) else grace_seconds[eviction.key]
            )
        self._write_groups(snapshot, plan)
        self.reconcile()

    @staticmethod
    def _any_nominated(snapshot: Snapshot) -> bool:
        return any(pod.status.nominated_node_name for pod in snapshot.objects.pods)

    def evict(self, key: str, grace_seconds: float) -> None:
        """A pod is deleted, and holds its resources until its grace period is over."""
        self._ends[key] = self.now + timedelta(seconds=grace_seconds)
        self._short.add(gang_of(self.raws["Pod"][key]))
        self._write(key, metadata={"deletionTimestamp": self.stamp()})

    def _write(self, key: str, **parts: Raw) -> None:
        """A merge patch of a pod, one level deep."""
        raw = dict(self.raws["Pod"][key])
        for name, fields in parts.items():
            merged = {**raw.get(name, {}), **fields}
            raw[name] = {field: value for field, value in merged.items() if value is not None}
        self.put(raw)

    def _write_groups(self, snapshot: Snapshot, plan: CyclePlan) -> None:
        """Annotations and status of PodGroups, as the status writer stores them."""
        for gang, outcome in outcomes(snapshot, plan, self._at_rest(plan)).items():
            stored: PodGroup = self._typed["PodGroup"][gang]
            raw = copy.deepcopy(self.raws["PodGroup"][gang])
            notes: Raw = {**raw["metadata"].get("annotations", {}), **stale_annotations(outcome, stored, self.now)}
            raw["metadata"]["annotations"] = {name: note for name, note in notes.items() if note is not None}
            raw["status"] = encode(pod_group_status(outcome, stored, self.now))
            if raw != self.raws["PodGroup"][gang]:
                self.put(raw)

    def _at_rest(self, plan: CyclePlan) -> frozenset[str]:
        """Gangs about which this plan says nothing new."""
        busy = {one.gang for one in (*plan.bindings, *plan.nominations, *plan.evictions)}
        return frozenset(
            gang_plan.gang.key
            for gang_plan in plan.gangs
            if gang_plan.gang.key not in busy and gang_plan.verdict == "Scheduled" and not gang_plan.refusals
            if self.raws["PodGroup"][gang_plan.gang.key]["metadata"].get("annotations", {}).keys() == {names.LAST_START}
        )


def is_terminating(pod: Raw) -> bool:
    """Whether a pod is deleted and not gone yet."""
    return bool(pod["metadata"].get("deletionTimestamp"))
