"""What the files around a pod tell about it: a pod that would never be scheduled is said so (N4)."""

import re
from collections.abc import Iterator

from muster.api import names
from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.rules.membership import Stray, gang_of, leaf_of
from muster.rules.podgroup import outline
from muster.rules.problem import Problem, listed


def judge(pod: Pod, around: Objects) -> Iterator[Problem]:
    """Every warning about a pod."""
    yield from _task_priority(pod)
    gang = gang_of(pod)
    group = next((group for group in around.pod_groups if key(group.metadata) == gang), None)
    if gang is None:
        return
    if group is not None:
        yield from _joins(pod, group)
    elif around.pod_groups:
        yield Problem(
            f"metadata.annotations[{names.POD_GROUP}]",
            f"podgroup `{gang}` does not exist: the pod will never be scheduled",
            hint=f"known: {listed(key(group.metadata) for group in around.pod_groups)}",
            severity="warning",
            rule="N4",
        )


def _joins(pod: Pod, group: PodGroup) -> Iterator[Problem]:
    places = outline(group.spec).places
    leaves = {place.name for place in places if not place.children}
    joined = leaf_of(pod, leaves, {place.name for place in places if place.children})
    if isinstance(joined, Stray):
        yield Problem(
            f"metadata.labels[{names.SUBGROUP}]",
            f"{joined.says}: the pod will never be scheduled",
            hint=f"leaves of `{key(group.metadata)}`: {listed(leaves - {''})}",
            severity="warning",
            rule="N4",
        )


def _task_priority(pod: Pod) -> Iterator[Problem]:
    value = pod.metadata.labels.get(names.TASK_PRIORITY, "0")
    if not re.fullmatch(r"-?\d{1,9}", value):
        yield Problem(
            f"metadata.labels[{names.TASK_PRIORITY}]",
            f"`{value[:60]}` is not a whole number and counts as 0",
            hint="higher goes first",
            severity="warning",
            rule="M4",
        )
