"""Groups a pod while it is being created, so that it needs no write later: annotations and label at admission.

Rule 1: never in the way: what is not known soon is left to the loop, which groups the pod once it exists. Rule 2: the
loop comes to the same result: it keeps a name that admission chose, as a pod has no name and uid before it is stored.
"""

import asyncio
from collections.abc import Callable
from uuid import uuid4

from msgspec.structs import replace

from muster.api import names
from muster.api.resources import PODS
from muster.controllers.grouper.assigner import Assigner
from muster.controllers.grouper.gang_record import mark_of
from muster.controllers.grouper.members import GroupedPod
from muster.grouping.gangs import admission_name
from muster.grouping.group import Assignment
from muster.grouping.pod_reader import read_pod
from muster.kube.cluster import Raw
from muster.kube.pod_mark import PodMark

WAIT_SECONDS = 1.0  # for owners that the watches do not have yet


def random_suffix() -> str:
    """Makes the name of a PodGroup for one pod unique."""
    return uuid4().hex[:10]


class PodAdmission:
    """Answers with what a new pod is to carry."""

    def __init__(self, assigner: Assigner, suffix: Callable[[], str] = random_suffix) -> None:
        self._assigner, self._suffix = assigner, suffix

    async def mark(self, raw: Raw, namespace: str) -> PodMark | None:
        """Annotations and labels of a pod that is being created in this namespace; None: nothing is added."""
        pod = read_pod(raw)
        pod = replace(pod, metadata=replace(pod.metadata, namespace=namespace or names.DEFAULT_NAMESPACE))
        if not self._assigner.is_grouped(pod):
            return None
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while (placing := self._assigner.place(pod)[0]) is None:
                    await self._assigner.changed()
        except TimeoutError:
            return None
        return self._mark(GroupedPod(pod, placing)) if isinstance(placing, Assignment) else None

    def _mark(self, member: GroupedPod) -> PodMark:
        mark, placing = mark_of(member), member.placing
        assert isinstance(placing, Assignment)
        if placing.gang.owner is None or placing.gang.owner.kind != PODS.kind:
            return mark
        is_named = bool(member.pod.metadata.annotations.get(names.POD_GROUP))
        name = placing.gang.name if is_named else admission_name(member.pod.metadata, self._suffix())
        return replace(mark, annotations={**mark.annotations, names.POD_GROUP: name})
