"""A small cluster over a long time: gangs come and go, pods and nodes fail, quotas change; every plan is judged.

The driver is what stands around a scheduler: it carries plans out, lets evicted pods take a turn to leave, makes new
pods for those that are gone, and keeps the notes of short gangs. Dice with a seed, so that every run can be repeated.
"""

import copy
import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import muster
from muster.model.snapshot import take
from muster.planning import cycle
from muster.planning.decision import Binding
from tests.oracles.checker import broken
from tests.oracles.disturbance import shorts
from tests.oracles.fair_shares import GPU
from tests.oracles.objects import CheckedGang, ObjectIndex, asks, key_of, name, owner, phase, terminating
from tests.oracles.placement import Host, Part, PodClass, feasible
from tests.oracles.placement import Puzzle as Fit
from tests.support import factories
from tests.support.factories import Raw

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
RUNS, STEPS = (1_000, 100) if NIGHTLY else (30, 50)
SLICES = 10
QUEUES = ("a", "b", "c")
STALE, STALE_GROUPS = "kai.scheduler/stale-podgroup-timestamp", "muster.dev/stale-subgroups"
STARTED = "kai.scheduler/last-start-timestamp"


@pytest.mark.parametrize("part", range(SLICES))
def test_every_plan_of_a_long_run_keeps_every_promise(part: int) -> None:
    """I1-I7, I10, I11, cycle after cycle, whatever happens in between."""
    for seed in range(part, RUNS, SLICES):
        run = Run(seed)
        for step in range(STEPS):
            wrong = run.cycle()
            assert not wrong, f"seed {seed}, step {step}: {wrong}"


def test_gangs_that_fit_do_not_wait_for_ever() -> None:
    """When nothing happens any more, plans come to rest: no pod is evicted, bound or nominated again."""
    for seed in range(RUNS // 5):
        run = Run(seed)
        for _ in range(STEPS // 2):
            run.cycle()
        run.quiet = True
        for _ in range(25):
            assert run.cycle() == [], f"seed {seed}"
        last = run.plan
        assert last["bindings"] + last["nominations"] + last["evictions"] == [], f"seed {seed}"


class Run:
    """A cluster, its clock and every process around the scheduler."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.number = 0  # of whatever was made last
        self.quiet = False  # nothing happens but what plans ask for
        self.plan: Raw = {}
        self.wanted: dict[str, dict[str, tuple[int, int]]] = {}  # gang -> leaf -> how many pods, and how large
        rng = self.rng
        nodes = [_gpu_node(i, f"r{rng.randrange(3)}", rng.choice((2, 4, 4, 8))) for i in range(rng.randint(3, 8))]
        self.total = sum(int(node["status"]["allocatable"][GPU]) for node in nodes)
        self.objects: list[Raw] = [
            _object("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "topology/rack"}]}),
            *(_object("scheduling.k8s.io/v1", "PriorityClass", f"p{value}", value=value) for value in (30, 60, 90)),
            *nodes,
            *self._queues(),
        ]
        self.lost: list[Raw] = []  # nodes that may come back

    # what there is

    def _queues(self) -> Iterator[Raw]:
        rng, left = self.rng, self.total
        deep = rng.random() < 0.3
        for i, queue in enumerate(QUEUES[: rng.randint(1, 3)]):
            quota = rng.randint(0, left)
            left -= quota
            spec: Raw = {"resources": {"gpu": {"quota": quota, "overQuotaWeight": rng.choice((1, 1, 2))}}}
            spec |= {"parentQueue": "top"} if deep else {}
            spec |= {"reclaimMinRuntime": "90s", "preemptMinRuntime": "30s"} if rng.random() < 0.2 else {}
            yield _object("scheduling.run.ai/v2", "Queue", queue, created=f"2025-01-01T00:00:0{i}Z", spec=spec)
        if deep:
            resources = {"gpu": {"quota": self.total - left, "limit": rng.choice((-1, self.total))}}
            yield _object("scheduling.run.ai/v2", "Queue", "top", spec={"resources": resources})

    def of(self, kind: str) -> list[Raw]:
        return [raw for raw in self.objects if raw["kind"] == kind]

    def remove(self, gone: list[Raw]) -> None:
        self.objects = [raw for raw in self.objects if not any(raw is one for one in gone)]

    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    # one cycle

    def cycle(self) -> list[str]:
        """Something happens, notes are kept, a plan is made, judged and carried out."""
        self.now += timedelta(seconds=self.rng.choice((1, 5, 20, 45)))
        self.remove([pod for pod in self.of("Pod") if terminating(pod)])
        for _ in range(0 if self.quiet else self.rng.randint(0, 2)):
            self.rng.choice(EVENTS)(self)
        self._recreate()
        self._keep_notes()
        self.plan = muster.plan(muster.objects(self.objects), now=self.now).to_dict()
        wrong = broken(self.objects, self.plan, self.now) + self._not_repeated() + self._left_out()
        wrong += self._taken_back()
        self._carry_out()
        return wrong

    def _not_repeated(self) -> list[str]:
        """I10: the same snapshot gives the same plan."""
        objects = copy.deepcopy(self.objects)
        self.rng.shuffle(objects)
        again = muster.plan(muster.objects(objects), now=self.now).to_dict()
        return [] if json.dumps(again) == json.dumps(self.plan) else ["another plan of the same objects"]

    def _taken_back(self) -> list[str]:
        """A binder that binds what is granted, while the plan is being made, binds what the plan says."""
        granted: list[Binding] = []
        whole = cycle.plan(take(muster.objects(self.objects), self.now), on_bound=granted.extend)
        return [] if sorted(granted) == list(whole.bindings) else ["a binding that was granted is not in the plan"]

    def _left_out(self) -> list[str]:
        """I11, as far as a plan shows it: the gang of the highest priority that waits does not fit in what is left."""
        index = ObjectIndex(self.objects)
        gangs = {key: CheckedGang(index, key) for key in index.gangs}
        verdict_of = {f"{one['namespace']}/{one['name']}": one["verdict"] for one in self.plan["podGroups"]}
        waiting = [checked for key, checked in gangs.items() if verdict_of[key] == "Infeasible"]
        if not waiting or self.plan["evictions"] or self.plan["nominations"]:
            return []
        first = min(waiting, key=lambda checked: (-checked.priority, checked.created, checked.key))
        bounded = any("limit" in raw["spec"]["resources"]["gpu"] for raw in self.of("Queue"))
        if bounded or first.kind != "preemptible" or not feasible(self._leftover(index, first)):
            return []
        return [f"{first.key} is infeasible, but fits"]

    def _leftover(self, index: ObjectIndex, checked: CheckedGang) -> Fit:
        bound = {key_of(one): one["node"] for one in self.plan["bindings"]}
        free = {key: int(node["status"]["allocatable"][GPU]) for key, node in index.nodes.items()}
        for key, pod in index.pods.items():
            at = bound.get(key) or pod["spec"].get("nodeName")
            if at in free and phase(pod) not in ("Succeeded", "Failed"):
                free[at] -= int(asks(pod)[GPU])
        hosts = [
            Host(key, (node["metadata"]["labels"]["topology/rack"],), (free[key],)) for key, node in index.nodes.items()
        ]
        parts = []
        for group in checked.tree:
            level = 0 if checked.tree[group].get("topologyConstraint") else None
            waiting = (
                ()
                if checked.children.get(group)
                else tuple((PodClass((int(asks(index.pods[pod])[GPU]),)), 1) for pod in checked.waiting[group])
            )
            parent = checked.tree[group].get("parent") or ""
            need = max(checked.need(group) - checked.done[group], 0)
            parts.append(Part(group, parent, need, level, waiting, tuple(checked.placed[group].values())))
        return Fit(tuple(hosts), tuple(parts))

    # the processes around

    def _carry_out(self) -> None:
        bound = {key_of(one): one["node"] for one in self.plan["bindings"]}
        nominated = {key_of(one): one["node"] for one in self.plan["nominations"]}
        evicted = {key_of(one) for one in self.plan["evictions"]}
        started = {f"{one['namespace']}/{one['podGroup']}" for one in self.plan["bindings"]}
        for pod in self.of("Pod"):
            pod["status"].pop("nominatedNodeName", None)
            if name(pod) in bound:
                pod["spec"]["nodeName"] = bound[name(pod)]
                pod["status"]["phase"] = "Running"
            if name(pod) in nominated:
                pod["status"]["nominatedNodeName"] = nominated[name(pod)]
            if name(pod) in evicted:
                pod["metadata"]["deletionTimestamp"] = self.stamp()
        for gang in self.of("PodGroup"):
            if name(gang) in started:
                gang["metadata"]["annotations"].setdefault(STARTED, self.stamp())

    def _recreate(self) -> None:
        """Controllers: a leaf has as many pods as it should."""
        for gang in self.of("PodGroup"):
            mine = [pod for pod in self.of("Pod") if owner(pod) == name(gang)]
            for leaf, (wanted, size) in self.wanted[name(gang)].items():
                there = [
                    pod for pod in mine if pod["metadata"]["labels"].get("kai.scheduler/subgroup-name", "") == leaf
                ]
                for _ in range(wanted - len(there)):
                    self.objects.append(self._new_pod(gang["metadata"]["name"], leaf, size))

    def _keep_notes(self) -> None:
        """Since when a gang, or a part of it, is short; and no longer than it is."""
        index = ObjectIndex(self.objects)
        for gang in self.of("PodGroup"):
            checked, notes = CheckedGang(index, name(gang)), gang["metadata"]["annotations"]
            known = {short.group for short in shorts(checked)}
            old = json.loads(notes.pop(STALE_GROUPS, "{}"))
            since = notes.pop(STALE, "")
            if not checked.pods():
                notes.pop(STARTED, None)
            if "" in known:
                notes[STALE] = since or self.stamp()
            elif groups := {group: old.get(group, self.stamp()) for group in sorted(known)}:
                notes[STALE_GROUPS] = json.dumps(groups)

    def _new_pod(self, gang: str, leaf: str, size: int) -> Raw:
        self.number += 1
        requests: Raw = {GPU: str(size)}
        return factories.pod(
            f"{gang}-{self.number:05}", leaf, gang=gang, created=self.stamp(), scheduler="muster", **requests
        )

    # what happens

    def arrive(self) -> None:
        rng = self.rng
        if len(self.of("PodGroup")) >= 10:
            return
        self.number += 1
        leaves = [queue["metadata"]["name"] for queue in self.of("Queue") if queue["metadata"]["name"] != "top"]
        spec: Raw = {"queue": rng.choice(leaves), "priorityClassName": rng.choice(("p30", "p60", "p90"))}
        spec["preemptibility"] = rng.choice(("preemptible", "preemptible", "semi-preemptible", "non-preemptible"))
        spec |= {"topologyConstraint": {"requiredTopologyLevel": "rack"}} if rng.random() < 0.25 else {}
        spec |= {"stalenessGracePeriod": rng.choice(("0s", "10s", "-1s"))} if rng.random() < 0.2 else {}
        wanted, groups = {}, []
        for i in range(parts := rng.choice((1, 1, 2, 3))):
            need, leaf = rng.randint(1, 3), f"l{i}" if parts > 1 else ""
            wanted[leaf] = (need + rng.choice((0, 0, 1, 2)), rng.choice((1, 1, 2)))
            groups.append({"name": leaf, "minMember": need})
        spec |= {"minSubGroup": rng.randint(1, parts), "subGroups": groups} if parts > 1 else {"minMember": need}
        gang = _object("scheduling.run.ai/v2alpha2", "PodGroup", f"g{self.number:05}", namespace="team", spec=spec)
        gang["metadata"] |= {"creationTimestamp": self.stamp(), "annotations": {}}
        self.objects.append(gang)
        self.wanted[name(gang)] = wanted

    def finish(self) -> None:
        """A gang is done and gone."""
        if gangs := self.of("PodGroup"):
            gang = self.rng.choice(gangs)
            self.remove([gang, *(pod for pod in self.of("Pod") if owner(pod) == name(gang))])

    def fail(self) -> None:
        """A pod fails, and its controller clears it away."""
        if running := [pod for pod in self.of("Pod") if pod["spec"].get("nodeName")]:
            self.remove([self.rng.choice(running)])

    def lose(self) -> None:
        """A node is gone with all its pods."""
        nodes = self.of("Node")
        if len(nodes) > 2:
            node = self.rng.choice(nodes)
            at = node["metadata"]["name"]
            self.remove([node, *(pod for pod in self.of("Pod") if pod["spec"].get("nodeName") == at)])
            self.lost.append(node)

    def find(self) -> None:
        if self.lost:
            self.objects.append(self.lost.pop())

    def decide(self) -> None:
        """A quota changes."""
        queue = self.rng.choice([one for one in self.of("Queue") if one["metadata"]["name"] != "top"])
        gpu = queue["spec"]["resources"]["gpu"]
        gpu["quota"] = self.rng.randint(0, self.total // 2)
        gpu.pop("limit", None)
        if self.rng.random() < 0.3:
            gpu["limit"] = self.rng.randint(gpu["quota"], self.total)


EVENTS = (
    Run.arrive,
    Run.arrive,
    Run.arrive,
    Run.arrive,
    Run.finish,
    Run.fail,
    Run.fail,
    Run.lose,
    Run.find,
    Run.decide,
)


def _gpu_node(i: int, rack: str, gpus: int) -> Raw:
    return factories.node(f"n{i}", allocatable={GPU: str(gpus), "pods": "110"}, rack=rack)


def _object(version: str, kind: str, name: str, namespace: str = "", created: str = "", **more: Any) -> Raw:
    meta: Raw = {"name": name}
    meta |= {"namespace": namespace} if namespace else {}
    meta |= {"creationTimestamp": created} if created else {}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}
