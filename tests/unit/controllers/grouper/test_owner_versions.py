"""Kubernetes checks neither version nor name in an owner reference: pods may name any, and any number of them."""

import asyncio

import pytest

from muster.api.resources import JOBS, Resource
from muster.kube.client.paths import object_path
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


class RealPaths(Faulty):
    """Reads objects by their paths, as the client of an API server does."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        object_path(resource, namespace, name)
        return await super().get(resource, namespace, name)


@pytest.mark.parametrize("name", [".", "..", "a/b", "ä" * 300])
async def test_an_owner_with_a_name_that_no_object_can_have_is_missing(name: str) -> None:
    world = GroupingWorld()
    world.pod("a", ownerReferences=[{**naming(1), "name": name}])
    async with world.grouping(RealPaths(world.memory)) as live:
        await live.until(lambda: "OwnerNotFound" in world.events("a"))
