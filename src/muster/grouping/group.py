"""The PodGroup of a pod: the rule of its workload's kind, and what is the same for all kinds."""

from collections.abc import Collection

from msgspec import Struct

from muster.api.podgroup import PodGroup
from muster.grouping.owners import OwnerChain
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped, WorkloadPod


class Assignment(Struct, frozen=True):
    """The gang and the leaf of one pod, and which kind's rule says so."""

    rule: str
    gang: GangTree
    request: GroupingRequest
    notes: tuple[Ungrouped, ...] = ()


def assign(pod: WorkloadPod, chain: OwnerChain) -> Assignment | Ungrouped:
    """Which PodGroup and leaf a pod joins; depends on the pod and its owners alone."""
    raise NotImplementedError


def build_pod_group(
    assignment: Assignment, present: Collection[str] = (), priority_classes: Collection[str] = ()
) -> PodGroup:
    """The PodGroup that a pod joins, as muster applies it. `present`: leaves of the gang that have pods."""
    raise NotImplementedError
