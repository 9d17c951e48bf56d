"""Gangs that grow and shrink with the time of day."""

from typing import Any

import pytest

from muster.errors import InputError
from muster.simulator.engine.simulation import Simulation
from muster.simulator.scenario.daily_scaling import GangScaling
from tests.support.simulations import history, run, scenario_of, workload

HOUR = 3_600_000
FOREVER: dict[str, Any] = {"arrivals": {"count": 1}, "duration": {}}


def service(**scaling: Any) -> dict[str, Any]:
    """Eight pods at noon, two at midnight."""
    curve = {"least": 0.25, "peak": "12h", "every": "1h", **scaling}
    return workload("serve", pods=8, gang={"minPods": 2}, scaling=curve, duration={})


def sizes(simulation: Simulation) -> list[int]:
    events = simulation.recorder.events
    rows = zip(events["event"], events["pods"], strict=True)
    return [pods for event, pods in rows if event in ("arrived", "scaled")]


def test_a_gang_follows_the_day() -> None:
    """Up to noon and down again, and the same on the next day."""
    simulation = run(cluster={"nodes": 1, "gpus": 8}, horizon="48h", workloads=[service()])
    day = [2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3]
    assert sizes(simulation) == [*day, 2, *day[1:]]
    (gang,) = simulation.runs.values()
    assert gang.evicted_pods == gang.failed_pods == 0
    assert list(simulation.recorder.scale_up_ms) == [0] * 12


def test_pods_that_are_not_wanted_hold_their_resources_until_they_are_gone() -> None:
    """And come back under no name."""
    simulation = run(
        cluster={"nodes": 1, "gpus": 8},
        horizon="18h20m",
        kubelet={"start": 0, "stop": "30m"},
        workloads=[service()],
    )
    (gang,) = simulation.runs.values()
    assert len(simulation.cluster.pods) == gang.wanted_pods + 1
    assert len(simulation.cluster.retired) == 1


def test_a_gang_that_cannot_grow_waits_for_capacity() -> None:
    """Another one takes six of eight GPUs until three in the afternoon."""
    early = workload("early", gpus=6, duration={"kind": "constant", "value": "15h"})
    simulation = run(cluster={"nodes": 1, "gpus": 8}, horizon="24h", workloads=[early, service()])
    assert max(simulation.recorder.scale_up_ms) > 10 * HOUR
    assert (0.0, "started") in history(simulation, "serve-0")


@pytest.mark.parametrize("pods", [1, 3, 8, 2551])
def test_numbers_are_between_the_least_and_all(pods: int) -> None:
    curve = GangScaling(0.4, 14 * HOUR, HOUR // 4)
    numbers = [curve.wanted(pods, at * HOUR // 4) for at in range(96)]
    assert max(numbers) == numbers[56] == pods
    assert min(numbers) == numbers[8] == max(1, -(-pods * 2 // 5))


def test_peaks_spread_by_chance() -> None:
    """Each gang draws its own, from the seed."""
    arrivals = {"count": 4}
    simulation = run(
        cluster={"nodes": 4, "gpus": 8}, horizon="6h", workloads=[service(spread="6h") | {"arrivals": arrivals}]
    )
    assert len({run.wanted for run in simulation.runs.values()}) > 1


@pytest.mark.parametrize(
    ("scaling", "says"),
    [
        ({"least": 0.1}, r"scaling.least: leaves 1 of 8 pods, and 2 are needed"),
        ({"least": 0}, r"scaling.least: must be between 0.001 and 1"),
        ({"peak": "25h"}, "scaling.peak: is a day or more"),
        ({"every": "1s"}, "scaling.every: is less than a minute"),
        ({"every": "often"}, "scaling.every"),
    ],
)
def test_a_curve_that_cannot_be_is_refused(scaling: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        scenario_of(cluster={"nodes": 1}, horizon="1h", workloads=[service(**scaling)])


def test_scaling_without_a_horizon_is_refused() -> None:
    with pytest.raises(InputError, match="needs a `horizon`"):
        scenario_of(cluster={"nodes": 1}, workloads=[service()])


def test_a_trace_is_scaled_above_its_minimums_only() -> None:
    trace = {"name": "jobs", "file": "jobs.csv", "minShare": 0.5, "scaling": {"least": 0.4}}
    with pytest.raises(InputError, match=r"scaling.least: is 0.4, less than `minShare`, 0.5"):
        scenario_of(cluster={"nodes": 1}, horizon="1h", traces=[trace])
