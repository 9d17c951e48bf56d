"""The schedulers that muster is compared with leave out what they say, and nothing else."""

from typing import Any

import pytest
from bench.baselines import PLANNERS, best_fit_in_order, pods_one_by_one

from muster.simulator.engine.simulated_scheduler import AppliedCycle, Planner
from muster.simulator.engine.simulation import Hooks
from tests.support.simulations import run, workload

RACKS = {"nodes": 2, "gpus": 8, "topology": "rack=2"}


def bound_pods(planner: Planner | None, **parts: Any) -> dict[str, str]:
    """The pods that the first cycle binds, and where."""
    cycles: list[AppliedCycle] = []
    run(hooks=Hooks(planner=planner, on_cycle=cycles.append), **parts)
    return {binding.pod: binding.node for binding in cycles[0].plan.bindings}


@pytest.mark.parametrize("name", PLANNERS)
def test_a_gang_that_fits_is_bound_by_each_of_them(name: str) -> None:
    assert len(bound_pods(PLANNERS[name], cluster=RACKS, workloads=[workload(pods=4, gpus=2)])) == 4


@pytest.mark.parametrize(("name", "bound"), [("muster", 0), ("best fit in order", 0), ("first k of n", 0)])
def test_with_gangs_nothing_starts_that_cannot_start_as_a_whole(name: str, bound: int) -> None:
    assert len(bound_pods(PLANNERS[name], cluster=RACKS, workloads=[workload(pods=3, gpus=8)])) == bound


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "pods one by one"])
def test_a_level_is_that_of_the_only_topology(name: str) -> None:
    """T4: a gang that names a level alone, and fits into a rack, is bound there."""
    parts = {"cluster": RACKS, "workloads": [workload(pods=4, gpus=2, gang={"level": "rack"})]}
    assert len(set(bound_pods(PLANNERS[name], **parts).values())) == 1


def test_without_gangs_pods_start_that_are_of_no_use_alone() -> None:
    assert len(bound_pods(pods_one_by_one, cluster=RACKS, workloads=[workload(pods=3, gpus=8)])) == 2


def test_without_gangs_no_domain_is_kept() -> None:
    gang = {"level": "rack"}
    parts = {"cluster": RACKS, "workloads": [workload(pods=5, gpus=2, gang=gang)]}
    assert not bound_pods(best_fit_in_order, **parts)
    assert set(bound_pods(pods_one_by_one, **parts).values()) == {"node-000", "node-001"}


def test_a_pod_fills_the_node_that_it_fills_best() -> None:
    """The small one goes to what the large one left."""
    parts = {"cluster": RACKS, "workloads": [workload("large", gpus=6), workload("small", gpus=2)]}
    assert len(set(bound_pods(best_fit_in_order, **parts).values())) == 1


def test_each_gang_takes_all_that_it_can_before_the_next_one_gets_its_minimum() -> None:
    """muster gives every gang its minimum first."""
    gang = {"minPods": 1}
    parts = {"cluster": {"nodes": 1, "gpus": 8}, "workloads": [workload(pods=8, gang=gang, arrivals={"count": 2})]}
    assert {pod.rsplit("-", 1)[0] for pod in bound_pods(best_fit_in_order, **parts)} == {"train-0"}
    assert {pod.rsplit("-", 1)[0] for pod in bound_pods(None, **parts)} == {"train-0", "train-1"}
