"""Pods whose PodGroup another grouper chose, such as KAI's podgrouper beside this one: they are left alone, and say so.

KAI's podgrouper acts on pods of its own scheduler's name, which are ours where `schedulerNames` lists that name as
well. It calls PodGroups `pg-<owner>-<uid>`, and writes its name on a pod again wherever another one stands: two
groupers that disagree would write for ever. Hand-written PodGroups are what their users want, and nothing is said.
"""

import re
from collections.abc import Callable

from muster.api import names
from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.grouping.types import Ungrouped

GENERATED_NAME = re.compile(r"pg-.+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-.+)?")  # with the uid of an owner


def chosen_by_another(meta: ObjectMeta, pod_group: Callable[[str], PodGroup | None]) -> Ungrouped | None:
    """Why a pod of ours is left alone; None: no other grouper chose its PodGroup, as far as the cache knows."""
    notes = meta.annotations
    name = notes.get(names.POD_GROUP)
    if not name:
        return None
    if names.GROUPED_BY in notes:  # we chose one: it was changed to one that is not ours
        group = pod_group(f"{meta.namespace or names.DEFAULT_NAMESPACE}/{name}")
        is_anothers = group is not None and names.GROUPED_BY not in group.metadata.annotations
    else:
        is_anothers = GENERATED_NAME.fullmatch(name) is not None
    return _left_alone(name) if is_anothers else None


def _left_alone(name: str) -> Ungrouped:
    return Ungrouped(
        "GroupedByAnother",
        f"the pod names podgroup `{name}`, which another controller chose: muster leaves the pod in it",
        "one grouper is enough: take the scheduler name of the pod from KAI's podgrouper, or from `schedulerNames`; "
        f"to let muster group the pod, remove its annotation `{names.POD_GROUP}`",
    )
