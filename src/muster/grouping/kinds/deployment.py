"""Deployment: replicas serve independently of each other, so each pod has a PodGroup of its own."""

from muster.grouping.gangs import one_for_each_pod
from muster.grouping.types import INFERENCE, GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<pod>-<uid of the pod>`."""
    return one_for_each_pod(request, request.pod.metadata.uid, INFERENCE)
