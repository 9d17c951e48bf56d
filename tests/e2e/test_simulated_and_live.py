"""One definition of the world: a scenario in virtual time, and the same one live on the embedded cluster.

Live means API server, watches, cache, scheduler with its threads, writes and kubelets; only time is virtual there, too.
"""

from pathlib import Path
from typing import Any

import pytest

from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.results.gang_frame import gang_frame
from muster.simulator.scenario.types import Scenario
from muster.simulator.simulate import prepare
from tests.support.live.played_scenario import Decided, PlayedScenario, decided
from tests.support.live.virtual_loop import run_virtually
from tests.support.simulations import GPU, scenario_of, workload

QUOTA = {"cpu": {"quota": -1}, "memory": {"quota": -1}}
PARTS: dict[str, Any] = {
    "horizon": "40m",
    "kubelet": {"start": "2s", "stop": "20s"},
    "priorityClasses": {"low": 40, "high": 90},
}


def times(first: float = 0, count: int = 1, every: float = 0) -> dict[str, Any]:
    return {"first": first, "count": count, "interval": {"kind": "constant", "value": every}}


def lasting(seconds: float) -> dict[str, Any]:
    return {"kind": "constant", "value": seconds}


SCENARIOS: dict[str, dict[str, Any]] = {
    "gangs wait for each other": {
        "cluster": {"nodes": 2, "gpus": 8, "topology": "rack=2"},
        "workloads": [
            workload("big", pods=2, gpus=8, arrivals=times(count=3, every=100), duration=lasting(300)),
            workload("small", pods=2, gpus=3, arrivals=times(7, 4, 60), duration=lasting(200), gang={"level": "rack"}),
        ],
    },
    "a higher priority preempts": {
        "cluster": {"nodes": 2, "gpus": 8},
        "workloads": [
            workload("low", pods=4, gpus=4, priorityClass="low", duration=lasting(900)),
            workload("high", pods=2, gpus=4, priorityClass="high", arrivals=times(60), duration=lasting(300)),
        ],
    },
    "an elastic gang grows, of roles and replicas": {
        "cluster": {"nodes": 4, "gpus": 8, "topology": "rack=2"},
        "workloads": [
            workload("short", pods=4, gpus=7, duration=lasting(120)),
            workload("grow", pods=8, gpus=1, arrivals=times(5), gang={"minPods": 2}, speed="fixed"),
            {
                "name": "serve",
                "arrivals": times(30),
                "speed": "fixed",
                "duration": lasting(1200),
                "gang": {
                    "replicas": 3,
                    "minReplicas": 1,
                    "replicaLevel": "rack",
                    "roles": [
                        {"name": "leader", "pods": 1, "requests": {"cpu": 4}},
                        {"name": "worker", "pods": 2, "requests": {GPU: 4}},
                    ],
                },
            },
        ],
    },
    "queues reclaim what is theirs": {
        "cluster": {"nodes": 2, "gpus": 8},
        "queues": [
            {"name": "red", "resources": {"gpu": {"quota": 8}, **QUOTA}},
            {"name": "blue", "resources": {"gpu": {"quota": 8}, **QUOTA}},
        ],
        "workloads": [
            workload("red", gpus=4, queue="red", arrivals=times(0, 4), duration=lasting(1500)),
            workload("blue", gpus=8, queue="blue", arrivals=times(90), duration=lasting(300)),
        ],
    },
    "gangs of one second are as old as each other": {
        "cluster": {"nodes": 1, "gpus": 8},
        "workloads": [
            workload("first", gpus=8, duration=lasting(100)),
            workload("z", gpus=8, arrivals=times(10.2), duration=lasting(100)),
            workload("a", gpus=8, arrivals=times(10.8), duration=lasting(100)),
        ],
    },
    "pods move so that a gang fits": {
        "cluster": {"nodes": 2, "gpus": 8},
        "workloads": [
            workload("brief", gpus=4, arrivals=times(0, 2, 10), duration=lasting(60)),
            workload("long", gpus=4, arrivals=times(5, 2, 10), duration=lasting(900)),
            workload("wide", gpus=8, arrivals=times(120), duration=lasting(300)),
        ],
    },
    "nodes fail, and are drained": {
        "cluster": {"nodes": 3, "gpus": 8},
        "workloads": [
            workload("train", pods=2, gpus=8, duration=lasting(600)),
            workload("more", pods=2, gpus=4, arrivals=times(10), duration=lasting(700)),
        ],
        "failures": [{"nodes": ["node-000"], "at": "100s", "lasts": "150s"}],
        "drains": [{"nodes": ["node-002"], "at": "400s", "lasts": "60s"}],
    },
}


def simulated(scenario: Scenario) -> tuple[Simulation, list[Decided]]:
    decisions: list[Decided] = []
    simulation: Simulation

    def note(cycle: Any) -> None:
        if (one := decided(simulation.now_ms / 1000, cycle.plan)) is not None:
            decisions.append(one)

    simulation = prepare(scenario, Path(), Hooks(on_cycle=note))
    simulation.run()
    return simulation, decisions


async def played(scenario: Scenario) -> PlayedScenario:
    world = PlayedScenario(scenario)
    await world.play()
    return world


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_ends_alike_in_virtual_time_and_live(name: str) -> None:
    """Every cycle that decides something binds and evicts the same pods, at the same time; waits and ends agree."""
    scenario = scenario_of(**{**PARTS, **SCENARIOS[name]})
    simulation, here = simulated(scenario)
    live = run_virtually(played(scenario))
    assert here == live.decisions
    assert sum(len(cycle.bound) for cycle in here) >= len(simulation.runs)
    frame = gang_frame(simulation.runs.values(), simulation.now_ms)
    gangs = [live.gangs[gang] for gang in frame["gang"]]
    assert frame["wait_seconds"] == [gang.wait_seconds for gang in gangs]
    assert frame["finished_seconds"] == [gang.finished_seconds for gang in gangs]
