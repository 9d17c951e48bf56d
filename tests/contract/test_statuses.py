"""Statuses as muster writes them: one request, after which nothing is left of what was said before."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import muster
from muster.cluster.kinds import POD_GROUPS, PODS, QUEUES
from muster.cluster.store import Cluster, Raw, Resource
from muster.control.status import News, Teller
from muster.model.snapshot import take
from muster.planning.cycle import plan
from tests.contract.given import kind_of, pod_group


class Leads:
    leading = True
    seconds_left = math.inf


def waiting_pod(namespace: str, name: str, group: str) -> Raw:
    meta = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": group}}
    asks = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "none", "resources": asks}]}
    return {**kind_of(PODS), "metadata": meta, "spec": spec}


async def nothing() -> None:
    return


async def told(
    cluster: Cluster, namespace: str, queue: str, meanwhile: Callable[[], Awaitable[None]] = nothing
) -> list[bool]:
    """What muster says about the objects of one test; whether something was not taken."""
    raw = [*(await cluster.list(POD_GROUPS, namespace)).items, *(await cluster.list(PODS, namespace)).items]
    raw += [await cluster.get(QUEUES, "", queue)]
    now = datetime.now(UTC)
    snapshot, failed = take(muster.objects(raw), now), list[bool]()
    teller = Teller(cluster, Leads(), lambda: 0.0, again=failed.append)
    teller.tell(News(1, snapshot, plan(snapshot), now))
    await meanwhile()
    task = asyncio.create_task(teller.run())
    async with asyncio.timeout(20):
        while not teller.told and not task.done():
            await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.wait([task])
    return failed


async def status(cluster: Cluster, resource: Resource, namespace: str, name: str) -> Any:
    return (await cluster.get(resource, namespace, name))["status"]


async def test_what_is_no_longer_said_is_gone(cluster: Cluster, namespace: str, unique: str) -> None:
    """E2: counts, amounts, levels and conditions of pods that are gone do not linger, at any depth."""
    queue = f"q-{unique}"
    await cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": queue}, "spec": {}})
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, queue=queue))
    await cluster.create(PODS, waiting_pod(namespace, "p", "g"))
    assert await told(cluster, namespace, queue) == [False]
    before = await status(cluster, POD_GROUPS, namespace, "g")
    assert (before["pending"], before["resourcesStatus"]["requested"]["nvidia.com/gpu"]) == (1, "1")
    assert (await status(cluster, QUEUES, "", queue))["requested"]["nvidia.com/gpu"] == "1"
    other = {
        "type": "Mine",
        "status": "True",
        "reason": "Other",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [*before["conditions"], other]}}
    await cluster.patch(POD_GROUPS, namespace, "g", patch, subresource="status")
    await cluster.delete(PODS, namespace, "p", grace_seconds=0)
    assert await told(cluster, namespace, queue) == [False]
    after = await status(cluster, POD_GROUPS, namespace, "g")
    assert "pending" not in after
    assert "nvidia.com/gpu" not in after.get("resourcesStatus", {}).get("requested", {})
    assert after["levels"][0].get("pending", 0) == 0
    assert [one["type"] for one in after["conditions"]] == ["Scheduled", "Mine"], "those of others stay"
    assert "nvidia.com/gpu" not in (await status(cluster, QUEUES, "", queue)).get("requested", {})


async def test_another_object_of_that_name_is_left_alone(cluster: Cluster, namespace: str, unique: str) -> None:
    """Every letter names the uid: a PodGroup that came back under its name has its own story."""
    queue = f"q-{unique}"
    await cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": queue}, "spec": {}})
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, queue=queue))

    async def returns() -> None:
        await cluster.delete(POD_GROUPS, namespace, "g")
        await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2, queue=queue))

    assert await told(cluster, namespace, queue, returns) == [True]
    assert "status" not in await cluster.get(POD_GROUPS, namespace, "g")
