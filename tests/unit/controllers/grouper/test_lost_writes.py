"""What the grouper wrote is undone, refused or lost: it is written again, and nothing is remembered for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import JOBS, POD_GROUPS, PODS, REPLICA_SETS, Resource
from muster.controllers.grouper import gang_record
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import GroupingWorld

MARK = (names.POD_GROUP, names.GROUPED_BY)


def job(world: GroupingWorld) -> Raw:
    return world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})


async def test_a_pod_that_joined_later_is_marked_again_when_a_user_removes_its_mark() -> None:
    world = GroupingWorld()
    owner = job(world)
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["train-0"][0])
        await live.settle()
        world.pod("train-1", owner)
        await live.until(lambda: world.membership()["train-1"][0])
        await live.settle()
        world.update(PODS, "train-1", {"metadata": {"annotations": dict.fromkeys(MARK)}})
        await live.until(lambda: world.membership()["train-1"][0])


async def test_pods_that_came_and_went_are_not_remembered() -> None:
    """A ReplicaSet may replace its pods for months within one term of leadership."""
    world = GroupingWorld()
    owner = world.create(REPLICA_SETS, "serve")
    world.pod("stays", owner)
    async with world.grouping() as live:
        for index in range(20):
            world.pod(f"serve-{index}", owner)
            await live.until(lambda: world.membership().get(f"serve-{index}", ("", ""))[0])  # noqa: B023
            world.store.delete(PODS, "default", f"serve-{index}", grace_seconds=0)
        await live.until(lambda: len(live.grouper.assigner.members) == 1)
        await live.settle()
        assert [record.joined for record in live.grouper._records.values()] == [{}]


class LateAnswers(Faulty):
    """Does something between the first PodGroup that is stored and the answer to its apply."""

    def __init__(self, world: GroupingWorld, meanwhile: Callable[[], Any]) -> None:
        super().__init__(world.memory)
        self._world, self._todo = world, [meanwhile]

    async def patch(self, resource: Resource, *args: Any, **how: Any) -> Raw:
        raw = await super().patch(resource, *args, **how)
        if resource == POD_GROUPS and self._todo:
            self._todo.pop()()
            await self.seen_deletion()
        return raw

    async def seen_deletion(self) -> None:
        await self.live.until(lambda: any(record.deleted_uid for record in self.live.grouper._records.values()))

    live: Any


async def test_a_podgroup_that_is_deleted_before_its_apply_is_answered_comes_back() -> None:
    world = GroupingWorld()
    world.pod("train-0", job(world))
    cluster = LateAnswers(world, lambda: world.store.delete(POD_GROUPS, "default", next(iter(world.groups()))))
    async with world.grouping(cluster) as cluster.live:
        await cluster.live.until(lambda: cluster.log.count(f"patch podgroups {world.membership()['train-0'][0]}") == 2)
        await cluster.live.until(world.groups)


async def test_a_podgroup_that_no_watch_ever_showed_is_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was deleted while the watch was broken: the next list does not have it, and no event says so."""
    monkeypatch.setattr(gang_record, "CONFIRM_SECONDS", 0.3)
    monkeypatch.setattr("muster.controllers.grouper.grouper.CONFIRM_SECONDS", 0.3)
    world = GroupingWorld()
    deleted: list[str] = []

    def script(call: Call) -> Fault | None:
        kind, _, name = call.what.partition(" ")
        if (call.verb, kind) != ("event", "podgroups") or not name or deleted:
            return None
        deleted.append(name)
        world.store.delete(POD_GROUPS, "default", name)
        return "expired"

    async with world.grouping(Faulty(world.memory, script)) as live:
        await live.settle()
        world.pod("train-0", job(world))
        await live.until(lambda: deleted)
        await live.until(world.groups)


class ProtectedPods(Faulty):
    """A policy of the cluster forbids to change pods whose name begins with `fixed`."""

    async def patch(self, resource: Resource, namespace: str, name: str, *args: Any, **how: Any) -> Raw:
        if resource == PODS and name.startswith("fixed"):
            raise ApiError(403, "Forbidden", "a policy denies it")
        return await super().patch(resource, namespace, name, *args, **how)


async def test_pods_that_may_not_be_changed_hold_up_neither_the_others_nor_the_podgroup() -> None:
    world = GroupingWorld()
    owner = job(world)
    for index in range(12):
        world.pod(f"fixed-{index:02}", owner)
    world.pod("free", owner)
    async with world.grouping(ProtectedPods(world.memory)) as live:
        await live.until(lambda: "a policy denies it" in world.events("fixed-07").get("PodNotMarked", ""))
        await live.until(lambda: world.group_of("free"))


async def test_a_workload_with_large_annotations_is_grouped() -> None:
    """An object may have 256 KiB of them: with those that muster adds, its PodGroup would have more."""
    world = GroupingWorld()
    notes = "x" * 262_000
    world.pod("train-0", world.create(JOBS, "train", annotations={"notes": notes, names.BATCH_MIN_MEMBER: "2"}))
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("train-0"))
    assert world.group_of("train-0")["metadata"]["annotations"][names.BATCH_MIN_MEMBER] == "2"
