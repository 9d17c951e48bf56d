"""Small random clusters over a few cycles: gangs, queues with limits, other schedulers, nodes that go and return.

Everything follows from the seed. `python -m tests.support.random_cluster SEED` shows one of them cycle by cycle.
"""

import random
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.planning.cycle import plan as make_plan
from muster.reporting.plans import data
from tests.support import factories
from tests.support.factories import Raw
from tests.support.virtual import LeafTemplate, VirtualCluster, Workload, gang_of, key_of

GPU = "nvidia.com/gpu"
NAMESPACE = "team"
OTHER = "default-scheduler"
CYCLES, CYCLE_SECONDS = 8, 10.0
MOST_GANGS = 8


class Cycle(Struct, frozen=True, eq=False):
    """What one cycle was made on, what it decided, and what had changed since the one before."""

    number: int
    now: datetime
    manifests: list[Raw]
    plan: Raw
    touched: frozenset[str]  # keys of PodGroups, `queue/…` and `node/…` that others than the scheduler changed
    arrived: frozenset[str]  # PodGroups that are new


class RandomCluster:
    """One cluster."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.is_quiet = False
        self.sizes = "112"
        self.number = self.cycles = 0
        self.touched: set[str] = set()
        self.arrived: set[str] = set()
        self.lost: list[Raw] = []
        nodes = [self._racked_node(i) for i in range(rng.randint(2, 6))]
        self.gpus = sum(int(node["status"]["allocatable"][GPU]) for node in nodes)
        levels = [{"nodeLabel": "topology/zone"}, {"nodeLabel": "topology/rack"}]
        self.cluster = VirtualCluster(
            [
                _object("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": levels}),
                *(_object("scheduling.k8s.io/v1", "PriorityClass", f"p{value}", value=value) for value in (30, 60, 90)),
                *nodes,
                *self._queues(),
            ]
        )
        if rng.random() < 0.4:
            self._scatter()
        for _ in range(rng.randint(2, 5)):
            self.arrive()
        for _ in range(rng.choice((0, 0, 1, 2))):
            self.intrude()

    # one cycle ------------------------------------------------------------------------------------------------------

    def cycle(self) -> Cycle:
        """Time passes, things happen, a plan is made and carried out."""
        self.cluster.advance(CYCLE_SECONDS)
        for _ in range(0 if self.is_quiet else self.rng.choice((0, 0, 1, 1, 2))):
            self.rng.choice(EVENTS)(self)
        snapshot = self.cluster.snapshot(is_incremental=False)
        plan = make_plan(snapshot)
        self.cycles += 1
        cycle = Cycle(
            self.cycles,
            self.cluster.now,
            self.cluster.manifests(),
            data(plan),
            frozenset(self.touched),
            frozenset(self.arrived),
        )
        self.touched, self.arrived = set(), set()
        lingering = {one.key: self.rng.randint(1, 3) * CYCLE_SECONDS - 1 for one in plan.evictions}
        self.cluster.apply(snapshot, plan, lingering)
        return cycle

    @property
    def is_settled(self) -> bool:
        """Whether no pod is on its way out."""
        return not self.cluster.terminating

    # what there is --------------------------------------------------------------------------------------------------

    def _racked_node(self, i: int) -> Raw:
        rack = self.rng.randrange(3)
        allocatable = {GPU: self.rng.choice("2448"), "pods": "110"}
        return factories.node(f"n{i}", allocatable=allocatable, zone=f"z{rack // 2}", rack=f"r{rack}")

    def _queues(self) -> Iterator[Raw]:
        rng, left = self.rng, self.gpus
        for i in range(rng.randint(1, 3)):
            quota = rng.randint(0, left)
            left -= quota
            gpu = {"quota": quota} | ({"limit": rng.randint(max(quota, 1), self.gpus)} if rng.random() < 0.5 else {})
            yield _object("scheduling.run.ai/v2", "Queue", f"q{i}", spec={"resources": {"gpu": gpu}})

    def _workload(self, name: str) -> Workload:
        rng = self.rng
        queue = rng.choice(sorted(raw["metadata"]["name"] for raw in self.cluster.raws["Queue"].values()))
        spec: Raw = {"queue": queue, "priorityClassName": rng.choice(("p30", "p60", "p90"))}
        spec["preemptibility"] = rng.choice(("preemptible",) * 4 + ("semi-preemptible", "non-preemptible"))
        _level(rng, spec, 0.25)
        leaves = self._replicas(spec) if rng.random() < 0.25 else self._roles(spec)
        group = _object("scheduling.run.ai/v2alpha2", "PodGroup", name, NAMESPACE, spec=spec)
        return Workload(group, leaves, is_eager=rng.random() < 0.5)

    def _roles(self, spec: Raw) -> dict[str, LeafTemplate]:
        rng = self.rng
        parts = rng.choice((1, 1, 2, 3))
        leaves: dict[str, LeafTemplate] = {}
        groups: list[Raw] = []
        for i in range(parts):
            need, leaf = rng.randint(1, 3), f"l{i}" if parts > 1 else ""
            leaves[leaf] = LeafTemplate(need + rng.choice((0, 0, 1, 2)), {GPU: rng.choice(self.sizes)})
            groups.append({"name": leaf, "minMember": need})
            _level(rng, groups[-1], 0.2)
        spec |= {"minSubGroup": rng.randint(1, parts), "subGroups": groups} if parts > 1 else {"minMember": need}
        return leaves

    def _replicas(self, spec: Raw) -> dict[str, LeafTemplate]:
        """k of n replicas of a leader and its workers."""
        rng = self.rng
        count, workers = rng.randint(2, 3), rng.randint(1, 2)
        spec["minSubGroup"] = rng.randint(1, count)
        spec["subGroups"] = []
        leaves: dict[str, LeafTemplate] = {}
        for i in range(count):
            replica: Raw = {"name": f"r{i}"}
            _level(rng, replica, 0.4)
            leaf = {"parent": f"r{i}", "minMember": 1}
            more = {"name": f"r{i}-w", "parent": f"r{i}", "minMember": workers}
            spec["subGroups"] += [replica, {"name": f"r{i}-l", **leaf}, more]
            leaves |= {
                f"r{i}-l": LeafTemplate(1, {GPU: "1"}),
                f"r{i}-w": LeafTemplate(workers, {GPU: rng.choice("12")}),
            }
        return leaves

    def _scatter(self) -> None:
        """Small gangs run all over the place, so that what is free is in pieces: there is something to consolidate."""
        self.sizes = "1244"
        for raw in self.cluster.raws["Node"].values():
            gpus = int(raw["status"]["allocatable"][GPU])
            for _ in range(self.rng.randint(gpus // 2, gpus - 1) if gpus > 2 else 1):
                (pod,) = self.cluster.pods(self._small(GPU, "1"))
                spot = {**pod["spec"], "nodeName": raw["metadata"]["name"]}
                self.cluster.put(pod | {"spec": spot, "status": {"phase": "Running"}})

        for size in self.rng.sample("244", self.rng.randint(1, 2)):
            self._small(GPU, size)

    def _small(self, resource: str, amount: str) -> str:
        """A gang of one pod in the first queue; its key."""
        self.number += 1
        spec = {"minMember": 1, "queue": "q0", "priorityClassName": "p60", "preemptibility": "preemptible"}
        group = _object("scheduling.run.ai/v2alpha2", "PodGroup", f"s{self.number:03}", NAMESPACE, spec=spec)
        workload = Workload(group, {"": LeafTemplate(1, {resource: amount})}, is_eager=self.rng.random() < 0.5)
        self.cluster.submit(workload)
        return workload.key

    # what happens ---------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """A gang is submitted."""
        if sum(gang.startswith(f"{NAMESPACE}/g") for gang in self.cluster.workloads) >= MOST_GANGS:
            return
        self.number += 1
        workload = self._workload(f"g{self.number:03}")
        self.cluster.submit(workload)
        self.arrived.add(workload.key)

    def finish(self) -> None:
        """A gang is done and gone."""
        if self.cluster.workloads:
            self.cluster.finish(self.rng.choice(sorted(self.cluster.workloads)))

    def scale(self) -> None:
        """A leaf gets a pod more, or one less than it has."""
        if not self.cluster.workloads:
            return
        gang = self.rng.choice(sorted(self.cluster.workloads))
        workload = self.cluster.workloads[gang]
        leaf = self.rng.choice(sorted(workload.leaves))
        template = workload.leaves[leaf]
        pods = max(template.pods + self.rng.choice((-1, 1)), 1)
        self.cluster.scale(replace(workload, leaves={**workload.leaves, leaf: replace(template, pods=pods)}))
        self.touched.add(gang)

    def shrink(self) -> None:
        """A role is taken out of a gang while its pods may run: they are leftovers then (N4)."""
        able = [gang for gang, one in self.cluster.workloads.items() if len(one.leaves) > 1 and "l0" in one.leaves]
        if not able:
            return
        gang = self.rng.choice(sorted(able))
        workload = self.cluster.workloads[gang]
        groups = workload.group["spec"]["subGroups"][:-1]
        spec = {**workload.group["spec"], "subGroups": groups}
        spec["minSubGroup"] = min(spec["minSubGroup"], len(groups))
        leaves = {leaf: one for leaf, one in workload.leaves.items() if leaf in {raw["name"] for raw in groups}}
        self.cluster.edit(replace(workload, group=workload.group | {"spec": spec}, leaves=leaves))
        self.touched.add(gang)

    def fail(self) -> None:
        """A pod of ours ends, and its controller makes another one."""
        running = [pod for pod in self.cluster.pods() if pod["spec"].get("nodeName") and not is_foreign(pod)]
        if running:
            pod = self.rng.choice(running)
            self.cluster.remove("Pod", key_of(pod))
            self.touched.add(gang_of(pod))
            self.cluster.reconcile()

    def lose(self) -> None:
        """A node goes."""
        nodes = sorted(raw["metadata"]["name"] for raw in self.cluster.raws["Node"].values())
        if len(nodes) > 2:
            name = self.rng.choice(nodes)
            hit = {gang_of(pod) for pod in self.cluster.pods() if pod["spec"].get("nodeName") == name}
            self.lost.append(self.cluster.lose_node(name))
            self.cluster.reconcile()
            self.touched |= {f"node/{name}", *hit}

    def recover(self) -> None:
        """A node returns."""
        if self.lost:
            node = self.lost.pop()
            self.cluster.put(node)
            self.touched.add(f"node/{node['metadata']['name']}")

    def resize(self) -> None:
        """An administrator changes a quota or a limit."""
        queue = self.cluster.raws["Queue"][self.rng.choice(sorted(self.cluster.raws["Queue"]))]
        quota = self.rng.randint(0, self.gpus)
        gpu = {"quota": quota} | ({"limit": self.rng.randint(quota, self.gpus)} if self.rng.random() < 0.5 else {})
        self.cluster.put(queue | {"spec": {"resources": {"gpu": gpu}}})
        self.touched.add(f"queue/{queue['metadata']['name']}")

    def intrude(self) -> None:
        """Another scheduler binds a pod, or leaves one waiting; it may name one of our PodGroups, or one of its own."""
        rng = self.rng
        self.number += 1
        groups = sorted(self.cluster.raws["PodGroup"])
        gang = rng.choice(groups).partition("/")[2] if groups and rng.random() < 0.4 else f"f{self.number:03}"
        if gang.startswith("f"):
            spec = {"minMember": 1, "queue": "q0", "priorityClassName": "p30"}
            self.cluster.put(_object("scheduling.run.ai/v2alpha2", "PodGroup", gang, NAMESPACE, spec=spec))
        container = {"name": "main", "resources": {"requests": {GPU: "1"}}}
        pod = _object("v1", "Pod", f"x{self.number:03}", NAMESPACE)
        pod["metadata"] |= {"annotations": {"pod-group-name": gang}, "creationTimestamp": self.cluster.stamp()}
        node = self._roomy_node() if rng.random() < 0.8 else ""
        pod["spec"] = {"schedulerName": OTHER, "containers": [container]} | ({"nodeName": node} if node else {})
        self.cluster.put(pod | {"status": {"phase": "Running" if node else "Pending"}})
        self.touched |= {f"node/{node}"} if node else set()

    def _roomy_node(self) -> str:
        """A node with a GPU that is neither used nor promised; empty: there is none."""
        free = {
            raw["metadata"]["name"]: int(raw["status"]["allocatable"][GPU])
            for raw in self.cluster.raws["Node"].values()
        }
        for pod in self.cluster.pods():
            for node in {pod["spec"].get("nodeName"), pod.get("status", {}).get("nominatedNodeName")} & free.keys():
                free[str(node)] -= int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])
        return next((name for name in sorted(free) if free[name] > 0), "")


EVENTS = (
    RandomCluster.arrive,
    RandomCluster.arrive,
    RandomCluster.arrive,
    RandomCluster.finish,
    RandomCluster.scale,
    RandomCluster.shrink,
    RandomCluster.fail,
    RandomCluster.lose,
    RandomCluster.recover,
    RandomCluster.resize,
    RandomCluster.intrude,
)


def is_foreign(pod: Raw) -> bool:
    """Whether a pod asks for another scheduler (N6)."""
    return bool(pod["spec"].get("schedulerName", "muster") != "muster")


def _level(rng: random.Random, group: Raw, share: float) -> None:
    if rng.random() < share:
        kind = rng.choice(("requiredTopologyLevel", "requiredTopologyLevel", "preferredTopologyLevel"))
        group["topologyConstraint"] = {kind: rng.choice(("zone", "rack", "rack"))}


def _object(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Raw:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def describe(seed: int, cycles: int = CYCLES) -> Iterator[str]:
    """A cluster in lines: what had changed, and what each plan does."""
    cluster = RandomCluster(seed)
    for _ in range(cycles):
        cycle = cluster.cycle()
        yield f"cycle {cycle.number}: changed {sorted(cycle.touched)}, new {sorted(cycle.arrived)}"
        for what in ("bindings", "nominations", "evictions"):
            for one in cycle.plan[what]:
                more = f" {one['reason']} for {one['for']} to {one.get('moveTo', '-')}" if what == "evictions" else ""
                yield f"  {what[:-1]:<10} {one['pod']} of {one['podGroup']} {one['subGroup']} on {one['node']}{more}"
        for one in cycle.plan["podGroups"]:
            yield f"  {one['verdict']:<10} {one['name']} {[why['reason'] for why in one['reasons']]}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(describe(int(sys.argv[1]))) + "\n")
