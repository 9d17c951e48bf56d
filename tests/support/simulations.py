"""Small simulations for tests: a scenario as a dict, run with every cycle and every moment at hand."""

from pathlib import Path
from typing import Any

import msgspec

from muster.api.decoding import encode
from muster.api.objects import WATCHED_KINDS, Objects
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.scenario.loading import read_scenario
from muster.simulator.scenario.types import Scenario
from muster.simulator.simulate import prepare

Raw = dict[str, Any]
GPU = "nvidia.com/gpu"
KINDS = {
    "pod_groups": "PodGroup",
    "queues": "Queue",
    "topologies": "Topology",
    "pods": "Pod",
    "nodes": "Node",
    "priority_classes": "PriorityClass",
}


def scenario_of(**parts: Any) -> Scenario:
    """A scenario from its parts, as a file would hold them."""
    return read_scenario(msgspec.json.encode({"name": "test", **parts}), "test.yaml")


def workload(name: str = "train", gpus: int = 1, pods: int = 1, **more: Any) -> Raw:
    """Gangs of pods with GPUs; by default one that arrives at the start and runs for ten minutes."""
    gang = {"pods": pods, "requests": {GPU: gpus}, **more.pop("gang", {})}
    base = {"arrivals": {"count": 1}, "duration": {"kind": "constant", "value": "10m"}}
    return {"name": name, **base, "gang": gang, **more}


def run(folder: Path = Path(), hooks: Hooks | None = None, **parts: Any) -> Simulation:
    """A simulation that came to its end."""
    simulation = prepare(scenario_of(**parts), folder, hooks)
    simulation.run()
    assert simulation.is_complete
    return simulation


def history(simulation: Simulation, gang: str = "") -> list[tuple[float, str]]:
    """What happened to one gang, or to all: seconds and events."""
    events = simulation.recorder.events
    rows = zip(events["at_seconds"], events["event"], events["gang"], strict=True)
    return [(at, event) for at, event, name in rows if not gang or name == gang]


def manifests(objects: Objects) -> list[Raw]:
    """Objects as a checker reads them."""
    versions = {resource.kind: resource.api_version for resource in WATCHED_KINDS}
    return [
        {"apiVersion": versions[kind], "kind": kind, **encode(item)}
        for field, kind in KINDS.items()
        for item in getattr(objects, field)
    ]
