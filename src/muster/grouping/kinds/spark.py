"""Spark: a driver that must run, and executors that join it as they fit.

The pods tell by labels, with or without an operator: the driver creates the executors and owns them. Executors of a
driver outside of the cluster have no owner at all.
"""

from msgspec.structs import replace

from muster.grouping.gangs import gang_of_tree, remembered_tree
from muster.grouping.kinds import default
from muster.grouping.naming import sub_group_name
from muster.grouping.tree import Part
from muster.grouping.types import GangTree, GroupingRequest, Ungrouped, WorkloadPod

APP_NAME, APP_SELECTOR, ROLE = "spark-app-name", "spark-app-selector", "spark-role"  # labels
DRIVER, EXECUTOR = "driver", "executor"


def is_spark(pod: WorkloadPod) -> bool:
    """Whether Spark made the pod, by its labels."""
    labels = pod.metadata.labels
    return bool(labels.get(APP_NAME) and labels.get(APP_SELECTOR))


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """Named by the application's selector; what is no driver is an executor."""
    if not is_spark(request.pod):
        return default.group(request)
    labels = request.pod.metadata.labels
    role = DRIVER if labels.get(ROLE) == DRIVER else EXECUTOR
    parts = (
        Part(name=DRIVER, need=1, source="one driver an application"),
        Part(name=EXECUTOR, need=1, source="executors join one by one", is_needed=False),
    )
    tree = remembered_tree(request.owner, "spark", parts)
    gang = gang_of_tree(request.owner, tree, (role,), sub_group_name(labels[APP_SELECTOR]))
    is_alone = isinstance(gang, GangTree) and role == EXECUTOR and not request.owners
    return replace(gang, owner=None) if is_alone else gang
