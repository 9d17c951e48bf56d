"""The loop: what happens to gangs in virtual time."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.errors import InputError
from muster.placement.budget import Cancelled
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.simulate import make_result, prepare
from tests.support import factories
from tests.support.simulations import GPU, history, run, scenario_of, workload

ONE_NODE = {"nodes": 1, "gpus": 8}
KUBELET = {"start": "5s", "stop": "30s"}


def of(simulation: Simulation, gang: str, column: str) -> Any:
    frame = make_result(scenario_of(cluster=ONE_NODE, workloads=[workload()]), simulation).gangs
    return frame[column][frame["gang"].index(gang)]


def test_a_gang_arrives_starts_works_and_finishes() -> None:
    """Bound at once, running after the start delay, done after its duration; then nothing is left to happen."""
    simulation = run(cluster=ONE_NODE, kubelet=KUBELET, workloads=[workload(pods=2)])
    assert history(simulation, "train-0") == [
        (0.0, "arrived"),
        (0.0, "started"),
        (0.0, "full"),
        (5.0, "working"),
        (605.0, "finished"),
    ]
    assert simulation.cluster.pods == {}
    assert simulation.cluster.groups == {}
    assert sum(simulation.recorder.cycles.frame["plans"]) == 1


def test_a_gang_waits_for_the_one_before_it() -> None:
    """It starts in the moment in which the other one finishes."""
    simulation = run(cluster=ONE_NODE, kubelet=KUBELET, workloads=[workload(gpus=8, arrivals={"count": 2})])
    assert of(simulation, "train-0", "wait_seconds") == 0
    assert of(simulation, "train-1", "wait_seconds") == 605
    assert of(simulation, "train-1", "finished_seconds") == 1210


def test_a_gang_that_fits_nowhere_ends_the_simulation_without_a_horizon() -> None:
    """A cycle that changes nothing schedules no other one."""
    simulation = run(cluster=ONE_NODE, workloads=[workload(gpus=9)])
    assert of(simulation, "train-0", "state") == "waiting"
    assert of(simulation, "train-0", "reason") == "NoRoom"
    assert sum(simulation.recorder.cycles.frame["plans"]) == 1
    assert simulation.now_ms == 0


def test_an_elastic_gang_grows_when_another_one_finishes() -> None:
    simulation = run(
        cluster=ONE_NODE,
        kubelet=KUBELET,
        workloads=[
            workload("short", gpus=4),
            workload("elastic", pods=8, gang={"minPods": 2}, duration={"kind": "constant", "value": "1h"}),
        ],
    )
    assert of(simulation, "elastic-0", "wait_seconds") == 0
    assert of(simulation, "elastic-0", "full_size_seconds") == 605


@pytest.mark.parametrize(("speed", "finished"), [("linear", 20.0 * 60 + 5), ("fixed", 10.0 * 60 + 5)])
def test_half_of_the_pods_take_twice_as_long_where_speed_is_linear(speed: str, finished: float) -> None:
    """4 of 8 pods fit."""
    gang = {"minPods": 4}
    simulation = run(
        cluster={"nodes": 1, "gpus": 4}, kubelet=KUBELET, workloads=[workload(pods=8, gang=gang, speed=speed)]
    )
    assert of(simulation, "train-0", "finished_seconds") == finished


def preempted(on_eviction: str) -> Simulation:
    """After five minutes a gang of a higher priority takes the only node for ten."""
    late = {"count": 1, "first": "5m"}
    return run(
        cluster=ONE_NODE,
        kubelet={"start": 0, "stop": "30s"},
        priorityClasses={"low": 40, "high": 90},
        workloads=[
            workload("low", pods=2, gpus=4, priorityClass="low", onEviction=on_eviction),
            workload("high", gpus=8, priorityClass="high", arrivals=late),
        ],
    )


def test_a_preempted_gang_starts_again_from_nothing() -> None:
    """Its pods terminate for 30 s, the other gang runs for ten minutes, then it begins anew."""
    simulation = preempted("restart")
    assert of(simulation, "high-0", "wait_seconds") == 30
    assert of(simulation, "low-0", "evicted_pods") == 2
    assert of(simulation, "low-0", "gpu_hours_lost_to_evictions") == pytest.approx(8 * 300 / 3600, abs=1e-6)
    assert of(simulation, "low-0", "waited_seconds") == 30 + 600
    assert of(simulation, "low-0", "finished_seconds") == 300 + 30 + 600 + 600
    assert (330.0, "started") in history(simulation, "high-0")
    assert [event for _, event in history(simulation, "low-0")].count("interrupted") == 1


def test_a_preempted_gang_that_resumes_loses_nothing() -> None:
    simulation = preempted("resume")
    assert of(simulation, "low-0", "gpu_hours_lost_to_evictions") == 0
    assert of(simulation, "low-0", "finished_seconds") == 300 + 30 + 600 + 300


def test_evicted_pods_come_back_under_new_names() -> None:
    """With new uids, and created when the old ones were gone."""
    pods: dict[str, str] = {}

    def note(simulation: Simulation) -> None:
        pods.update({name: pod.metadata.uid for name, pod in simulation.cluster.pods.items()})

    prepare(
        scenario_of(
            cluster=ONE_NODE,
            workloads=[workload(gpus=8)],
            drains=[{"nodes": ["node-000"], "at": "1m", "lasts": "1m"}],
        ),
        Path(),
        Hooks(on_moment=note),
    ).run()
    assert list(pods) == ["simulated/train-0-0", "simulated/train-0-0-r-1"]
    assert len(set(pods.values())) == 2


def test_a_node_that_is_lost_takes_its_pods_and_comes_back() -> None:
    """The gang starts again once the node is ready: it lost a minute of 8 GPUs."""
    simulation = run(
        cluster=ONE_NODE,
        kubelet={"start": 0, "stop": 0},
        workloads=[workload(gpus=8)],
        failures=[{"nodes": ["node-000"], "at": "1m", "lasts": "2m"}],
    )
    assert of(simulation, "train-0", "failed_pods") == 1
    assert of(simulation, "train-0", "gpu_hours_lost_to_failures") == pytest.approx(8 / 60, abs=1e-6)
    assert of(simulation, "train-0", "finished_seconds") == 60 + 120 + 600
    assert simulation.recorder.timeline.frame[f"capacity_{GPU}"].count(0) >= 1


def test_failures_that_overlap_end_with_the_last() -> None:
    simulation = run(
        cluster=ONE_NODE,
        workloads=[workload(arrivals={"count": 1, "first": "1h"})],
        failures=[
            {"nodes": ["node-000"], "at": "1m", "lasts": "10m"},
            {"nodes": ["node-000"], "at": "5m", "lasts": "10m"},
        ],
    )
    assert [at for at, event in history(simulation) if event == "node back"] == [15.0 * 60]


def test_a_drained_rack_is_left_and_used_again() -> None:
    """Pods of rack r0 are evicted and placed in r1; then r0 takes pods again."""
    simulation = run(
        cluster={"nodes": 2, "gpus": 8, "topology": "rack=2"},
        kubelet={"start": 0, "stop": "10s"},
        workloads=[workload("early", gpus=8), workload("late", gpus=8, arrivals={"count": 1, "first": "5m"})],
        drains=[{"domain": "rack=r0", "at": "1m", "lasts": "5m"}],
    )
    assert of(simulation, "early-0", "evicted_pods") == 1
    assert of(simulation, "late-0", "wait_seconds") == 60
    assert [event for _, event in history(simulation) if event.startswith("drain")] == ["drain", "drain ended"]


def test_a_gang_that_falls_short_is_released_after_its_grace() -> None:
    """S2: one of its two nodes does not come back; its other pod is evicted once the grace of 60 s is over."""
    simulation = run(
        horizon="30m",
        cluster={"nodes": 2, "gpus": 8},
        kubelet={"start": 0, "stop": "10s"},
        workloads=[workload(pods=2, gpus=8, duration={"kind": "constant", "value": "1h"})],
        failures=[{"nodes": ["node-001"], "at": "1m"}],
    )
    events = simulation.recorder.events
    stale = [i for i, reason in enumerate(events["reason"]) if reason == "Stale"]
    assert [events["at_seconds"][i] for i in stale] == [120.0]
    assert of(simulation, "train-0", "state") == "waiting"


def test_random_failures_are_those_of_the_seed() -> None:
    failures = {"interval": {"kind": "exponential", "mean": "10h"}, "repair": {"kind": "constant", "value": "1h"}}

    def lost(seed: int, nodes: int) -> list[tuple[float, str]]:
        parts: dict[str, Any] = {"cluster": {"nodes": nodes}, "randomFailures": failures, "workloads": [workload()]}
        simulation = run(seed=seed, horizon="24h", **parts)
        events = simulation.recorder.events
        rows = zip(events["at_seconds"], events["event"], events["node"], strict=True)
        return [(at, event) for at, event, node in rows if node == "node-000"]

    assert lost(1, 2) == lost(1, 4)
    assert lost(1, 2) != lost(2, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": ["nope"]}, "no node `nope`"),
        ({"domain": "row=1"}, "no level `row`"),
        ({"domain": "rack=x"}, "no rack"),
    ],
)
def test_a_drain_of_what_is_not_there_is_refused(change: dict[str, Any], words: str) -> None:
    scenario = scenario_of(cluster={"nodes": 2, "topology": "rack=2"}, workloads=[workload()], drains=[change])
    with pytest.raises(InputError, match=words):
        prepare(scenario, Path())


def running_pod(name: str, gang: str, node: str) -> dict[str, Any]:
    requests: dict[str, Any] = {GPU: "8"}
    raw = factories.pod(name, gang=gang, namespace="team", phase="Running", scheduler="muster", **requests)
    raw["spec"]["nodeName"] = node
    return raw


def test_a_captured_cluster_goes_on(tmp_path: Path) -> None:
    """Its running gang keeps its node, is preempted, and comes back once the other gang is done."""
    objects = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90},
        factories.node("n1", allocatable={GPU: "8", "pods": "110"}),
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "old", "namespace": "team"},
            "spec": {"minMember": 1},
        },
        running_pod("old-0", "old", "n1"),
    ]
    captured = {"apiVersion": "v1", "kind": "List", "items": objects}
    (tmp_path / "captured.json").write_bytes(msgspec.json.encode(captured))
    simulation = run(
        tmp_path,
        cluster={"snapshot": "captured.json"},
        kubelet={"start": 0, "stop": "30s"},
        workloads=[workload("new", gpus=8, priorityClass="high", arrivals={"count": 1, "first": "1m"})],
    )
    assert of(simulation, "new-0", "finished_seconds") == 60 + 30 + 600
    assert of(simulation, "old", "class") == "captured"
    assert of(simulation, "old", "state") == "working"
    assert list(simulation.cluster.pods) == ["team/old-0-r-1"]


def test_minimum_run_times_wake_the_scheduler() -> None:
    """A gang of a higher priority waits until the other one has run for ten minutes: no event marks that moment."""
    queue = {"name": "default", "preemptMinRuntime": "10m", "resources": {"gpu": {"quota": -1}}}
    simulation = run(
        cluster=ONE_NODE,
        horizon="2h",
        kubelet={"start": 0, "stop": 0},
        priorityClasses={"low": 40, "high": 90},
        queues=[queue],
        workloads=[
            workload("low", gpus=8, queue="default", priorityClass="low", duration={"kind": "constant", "value": "1h"}),
            workload("high", gpus=8, queue="default", priorityClass="high", arrivals={"count": 1, "first": "1m"}),
        ],
    )
    assert of(simulation, "high-0", "wait_seconds") == pytest.approx(9 * 60, abs=1)


def test_no_cycle_is_run_while_nothing_waits() -> None:
    """Starts and finishes of gangs need no plan."""
    simulation = run(
        cluster=ONE_NODE, workloads=[workload(arrivals={"count": 5, "interval": {"kind": "constant", "value": "1h"}})]
    )
    assert sum(simulation.recorder.cycles.frame["plans"]) == 5


def test_a_simulation_can_be_stopped() -> None:
    """What was done stays, and how far it came is known."""
    moments: list[int] = []
    parts: dict[str, Any] = {"count": 50, "interval": {"kind": "constant", "value": "1m"}}
    simulation = prepare(
        scenario_of(cluster=ONE_NODE, workloads=[workload(arrivals=parts)]),
        Path(),
        Hooks(is_stopped=lambda: len(moments) >= 10, on_moment=lambda simulation: moments.append(simulation.now_ms)),
    )
    simulation.run()
    result = make_result(scenario_of(cluster=ONE_NODE, workloads=[workload()]), simulation)
    assert not result.is_complete
    assert result.reached_seconds == moments[-1] / 1000
    assert len(result.gangs["gang"]) < 50


def test_a_plan_that_is_given_up_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise Cancelled

    monkeypatch.setattr("muster.simulator.engine.simulated_scheduler.make_plan", give_up)
    simulation = prepare(scenario_of(cluster=ONE_NODE, workloads=[workload()]), Path())
    simulation.run()
    assert not simulation.is_complete
    assert not any(group.metadata.annotations for group in simulation.cluster.groups.values())
    assert all(not pod.spec.node_name for pod in simulation.cluster.pods.values())
