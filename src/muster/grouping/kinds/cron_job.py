"""CronJob: every run is a Job, and has a PodGroup of its own."""

from muster.grouping.gangs import BATCH_MINIMUM, minimum_annotation, one_leaf
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<job>-<uid of the Job>`."""
    run = request.owners[0] if request.owners else request.owner
    minimum = minimum_annotation(run) or minimum_annotation(request.owner)
    return one_leaf(run) if minimum is None else one_leaf(run, minimum, BATCH_MINIMUM)
