"""Kubernetes does not check the version in an owner reference: pods may name any, and any number of them."""

import asyncio

from muster.api.resources import JOBS
from muster.kube.cluster import Raw
from tests.support.live.faults import Faulty
from tests.support.live.grouping import GroupingWorld


def naming(number: int) -> Raw:
    return {"apiVersion": f"batch/v{number}", "kind": "Job", "name": "x", "uid": f"u-{number}", "controller": True}


async def test_versions_that_do_not_exist_are_not_all_watched_for_ever() -> None:
    world = GroupingWorld()
    for number in range(100, 200):
        world.pod(f"a-{number}", ownerReferences=[naming(number)])
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.settle()
        watches = live.grouper.assigner.owners.watches
        assert len(watches) <= 4
        assert len(asyncio.all_tasks()) < 100
        before = cluster.log.count("list jobs")
        await asyncio.sleep(1.0)
        assert cluster.log.count("list jobs") - before <= 20


async def test_versions_that_do_not_exist_hide_no_version_that_does() -> None:
    world = GroupingWorld()
    for number in range(100, 150):
        world.pod(f"a-{number}", ownerReferences=[naming(number)])
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("train-0")["spec"]["minMember"] == 2)
        for number in range(150, 180):
            world.pod(f"b-{number}", ownerReferences=[naming(number)])
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        world.update(JOBS, "train", {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "3"}}})
        await live.until(lambda: world.group_of("train-0")["spec"]["minMember"] == 3)
