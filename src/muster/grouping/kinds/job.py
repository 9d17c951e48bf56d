"""Job: its pods work independently of each other, unless an annotation says how many must start together."""

from muster.grouping.gangs import BATCH_MINIMUM, minimum_annotation, one_for_each_pod, one_leaf
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<pod>-<uid of the Job>` for each pod; with `batch-min-member`, one for the Job."""
    minimum = minimum_annotation(request.owner)
    if minimum is not None:
        return one_leaf(request.owner, minimum, BATCH_MINIMUM)
    return one_for_each_pod(request, request.owner.metadata.uid)
