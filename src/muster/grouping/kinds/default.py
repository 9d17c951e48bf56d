"""The default rule: one PodGroup for all pods of an owner, in which one pod may start alone."""

from muster.grouping.gangs import one_for_each_pod, one_leaf
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<owner>-<uid>`; a pod without owners has a PodGroup of its own."""
    if (request.owner.group, request.owner.kind) == ("", "Pod") and not request.owners:
        return one_for_each_pod(request, request.pod.metadata.uid)
    return one_leaf(request.owner)
