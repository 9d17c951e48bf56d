"""The writes of the grouper: PodGroups by server-side apply, pods by one patch each, in a term of leadership (I9).

Rule 1: at most one write a gang and one a pod; none for a pod that gets its mark with its binding, and none for what is
stored already. Rule 2: every write may be repeated: an apply sets the same fields again, and a patch names the uid of
its pod.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from msgspec import Struct

from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_GROUPS, PODS
from muster.controllers.grouper.apply_configuration import configuration, contested_fields
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.kube.pod_mark import PodMark

MANAGER = "muster-grouper"
MOST_CONFLICTS = 5  # rounds in which other managers' fields are left out
REFUSED = (400, 403, 422)  # the API server, or a webhook, rejects the object itself


class LeadershipLost(Exception):
    """Another replica may write: this one stops."""


class AppliedPodGroup(Struct, frozen=True):
    """A PodGroup that the API server stored."""

    version: tuple[str, int]  # its uid and generation
    yielded: frozenset[str]  # fields that other managers keep


class RefusedPodGroup(Struct, frozen=True):
    """Why the API server does not take a PodGroup."""

    message: str


class GroupingWriter:
    """Writes, a bounded number at once."""

    def __init__(
        self, cluster: Cluster, leadership: Leadership, seconds: float, concurrency: int, written: Callable[[str], None]
    ) -> None:
        self._cluster, self.leadership, self.seconds = cluster, leadership, seconds
        self.slots = asyncio.Semaphore(concurrency)
        self.in_flight = 0  # requests
        self._written = written  # called with the kind of each write that was accepted

    async def apply(self, desired: PodGroup, yielded: frozenset[str], term: int) -> AppliedPodGroup | RefusedPodGroup:
        """Apply a PodGroup, without the fields that other managers keep. ApiError: try again later."""
        namespace, name = desired.metadata.namespace, desired.metadata.name
        for _ in range(MOST_CONFLICTS):
            try:
                async with self._writing(term):
                    stored = await self._cluster.patch(
                        POD_GROUPS,
                        namespace,
                        name,
                        configuration(desired, yielded),
                        "application/apply-patch+yaml",
                        field_manager=MANAGER,
                    )
            except ApiError as error:
                contested = contested_fields(error) - yielded
                if not contested and error.status in REFUSED:
                    return RefusedPodGroup(error.message)
                if not contested:
                    raise
                yielded |= contested
            else:
                self._written("podgroups")
                meta = stored["metadata"]
                return AppliedPodGroup((meta.get("uid", ""), meta.get("generation", 0)), yielded)
        raise ApiError(409, "Conflict", f"other managers took fields {MOST_CONFLICTS} times in a row")

    async def join(self, pod: ObjectMeta, mark: PodMark, term: int) -> bool:
        """Whether the pod carries the mark of its gang now; False: it is gone. ApiError: try again later."""
        body = {"metadata": {"uid": pod.uid, "annotations": mark.annotations, "labels": mark.labels}}
        try:
            async with self._writing(term):
                await self._cluster.patch(PODS, pod.namespace, pod.name, body, field_manager=MANAGER)
        except ApiError as error:
            if error.status == 404 or _is_other_uid(error):
                return False
            raise
        self._written("pods")
        return True

    async def delete(self, group: PodGroup, term: int) -> None:
        """Delete a PodGroup, if it is still this one."""
        meta = group.metadata
        try:
            async with self._writing(term):
                await self._cluster.delete(POD_GROUPS, meta.namespace, meta.name, uid=meta.uid)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _writing(self, term: int) -> "GroupingWrite":
        """Around one write: in a slot, in its term, and in time."""
        return GroupingWrite(self, term)


class GroupingWrite:
    """See `GroupingWriter._writing`. A class: a generator costs half as much again, for each pod."""

    def __init__(self, writer: GroupingWriter, term: int) -> None:
        self._writer, self._term = writer, term

    async def __aenter__(self) -> None:
        writer = self._writer
        await writer.slots.acquire()
        if not leads_in(writer.leadership, self._term):
            writer.slots.release()
            raise LeadershipLost
        writer.in_flight += 1
        self._timeout = within_leadership(writer.leadership, writer.seconds)
        self._timeout.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._timeout.__exit__(kind, error, traceback)
        finally:
            self._writer.in_flight -= 1
            self._writer.slots.release()


def _is_other_uid(error: ApiError) -> bool:
    """Whether the pod under this name is another one by now."""
    causes = error.details.get("causes")
    fields = [cause.get("field") for cause in causes or () if isinstance(cause, dict)]
    return error.status == 422 and "metadata.uid" in fields
