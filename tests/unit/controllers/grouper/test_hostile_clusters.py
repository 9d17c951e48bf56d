"""Clusters in which kinds come and go, watches are far behind, and pods change their owners."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from muster.api.resources import (
    DEFINITIONS,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from muster.controllers.grouper import gang_record
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Change, Cluster, Raw
from muster.validation.check import check, errors
from muster.workloads.operators.crds import operator_crds
from tests.support.live.faults import Faulty
from tests.support.live.grouping import GroupingWorld, reference

LWS = "leaderworkerset.sigs.k8s.io"
CRD = "leaderworkersets.leaderworkerset.x-k8s.io"
SECOND = 0.02  # of the grouper, where time is accelerated
BEHIND_SECONDS = 10 * SECOND


class Behind(Faulty):
    """Watches of some kinds show everything after a while, in order."""

    def __init__(self, cluster: Cluster, plurals: Collection[str], seconds: float = BEHIND_SECONDS) -> None:
        super().__init__(cluster)
        self._plurals, self._seconds = plurals, seconds

    async def _events(self, resource: Resource, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        if resource.plural not in self._plurals:
            async for change in changes:
                yield change
            return
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, Change]] = asyncio.Queue()

        async def pump() -> None:
            async for change in changes:
                queue.put_nowait((loop.time() + self._seconds, change))

        task = asyncio.create_task(pump())
        try:
            while True:
                due, change = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                yield change
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time runs fifty times as fast, for the grouper and its watches."""
    monkeypatch.setattr(gang_record, "GONE_SECONDS", SECOND)
    for module in ("gang_record", "grouper"):
        monkeypatch.setattr(f"muster.controllers.grouper.{module}.CONFIRM_SECONDS", 60 * SECOND)
    monkeypatch.setattr("muster.controllers.grouper.owner_cache.DOUBTED_SECONDS", 30 * SECOND)
    monkeypatch.setattr("muster.kube.cache.reflector.FIRST_SECONDS", SECOND)
    monkeypatch.setattr("muster.kube.cache.reflector.LONGEST_SECONDS", 10 * SECOND)


def lws_spec(size: int = 3, startup: str = "LeaderCreated") -> Raw:
    return {"replicas": 1, "startupPolicy": startup, "leaderWorkerTemplate": {"size": size}}


def lws_pod(world: GroupingWorld, name: str, worker: int, owner: Raw) -> Raw:
    labels = {f"{LWS}/name": "serve", f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(worker)}
    return world.pod(name, owner, labels=labels)


def leader_and_workers(world: GroupingWorld, owner: Raw, workers: int = 2) -> None:
    leaders = world.create(STATEFUL_SETS, "serve", ownerReferences=[reference(owner)])
    leader = lws_pod(world, "serve-0", 0, leaders)
    followers = world.create(STATEFUL_SETS, "serve-0", ownerReferences=[reference(leader)])
    for worker in range(1, workers + 1):
        lws_pod(world, f"serve-0-{worker}", worker, followers)


def minimums(group: Raw) -> dict[str, int]:
    return {part["name"]: part["minMember"] for part in group["spec"].get("subGroups", ())}


# kinds that come and go ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_fast")
async def test_a_kind_that_vanishes_and_comes_back_is_grouped_again() -> None:
    """Its CRD takes its objects along, and with them the pods; other kinds go on meanwhile."""
    world = GroupingWorld(empty_seconds=10 * SECOND)
    leader_and_workers(world, world.create(LEADER_WORKER_SETS, "serve", lws_spec()))
    async with world.grouping() as live:
        for _ in range(3):
            await live.until(lambda: minimums(world.group_of("serve-0-2")) == {"leader": 1, "workers": 2})
            world.store.delete(DEFINITIONS, "", CRD)
            await live.until(lambda: not world.groups())
            job = world.create(JOBS, "train")
            world.pod("train-0", job)
            await live.until(lambda: world.membership()["train-0"][0])
            for name in [*world.membership()]:
                world.store.delete(PODS, "default", name, grace_seconds=0)
            world.store.delete(JOBS, "default", "train")
            definition = next(raw for raw in operator_crds() if raw["metadata"]["name"] == CRD)
            world.store.create(DEFINITIONS, definition)
            leader_and_workers(world, world.create(LEADER_WORKER_SETS, "serve", lws_spec()))
        await live.until(lambda: minimums(world.group_of("serve-0-2")) == {"leader": 1, "workers": 2})
        await live.settle()


@pytest.mark.usefixtures("_fast")
async def test_owners_are_followed_after_their_kind_came_back() -> None:
    """The watch of the kind is one of the old objects: what changes on the new ones must be seen all the same."""
    world = GroupingWorld(empty_seconds=10 * SECOND)
    leader_and_workers(world, world.create(LEADER_WORKER_SETS, "serve", lws_spec()))
    async with world.grouping() as live:
        await live.until(lambda: world.groups() and all(name for name, _ in world.membership().values()))
        world.store.delete(DEFINITIONS, "", CRD)
        await live.until(lambda: not world.groups())
        definition = next(raw for raw in operator_crds() if raw["metadata"]["name"] == CRD)
        world.store.create(DEFINITIONS, definition)
        owner = world.create(LEADER_WORKER_SETS, "serve", lws_spec())
        leader_and_workers(world, owner)
        await live.until(lambda: minimums(world.group_of("serve-0-2")) == {"leader": 1, "workers": 2})
        world.update(LEADER_WORKER_SETS, "serve", {"spec": {"leaderWorkerTemplate": {"size": 5}}})
        await live.until(lambda: minimums(world.group_of("serve-0-2")) == {"leader": 1, "workers": 4})


# watches that are behind --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_fast")
@pytest.mark.parametrize(
    "plurals",
    [("podgroups",), ("pods",), ("leaderworkersets", "statefulsets"), ("pods", "podgroups", "leaderworkersets")],
)
async def test_a_watch_that_is_ten_seconds_behind_costs_no_further_write(plurals: tuple[str, ...]) -> None:
    """What the grouper wrote itself it does not write again because it cannot see it yet."""
    world = GroupingWorld()
    cluster = Behind(world.memory, plurals)
    async with world.grouping(cluster) as live:
        leader_and_workers(world, world.create(LEADER_WORKER_SETS, "serve", lws_spec()))
        await live.until(lambda: minimums(world.group_of("serve-0-2")) == {"leader": 1, "workers": 2})
        await asyncio.sleep(2 * BEHIND_SECONDS)
        await live.settle()
    written = sorted(cluster.writes())
    assert len([line for line in written if " pods " in f" {line} "]) == 3
    assert len([line for line in written if "podgroups" in line]) <= 2  # pods that come later may add their leaf


@pytest.mark.usefixtures("_fast")
async def test_a_deleted_workload_stays_deleted_though_its_watch_is_ten_seconds_behind() -> None:
    """A PodGroup may come back while its owner seems to exist; each time the garbage collector deletes it again."""
    world = GroupingWorld()
    leader_and_workers(world, world.create(LEADER_WORKER_SETS, "serve", lws_spec()))
    cluster = Behind(world.memory, ("leaderworkersets", "statefulsets", "pods"))
    async with world.grouping(cluster) as live:
        await live.until(lambda: world.groups() and all(name for name, _ in world.membership().values()))
        await live.settle()
        before = len(cluster.writes())
        world.store.delete(LEADER_WORKER_SETS, "default", "serve")
        await asyncio.sleep(2 * BEHIND_SECONDS)
        await live.settle()
        assert not world.membership()
        groups = world.groups()
        assert len(cluster.writes()) - before <= 2
    assert not groups or all(raw["metadata"].get("ownerReferences") for raw in groups.values())


# pods that move -----------------------------------------------------------------------------------------------------


async def test_a_pod_that_another_owner_adopts_moves_to_its_gang() -> None:
    """ReplicaSets release and adopt pods by their labels."""
    world = GroupingWorld(empty_seconds=0.0)
    first, second = world.create(REPLICA_SETS, "a"), world.create(REPLICA_SETS, "b")
    world.pod("p", first)
    async with world.grouping() as live:
        await live.until(lambda: world.group_of("p")["metadata"]["name"].startswith("pg-a-"))
        for owner, name in ((second, "pg-b-"), (first, "pg-a-"), (second, "pg-b-")):
            world.update(PODS, "p", {"metadata": {"ownerReferences": [reference(owner)]}})
            await live.until(partial(_is_only_group, world, name))
        world.update(PODS, "p", {"metadata": {"ownerReferences": None}})
        await live.until(lambda: _is_only_group(world, "pg-p-"))


def _is_only_group(world: GroupingWorld, prefix: str) -> bool:
    name = world.membership()["p"][0]
    return [*world.groups()] == [name] and name.startswith(prefix)


def _is_in_leaf(world: GroupingWorld, leaf: str) -> bool:
    return world.membership()["p"][1] == leaf


async def test_a_pod_whose_labels_change_moves_to_another_leaf() -> None:
    world = GroupingWorld()
    job = {"spec": {"parallelism": 1, "completions": 1}}
    replicated = [{"name": name, "replicas": 2, "template": job} for name in ("a", "b")]
    owner = world.create(JOB_SETS, "train", {"replicatedJobs": replicated})
    jobs = world.create(JOBS, "train-a-0", ownerReferences=[reference(owner)])
    prefix = "jobset.sigs.k8s.io"
    world.pod("p", jobs, labels={f"{prefix}/replicatedjob-name": "a", f"{prefix}/job-index": "0"})
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["p"][1] == "a-replica-0")
        for name, index in (("a", "1"), ("b", "1"), ("a", "0")):
            patch = {f"{prefix}/replicatedjob-name": name, f"{prefix}/job-index": index}
            world.update(PODS, "p", {"metadata": {"labels": patch}})
            await live.until(partial(_is_in_leaf, world, f"{name}-replica-{index}"))
        assert len(world.groups()) == 1
        world.update(PODS, "p", {"metadata": {"labels": {f"{prefix}/job-index": "7"}}})
        await live.settle()
    assert world.membership()["p"][1] == "a-replica-0", "a pod without a leaf keeps the one that it had"


# uids ---------------------------------------------------------------------------------------------------------------


async def test_two_owners_with_one_uid_are_no_war_of_writes() -> None:
    """No API server gives a uid twice; a restored backup may. Gangs are named by name and uid."""
    world = GroupingWorld()
    numbers, restored = count(), list[str]()
    world.store = ClusterStore(
        new_uid=lambda: restored.pop() if restored else f"uid-{next(numbers)}", custom=operator_crds()
    )
    world.memory = MemoryCluster(world.store, bookmark_seconds=0.05)
    restored += ["twice", "twice"]
    owners = [world.create(resource, name) for resource, name in ((REPLICA_SETS, "a"), (STATEFUL_SETS, "b"))]
    assert owners[0]["metadata"]["uid"] == owners[1]["metadata"]["uid"]
    for owner in owners:
        for number in range(2):
            world.pod(f"{owner['metadata']['name']}-{number}", owner)
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.settle()
    groups = {pod: group for pod, (group, _) in world.membership().items()}
    assert len({groups["a-0"], groups["b-0"]}) == 2
    assert (groups["a-0"], groups["b-0"]) == (groups["a-1"], groups["b-1"])
    assert len(cluster.writes()) <= 6


async def test_a_pod_that_names_the_uid_of_another_object_says_so_and_harms_no_other() -> None:
    world = GroupingWorld()
    first, second = world.create(REPLICA_SETS, "a"), world.create(REPLICA_SETS, "b")
    world.pod("a-0", first)
    forged = {**reference(second), "uid": first["metadata"]["uid"]}
    world.pod("forged", ownerReferences=[forged])
    async with world.grouping() as live:
        await live.until(lambda: world.membership()["a-0"][0])
        await live.until(lambda: "OwnerUidDiffers" in world.events("forged"))
        await live.settle()
    assert world.membership()["forged"] == ("", "")


# a semi-preemptible gang whose workers come later ---------------------------------------------------------------------


async def test_the_minimums_of_a_semi_preemptible_gang_do_not_rise_when_its_workers_come() -> None:
    """While it runs, a higher minimum would be refused (V5): groups are added instead."""
    world = GroupingWorld()
    labels = {"kai.scheduler/preemptibility": "semi-preemptible"}
    owner = world.create(LEADER_WORKER_SETS, "serve", lws_spec(startup="LeaderReady"), labels=labels)
    leaders = world.create(STATEFUL_SETS, "serve", ownerReferences=[reference(owner)])
    leader = lws_pod(world, "serve-0", 0, leaders)
    async with world.grouping() as live:
        await live.until(lambda: minimums(world.group_of("serve-0")) == {"leader": 1})
        before = world.group_of("serve-0")
        running = {**before, "status": {"phase": "Running", "resourcesStatus": {}}}
        followers = world.create(STATEFUL_SETS, "serve-0", ownerReferences=[reference(leader)])
        for worker in (1, 2):
            lws_pod(world, f"serve-0-{worker}", worker, followers)
        await live.until(lambda: minimums(world.group_of("serve-0")) == {"leader": 1, "workers": 2})
        after = world.group_of("serve-0")
    assert not errors(check(after, running))
    assert after["spec"].get("minSubGroup") is None
