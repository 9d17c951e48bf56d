"""How the claims of a pod resolve (X5): to a volume, to one provisioned on the pod's node, or to a problem.

The provisioner binds a claim of a class with `WaitForFirstConsumer` once the claim has a selected node: muster writes
that node on the claim before it binds the pod (decision 0014). A node that is selected already pins the pod to it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from muster.api.core import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from muster.api.names import DEFAULT_NAMESPACE, SELECTED_NODE
from muster.api.objects import Objects, key

WAITS, STATIC = "WaitForFirstConsumer", "kubernetes.io/no-provisioner"
FINISHED = ("Succeeded", "Failed")


class Provisioned(Struct, frozen=True):
    """A volume that is provisioned on the node of the first pod that uses it."""

    storage_class: StorageClass
    node: str  # selected node; empty: none yet


class ClaimTrouble(Struct, frozen=True):
    """A claim that excludes every node, and why."""

    claim: str
    storage_class: str
    why: Literal["missing", "unbound", "volume missing", "static", "shared", "node gone"]
    node: str = ""


Behind = PersistentVolume | Provisioned | ClaimTrouble


class Claims:
    """The claims, volumes and storage classes of one snapshot, indexed by name."""

    def __init__(self, objects: Objects, nodes: Callable[[str], bool]) -> None:
        self.objects, self.nodes = objects, nodes
        self.claims = {key(claim.metadata): claim for claim in objects.claims}
        self.volumes = {volume.metadata.name: volume for volume in objects.volumes}
        self.classes = {storage_class.metadata.name: storage_class for storage_class in objects.storage_classes}
        self._users: Counter[str] | None = None

    def behind(self, pod: Pod) -> Iterator[Behind]:
        """How every claim of a pod resolves."""
        for name in claims_of(pod):
            claim = self.claims.get(name)
            if claim is None:
                yield ClaimTrouble(name.partition("/")[2], "", "missing")
            elif claim.spec.volume_name:
                volume = self.volumes.get(claim.spec.volume_name)
                yield volume or ClaimTrouble(claim.metadata.name, claim.spec.storage_class_name, "volume missing")
            else:
                yield self._unbound(name, claim)

    def _unbound(self, name: str, claim: PersistentVolumeClaim) -> Provisioned | ClaimTrouble:
        kind, node = self.classes.get(claim.spec.storage_class_name), selected_node(claim)
        trouble: Literal["", "unbound", "static", "shared", "node gone"] = ""
        if kind is None or kind.volume_binding_mode != WAITS:
            trouble = "unbound"
        elif kind.provisioner == STATIC:
            trouble = "static"
        elif node and not self.nodes(node):
            trouble = "node gone"
        elif not node and self._uses(name) > 1:
            trouble = "shared"
        if kind is None or trouble:
            return ClaimTrouble(claim.metadata.name, claim.spec.storage_class_name, trouble or "unbound", node)
        return Provisioned(kind, node)

    def _uses(self, claim: str) -> int:
        """How many live pods use a claim: several would all have to run on the node of the first."""
        if self._users is None:
            live = (pod for pod in self.objects.pods if pod.status.phase not in FINISHED)
            self._users = Counter(name for pod in live if pod.spec.volumes for name in claims_of(pod))
        return self._users[claim]


def claims_of(pod: Pod) -> Iterator[str]:
    """The claims of a pod, by namespace/name."""
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}"


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node selected for the claim's volume; empty: none."""
    return claim.metadata.annotations.get(SELECTED_NODE, "")
