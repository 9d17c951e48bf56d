"""The pod grouper beside the scheduler under faults: a crash at every call, and seeded trouble (I1-I3, I8)."""

import asyncio
import os
from functools import cache
from itertools import count

import pytest

from muster.api.resources import DEFINITIONS, JOBS, LEADER_WORKER_SETS, POD_GROUPS, PODS, STATEFUL_SETS, Resource
from muster.config.settings import PodGrouping
from muster.controllers.grouper import mark_offers
from muster.kube import work_queue
from muster.kube.cache import reflector
from muster.kube.cluster import Raw
from muster.scheduler.apply import pod_api
from muster.workloads.operators.crds import operator_crds
from tests.support.live.faults import Faulty, Script, crash_at, seeded
from tests.support.live.grouping import reference
from tests.support.live.objects import gpu_node, gpu_pod
from tests.support.live.world import World

SEEDS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 30
LWS = "leaderworkerset.sigs.k8s.io"
SETTINGS = PodGrouping(empty_seconds=3600)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that do not rest for long."""
    for module in (reflector, pod_api):
        monkeypatch.setattr(module, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(work_queue.WorkQueue.__init__, "__defaults__", (0.002, 0.02, lambda: 0.5))


class Story:
    """Two groups of a LeaderWorkerSet and a Job fill the cluster; then the minimum of the Job rises, and it grows."""

    def __init__(self, *, is_carried: bool = False) -> None:
        """`is_carried`: pods are marked with their bindings; the judge knows by their labels what they belong to."""
        self.world = World([gpu_node("a"), gpu_node("b"), gpu_node("c"), gpu_node("d")])
        for definition in operator_crds():
            self.world.memory.store.create(DEFINITIONS, definition)
        self.calls, self.starts, self.log = 0, 0, [""]
        if is_carried:
            self.world.judge.belongs = self._belongs

    def _belongs(self, raw: Raw) -> tuple[str, str]:
        """PodGroup and leaf of a pod, as the reference of grouping has them."""
        labels = raw["metadata"].get("labels", {})
        if (group := labels.get(f"{LWS}/group-index")) is None:
            return f"pg-train-{self.job['metadata']['uid']}", ""
        leaf = "leader" if labels[f"{LWS}/worker-index"] == "0" else "workers"
        return f"pg-serve-{self.owner['metadata']['uid']}-group-{group}", leaf

    async def run(self, *scripts: Script) -> None:
        """Each script is one process' life; where one has crashed, the next begins; the last has no faults."""
        self._submit()
        steps = iter([self._grow, self._nothing])
        step = next(steps)
        for script in [*scripts, lambda _: None]:
            faulty = Faulty(self.world.memory, script)
            self.starts += 1
            async with self.world.running(faulty, grouping=SETTINGS) as live:
                while await live.settle():
                    if step == self._nothing:
                        self._end(faulty)
                        return
                    step()
                    step = next(steps)
            self._end(faulty)
        raise AssertionError("the last life had no faults and crashed")

    def _end(self, faulty: Faulty) -> None:
        self.calls += faulty.calls
        self.log += faulty.log

    def _submit(self) -> None:
        template = {"size": 3, "workerTemplate": {}}
        spec = {"replicas": 2, "leaderWorkerTemplate": template}
        self.owner = self._create(LEADER_WORKER_SETS, "serve", spec)
        leaders = self._create(STATEFUL_SETS, "serve", {}, self.owner)
        for group in (0, 1):
            leader = self._pod(f"serve-{group}", leaders, group, 0)
            workers = self._create(STATEFUL_SETS, f"serve-{group}", {}, leader)
            for worker in (1, 2):
                self._pod(f"serve-{group}-{worker}", workers, group, worker)
        self.job = self._create(JOBS, "train", {}, annotations={"kai.scheduler/batch-min-member": "1"})
        self._want("train-0", self.job)

    def _grow(self) -> None:
        annotations = {"kai.scheduler/batch-min-member": "2"}
        self.world.memory.store.patch(JOBS, "default", "train", {"metadata": {"annotations": annotations}})
        self._want("train-1", self.job)

    def _nothing(self) -> None:
        return

    def _create(self, resource: Resource, name: str, spec: Raw, owner: Raw | None = None, **meta: Raw) -> Raw:
        references = {"ownerReferences": [reference(owner)]} if owner else {}
        return self.world.create(
            resource, {"metadata": {"name": name, "namespace": "default", **references, **meta}, "spec": spec}
        )

    def _pod(self, name: str, owner: Raw, group: int, worker: int) -> Raw:
        return self._want(name, owner, {f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(worker)})

    def _want(self, name: str, owner: Raw, labels: Raw | None = None) -> Raw:
        raw = gpu_pod(name, "")
        raw["metadata"]["ownerReferences"] = [reference(owner)]
        raw["metadata"]["labels"] = {**raw["metadata"].get("labels", {}), **(labels or {})}
        return self.world.create(PODS, raw)

    def end(self) -> Raw:
        """Where it ends: PodGroups, and which pods joined them and run."""
        store = self.world.memory.store
        groups = {raw["metadata"]["name"]: raw["spec"] for raw in store.list(POD_GROUPS).items}
        pods = {
            raw["metadata"]["name"]: (
                raw["metadata"].get("annotations", {}).get("pod-group-name"),
                raw["metadata"]["labels"].get("kai.scheduler/subgroup-name"),
                bool(raw["spec"].get("nodeName")),
            )
            for raw in store.list(PODS).items
        }
        return {"groups": groups, "pods": pods}

    def wrong(self) -> list[str]:
        return self.world.judge.broken + self.world.judge.halves()


async def story_of(*scripts: Script, is_carried: bool = False) -> Story:
    story = Story(is_carried=is_carried)
    await story.run(*scripts)
    return story


@cache
def undisturbed() -> Story:
    """The story without faults."""
    return asyncio.run(story_of())


def test_without_faults_every_pod_joins_and_runs() -> None:
    story = undisturbed()
    end = story.end()
    assert story.wrong() == []
    assert len(end["groups"]) == 3
    assert all(group and is_bound for group, _, is_bound in end["pods"].values()), end["pods"]
    assert [spec.get("minMember") for spec in end["groups"].values() if "minMember" in spec] == [2]


@pytest.mark.parametrize("part", range(4))
async def test_a_crash_at_any_call_ends_in_the_same_place(part: int) -> None:
    """I8, enumerated: the process dies right before its n-th call, for every n, and another takes over."""
    expected = await asyncio.to_thread(undisturbed)
    for number in count(1 + part, 4):
        story = await story_of(crash_at(number))
        where = f"crash at call {number}: {' '.join(story.log[number : number + 1])}"
        assert story.wrong() == [], where
        assert story.end() == expected.end(), where
        if story.starts == 1:
            break  # it ended well before so many calls
    assert number > 40


@pytest.mark.parametrize("part", range(3))
async def test_any_trouble_is_overcome(part: int) -> None:
    """Conflicts, 429, 500, lost calls and answers, crashes, and events late, twice or cut off."""
    expected = await asyncio.to_thread(undisturbed)
    for seed in range(part, SEEDS, 3):
        story = await story_of(seeded(3 * seed), seeded(3 * seed + 1), seeded(3 * seed + 2))
        assert story.wrong() == [], f"seed {seed}"
        assert story.end() == expected.end(), f"seed {seed}"


@pytest.fixture
def _carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mark comes with a binding, as it does while many pods are grouped."""
    monkeypatch.setattr(mark_offers, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(mark_offers, "WAIT_SECONDS", 0.05)


@pytest.mark.usefixtures("_carried")
async def test_pods_that_are_bound_at_once_are_not_written_before() -> None:
    """One write less for each pod than a client that patches: the binding carries annotation and label."""
    story = await story_of(is_carried=True)
    assert story.wrong() == []
    assert story.end() == (await asyncio.to_thread(undisturbed)).end()
    assert [line for line in story.log if line.startswith("patch pods") and not line.endswith("status")] == []


@pytest.mark.parametrize("part", range(2))
@pytest.mark.usefixtures("_carried")
async def test_a_crash_between_marked_bindings_ends_in_the_same_place(part: int) -> None:
    """I8: the gang is bound in part, and its other pods say nothing of it: they are grouped again."""
    expected = await asyncio.to_thread(undisturbed)
    for number in count(1 + part, 2):
        story = await story_of(crash_at(number), is_carried=True)
        where = f"crash at call {number}: {' '.join(story.log[number : number + 1])}"
        assert story.wrong() == [], where
        assert story.end() == expected.end(), where
        if story.starts == 1:
            break
    assert number > 20


@pytest.mark.parametrize("part", range(2))
@pytest.mark.usefixtures("_carried")
async def test_any_trouble_is_overcome_with_marked_bindings(part: int) -> None:
    expected = await asyncio.to_thread(undisturbed)
    for seed in range(part, SEEDS, 2):
        scripts = (seeded(3 * seed), seeded(3 * seed + 1), seeded(3 * seed + 2))
        story = await story_of(*scripts, is_carried=True)
        assert story.wrong() == [], f"seed {seed}"
        assert story.end() == expected.end(), f"seed {seed}"
