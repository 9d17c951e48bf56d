"""A CronJob on the embedded cluster: its schedule makes the Job, and the Job's pods become a gang that runs."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from muster.api import names
from muster.api.resources import CRON_JOBS, JOBS, POD_GROUPS, PODS
from muster.config.settings import PodGrouping
from muster.embedded.kubelet.clock import EPOCH
from muster.kube.cluster import Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from tests.support.live.objects import gpu_node
from tests.support.live.world import World

NOON = EPOCH + timedelta(hours=12)
MINIMUM = "kai.scheduler/batch-min-member"


def cron_job(schedule: str) -> Raw:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]}}
    job = {"parallelism": 2, "completions": 2, "template": template}
    run = {"metadata": {"annotations": {MINIMUM: "2"}}, "spec": job}
    return {"metadata": {"name": "report", "namespace": "default"}, "spec": {"schedule": schedule, "jobTemplate": run}}


def shifted_clock(start: datetime) -> Callable[[], datetime]:
    """A clock that shows `start` now, and goes on from there."""
    begun = time.monotonic()
    return lambda: start + timedelta(seconds=time.monotonic() - begun)


async def test_a_schedule_that_is_due_makes_a_gang_that_is_bound() -> None:
    """Half a second before noon nothing is there; at noon a Job is, its pods join one PodGroup, and all are bound."""
    world = World([gpu_node("a")])
    world.create(CRON_JOBS, cron_job("0 12 * * *"))
    store = world.memory.store
    async with world.running(grouping=PodGrouping()) as live:
        now = shifted_clock(NOON - timedelta(seconds=0.5))
        controllers = asyncio.create_task(ControllerRuntime(world.memory, now=now).run())
        await live.until(lambda: bool(store.list(JOBS).items), seconds=30)
        assert now() > NOON
        await live.until(lambda: len(world.seats()) == 2, seconds=30)
        controllers.cancel()
    (job,) = store.list(JOBS).items
    assert job["metadata"]["name"] == f"report-{int(NOON.timestamp()) // 60}"
    assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T12:00:00Z"
    (group,) = store.list(POD_GROUPS).items
    assert (group["spec"]["minMember"], group["metadata"]["annotations"][names.GROUPED_BY]) == (2, "CronJob")
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    joined = {raw["metadata"]["annotations"][names.POD_GROUP] for raw in store.list(PODS).items}
    assert joined == {group["metadata"]["name"]}


async def test_a_schedule_that_is_not_due_makes_nothing() -> None:
    """The same clock and cluster, and a time that comes half a day later."""
    world = World([gpu_node("a")])
    world.create(CRON_JOBS, cron_job("0 0 2 * *"))
    async with world.running(grouping=PodGrouping()) as live:
        now = shifted_clock(NOON - timedelta(seconds=0.2))
        runtime = ControllerRuntime(world.memory, now=now)
        controllers = asyncio.create_task(runtime.run())
        await live.until(lambda: now() > NOON + timedelta(seconds=0.3), seconds=30)
        assert runtime.is_idle
        controllers.cancel()
    assert not world.memory.store.list(JOBS).items
