"""Everything that was read, by kind: the input of every question."""

from msgspec import Struct

from muster.api import names
from muster.api.core import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    StorageClass,
)
from muster.api.meta import ObjectMeta, Wire
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology

KINDS: dict[tuple[str, str], type[Wire]] = {
    (names.SCHEDULING, "PodGroup"): PodGroup,
    (names.QUEUES, "Queue"): Queue,
    (names.TOPOLOGIES, "Topology"): Topology,
    (names.CORE, "Pod"): Pod,
    (names.CORE, "Node"): Node,
    (names.CORE, "Namespace"): Namespace,
    (names.CORE, "PersistentVolume"): PersistentVolume,
    (names.CORE, "PersistentVolumeClaim"): PersistentVolumeClaim,
    (names.PRIORITIES, "PriorityClass"): PriorityClass,
    (names.POLICY, "PodDisruptionBudget"): PodDisruptionBudget,
    (names.STORAGE, "StorageClass"): StorageClass,
}
CLUSTER_SCOPED = frozenset((Queue, Topology, Node, Namespace, PriorityClass, PersistentVolume, StorageClass))


class Objects(Struct, frozen=True, eq=False):
    """Decoded objects; kinds that muster does not know are counted, not lost in silence."""

    pod_groups: tuple[PodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    topologies: tuple[Topology, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    unknown: dict[str, int] = {}  # `Kind (apiVersion)` -> how many


FIELDS: dict[type[Wire], str] = {
    PodGroup: "pod_groups",
    Queue: "queues",
    Topology: "topologies",
    Pod: "pods",
    Node: "nodes",
    Namespace: "namespaces",
    PriorityClass: "priority_classes",
    PodDisruptionBudget: "budgets",
    PersistentVolume: "volumes",
    PersistentVolumeClaim: "claims",
    StorageClass: "storage_classes",
}


def key(metadata: ObjectMeta) -> str:
    """Identity everywhere (N3): `namespace/name`."""
    return f"{metadata.namespace or names.DEFAULT_NAMESPACE}/{metadata.name}"
