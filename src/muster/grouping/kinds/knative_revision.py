"""Knative Revision: its replicas are one gang, as many of them needed as it never scales below.

Service and Configuration are wrappers above: two Revisions of a Service serve side by side while traffic moves.
"""

from muster.grouping.annotations import stated_number
from muster.grouping.gangs import ANY_POD, one_leaf
from muster.grouping.types import INFERENCE, GangTree, GroupingRequest, Ungrouped

MIN_SCALE = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")  # annotations, newer one first


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<revision>-<uid>`; a Revision that may scale to zero needs one pod."""
    annotations = request.owner.metadata.annotations
    name = next((name for name in MIN_SCALE if annotations.get(name)), "")
    minimum = None if annotations.get(name, "0") == "0" else stated_number(annotations, name, request.owner)
    if isinstance(minimum, Ungrouped):
        return minimum
    source = ANY_POD if minimum is None else f"annotation {name}"
    return one_leaf(request.owner, minimum or 1, source, INFERENCE)
