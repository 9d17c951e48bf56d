"""Grove's operator beside the scheduler under faults: a crash at every call, and seeded trouble (R1, I8)."""

import asyncio
import os
from collections.abc import Callable
from functools import cache
from itertools import count

import pytest

from muster.api import names
from muster.api.resources import (
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
    Resource,
)
from muster.kube import work_queue
from muster.kube.cache import reflector
from muster.kube.cluster import Raw
from muster.kube.controller import orphan_collector, status_queue
from muster.scheduler.apply import pod_api
from tests.support.grove import clique, group, pod_clique_set
from tests.support.live.faults import Faulty, Script, crash_at, seeded
from tests.support.live.grove_judge import GroveJudge
from tests.support.live.objects import GPU, gpu_node
from tests.support.live.world import World

SEEDS = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else int(os.environ.get("N", 12))
PARTS = range(4)
KINDS = (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, POD_GANGS, POD_GROUPS, SERVICES)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that do not rest for long."""
    for module in (reflector, pod_api):
        monkeypatch.setattr(module, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(status_queue, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(status_queue, "LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(orphan_collector, "LATE_SECONDS", 0.05)
    monkeypatch.setattr(work_queue.WorkQueue.__init__, "__defaults__", (0.002, 0.02, lambda: 0.5))


def image(number: int) -> Raw:
    container = {
        "name": "main",
        "image": f"image:{number}",
        "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
    }
    return {"schedulerName": "muster", "containers": [container]}


def a_set(number: int = 1) -> Raw:
    """Three pods of `a`, of which two are needed, and a group of two replicas, of which one is the base's."""
    cliques = [clique("a", 3, 2), clique("b")]
    for template in cliques:
        template["spec"]["podSpec"] = image(number)
    pcs = pod_clique_set(*cliques, groups=[group("sg", "b", replicas=2)])
    pcs["metadata"]["namespace"] = "default"
    return pcs


class Story:
    """A set is submitted; once it runs, something happens to it. Only what happens then is under faults."""

    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
        self.world = World([gpu_node("a", gpus=8), gpu_node("b", gpus=8)])
        self.judge = GroveJudge(self.world.memory.store)
        self.calls, self.starts, self.log = 0, 0, [""]

    async def run(self, *scripts: Script) -> None:
        """Each script is one process' life; where one has crashed, the next begins; the last has no faults."""
        self.world.create(POD_CLIQUE_SETS, a_set())
        if self.scenario != "create":
            await self.live(lambda _: None)
            SCENARIOS[self.scenario](self)
        self.starts, self.log = 0, [""]
        for script in [*scripts, lambda _: None]:
            self.starts += 1
            if await self.live(script):
                return
        raise AssertionError("the last life had no faults and crashed")

    async def live(self, script: Script) -> bool:
        """Whether the process lived until nothing was left to do."""
        faulty = Faulty(self.world.memory, script)
        async with self.world.running(grove=faulty) as live:
            has_settled = await live.settle()
        self.log += faulty.log
        return has_settled

    def patch(self, resource: Resource, name: str, spec: Raw) -> None:
        self.world.memory.store.patch(resource, "default", name, {"spec": spec})

    # what is there

    def end(self) -> Raw:
        """Where it ends, but for names that chance gives, times, and the nodes of pods."""
        store = self.world.memory.store
        objects = {
            f"{kind.kind} {raw['metadata']['name']}": (_spec(raw), raw["metadata"].get("labels"), _status(raw))
            for kind in KINDS
            for raw in store.list(kind).items
        }
        pods = sorted(map(_place, store.list(PODS).items))
        return {"objects": objects, "pods": pods}

    def wrong(self) -> list[str]:
        owners = {raw["metadata"]["uid"] for kind in KINDS for raw in self.world.memory.store.list(kind).items}
        orphans = [
            f"{kind.kind} {raw['metadata']['name']} is an orphan"
            for kind in (*KINDS, PODS)
            for raw in self.world.memory.store.list(kind).items
            if not all(reference["uid"] in owners for reference in raw["metadata"].get("ownerReferences") or ())
        ]
        # while an update removes pods, a binding may cross the deletion of another pod of its gang (I3)
        broken = [line for line in self.world.judge.broken if not line.startswith("I3")]
        return [*broken, *self.world.judge.halves(), *self.judge.broken, *orphans]


def _spec(raw: Raw) -> Raw:
    """References to pods are counted: their names are random."""
    entries = [
        {**entry, "podReferences": len(entry.get("podReferences") or ())}
        for entry in raw["spec"].get("podgroups") or ()
    ]
    return {**raw["spec"], **({"podgroups": entries} if entries else {})}


def _status(raw: Raw) -> Raw:
    status = raw.get("status") or {}
    numbers = {name: value for name, value in status.items() if isinstance(value, int | str)}
    conditions = sorted((one["type"], one["status"], one["reason"]) for one in status.get("conditions") or ())
    return {**numbers, "conditions": conditions}


def _place(raw: Raw) -> tuple[str, ...]:
    labels, spec = raw["metadata"]["labels"], raw["spec"]
    gates = ",".join(gate["name"] for gate in spec.get("schedulingGates") or ())
    is_bound = str(bool(spec.get("nodeName")))
    return (
        labels[names.POD_CLIQUE],
        labels[names.POD_INDEX],
        labels[names.TEMPLATE_HASH],
        spec["containers"][0]["image"],
        gates,
        is_bound,
    )


def scale(story: Story) -> None:
    """The group grows, the set grows, and the clique shrinks."""
    story.patch(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", {"replicas": 3})
    story.patch(POD_CLIQUE_SETS, "w", {"replicas": 2})
    story.patch(POD_CLIQUES, "w-0-a", {"replicas": 2})


def update(story: Story) -> None:
    """Every clique gets another image."""
    story.patch(POD_CLIQUE_SETS, "w", a_set(2)["spec"])


def remove(story: Story) -> None:
    """The set is deleted."""
    story.world.memory.store.delete(POD_CLIQUE_SETS, "default", "w")


SCENARIOS: dict[str, Callable[[Story], None]] = {"create": update, "scale": scale, "update": update, "delete": remove}


async def story_of(scenario: str, *scripts: Script) -> Story:
    story = Story(scenario)
    await story.run(*scripts)
    return story


@cache
def undisturbed(scenario: str) -> Story:
    """The story without faults."""
    return asyncio.run(story_of(scenario))


def lasting(seed: int) -> Script:
    """Faults of all kinds but crashes: one life has to bear them all."""
    script = seeded(seed)
    return lambda call: None if (fault := script(call)) == "crash" else fault


DOUBLING = ("create pods", "delete podcliques")  # without an answer, a pod may have been made for nothing
PODS_IN_THE_END = {"create": 5, "scale": 10, "update": 5, "delete": 0}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_faults_every_pod_runs(scenario: str) -> None:
    story = undisturbed(scenario)
    end = story.end()
    assert story.wrong() == []
    assert story.judge.doubled == 0
    assert len(end["pods"]) == PODS_IN_THE_END[scenario]
    assert all(place[4:] == ("", "True") for place in end["pods"])
    assert bool(end["objects"]) == (scenario != "delete")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_crash_at_any_call_ends_in_the_same_place(scenario: str, part: int) -> None:
    """I8, enumerated: the process dies right before the operator's n-th call, for every n, and another takes over."""
    expected = await asyncio.to_thread(undisturbed, scenario)
    for number in count(1 + part, len(PARTS)):
        story = await story_of(scenario, crash_at(number))
        where = f"crash at call {number}: {' '.join(story.log[number : number + 1])}"
        assert story.wrong() == [], where
        assert story.judge.doubled == 0, where
        assert story.end() == expected.end(), where
        if story.starts == 1:
            break  # it ended well before so many calls
    assert number > 20


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_any_trouble_is_overcome(scenario: str, part: int) -> None:
    """Conflicts, 429, 500, lost calls and answers, crashes, and events late, twice or cut off."""
    expected = await asyncio.to_thread(undisturbed, scenario)
    for seed in range(part, SEEDS, len(PARTS)):
        story = await story_of(scenario, seeded(2 * seed), lasting(2 * seed + 1))
        assert story.wrong() == [], f"seed {seed}"
        assert story.end() == expected.end(), f"seed {seed}"
        unanswered = sum(line.startswith(DOUBLING) and line.endswith("unanswered") for line in story.log)
        assert story.judge.doubled <= unanswered, f"seed {seed}: a pod is doubled only where an answer was lost"
