"""Job: its pods work independently of each other, unless an annotation says how many must start together."""

from muster.grouping.annotations import BATCH_MINIMUM, batch_minimum
from muster.grouping.gangs import one_for_each_pod, one_leaf
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<pod>-<uid of the Job>` for each pod; with `batch-min-member`, one for the Job."""
    minimum = batch_minimum(request.owner)
    if isinstance(minimum, Ungrouped):
        return minimum
    if minimum is not None:
        return one_leaf(request.owner, minimum, BATCH_MINIMUM)
    return one_for_each_pod(request, request.owner.metadata.uid)
