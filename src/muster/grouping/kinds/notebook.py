"""Notebook: one PodGroup, with the class of what people build interactively."""

from muster.grouping.gangs import one_leaf
from muster.grouping.types import BUILD, GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<notebook>-<uid>`."""
    return one_leaf(request.owner, priority_class=BUILD)
