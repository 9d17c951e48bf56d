"""The pod grouper on an embedded cluster: what it writes, how often, and what it leaves alone."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from muster.api.podgroup import PodGroup
from muster.api.resources import (
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from muster.controllers.grouper import owner_cache
from muster.grouping.group import Assignment, build_pod_group
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability.metrics import Metrics
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import GroupingWorld, reference

LWS = "leaderworkerset.sigs.k8s.io"


def lws(world: GroupingWorld, size: int = 3, **spec: object) -> Raw:
    whole = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": {}}, **spec}
    return world.create(LEADER_WORKER_SETS, "serve", whole)


def leader(world: GroupingWorld, owner: Raw, group: int = 0) -> Raw:
    labels = {f"{LWS}/name": "serve", f"{LWS}/group-index": str(group), f"{LWS}/worker-index": "0"}
    return world.pod(f"serve-{group}", owner, labels=labels)


def worker(world: GroupingWorld, owner: Raw, index: int, group: int = 0) -> Raw:
    labels = {f"{LWS}/name": "serve", f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(index)}
    return world.pod(f"serve-{group}-{index}", owner, labels=labels)


# what is written ----------------------------------------------------------------------------------------------------


async def test_the_pods_of_a_workload_join_its_podgroup_with_one_write_each() -> None:
    world = GroupingWorld()
    owner = lws(world)
    stateful_set = world.create(STATEFUL_SETS, "serve", ownerReferences=[reference(owner)])
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        first = leader(world, stateful_set)
        workers = world.create(STATEFUL_SETS, "serve-0", ownerReferences=[reference(first)])
        for index in (1, 2):
            worker(world, workers, index)
        await live.until(lambda: all(world.membership()[name][0] for name in ("serve-0", "serve-0-1", "serve-0-2")))
        await live.settle()
    name = f"pg-serve-{owner['metadata']['uid']}-group-0"
    assert world.membership() == {
        "serve-0": (name, "leader"),
        "serve-0-1": (name, "workers"),
        "serve-0-2": (name, "workers"),
    }
    group = world.groups()[name]
    assert group["spec"]["queue"] == "default"
    assert {part["name"]: part["minMember"] for part in group["spec"]["subGroups"]} == {"leader": 1, "workers": 2}
    assert group["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    writes = Counter(line.split()[1] for line in cluster.writes())
    assert writes["pods"] == 3
    assert writes["podgroups"] == 1


async def test_what_is_grouped_already_is_not_written_again_after_a_restart() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    for index in range(3):
        world.pod(f"train-{index}", owner)
    async with world.grouping() as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.settle()
    version, again = world.store.version, Faulty(world.memory)
    async with world.grouping(again) as live:
        await asyncio.sleep(0.1)
        await live.settle()
    assert again.writes() == ()
    assert world.store.version == version


async def test_owners_are_watched_and_not_read_pod_by_pod() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        for index in range(50):
            world.pod(f"train-{index}", owner)
        await live.until(lambda: all(name for name, _ in world.membership().values()))
    reads = [line for line in cluster.log if line.startswith("get")]
    assert reads == []


async def test_a_pod_whose_owner_the_watch_does_not_have_yet_waits_for_one_read() -> None:
    """A watch may be behind: the owner is read once, however many pods it has."""
    world = GroupingWorld()
    world.create(JOBS, "other")
    slow: list[str] = []

    def script(call: Call) -> Fault | None:
        if call.verb == "event" and call.what.startswith("jobs train"):
            slow.append(call.what)
            return "late"
        return None

    cluster = Faulty(world.memory, script)
    async with world.grouping(cluster) as live:
        world.pod("other-0", world.store.get(JOBS, "default", "other"))
        await live.until(lambda: world.membership()["other-0"][0])
        owner = world.create(JOBS, "train")
        for index in range(20):
            world.pod(f"train-{index}", owner)
        await live.until(lambda: all(name for name, _ in world.membership().values()))
    assert len([line for line in cluster.log if line.startswith("get jobs train")]) <= 1


# what changes later -------------------------------------------------------------------------------------------------


async def test_a_scaled_owner_changes_its_podgroup_without_a_new_pod() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("train-0")["spec"]["minMember"] == 2)
        world.update(JOBS, "train", {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "5"}}})
        await live.until(lambda: world.group_of("train-0")["spec"]["minMember"] == 5)


async def test_a_status_of_an_owner_costs_nothing() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("train-0", owner)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: world.membership()["train-0"][0])
        await live.settle()
        before = len(cluster.writes())
        for active in range(20):
            world.store.patch(JOBS, "default", "train", {"status": {"active": active}}, subresource="status")
        await live.settle()
    assert len(cluster.writes()) == before


async def test_what_a_person_changed_stays() -> None:
    """Queue and minimum were edited; the grouper goes on with the rest of the PodGroup."""
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"}, labels={"team": "a"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("train-0")["spec"]["minMember"] == 2)
        name = world.group_of("train-0")["metadata"]["name"]
        world.update(POD_GROUPS, name, {"spec": {"minMember": 3, "queue": "mine"}})
        patch = {"annotations": {"kai.scheduler/batch-min-member": "7"}, "labels": {"team": "b"}}
        world.update(JOBS, "train", {"metadata": patch})
        await live.until(lambda: world.groups()[name]["metadata"]["labels"].get("team") == "b")
        await live.settle()
        spec = world.groups()[name]["spec"]
        assert (spec["minMember"], spec["queue"]) == (3, "mine")
    async with world.grouping() as live:
        await live.settle()
        spec = world.groups()[name]["spec"]
        assert (spec["minMember"], spec["queue"]) == (3, "mine")


async def test_a_deleted_podgroup_of_running_pods_comes_back() -> None:
    world = GroupingWorld()
    world.pod("alone")
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["alone"][0])
        name = world.membership()["alone"][0]
        await live.settle()
        world.store.delete(POD_GROUPS, "default", name)
        await live.until(lambda: name in world.groups())


async def test_a_default_class_counts_from_when_it_exists() -> None:
    world = GroupingWorld()
    world.pod("alone")
    async with world.grouping() as live:
        await live.until(lambda: "priorityClassName" not in world.group_of("alone")["spec"])
        world.create(PRIORITY_CLASSES, "train")
        await live.until(lambda: world.group_of("alone")["spec"].get("priorityClassName") == "train")


async def test_a_deleted_owner_takes_its_podgroup_along() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "1"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("train-0"))
        world.store.delete(JOBS, "default", "train")
        await live.until(lambda: not world.groups())
        await live.settle()
        assert not world.groups()


async def test_a_podgroup_without_pods_is_deleted_after_a_while_and_not_before() -> None:
    world = GroupingWorld(empty_seconds=1)
    owner = lws(world)
    leader(world, owner, 0)
    leader(world, owner, 1)
    async with world.grouping() as live:
        await live.until(lambda: len(world.groups()) == 2 and all(name for name, _ in world.membership().values()))
        world.store.delete(PODS, "default", "serve-1", grace_seconds=0)
        await asyncio.sleep(0.3)
        assert len(world.groups()) == 2
        await live.until(lambda: len(world.groups()) == 1)
        assert world.membership()["serve-0"][0] in world.groups()


async def test_a_podgroup_of_a_workload_that_has_finished_is_deleted_after_a_while() -> None:
    world = GroupingWorld(empty_seconds=1)
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "1"})
    world.pod("train-0", owner)
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["train-0"][0])
        world.finish("train-0")
        await asyncio.sleep(1.3)
        assert world.groups(), "its Job has not finished yet"
        done = [{"type": "Complete", "status": "True"}]
        world.store.patch(JOBS, "default", "train", {"status": {"conditions": done}}, subresource="status")
        await live.until(lambda: not world.groups())
        await live.settle()
        assert not world.groups()


# one leader -----------------------------------------------------------------------------------------------------------


class Flag:
    """A leadership that the test gives and takes."""

    leading = False
    term = 0

    @property
    def seconds_left(self) -> float:
        return 60.0 if self.leading else 0.0


async def test_only_a_leader_writes_and_it_writes_what_it_missed() -> None:
    """I9: a replica that stands by assigns pods, and says and writes nothing."""
    world, leadership = GroupingWorld(), Flag()
    world.pod("alone")
    world.pod("lost", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gone", "uid": "2"}})
    cluster = Faulty(world.memory)
    async with world.grouping(cluster, leadership) as live:
        await live.settle()
        assert cluster.writes() == ()
        leadership.leading, leadership.term = True, 1
        live.grouper.lead()
        await live.until(lambda: world.membership()["alone"][0])
        await live.until(lambda: "OwnerNotFound" in world.events("lost"))


async def test_a_write_that_was_decided_in_an_ended_term_is_not_sent() -> None:
    """I9: leadership ends between the pods and their PodGroup."""
    world, leadership = GroupingWorld(), Flag()
    leadership.leading, leadership.term = True, 1
    world.pod("alone")

    class Ending(Faulty):
        async def patch(self, resource, *args, **kwargs):  # type: ignore[no-untyped-def]
            answer = await super().patch(resource, *args, **kwargs)
            leadership.leading = False
            return answer

    cluster = Ending(world.memory)
    async with world.grouping(cluster, leadership) as live:
        await live.until(lambda: world.membership()["alone"][0])
        await live.settle()
        assert [line.split()[1] for line in cluster.writes()] == ["pods"]
        leadership.leading, leadership.term = True, 2
        live.grouper.lead()
        await live.until(world.groups)


# what is left alone -------------------------------------------------------------------------------------------------


async def test_pods_of_other_schedulers_and_hand_written_groups_are_left_alone() -> None:
    world = GroupingWorld()
    owner = world.create(JOBS, "train")
    world.pod("foreign", scheduler="default-scheduler")
    world.pod("hand", annotations={"pod-group-name": "mine"})
    world.pod("owned", owner, annotations={"pod-group-name": "mine"})
    world.pod("skipped", annotations={"kai.scheduler/skip-podgrouper": "true"})
    world.pod("last")
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["last"][0])
        await live.settle()
    assert len(world.groups()) == 1
    assert {name: group for name, (group, _) in world.membership().items() if name != "last"} == {
        "foreign": "",
        "hand": "mine",
        "owned": "mine",
        "skipped": "",
    }


# what pods are told -------------------------------------------------------------------------------------------------


async def test_an_owner_that_is_not_listed_is_said_and_the_pod_is_grouped_by_the_last_one_that_is() -> None:
    world = GroupingWorld(owners=("replicasets.apps",))
    deployment = world.create(DEPLOYMENTS, "web")
    replica_set = world.create(REPLICA_SETS, "web-1", ownerReferences=[reference(deployment)])
    world.pod("web-1-a", replica_set)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: world.membership()["web-1-a"][0])
        await live.until(lambda: "OwnerNotListed" in world.events("web-1-a"))
    assert world.membership()["web-1-a"][0] == f"pg-web-1-{replica_set['metadata']['uid']}"
    assert "grouping.owners" in world.events("web-1-a")["OwnerNotListed"]
    assert not any("deployments" in line for line in cluster.log), "nothing is read that is not listed"


async def test_a_missing_right_is_said_and_mended_when_it_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.kube.cache.reflector.FIRST_SECONDS", 0.01)
    monkeypatch.setattr("muster.kube.cache.reflector.LONGEST_SECONDS", 0.05)
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("train-0", owner)
    world.pod("alone")
    may_read = False
    cluster = Faulty(world.memory, lambda call: "forbidden" if call.what == "jobs" and not may_read else None)
    async with world.grouping(cluster) as live:
        await live.until(lambda: "OwnerForbidden" in world.events("train-0"))
        await live.until(lambda: world.membership()["alone"][0])
        await live.until(lambda: world.group_of("train-0")["metadata"]["ownerReferences"][0]["kind"] == "Pod")
        may_read = True
        await live.until(lambda: world.group_of("train-0")["metadata"]["ownerReferences"][0]["kind"] == "Job")


async def test_a_missing_crd_a_missing_owner_and_another_uid_are_said_and_hold_up_no_other() -> None:
    world = GroupingWorld()
    job = world.create(JOBS, "train")
    unknown = {"apiVersion": "ray.io/v9", "kind": "RayCluster", "metadata": {"name": "r", "uid": "1"}}
    world.pod("no-crd", unknown)
    world.pod("no-owner", {**job, "metadata": {"name": "gone", "uid": "2"}})
    world.pod("other-uid", {**job, "metadata": {"name": "train", "uid": "3"}})
    two = [
        reference(job, controller=False),
        reference({**job, "metadata": {"name": "b", "uid": "4"}}, controller=False),
    ]
    world.pod("two-owners", ownerReferences=two)
    world.pod("well", job)
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["well"][0])
        for pod, reason in (
            ("no-crd", "OwnerKindMissing"),
            ("no-owner", "OwnerNotFound"),
            ("other-uid", "OwnerUidDiffers"),
            ("two-owners", "SeveralOwners"),
        ):
            await live.until(lambda pod=pod, reason=reason: reason in world.events(pod))  # type: ignore[misc]
        await live.settle()
        condition = world.get_pod("no-owner")["status"]["conditions"][-1]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "OwnerNotFound",
        )
        assert world.membership()["no-owner"] == world.membership()["other-uid"] == ("", "")


async def test_an_owner_that_appears_later_groups_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_cache, "DOUBTED_SECONDS", 3600.0)
    world = GroupingWorld()
    world.pod("early", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "uid": "uid-late"}})
    async with world.grouping() as live:
        await live.until(lambda: "OwnerNotFound" in world.events("early"))
        world.store._strategy._new_uid = lambda: "uid-late"
        world.create(JOBS, "train")
        await live.until(lambda: world.membership()["early"][0])


async def test_a_podgroup_that_is_refused_is_said_on_its_pods_and_others_go_on() -> None:
    world = GroupingWorld()
    bad = world.create(JOBS, "bad", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("bad-0", bad)
    world.pod("well")

    class Refusing(Faulty):
        async def patch(self, resource, namespace, name, patch, *args, **kwargs):  # type: ignore[no-untyped-def]
            if resource == POD_GROUPS and name.startswith("pg-bad"):
                raise ApiError(422, "Invalid", "admission webhook denied the request: no such thing")
            return await super().patch(resource, namespace, name, patch, *args, **kwargs)

    async with world.grouping(Refusing(world.memory)) as live:
        await live.until(lambda: world.membership()["well"][0])
        await live.until(lambda: "denied" in world.events("bad-0").get("PodGroupRefused", ""))
        await live.until(lambda: world.get_pod("bad-0")["status"]["conditions"][-1]["reason"] == "PodGroupRefused")


async def test_pods_that_come_after_a_refusal_say_it_too() -> None:
    """A Job makes its pods one after the other; a pod without an event would wait in silence."""
    world = GroupingWorld()
    bad = world.create(JOBS, "bad", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("bad-0", bad)
    metrics = Metrics()
    cluster = Faulty(world.memory, lambda call: "forbidden" if "pg-bad" in call.what else None)
    async with world.grouping(cluster, observer=metrics) as live:
        await live.until(lambda: "PodGroupRefused" in world.events("bad-0"))
        world.pod("bad-1", bad)
        await live.until(lambda: "PodGroupRefused" in world.events("bad-1"))
    refused = metrics.registry.get_sample_value("muster_grouping_failures_total", {"reason": "Refused"})
    assert refused == 1, "the PodGroup is the same"


async def test_every_metric_of_the_grouper_moves() -> None:
    world, metrics = GroupingWorld(), Metrics()
    bad = world.create(JOBS, "bad", annotations={"kai.scheduler/batch-min-member": "2"})
    world.pod("bad-0", bad)
    world.pod("well")
    world.pod("lost", {**bad, "metadata": {"name": "gone", "uid": "2"}})
    busy = Faulty(world.memory, lambda call: "busy" if "pg-bad" in call.what and not call.again else None)

    def sample(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"muster_{name}", labels)

    async with world.grouping(busy, observer=metrics) as live:
        await live.until(lambda: len(world.groups()) == 2)
        await live.until(lambda: "OwnerNotFound" in world.events("lost"))
        await live.until(lambda: sample("grouping_writes_total", resource="podgroups") == 2)

    assert sample("grouping_duration_seconds_count") == 2
    assert sample("grouping_writes_total", resource="podgroups") == 2
    assert sample("grouping_writes_total", resource="pods") == 2
    assert sample("grouping_failures_total", reason="TooManyRequests") == 1
    assert sample("ungrouped_pods_total", reason="OwnerNotFound") == 1
    assert sample("grouping_reports_dropped_total") == 0


async def test_a_job_of_5000_pods_is_grouped_pod_by_pod_and_not_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """One write a pod; the PodGroup is built a bounded number of times, however many pods come one after the other."""
    built: list[str] = []

    def counted(assignment: Assignment, *args: Any) -> PodGroup:
        built.append(assignment.gang.name)
        return build_pod_group(assignment, *args)

    monkeypatch.setattr("muster.controllers.grouper.grouper.build_pod_group", counted)
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "5000"})
    small = world.create(JOBS, "small", annotations={"kai.scheduler/batch-min-member": "1"})
    for index in range(5000):
        world.pod(f"train-{index}", owner)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(cluster.writes, 60)
        world.pod("small-0", small)
        await live.until(lambda: world.group_of("small-0"), 60)
        assert len(cluster.log) < 5000, "a small gang does not wait for the large one"
        await live.until(lambda: len(cluster.log) > 5000 and live.grouper.is_settled, 120)
    assert all(name for name, _ in world.membership().values())
    assert len([line for line in cluster.writes() if " pods " in line]) == 5001
    assert len(built) < 200
