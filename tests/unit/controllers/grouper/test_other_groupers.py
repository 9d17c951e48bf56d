"""Beside KAI's podgrouper: what it chose is left alone, and two groupers never write against each other for ever."""

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.api.meta import ObjectMeta
from muster.api.resources import POD_GROUPS, PODS, REPLICA_SETS
from muster.controllers.grouper.other_groupers import chosen_by_another
from muster.grouping.pod_reader import read_pod
from muster.kube.cluster import Raw
from tests.support.live.faults import Faulty
from tests.support.live.grouping import GroupingWorld, reference

UID = "6f1c2b34-5d6e-4f70-8a91-b2c3d4e5f607"


def kai_group(world: GroupingWorld, name: str, owner: Raw) -> Raw:
    """A PodGroup as KAI's podgrouper creates it: owned by the workload, without a word about who made it."""
    spec = {"minMember": 1, "queue": "default", "priorityClassName": "train"}
    return world.create(POD_GROUPS, name, spec, ownerReferences=[reference(owner, controller=False)])


async def test_pods_of_the_other_scheduler_are_left_alone() -> None:
    world = GroupingWorld()
    owner = world.create(REPLICA_SETS, "web")
    world.pod("theirs", owner, scheduler="kai-scheduler")
    world.pod("theirs-grouped", owner, scheduler="kai-scheduler", annotations={"pod-group-name": f"pg-web-{UID}"})
    world.pod("ours", owner)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: world.membership()["ours"][0])
        await live.settle()
    assert not any("theirs" in line for line in cluster.writes())
    assert not world.events("theirs")
    assert not world.events("theirs-grouped")


async def test_a_pod_of_ours_that_names_a_podgroup_of_the_other_grouper_keeps_it_and_says_so() -> None:
    world = GroupingWorld()
    owner = world.create(REPLICA_SETS, "web")
    kai_group(world, f"pg-web-{UID}", owner)
    world.pod("a", owner, annotations={"pod-group-name": f"pg-web-{UID}"})
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: "GroupedByAnother" in world.events("a"))
        await live.settle()
    assert world.membership()["a"] == (f"pg-web-{UID}", "")
    assert "schedulerNames" in world.events("a")["GroupedByAnother"]
    assert [*world.groups()] == [f"pg-web-{UID}"]
    assert not any("podgroups" in line for line in cluster.writes())


async def test_hand_written_podgroups_are_not_talked_about() -> None:
    world = GroupingWorld()
    world.pod("a", annotations={"pod-group-name": "pg-mine"})
    world.pod("b")
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["b"][0])
        await live.settle()
    assert not world.events("a")


@asynccontextmanager
async def podgrouper(world: GroupingWorld, name: str) -> Any:
    """KAI's podgrouper in short: names its PodGroup on every pod that names another one."""

    async def run() -> None:
        while True:
            for raw in world.store.list(PODS).items:
                if (raw["metadata"].get("annotations") or {}).get("pod-group-name") != name:
                    world.update(PODS, raw["metadata"]["name"], {"metadata": {"annotations": {"pod-group-name": name}}})
            await asyncio.sleep(0.001)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_two_groupers_that_disagree_do_not_write_for_ever() -> None:
    """The last word is the other's, as it writes whatever it reads; muster says so and stops."""
    world = GroupingWorld(empty_seconds=0.1)
    owner = world.create(REPLICA_SETS, "web")
    for number in range(5):
        world.pod(f"web-{number}", owner)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.settle()
        kai_group(world, f"pg-other-{UID}", owner)
        async with podgrouper(world, f"pg-other-{UID}"):
            await live.until(lambda: all("GroupedByAnother" in world.events(f"web-{i}") for i in range(5)))
            await live.until(lambda: [*world.groups()] == [f"pg-other-{UID}"])
            await live.settle()
            before = len(cluster.writes())
            await asyncio.sleep(0.2)
            assert len(cluster.writes()) == before
    assert {name for name, _ in world.membership().values()} == {f"pg-other-{UID}"}
    assert len([line for line in cluster.writes() if line.startswith("patch pods")]) <= 25


@pytest.mark.parametrize(
    ("name", "is_generated"),
    [
        (f"pg-web-{UID}", True),
        (f"pg-serve-{UID}-group-0", True),
        ("pg-web", False),
        (UID, False),
        ("", False),
        (f"pg--{UID[:-1]}", False),
    ],
)
def test_a_name_with_a_uid_was_generated(name: str, is_generated: bool) -> None:
    meta = ObjectMeta(name="a", annotations={"pod-group-name": name})
    assert (chosen_by_another(meta, lambda _: None) is not None) == is_generated


@pytest.mark.parametrize("notes", [None, {}, {"pod-group-name": 7}, {"pod-group-name": None}])
def test_annotations_of_any_form_are_read(notes: Any) -> None:
    pod = read_pod({"metadata": {"name": "a", "annotations": notes}})
    assert chosen_by_another(pod.metadata, lambda _: None) is None
