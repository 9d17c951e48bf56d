"""Everything that was read, by kind: the input of every question."""

from typing import Any

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
from muster.api.grove.pod_clique import PodClique
from muster.api.grove.pod_clique_scaling_group import PodCliqueScalingGroup
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.grove.pod_gang import PodGang
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.meta import ObjectMeta, Wire
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.resources import (
    BUDGETS,
    CLAIMS,
    CLUSTER_TOPOLOGY_BINDINGS,
    NAMESPACES,
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    STORAGE_CLASSES,
    TOPOLOGIES,
    VOLUMES,
    Resource,
)
from muster.api.topology import Topology

# the kinds that planning reads, in the order in which they are listed
WATCHED_KINDS: dict[Resource, type[Wire]] = {
    POD_GROUPS: PodGroup,
    QUEUES: Queue,
    TOPOLOGIES: Topology,
    PODS: Pod,
    NODES: Node,
    NAMESPACES: Namespace,
    VOLUMES: PersistentVolume,
    CLAIMS: PersistentVolumeClaim,
    PRIORITY_CLASSES: PriorityClass,
    BUDGETS: PodDisruptionBudget,
    STORAGE_CLASSES: StorageClass,
}
KINDS: dict[tuple[str, str], type[Wire]] = {  # by `apiVersion` and `kind`
    (resource.api_version, resource.kind): struct for resource, struct in WATCHED_KINDS.items()
}
# Grove's kinds: planning sees what becomes of them, so that they are read as they are; validation knows their fields
GROVE_KINDS: dict[Resource, type[Wire]] = {
    POD_CLIQUE_SETS: PodCliqueSet,
    POD_CLIQUES: PodClique,
    POD_CLIQUE_SCALING_GROUPS: PodCliqueScalingGroup,
    POD_GANGS: PodGang,
    CLUSTER_TOPOLOGY_BINDINGS: ClusterTopologyBinding,
}
VALIDATED_KINDS: dict[tuple[str, str], type[Wire]] = KINDS | {
    (resource.api_version, resource.kind): struct for resource, struct in GROVE_KINDS.items()
}
CLUSTER_SCOPED = frozenset(
    struct for resource, struct in {**WATCHED_KINDS, **GROVE_KINDS}.items() if not resource.namespaced
)


class OtherObject(Struct, frozen=True):
    """An object of a kind that planning does not read: a workload, or one that muster does not know."""

    where: str  # file and document
    raw: dict[str, Any]
    is_live: bool = False  # of a cluster, whose controllers make its pods

    @property
    def kind(self) -> tuple[str, str]:
        """`apiVersion` and `kind`."""
        return self.raw["apiVersion"], self.raw["kind"]

    @property
    def title(self) -> str:
        """The kind in a sentence."""
        return f"{self.raw['kind']} ({self.raw['apiVersion']})"


class Objects(Struct, frozen=True, eq=False):
    """Decoded objects; kinds that planning does not read are kept as they are, not lost in silence."""

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
    unknown: dict[str, int] = {}  # `Kind (apiVersion)` -> how many of the others
    others: tuple[OtherObject, ...] = ()


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
