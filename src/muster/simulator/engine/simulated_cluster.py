"""The objects of a simulated cluster, and what API server, kubelets and workload controllers do to them.

Rule 1: nothing here decides anything about scheduling. Rule 2: a pod that is gone is replaced as `ReplicaController` of
the embedded cluster does it: by a copy under a new name, once the old one is gone. Rule 3: a node that fails is written
as the embedded kubelet writes it, and its pods fail with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from muster.api.core import Node, Pod
from muster.api.decoding import decode, encode
from muster.api.moment import format_time
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.embedded.kubelet.pod_lifecycle import node_taints, ready_condition
from muster.errors import InputError
from muster.model.gang.builder import build_gang
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.incremental.incremental_snapshot import IncrementalSnapshot
from muster.model.snapshot import Snapshot
from muster.simulator.engine.resource_usage import ResourceUsage
from muster.simulator.scenario.gang_template import PodTemplate
from muster.validation import defaults
from muster.validation.pods.membership import gang_of, is_ours
from muster.validation.pods.pods_by_gang import PodsByGang


class SimulatedCluster:
    """Objects as the API server would store them; what is counted of them follows every change."""

    def __init__(self, objects: Objects) -> None:
        self._rest = replace(objects, pods=(), pod_groups=())
        self._nodes = {node.metadata.name: node for node in objects.nodes}
        self._incremental = IncrementalSnapshot()
        self._pods_by_gang = PodsByGang()
        self._pods_by_node: dict[str, set[str]] = defaultdict(set)
        self.number = 0  # of the last pod that was not there when its gang arrived
        self.retired: set[str] = set()  # pods that terminate and are not replaced
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.pending: set[str] = set()  # pods of gangs that wait for a node
        self.nominated: set[str] = set()
        self.usage = ResourceUsage(objects.nodes, objects.topologies)
        for group in objects.pod_groups:
            self.put_group(group)
        for pod in objects.pods:
            self.put_pod(pod)

    def restore(self, retired: Iterable[str], number: int) -> None:
        """Goes on from a saved state."""
        self.retired, self.number = set(retired), number

    # objects --------------------------------------------------------------------------------------------------------

    def put_group(self, group: PodGroup) -> None:
        """A PodGroup is created, or replaced by a new version of itself."""
        self.groups[key(group.metadata)] = group
        self.usage.queue_of[key(group.metadata)] = defaults.queue(group)
        self._incremental.put_group(group)

    def put_pod(self, pod: Pod) -> None:
        """A pod is created, or replaced by a new version of itself."""
        name, before = key(pod.metadata), self.pods.get(key(pod.metadata))
        self._pods_by_gang.update(before, pod)
        self.pods[name] = pod
        self._incremental.put(pod)
        self._count(name, before, pod)

    def create_pod(self, pod: Pod) -> None:
        """A pod is created. InputError: there is one of its name."""
        if (other := self.pods.get(key(pod.metadata))) is not None:
            gangs = " and ".join(f"`{(gang_of(one) or '').partition('/')[2]}`" for one in (other, pod))
            raise InputError(
                f"gangs {gangs} have pods of the same name, `{pod.metadata.name}`", hint="give one another name"
            )
        self.put_pod(pod)

    def remove_pod(self, name: str) -> Pod:
        """A pod is gone."""
        pod = self.pods.pop(name)
        self._pods_by_gang.update(pod, None)
        self._incremental.drop(name)
        self._count(name, pod, None)
        return pod

    def remove_gang(self, gang: str) -> None:
        """A workload is deleted with its PodGroup and its pods; they have finished, so that nothing terminates."""
        for name in tuple(self._pods_by_gang.names(gang)):
            self.remove_pod(name)
            self.retired.discard(name)
        del self.groups[gang], self.usage.queue_of[gang]
        self._incremental.drop_group(gang)

    def _count(self, name: str, before: Pod | None, after: Pod | None) -> None:
        self.usage.update(before, after)
        if before is not None and before.spec.node_name:
            self._pods_by_node[before.spec.node_name].discard(name)
        if after is not None and after.spec.node_name:
            self._pods_by_node[after.spec.node_name].add(name)
        is_pending = after is not None and _is_waiting(after)
        (self.pending.add if is_pending else self.pending.discard)(name)
        is_nominated = is_pending and after is not None and bool(after.status.nominated_node_name)
        (self.nominated.add if is_nominated else self.nominated.discard)(name)

    def pods_of(self, gang: str) -> tuple[Pod, ...]:
        """The pods that name a PodGroup."""
        return self._pods_by_gang.pods(gang)

    def pods_on(self, node: str) -> list[str]:
        """The pods on a node, by name."""
        return sorted(self._pods_by_node[node])

    def gang(self, name: str, pods: Iterable[Pod] | None = None) -> Gang:
        """A gang as it is, or as if it had only these pods."""
        if pods is None:
            return self._incremental.gang(name, self._rest)
        return build_gang(self.groups[name], pods, self._rest.priority_classes)

    def working_pods(self, gang: str) -> Iterator[Pod]:
        """The pods of a gang that run."""
        return (
            pod
            for pod in self.pods_of(gang)
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        )

    def snapshot(self, now: datetime) -> Snapshot:
        """The cluster at this moment."""
        return self._incremental.snapshot(self._rest, now)

    @property
    def objects(self) -> Objects:
        """Everything that is stored."""
        return replace(self._rest, pods=tuple(self.pods.values()), pod_groups=tuple(self.groups.values()))

    # pods -----------------------------------------------------------------------------------------------------------

    def bind(self, name: str, node: str) -> None:
        """The binder binds a pod."""
        pod = self.pods[name]
        status = replace(pod.status, phase="Pending", nominated_node_name="")
        self.put_pod(replace(pod, spec=replace(pod.spec, node_name=node), status=status))

    def nominate(self, name: str, node: str) -> None:
        """The nominator writes where a pod will go; an empty node: nowhere any more."""
        pod = self.pods[name]
        self.put_pod(replace(pod, status=replace(pod.status, nominated_node_name=node)))

    def start(self, name: str) -> bool:
        """A kubelet starts a pod; False: it is gone, or terminating."""
        pod = self.pods.get(name)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return False
        self.put_pod(replace(pod, status=replace(pod.status, phase="Running")))
        return True

    def is_terminating(self, name: str) -> bool:
        """Whether a pod is deleted, and not gone yet."""
        return self.pods[name].metadata.deletion_timestamp is not None

    def evict(self, name: str, now: datetime) -> bool:
        """The API server deletes a pod, which holds its resources until it is gone; False: it terminates already."""
        pod = self.pods[name]
        if self.is_terminating(name):
            return False
        self.put_pod(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now)))
        return True

    def replace_pod(self, name: str, now: datetime) -> Pod:
        """A pod is gone, and its controller makes another one of it; returns the old one."""
        old = self.remove_pod(name)
        gang = gang_of(old)
        if gang is None or gang not in self.groups or name in self.retired:
            self.retired.discard(name)
            return old
        self.number += 1
        base = old.metadata.name.partition("-r-")[0]
        meta = replace(
            old.metadata,
            name=f"{base}-r-{self.number}",
            uid=f"{base}-r-{self.number}",
            creation_timestamp=now,
            deletion_timestamp=None,
        )
        status = replace(old.status, phase="", nominated_node_name="")
        self.create_pod(replace(old, metadata=meta, spec=replace(old.spec, node_name=""), status=status))
        return old

    def add_pod(self, gang: str, template: PodTemplate, now: datetime) -> None:
        """A controller makes one more pod of a gang."""
        self.number += 1
        self.create_pod(template.make_pod(gang, f"u-{self.number}", now))

    def retire(self, name: str, now: datetime) -> bool:
        """A controller wants a pod no more; returns whether it terminates, else it is gone at once."""
        if not self.pods[name].spec.node_name:
            self.remove_pod(name)
            return False
        self.retired.add(name)
        return self.evict(name, now)

    # nodes ----------------------------------------------------------------------------------------------------------

    def write_readiness(self, name: str, is_ready: bool, now: datetime) -> None:
        """A node is lost, or back."""
        raw: dict[str, Any] = encode(self._nodes[name])
        raw["spec"] = raw.get("spec", {}) | {"taints": node_taints(raw, is_ready)}
        raw["status"] = raw.get("status", {}) | {"conditions": [ready_condition(is_ready, format_time(now))]}
        self._put_node(decode(raw, Node)[0])

    def cordon(self, name: str, is_cordoned: bool) -> None:
        """A node takes no more pods, or takes them again."""
        node = self._nodes[name]
        self._put_node(replace(node, spec=replace(node.spec, unschedulable=is_cordoned)))

    def _put_node(self, node: Node) -> None:
        self._nodes[node.metadata.name] = node
        self._rest = replace(self._rest, nodes=tuple(self._nodes.values()))
        self.usage.set_open(node)


def _is_waiting(pod: Pod) -> bool:
    return gang_of(pod) is not None and is_ours(pod) and pod_state(pod) is PodState.PENDING
