"""Gangs of pods whose owners cannot be read for a while, or are gone: nothing that runs loses its PodGroup."""

import asyncio

import pytest

from muster.api.meta import OwnerReference
from muster.api.resources import CRON_JOBS, JOBS, PODS, Resource
from muster.controllers.grouper import grouper
from muster.controllers.grouper.owner_watch import OwnerWatch
from muster.grouping.types import Owner
from muster.kube.cluster import Raw
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import GroupingWorld, reference

MINIMUM = "kai.scheduler/batch-min-member"
EMPTY_SECONDS = 1


async def grouped_world() -> GroupingWorld:
    """A Job with a pod that was grouped by a grouper that does not run any more."""
    world = GroupingWorld(empty_seconds=EMPTY_SECONDS)
    owner = world.create(JOBS, "train", annotations={MINIMUM: "1"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["train-0"][0])
        await live.settle()
    return world


@pytest.mark.parametrize("fault", ["broken", "forbidden"])
async def test_running_pods_keep_their_podgroup_after_a_restart_that_cannot_list_their_owners(fault: Fault) -> None:
    world = await grouped_world()
    groups, membership = world.groups(), world.membership()
    cluster = Faulty(world.memory, lambda call: fault if call.what == "jobs" else None)
    async with world.grouping(cluster):
        await asyncio.sleep(EMPTY_SECONDS + 0.5)
    assert world.groups() == groups
    assert world.membership() == membership


async def test_running_pods_keep_their_podgroup_after_a_restart_with_a_workload_that_became_invalid() -> None:
    world = await grouped_world()
    groups = world.groups()
    world.update(JOBS, "train", {"metadata": {"annotations": {MINIMUM: "many"}}})
    async with world.grouping() as live:
        await asyncio.sleep(EMPTY_SECONDS + 0.5)
        assert world.groups() == groups
        world.store.delete(PODS, "default", "train-0", grace_seconds=0)
        await live.until(lambda: not world.groups())


async def test_a_pod_that_keeps_its_podgroup_says_why_its_owner_does_not_count() -> None:
    """The PodGroup does not follow its workload any more: that must not be silent."""
    world = await grouped_world()
    group = world.membership()["train-0"][0]
    async with world.grouping() as live:
        await live.settle()
        world.update(JOBS, "train", {"metadata": {"annotations": {MINIMUM: "many"}}})
        await live.until(lambda: "InvalidAnnotation" in world.events("train-0"))
    said = world.events("train-0")["InvalidAnnotation"]
    assert said.startswith(f"the pod keeps podgroup `default/{group}` as it was: annotation `{MINIMUM}` of Job `train`")
    assert "is not grouped" not in said
    assert "hint: a whole number from 1 up" in said
    assert "conditions" not in world.get_pod("train-0").get("status", {}), "it has its PodGroup, and may be scheduled"


@pytest.mark.parametrize(("fault", "reason"), [("broken", "OwnerNotRead"), ("forbidden", "OwnerForbidden")])
async def test_a_pod_that_keeps_its_podgroup_says_that_its_owner_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str
) -> None:
    monkeypatch.setattr(grouper, "UNREAD_SECONDS", 0.1)
    world = await grouped_world()
    group = world.membership()["train-0"][0]
    cluster = Faulty(world.memory, lambda call: fault if call.what.startswith("jobs") else None)
    async with world.grouping(cluster) as live:
        await live.until(lambda: reason in world.events("train-0"))
    said = world.events("train-0")[reason]
    assert said.startswith(f"the pod keeps podgroup `default/{group}` as it was: ")
    assert "the pod is" not in said
    assert "conditions" not in world.get_pod("train-0").get("status", {})


async def test_a_deleted_workload_makes_no_noise() -> None:
    """Its pods are about to be deleted: thousands of events would say so."""
    world = await grouped_world()
    async with world.grouping() as live:
        await live.settle()
        world.update(PODS, "train-0", {"metadata": {"finalizers": ["example.com/hold"]}})
        world.store.delete(JOBS, "default", "train")
        await live.until(lambda: _has_lost_owner(live.grouper.assigner.members.get("default/train-0")))
        await live.settle()
    assert not world.events("train-0")


async def test_an_owner_that_was_read_before_the_watch_had_it_is_missed_when_it_is_deleted() -> None:
    """A read stands in for a watch that is behind, and not for one that has seen the deletion."""

    def script(call: Call) -> Fault | None:
        return "late" if call.verb == "event" and call.what.startswith("jobs train") else None

    world = GroupingWorld()
    other = world.create(JOBS, "other")
    cluster = Faulty(world.memory, script)
    async with world.grouping(cluster) as live:
        world.pod("other-0", other)
        await live.until(lambda: world.membership()["other-0"][0])
        owner = world.create(JOBS, "train", annotations={MINIMUM: "1"})
        world.pod("train-0", owner, finalizers=["example.com/hold"])
        await live.until(lambda: world.membership()["train-0"][0])
        assert "get jobs train" in cluster.log
        watches = live.grouper.assigner.owners.watches.values()
        await live.until(lambda: any(("default", "train") in watch._owners for watch in watches))
        await live.until(lambda: live.grouper.is_idle)
        world.store.delete(JOBS, "default", "train")
        await live.until(lambda: _has_lost_owner(live.grouper.assigner.members.get("default/train-0")))


def _has_lost_owner(member: object) -> bool:
    return getattr(member, "has_lost_owner", False)


async def test_a_kind_without_namespaces_may_own_pods() -> None:
    world = GroupingWorld()
    fleets = Resource("example.com", "v1", "fleets", "Fleet", namespaced=False)
    watch = OwnerWatch(world.memory, fleets, lambda _: None, lambda _: None, lambda: 0.0)
    watch.put({"metadata": {"name": "north", "uid": "uid-1"}})
    owner = watch.find(OwnerReference("example.com/v1", "Fleet", "north", "uid-1"), "team-a")
    assert isinstance(owner, Owner)
    assert owner.metadata.uid == "uid-1"


async def test_the_podgroup_of_a_finished_run_of_a_cron_job_is_deleted_after_a_while() -> None:
    """The CronJob itself never finishes; the run does, and it may be kept in the history for long."""
    world = GroupingWorld(empty_seconds=EMPTY_SECONDS)
    cron: Raw = world.create(CRON_JOBS, "report", {"schedule": "0 0 * * *", "jobTemplate": {"spec": {}}})
    job = world.create(JOBS, "report-1", ownerReferences=[reference(cron)])
    world.pod("report-1-a", job)
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["report-1-a"][0])
        world.finish("report-1-a")
        await asyncio.sleep(EMPTY_SECONDS + 0.3)
        assert world.groups(), "its Job has not finished yet"
        done = [{"type": "Complete", "status": "True"}]
        world.store.patch(JOBS, "default", "report-1", {"status": {"conditions": done}}, subresource="status")
        await live.until(lambda: not world.groups())
