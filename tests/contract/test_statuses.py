"""Statuses as muster writes them: one request that leaves nothing of the status before."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

import muster
from muster.api.resources import EVENTS, POD_GROUPS, PODS, QUEUES, Resource
from muster.kube.cluster import Cluster, Raw
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.scheduler.status import status_writer
from muster.scheduler.status.status_updates import CycleOutcome
from muster.scheduler.status.status_writer import AGAIN_SECONDS, StatusWriter
from tests.contract.given import kind_of, pod_group


class Leads:
    leading = True
    seconds_left = math.inf
    term = 0


def waiting_pod(namespace: str, name: str, group: str) -> Raw:
    meta = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": group}}
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "schedulerName": f"of-{namespace}",
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    return {**kind_of(PODS), "metadata": meta, "spec": spec}


async def nothing() -> None:
    return


async def write_statuses(
    cluster: Cluster, namespace: str, queue: str, meanwhile: Callable[[], Awaitable[None]] = nothing
) -> list[bool]:
    """Write the statuses of the objects of one test; returns whether writes failed."""
    raw = [*(await cluster.list(POD_GROUPS, namespace)).items, *(await cluster.list(PODS, namespace)).items]
    raw += [await cluster.get(QUEUES, "", queue)]
    now = datetime.now(UTC)
    snapshot, failed = take(muster.objects(raw), now, (f"of-{namespace}",)), list[bool]()
    writer = StatusWriter(cluster, Leads(), lambda: 0.0, again=failed.append)
    writer.submit(CycleOutcome(1, snapshot, plan(snapshot), now, 0))
    await meanwhile()
    task = asyncio.create_task(writer.run())
    async with asyncio.timeout(20):
        while not writer.reported_cycle and not task.done():
            await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.wait([task])
    return failed


async def status(cluster: Cluster, resource: Resource, namespace: str, name: str) -> Any:
    return (await cluster.get(resource, namespace, name))["status"]


async def test_fields_that_no_longer_apply_are_removed(
    cluster: Cluster, namespace: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E2: counts, amounts, levels and conditions of deleted pods are removed, at any depth."""
    monkeypatch.setattr(status_writer, "EMPTIED_SECONDS", 0.0)
    queue = f"q-{unique}"
    await cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": queue}, "spec": {}})
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, queue=queue))
    await cluster.create(PODS, waiting_pod(namespace, "p", "g"))
    assert await write_statuses(cluster, namespace, queue) == [False]
    before = await status(cluster, POD_GROUPS, namespace, "g")
    assert (before["pending"], before["resourcesStatus"]["requested"]["nvidia.com/gpu"]) == (1, "1")
    assert (await status(cluster, QUEUES, "", queue))["requested"]["nvidia.com/gpu"] == "1"
    other = {
        "type": "Custom",
        "status": "True",
        "reason": "Other",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [*before["conditions"], other]}}
    await cluster.patch(POD_GROUPS, namespace, "g", patch, subresource="status")
    await cluster.delete(PODS, namespace, "p", grace_seconds=0)
    assert await write_statuses(cluster, namespace, queue) == [False]
    after = await status(cluster, POD_GROUPS, namespace, "g")
    assert "pending" not in after
    assert "nvidia.com/gpu" not in after.get("resourcesStatus", {}).get("requested", {})
    assert after["levels"][0].get("pending", 0) == 0
    assert [condition["type"] for condition in after["conditions"]] == ["Scheduled", "Custom"], (
        "conditions of other writers stay"
    )
    assert "nvidia.com/gpu" not in (await status(cluster, QUEUES, "", queue)).get("requested", {})


async def test_a_new_object_of_the_same_name_is_not_written(cluster: Cluster, namespace: str, unique: str) -> None:
    """The uid is a precondition of every status update: a recreated PodGroup has its own status."""
    queue = f"q-{unique}"
    await cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": queue}, "spec": {}})
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, queue=queue))

    async def returns() -> None:
        await cluster.delete(POD_GROUPS, namespace, "g")
        await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2, queue=queue))

    assert await write_statuses(cluster, namespace, queue, returns) == [True]
    assert "status" not in await cluster.get(POD_GROUPS, namespace, "g")


# events and pods ----------------------------------------------------------------------------------------------------


class StatusWriterBench:
    """A status writer with a manual clock that gets the objects of a namespace cycle by cycle."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace, self.seconds, self.number = cluster, namespace, 0.0, 0
        self.failed: list[bool] = []
        self.status_writer = StatusWriter(cluster, Leads(), lambda: self.seconds, again=self.failed.append)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.status_writer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def run_cycle(self) -> None:
        raw = [item for kind in (POD_GROUPS, PODS) for item in (await self.cluster.list(kind, self.namespace)).items]
        now = datetime.now(UTC)
        snapshot, self.number = take(muster.objects(raw), now, (f"of-{self.namespace}",)), self.number + 1
        self.status_writer.submit(CycleOutcome(self.number, snapshot, plan(snapshot), now, 0))
        async with asyncio.timeout(20):
            while self.status_writer.reported_cycle < self.number:
                await asyncio.sleep(0.005)

    async def events(self) -> dict[tuple[str, str, str], Raw]:
        listed = (await self.cluster.list(EVENTS, self.namespace)).items
        return {(raw["involvedObject"]["kind"], raw["involvedObject"]["name"], raw["reason"]): raw for raw in listed}

    async def condition(self, pod: str) -> Raw | None:
        conditions = (await self.cluster.get(PODS, self.namespace, pod))["status"].get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)


async def test_a_repeated_event_increments_its_count(cluster: Cluster, namespace: str) -> None:
    """E1: one Event object until it expires; then another one."""
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1))
    bench, about = StatusWriterBench(cluster, namespace), ("PodGroup", "g", "NotEnoughPods")
    async with bench.running():
        await bench.run_cycle()
        first = (await bench.events())[about]
        bench.seconds += AGAIN_SECONDS
        await bench.run_cycle()
        again = await bench.events()
        assert list(again) == [about]
        assert (again[about]["metadata"]["uid"], again[about]["count"]) == (first["metadata"]["uid"], 2)
        await cluster.delete(EVENTS, namespace, first["metadata"]["name"])
        bench.seconds += AGAIN_SECONDS
        await bench.run_cycle()
    last = (await bench.events())[about]
    assert (first["count"], last["count"]) == (1, 1)
    assert last["metadata"]["uid"] != first["metadata"]["uid"]
    assert bench.failed == [False] * 3


async def test_strays_and_orphans_are_reported_on_the_pod_and_the_podgroup(cluster: Cluster, namespace: str) -> None:
    """N4: an event and `PodScheduled=False` on the pod, an event and a condition on its PodGroup."""
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", subGroups=[{"name": "w", "minMember": 1}]))
    lost = waiting_pod(namespace, "stray", "g")
    lost["metadata"]["labels"] = {"kai.scheduler/subgroup-name": "missing"}
    for item in (lost, waiting_pod(namespace, "orphan", "late")):
        await cluster.create(PODS, item)
    bench = StatusWriterBench(cluster, namespace)
    async with bench.running():
        await bench.run_cycle()
    assert {
        ("Pod", "stray", "UnknownSubGroup"),
        ("PodGroup", "g", "StrayPods"),
        ("Pod", "orphan", "NoSuchPodGroup"),
    } <= {*await bench.events()}
    for name, reason in (("stray", "UnknownSubGroup"), ("orphan", "NoSuchPodGroup")):
        condition = await bench.condition(name)
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", reason)
    conditions = (await status(cluster, POD_GROUPS, namespace, "g"))["conditions"]
    assert "StrayPods" in {item["type"] for item in conditions}
    assert bench.failed == [False]


async def test_the_condition_of_an_orphan_is_removed_when_its_gang_exists(cluster: Cluster, namespace: str) -> None:
    """S4: muster's condition goes, those of other writers stay."""
    await cluster.create(PODS, waiting_pod(namespace, "p", "late"))
    bench = StatusWriterBench(cluster, namespace)
    async with bench.running():
        await bench.run_cycle()
        assert await bench.condition("p") is not None
        other = {"status": {"conditions": [{"type": "Custom", "status": "True"}]}}
        await cluster.patch(PODS, namespace, "p", other, "application/strategic-merge-patch+json", "status")
        await cluster.create(POD_GROUPS, pod_group(namespace, "late", minMember=1, markUnschedulable=False))
        await bench.run_cycle()
    left = (await status(cluster, PODS, namespace, "p"))["conditions"]
    assert [condition["type"] for condition in left] == ["Custom"]
    assert bench.failed == [False, False]
