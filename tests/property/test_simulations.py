"""Conservation in virtual time: resources, pods and gangs at every moment, and the promises of plans (I1-I7, I10, I11).

The independent checker reads the objects that each plan was made on; what the simulation counts as it goes is compared
with sums over all of its objects.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.core import Pod
from muster.api.objects import key
from muster.model.gang.pod_state import holds_resources
from muster.model.snapshot import take
from muster.planning.cycle import plan as make_plan
from muster.reporting.plans import data
from muster.simulator.engine.simulated_scheduler import AppliedCycle
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.simulate import prepare, simulate
from muster.validation.pods.requests import requests
from tests.oracles.checker import broken
from tests.support.simulations import GPU, manifests, scenario_of

EXAMPLES = 60 if settings.default is None or settings.default.max_examples <= 1000 else 5_000
Raw = dict[str, Any]


@st.composite
def gangs(draw: st.DrawFn) -> Raw:
    """Flat, of roles, or replicas; all or nothing, or elastic; with a level or without."""
    pods = draw(st.integers(1, 4))
    requests_ = {GPU: draw(st.sampled_from((1, 2, 4)))}
    level = draw(st.sampled_from(("", "", "rack", "zone")))
    match draw(st.sampled_from(("flat", "roles", "replicas"))):
        case "flat":
            return {"pods": pods, "minPods": draw(st.integers(1, pods)), "requests": requests_, "level": level}
        case "roles":
            roles = [
                {"name": "a", "pods": 1, "requests": {"cpu": 2}},
                {"name": "b", "pods": pods, "requests": requests_},
            ]
            return {"roles": roles, "preferredLevel": level}
        case _:
            replicas = draw(st.integers(2, 3))
            least = draw(st.integers(1, replicas))
            return {
                "pods": draw(st.integers(1, 2)),
                "requests": requests_,
                "replicas": replicas,
                "minReplicas": least,
                "replicaLevel": level,
            }


@st.composite
def workloads(draw: st.DrawFn, name: str) -> Raw:
    least = draw(st.integers(1, 20))
    return {
        "name": name,
        "queue": draw(st.sampled_from(("a", "b"))),
        "priorityClass": draw(st.sampled_from(("low", "high"))),
        "preemptibility": draw(st.sampled_from(("", "preemptible", "semi-preemptible"))),
        "arrivals": {
            "interval": {"kind": "exponential", "mean": draw(st.integers(30, 600))},
            "count": draw(st.integers(1, 6)),
        },
        "duration": {"kind": "uniform", "least": f"{least}m", "most": f"{least + draw(st.integers(0, 30))}m"},
        "onEviction": draw(st.sampled_from(("restart", "resume"))),
        "gang": (gang := draw(gangs())),
        **({"scaling": _scaling(gang)} if draw(st.booleans()) else {}),
    }


def _scaling(gang: Raw) -> Raw:
    """As far down as its minimum; in the morning, when numbers change most."""
    least = gang["minPods"] / gang["pods"] if "minPods" in gang else 1
    return {"least": least, "peak": "8h", "every": "5m"}


@st.composite
def scenarios(draw: st.DrawFn) -> Raw:
    """Small and busy: a few nodes, two queues, failures and drains."""
    changes = st.fixed_dictionaries(
        {
            "nodes": st.lists(st.sampled_from(("node-000", "node-001")), min_size=1, max_size=2, unique=True),
            "at": st.integers(0, 3000),
            "lasts": st.sampled_from((1, 90, 1200)),
        }
    )
    quota = {"cpu": {"quota": -1}, "memory": {"quota": -1}}
    return {
        "seed": draw(st.integers(0, 1000)),
        "horizon": "2h",
        "cluster": {
            "nodes": draw(st.integers(2, 6)),
            "gpus": draw(st.sampled_from((2, 4, 8))),
            "topology": "zone=1,rack=2",
        },
        "queues": [
            {"name": "a", "resources": {"gpu": {"quota": draw(st.integers(0, 16))}, **quota}},
            {"name": "b", "resources": {"gpu": {"quota": 4, "limit": draw(st.sampled_from((-1, 8)))}, **quota}},
        ],
        "priorityClasses": {"low": 40, "high": 90},
        "workloads": [draw(workloads(f"w{i}")) for i in range(draw(st.integers(1, 3)))],
        "failures": draw(st.lists(changes, max_size=2)),
        "drains": draw(st.lists(changes, max_size=2)),
        "kubelet": {"start": draw(st.sampled_from((0, 5))), "stop": draw(st.sampled_from((0, 30)))},
    }


class Conservation:
    """Compares what a simulation counts with sums over its objects."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.times: list[int] = []

    def check_cycle(self, cycle: AppliedCycle) -> None:
        """The independent checker on what the plan was made on."""
        self.broken += broken(manifests(cycle.snapshot.objects), data(cycle.plan), cycle.snapshot.now)

    def check_moment(self, simulation: Simulation) -> None:
        self.times.append(simulation.now_ms)
        cluster = simulation.cluster
        held = [pod for pod in cluster.pods.values() if pod.spec.node_name and holds_resources(pod)]
        self._compare("allocated", _sum(held), cluster.usage.allocated)
        by_node = Counter[str]()
        for pod in held:
            by_node[pod.spec.node_name] += requests(pod.spec).get(GPU, 0)
        sizes = {node.metadata.name: node.status.allocatable.get(GPU, 0) for node in cluster.objects.nodes}
        self.broken += [f"{node} holds {gpus} GPUs" for node, gpus in by_node.items() if gpus > sizes[node]]
        for gang, run in simulation.runs.items():
            pods = cluster.pods_of(gang)
            terminating = sum(key(pod.metadata) in cluster.retired for pod in pods)
            if len(pods) - terminating != (0 if run.finished_ms is not None else run.wanted_pods):
                self.broken.append(f"{gang} has {len(pods)} pods")
            if (run.finished_ms is None) is not (gang in cluster.groups):
                self.broken.append(f"{gang}: its PodGroup and its state differ")
        waiting = sum(run.waits_since_ms is not None for run in simulation.runs.values())
        working = sum(run.works_since_ms is not None for run in simulation.runs.values())
        counted = (simulation.recorder.waiting_gangs, simulation.recorder.working_gangs)
        if counted != (waiting, working):
            self.broken.append(f"waiting and working: {counted} counted, {(waiting, working)} there are")

    def _compare(self, what: str, summed: Counter[str], counted: Counter[str]) -> None:
        if +summed != +counted:
            self.broken.append(f"{what}: {dict(+counted)} counted, {dict(+summed)} summed up")


def _sum(pods: list[Pod]) -> Counter[str]:
    total = Counter[str]()
    for pod in pods:
        total.update(requests(pod.spec))
    return total


@given(scenarios())
@settings(max_examples=EXAMPLES)
def test_nothing_is_lost_and_every_promise_is_kept(parts: Raw) -> None:
    """Time never runs back, and ends; gangs finish once, or are still there at the horizon."""
    conservation = Conservation()
    hooks = Hooks(on_moment=conservation.check_moment, on_cycle=conservation.check_cycle)
    simulation = prepare(scenario_of(**parts), Path(), hooks)
    simulation.run()
    assert conservation.broken == []
    assert conservation.times == sorted(conservation.times)
    events = Counter(simulation.recorder.events["event"])
    assert events["arrived"] == len(simulation.runs)
    assert events["finished"] == sum(run.finished_ms is not None for run in simulation.runs.values())


@given(scenarios())
@settings(max_examples=EXAMPLES // 3)
def test_the_same_scenario_gives_the_same_bytes(parts: Raw) -> None:
    first, second = (msgspec.json.encode(simulate(scenario_of(**parts), Path()).to_dict()) for _ in range(2))
    assert first == second


@given(scenarios())
@settings(max_examples=EXAMPLES // 3)
def test_memory_and_incremental_snapshots_change_no_plan(parts: Raw) -> None:
    """Every plan of a simulation is that of a snapshot taken from its objects, without any memory (X3, X7)."""
    different: list[str] = []

    def compare(cycle: AppliedCycle) -> None:
        taken = take(cycle.snapshot.objects, cycle.snapshot.now)
        if data(make_plan(taken)) != data(cycle.plan):
            different.append(str(cycle.snapshot.now))

    prepare(scenario_of(**parts), Path(), Hooks(on_cycle=compare)).run()
    assert different == []
