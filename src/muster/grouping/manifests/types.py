"""What grouping says of objects in files, or of a cluster that is only read."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.grouping.types import Minimum, Ungrouped


class Workload(Struct, frozen=True, order=True):
    """What a user created: a manifest, or a pod without owners."""

    namespace: str
    name: str
    kind: str
    api_version: str

    def __str__(self) -> str:
        return f"{self.kind} `{self.namespace}/{self.name}`"


class PlannedGang(Struct, frozen=True):
    """A PodGroup that grouping gives to pods, and why."""

    pod_group: PodGroup
    rule: str  # the kind whose rule chose it
    workload: Workload
    minimums: tuple[Minimum, ...]
    pods: Mapping[str, int]  # by leaf, how many; "": the PodGroup is one leaf
    is_existing: bool = False  # the PodGroup is among the objects that were given
    has_all_pods: bool = False  # none exists yet, and those that its workload will have are made here

    @property
    def key(self) -> str:
        """`namespace/name` of the PodGroup."""
        return key(self.pod_group.metadata)


class UngroupedPods(Struct, frozen=True):
    """Pods of one workload that get no PodGroup, for one reason."""

    workload: Workload
    pods: tuple[str, ...]  # `namespace/name`
    why: Ungrouped


class ExpandedWorkload(Struct, frozen=True):
    """A manifest, and how many pods it will have beside those that exist."""

    workload: Workload
    where: str  # file and document
    schedulers: Mapping[str, int] = {}  # future pods by the scheduler that they name; "": they name none
    has_controller: bool = True  # False: muster does not make the pods of this kind

    @property
    def pods(self) -> int:
        """How many pods it will have."""
        return sum(self.schedulers.values())


class GroupedObjects(Struct, frozen=True, eq=False):
    """Objects with the pods and PodGroups that their workloads will have, and how they came about."""

    objects: Objects
    gangs: tuple[PlannedGang, ...] = ()  # by namespace and name
    ungrouped: tuple[UngroupedPods, ...] = ()
    expanded: tuple[ExpandedWorkload, ...] = ()
    notes: tuple[UngroupedPods, ...] = ()  # pods that are grouped, but not by all of their owners
    others: Mapping[str, int] = {}  # `Kind (apiVersion)` -> how many objects of kinds that have no pods here
    parts: tuple[dict[str, Any], ...] = ()  # PodCliqueSets with their groups, cliques and gangs, existing or to come
