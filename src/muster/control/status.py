"""What people and programs are told after a cycle: statuses, conditions, annotations and events (E1-E3).

Only what differs from what is stored is written; a write that fails is left to the next cycle.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from datetime import datetime
from typing import Any

from muster.api.core import Pod
from muster.api.meta import Condition
from muster.api.moment import stamp
from muster.api.objects import key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.shape import encode
from muster.cluster.mirror import resource_of
from muster.cluster.store import ApiError, Cluster, Raw, Resource
from muster.control.apply import Fence
from muster.model.snapshot import Snapshot
from muster.planning.decision import GangPlan, Plan
from muster.reporting.conditions import pod_conditions
from muster.reporting.explain import helps, sentence
from muster.reporting.marks import stale_marks
from muster.reporting.outcome import Outcome, outcomes
from muster.reporting.status import pod_group_status, queue_statuses

EVENTS = Resource("", "v1", "events", "Event")
AGAIN_SECONDS = 300.0  # the same event about the same gang is not told more often


class Teller:
    """Writes what a plan means to the objects it is about."""

    def __init__(self, cluster: Cluster, fence: Fence, at_once: int = 16) -> None:
        self.cluster, self.fence = cluster, fence
        self._slots = asyncio.Semaphore(at_once)
        self._told: dict[tuple[str, str], float] = {}
        self._said: dict[str, tuple[str, Condition]] = {}  # of pods, by key: their uid and what was last written

    async def tell(self, snapshot: Snapshot, plan: Plan, now: datetime) -> list[str]:
        """Everything that has changed; failures in sentences."""
        found = outcomes(snapshot, plan)
        groups = {gang.key: gang.source for gang in snapshot.gangs}
        uids = {key(pod.metadata): pod.metadata.uid for pod in snapshot.objects.pods}
        self._said = {pod: said for pod, said in self._said.items() if uids.get(pod) == said[0]}
        self._told = {about: at for about, at in self._told.items() if now.timestamp() - at < AGAIN_SECONDS}
        work: list[Awaitable[str]] = []
        for gang, outcome in found.items():
            work += self._gang(outcome, groups[gang], uids, now)
        work += self._queues(snapshot, plan, now)
        return [failure for failure in await asyncio.gather(*work) if failure]

    def _gang(
        self, outcome: Outcome, group: PodGroup, uids: Mapping[str, str], now: datetime
    ) -> Iterator[Awaitable[str]]:
        meta, resource = group.metadata, resource_of(PodGroup)
        marks = stale_marks(outcome, group, now)
        if marks:
            yield self._patch(resource, meta.namespace, meta.name, {"metadata": {"annotations": marks}})
        status = pod_group_status(outcome, group, now)
        if status != group.status:
            yield self._status(resource, meta.namespace, meta.name, encode(status))
        for pod, condition in pod_conditions(outcome, group).items():
            if self._said.get(pod) != (uids[pod], condition):
                yield self._pod(pod, uids[pod], condition, now)
        yield from self._event(outcome.found, group, now)

    def _queues(self, snapshot: Snapshot, plan: Plan, now: datetime) -> Iterator[Awaitable[str]]:
        stored = {queue.metadata.name: queue for queue in snapshot.objects.queues}
        for name, status in queue_statuses(snapshot, plan, now).items():
            if name in stored and stored[name].status != status:
                yield self._status(resource_of(Queue), "", name, encode(status))

    def _event(self, found: GangPlan, group: PodGroup, now: datetime) -> Iterator[Awaitable[str]]:
        """One event for each reason, not more often than every few minutes."""
        for refusal in found.refusals:
            again = (found.gang.key, refusal.reason)
            if again not in self._told:
                self._told[again] = now.timestamp()
                message = "; ".join([sentence(refusal), *helps(refusal)])
                yield self._create(_event(group, refusal.reason, message, now), again)

    async def _pod(self, pod: str, uid: str, condition: Condition, now: datetime) -> str:
        """A pod that was deleted and came back under its name has heard nothing yet."""
        namespace, _, name = pod.partition("/")
        raw = encode(condition) | {"lastTransitionTime": stamp(now)}
        failure = await self._write(
            self.cluster.patch,
            resource_of(Pod),
            namespace,
            name,
            {"metadata": {"uid": uid}, "status": {"conditions": [raw]}},
            "application/strategic-merge-patch+json",
            "status",
        )
        if not failure and self.fence.leading:
            self._said[pod] = uid, condition
        return failure

    async def _status(self, resource: Resource, namespace: str, name: str, status: Raw) -> str:
        """The whole status: what it does not say any more must go."""
        try:
            stored = await self.cluster.get(resource, namespace, name)
        except ApiError as error:
            return "" if error.status == 404 else f"{namespace}/{name}: {error.message}"
        return await self._write(self.cluster.replace, resource, {**stored, "status": status}, "status")

    async def _patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        return await self._write(self.cluster.patch, resource, namespace, name, patch)

    async def _create(self, event: Raw, about: tuple[str, str]) -> str:
        failure = await self._write(self.cluster.create, EVENTS, event)
        if failure or not self.fence.leading:
            self._told.pop(about, None)
        return failure

    async def _write(self, how: Any, resource: Resource, *what: Any) -> str:
        async with self._slots:
            if not self.fence.leading:
                return ""
            try:
                await how(resource, *what)
            except ApiError as error:
                return "" if error.status in (404, 409) else f"{resource.plural}: {error.message}"
        return ""


def _event(group: PodGroup, reason: str, message: str, now: datetime) -> Raw:
    meta = group.metadata
    about = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }
    at = stamp(now.replace(microsecond=0))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta.name}.", "namespace": meta.namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message[:1024],
        "type": "Warning",
        "source": {"component": "muster"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
