"""Marks that come with bindings, in trouble: refusals, changes while bindings are in flight, restarts (G1, G5, I9)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

import tests.support.live.world as world_module
from muster.api.resources import DEFINITIONS, JOBS, LEADER_WORKER_SETS, POD_GROUPS, PODS, Resource
from muster.cli.assemble.pod_grouper import build_grouper
from muster.config.settings import PodGrouping, ShardSettings
from muster.controllers.grouper import mark_offers
from muster.controllers.grouper.grouping_observer import NoGroupingObserver
from muster.kube import work_queue
from muster.kube.cache import reflector
from muster.kube.client.client import Kubernetes
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.workloads.operators.crds import operator_crds
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import reference
from tests.support.live.objects import gpu_node, gpu_pod
from tests.support.live.world import HASTY, World

SETTINGS = PodGrouping(empty_seconds=3600)
LWS = "leaderworkerset.sigs.k8s.io"
MINIMUM = "kai.scheduler/batch-min-member"


@pytest.fixture(autouse=True)
def _carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mark comes with a binding, as it does while many pods are grouped."""
    monkeypatch.setattr(mark_offers, "MOST_AT_ONCE", 0)


class MarkedWorld(World):
    """Jobs, LeaderWorkerSets and their pods."""

    def __init__(self, *nodes: Raw) -> None:
        super().__init__(nodes or [gpu_node("a"), gpu_node("b")])
        for definition in operator_crds():
            self.memory.store.create(DEFINITIONS, definition)

    def owner(self, resource: Resource, name: str, spec: Raw | None = None, **meta: Any) -> Raw:
        return self.create(resource, {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec or {}})

    def job(self, name: str, minimum: int, pods: int, **meta: Any) -> Raw:
        job = self.owner(JOBS, name, annotations={MINIMUM: str(minimum)}, **meta)
        for number in range(pods):
            self.owned(f"{name}-{number}", job)
        return job

    def owned(self, name: str, owner: Raw, labels: Raw | None = None, **spec: Any) -> Raw:
        raw = gpu_pod(name, "")
        raw["metadata"] |= {"ownerReferences": [reference(owner)], "labels": {"app": "", **(labels or {})}}
        raw["spec"] |= spec
        return self.create(PODS, raw)

    def leader_and_worker(self) -> None:
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}}
        owner = self.owner(LEADER_WORKER_SETS, "s", spec)
        for number in range(2):
            labels = {f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(number)}
            self.owned(f"t-{number}", owner, labels)

    def gang(self, pod: str) -> str:
        return str(self.pod(pod)["metadata"].get("annotations", {}).get("pod-group-name", ""))

    def is_marked(self) -> bool:
        return all(self.gang(raw["metadata"]["name"]) for raw in self.memory.store.list(PODS).items)


class HeldBindings(Faulty):
    """Bindings are sent, and carried out once `go` is set."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.sent: list[str] = []
        self.go = asyncio.Event()

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        self.sent.append(pod)
        await self.go.wait()
        await super().bind(namespace, pod, uid, node, mark=mark)


class HeldPodGroups(Faulty):
    """What happens before a PodGroup is applied is the test's."""

    def __init__(self, cluster: Cluster, before: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(cluster)
        self.before = before

    async def patch(self, resource: Resource, namespace: str, name: str, *args: Any, **how: Any) -> Raw:
        if resource == POD_GROUPS and how.get("field_manager") == "muster-grouper":
            await self.before(name)
        return await super().patch(resource, namespace, name, *args, **how)


async def test_a_large_gang_that_cannot_be_bound_is_marked_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass marks some of a gang's pods; those whose moment is over do not wait for another one."""
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.5)
    scene = MarkedWorld(gpu_node("a", gpus=1))
    scene.job("t", 200, 200)
    async with scene.running(scene.memory, replace(HASTY, idle_cycle_seconds=60), grouping=SETTINGS) as live:
        began = time.monotonic()
        await live.until(scene.is_marked)
        assert time.monotonic() - began < 2.0  # 7 passes of 32 pods: 3.5 s and more with a pause each


async def test_a_refused_pod_group_is_tried_again_with_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment in which pods wait for their bindings is no reason to apply again."""
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(work_queue.WorkQueue.__init__, "__defaults__", (0.01, 30.0, lambda: 0.5))
    scene, tries = MarkedWorld(), list[str]()
    scene.job("t", 2, 2)

    async def refuse(name: str) -> None:
        tries.append(name)
        raise ApiError(422, "Invalid", "no")

    async with scene.running(HeldPodGroups(scene.memory, refuse), grouping=SETTINGS):
        await asyncio.sleep(2)
    assert len(tries) < 12


async def test_pods_of_a_refused_pod_group_are_marked_and_do_not_count_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one bad gang of 129 pods would make many of every few that come later."""
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.05)
    scene = MarkedWorld()
    scene.job("t", 2, 2)

    async def refuse(_: str) -> None:
        raise ApiError(422, "Invalid", "no")

    async with scene.running(HeldPodGroups(scene.memory, refuse), grouping=SETTINGS) as live:
        await live.until(scene.is_marked, 3)


async def test_pods_of_a_gang_that_changes_are_planned_by_its_new_pod_group() -> None:
    """G1: the PodGroup is applied before pods join it; by the old one, an extra would be bound."""
    scene, is_slow = MarkedWorld(gpu_node("a")), False

    async def wait(_: str) -> None:
        await asyncio.sleep(0.1 * is_slow)

    job = scene.job("t", 1, 1)
    async with scene.running(HeldPodGroups(scene.memory, wait), grouping=SETTINGS) as live:
        await live.until(lambda: len(scene.seats()) == 1)
        is_slow = True
        scene.memory.store.patch(JOBS, "default", "t", {"metadata": {"annotations": {MINIMUM: "4"}}})
        for number in (1, 2, 3):
            scene.owned(f"t-{number}", job)
        await live.until(scene.is_marked)
    assert scene.seats() == {"t-0": "a"}


async def test_a_pod_whose_mark_is_withdrawn_is_not_bound_in_no_gang() -> None:
    """Its binding was decided for its gang: without the mark it would run outside of all."""
    scene = MarkedWorld()
    scene.job("t", 2, 2)
    cluster, settings = HeldBindings(scene.memory), replace(HASTY, bind_concurrency=1)
    async with scene.running(cluster, settings, grouping=SETTINGS) as live:
        await live.until(lambda: bool(cluster.sent))
        (other,) = {"t-0", "t-1"} - set(cluster.sent)
        skip = {"metadata": {"annotations": {"kai.scheduler/skip-podgrouper": "true"}}}
        scene.memory.store.patch(PODS, "default", other, skip)
        await live.until(lambda: live.grouper is not None and len(live.grouper.assigner.members) == 1)
        cluster.go.set()
        await asyncio.sleep(0.3)
    assert other not in scene.seats()


async def test_a_binding_that_is_carried_out_after_a_patch_leaves_no_old_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod moved to another gang meanwhile, and a lost watch does not show the patch in between."""
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(mark_offers, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)
    scene, is_blind = MarkedWorld(), False

    def script(call: Call) -> Fault | None:
        if not is_blind or not call.what.startswith("pods"):
            return None
        return "reset" if call.verb == "event" else "broken" if call.verb in ("list", "watch") else None

    scene.leader_and_worker()
    cluster = HeldBindings(scene.memory)
    cluster.script = script
    async with scene.running(cluster, grouping=SETTINGS) as live:
        await live.until(lambda: "t-1" in cluster.sent)
        scene.memory.store.patch(PODS, "default", "t-1", {"metadata": {"labels": {f"{LWS}/group-index": "1"}}})
        assert live.grouper is not None
        members = live.grouper.assigner.members
        await live.until(lambda: (member := members.get("default/t-1")) is not None and member.gang.endswith("1"))
        is_blind = True
        await live.until(lambda: scene.gang("t-1").endswith("1"))
        cluster.go.set()
        await live.until(lambda: "t-1" in scene.seats() and scene.gang("t-1").endswith("0"))
        is_blind = False
        await live.until(lambda: scene.gang("t-1").endswith("1"), 3)


async def test_pods_are_grouped_while_the_version_is_not_known() -> None:
    class SilentVersion(Faulty):
        async def binds_with_labels(self) -> bool:
            await asyncio.Event().wait()
            return True

    scene = MarkedWorld()
    scene.job("t", 2, 2)
    async with scene.running(SilentVersion(scene.memory), grouping=SETTINGS) as live:
        await live.until(lambda: len(scene.seats()) == 2, 3)


async def test_a_version_of_any_length_is_no_error() -> None:
    class LongVersion:
        """Answers with a number of 5,000 digits."""

        async def call(self, _: object) -> bytes:
            return b'{"major":"1","minor":"' + b"9" * 5000 + b'"}'

    assert await Kubernetes(LongVersion()).binds_with_labels()  # type: ignore[arg-type]


class FutureLeader:
    """A replica that does not lead yet."""

    leading, term = False, 0

    @property
    def seconds_left(self) -> float:
        return 1e9 if self.leading else 0.0


class GroupedPods(NoGroupingObserver):
    def __init__(self) -> None:
        self.grouped = 0

    def pod_grouped(self, _: float) -> None:
        self.grouped += 1


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> GroupedPods:
    counting = GroupedPods()
    monkeypatch.setattr(world_module, "build_grouper", partial(build_grouper, observer=counting))
    return counting


async def test_pods_that_were_assigned_before_leadership_are_counted(
    observer: GroupedPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.1)
    scene, candidate = MarkedWorld(gpu_node("a", gpus=1)), FutureLeader()
    scene.job("t", 2, 2)
    async with scene.running(scene.memory, leadership=candidate, grouping=SETTINGS) as live:
        assert live.grouper is not None
        await live.until(lambda: live.grouper is not None and bool(live.grouper.assigner.members.gangs))
        candidate.leading, candidate.term = True, 1
        live.grouper.lead()
        live.scheduler.wake()
        await live.until(scene.is_marked)
    assert observer.grouped == 2


@pytest.mark.parametrize(("pool", "number"), [("", 0), ("a", 2)])
async def test_the_shard_of_a_gang_offers_its_marks_and_no_other(observer: GroupedPods, pool: str, number: int) -> None:
    """The owner names the pool, its pods do not."""
    scene = MarkedWorld()
    scene.job("t", 2, 2, labels={"kai.scheduler/node-pool": "a"})
    settings = replace(HASTY, shard=ShardSettings(enabled=True, partition_label_value=pool))
    async with scene.running(scene.memory, settings, grouping=SETTINGS) as live:
        await asyncio.sleep(0.5)
        assert (observer.grouped, len(live.scheduler.marked_bindings._offered)) == (number, number)


@pytest.mark.parametrize("few", [1000, 0])
async def test_a_gang_that_a_crash_left_in_part_is_completed_whatever_its_grace(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: pods that are not marked yet are members all the same."""
    monkeypatch.setattr(mark_offers, "MOST_AT_ONCE", few)
    scene = MarkedWorld()
    scene.job("t", 2, 2)

    class OneBinding(Faulty):
        sent = 0

        async def bind(self, *args: Any, **how: Any) -> None:
            self.sent += 1
            if self.sent > 1:
                await asyncio.Event().wait()
            await super().bind(*args, **how)

    async with scene.running(OneBinding(scene.memory), grouping=SETTINGS) as live:
        await live.until(lambda: len(scene.seats()) == 1)
        (group,) = scene.memory.store.list(POD_GROUPS).items
        grace = {"spec": {"stalenessGracePeriod": "0s"}}
        scene.memory.store.patch(POD_GROUPS, "default", group["metadata"]["name"], grace)

    class SlowJobs(Faulty):
        async def list(self, resource: Resource, *args: Any, **how: Any) -> Any:
            await asyncio.sleep(0.3 * (resource == JOBS))
            return await super().list(resource, *args, **how)

    leader = FutureLeader()
    leader.leading, leader.term = True, 1
    async with scene.running(SlowJobs(scene.memory), leadership=leader, grouping=SETTINGS) as live:
        await live.until(lambda: len(scene.seats()) == 2 or bool(scene.judge.evicted))
    assert scene.judge.evicted == {}
