"""Which pods the grouper groups: ours, without a PodGroup that a user or another controller chose."""

from collections.abc import Collection

from muster.api import names
from muster.api.meta import ObjectMeta
from muster.grouping.types import WorkloadPod
from muster.validation.pods.membership import is_skipped


def is_grouped(pod: WorkloadPod, schedulers: Collection[str], *, is_from_file: bool = False) -> bool:
    """Whether a pod is grouped.

    Ours are pods that name one of the schedulers; in files also pods that name none (N6). A pod that ended, or is about
    to, keeps the group it has and gets no new one. Pods of a PodGang get the PodGroup that is made of that.
    """
    is_ours = pod.spec.scheduler_name in schedulers or (is_from_file and not pod.spec.scheduler_name)
    return (
        is_ours
        and not is_skipped(pod.metadata)
        and not has_foreign_group(pod.metadata)
        and names.POD_GANG not in pod.metadata.labels
        and (has_our_group(pod) or not _is_over(pod))
    )


def has_foreign_group(pod: ObjectMeta) -> bool:
    """Whether the pod joined a PodGroup that the grouper did not choose: hand-written PodGroups keep working."""
    annotations = pod.annotations
    return bool(annotations.get(names.POD_GROUP)) and names.GROUPED_BY not in annotations


def has_our_group(pod: WorkloadPod) -> bool:
    """Whether the grouper chose the PodGroup of the pod."""
    annotations = pod.metadata.annotations
    return bool(annotations.get(names.POD_GROUP)) and names.GROUPED_BY in annotations


def _is_over(pod: WorkloadPod) -> bool:
    return pod.is_finished or pod.metadata.deletion_timestamp is not None
