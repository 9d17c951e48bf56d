"""CronJob: every run is a Job, and has a PodGroup of its own."""

from muster.grouping.annotations import BATCH_MINIMUM, batch_minimum
from muster.grouping.gangs import one_leaf
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<job>-<uid of the Job>`."""
    run = request.owners[0] if request.owners else request.owner
    minimum = batch_minimum(run) or batch_minimum(request.owner)
    if isinstance(minimum, Ungrouped):
        return minimum
    return one_leaf(run) if minimum is None else one_leaf(run, minimum, BATCH_MINIMUM)
