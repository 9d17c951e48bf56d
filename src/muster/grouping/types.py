"""What grouping reads and returns: a pod and its owners in, a PodGroup and the pod's leaf out.

Rule 1: `GangTree` is what a kind says of its tree; `group` adds what is the same for all kinds. Rule 2: the leaf of a
pod depends on the pod and its owners alone, never on other pods.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from muster.api.meta import ObjectMeta, OwnerReference, Wire
from muster.api.podgroup import SubGroup, TopologyConstraint

Raw = dict[str, Any]
TRAIN, BUILD, INFERENCE = "train", "build", "inference"  # default PriorityClasses; used where they exist


class WorkloadPodSpec(Wire, frozen=True):
    """What grouping reads of the spec of a pod."""

    scheduler_name: str = ""
    priority_class_name: str = ""
    node_name: str = ""


class WorkloadPodStatus(Wire, frozen=True):
    """What grouping reads of the status of a pod."""

    phase: str = ""


class WorkloadPod(Wire, frozen=True):
    """A pod, as much of it as grouping reads."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadPodSpec = WorkloadPodSpec()
    status: WorkloadPodStatus = WorkloadPodStatus()

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, for better or worse."""
        return self.status.phase in ("Succeeded", "Failed")


class Owner(Struct, frozen=True, dict=True):
    """An object on the way from a pod to the workload that a user created.

    Its `__dict__` holds what was computed of it, such as its tree: an Owner never changes.
    """

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: Raw = {}  # plain values, not validated: `fields` reads them
    is_finished: bool = False  # its status says that it completed or failed

    @property
    def group(self) -> str:
        """The API group; empty: core."""
        return self.api_version.rpartition("/")[0]

    @property
    def reference(self) -> OwnerReference:
        """How a PodGroup names it as its owner."""
        return OwnerReference(self.api_version, self.kind, self.metadata.name, self.metadata.uid)


class Minimum(Struct, frozen=True):
    """One minimum of the tree, and where it comes from."""

    group: str  # SubGroup; empty: the PodGroup
    value: int
    source: str  # a path of the owner, an annotation, or a rule in words


class GangTree(Struct, frozen=True, kw_only=True):
    """The tree that a kind gives a workload, and the place of one pod in it."""

    name: str  # of the PodGroup
    owner: OwnerReference | None  # of the PodGroup: it is deleted with it; None: it goes when it has no pods
    leaf: str = ""  # of the pod; empty: the PodGroup is one leaf
    min_member: int | None = None
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    constraint: TopologyConstraint | None = None  # None: from the annotations of the owner
    late: frozenset[str] = frozenset()  # leaves whose pods come after others run: without pods, they do not count
    spare: frozenset[str] = frozenset()  # leaves that are there only while they have pods
    priority_class: str = TRAIN  # of the kind, where neither owner nor pod names one
    minimums: tuple[Minimum, ...] = ()


class Ungrouped(Struct, frozen=True):
    """Why a pod gets no PodGroup: a stable word, a sentence and a way out."""

    reason: str
    message: str
    hint: str


class GroupingRequest(Struct, frozen=True):
    """What the rule of a kind reads."""

    pod: WorkloadPod
    owner: Owner  # whose kind chose the rule; for a pod without owners, the pod itself
    owners: tuple[Owner, ...]  # all that were read, from the pod upwards


Rule = Callable[[GroupingRequest], GangTree | Ungrouped]
