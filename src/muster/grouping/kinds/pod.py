"""Pod: one without owners has a PodGroup of its own; pods of Spark and pods that own pods share one."""

from muster.grouping.kinds import default, spark
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<pod>-<uid>`, or the PodGroup of a Spark application."""
    return spark.group(request) if spark.is_spark(request.pod) else default.group(request)
