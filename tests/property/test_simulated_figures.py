"""Figures of simulations are what objects and rows say, added up independently."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from muster.simulator.engine.simulation import Hooks
from muster.simulator.results.result import Result, to_csv
from muster.simulator.simulate import make_result, prepare
from tests.oracles.simulated_figures import GPU, HOUR, RecomputedFigures, rank, rows_of, waits_in
from tests.property.test_simulations import EXAMPLES, scenarios
from tests.support.simulations import scenario_of

Raw = dict[str, Any]


def simulated(parts: Raw) -> tuple[Result, RecomputedFigures]:
    scenario, recomputed = scenario_of(**parts), RecomputedFigures()
    hooks = Hooks(on_moment=recomputed.see_moment, on_cycle=recomputed.see_cycle)
    simulation = prepare(scenario, Path(), hooks)
    simulation.run()
    recomputed.pass_time(simulation.now_ms / 1000)
    return make_result(scenario, simulation), recomputed


@given(scenarios())
@settings(max_examples=EXAMPLES)
def test_figures_are_those_of_the_objects(parts: Raw) -> None:
    """Shares, fairness, fragmentation, domains, first waits and GPU-hours that were lost."""
    result, again = simulated(parts)
    figures, passed = result.figures, (again.at or 0.0) - again.begun
    capacity = again.sums["capacity"]
    assert figures["resources"][GPU]["allocated"] == pytest.approx(again.sums["allocated"] / capacity, abs=1e-5)
    assert figures["resources"][GPU]["utilised"] == pytest.approx(again.sums["working"] / capacity, abs=1e-5)
    fragments = figures["fragmentation"]
    assert fragments["idleGpus"] == pytest.approx(again.sums["idle"] / passed, abs=1e-2)
    assert fragments["strandedGpuHours"] == pytest.approx(again.sums["stranded"] / HOUR, abs=1e-2)
    assert fragments["largestFreeNodeGpus"] == pytest.approx(again.sums["freest_node"] / passed, abs=1e-2)
    assert fragments["largestFreeDomainGpus"] == pytest.approx(again.sums["freest_domain"] / passed, abs=1e-2)
    for queue, amounts in figures["fairness"]["queues"].items():
        sums = again.queue_sums[queue]
        assert amounts["allocated"] == pytest.approx(sums["allocated"] / passed, abs=1e-2)
        assert amounts["fairShare"] == pytest.approx(sums["fairShare"] / passed, abs=1e-2)
        assert amounts["lacked"] == pytest.approx(sums["below"] / (sums["fairShare"] or 1), abs=1e-4)
    gangs = result.gangs
    lost = zip(gangs["gpu_hours_lost_to_evictions"], gangs["gpu_hours_lost_to_failures"], strict=True)
    columns = zip(gangs["gang"], gangs["wait_seconds"], gangs["domains"], gangs["least_domains"], lost, strict=True)
    for name, wait, domains, least, hours in columns:
        gang = again.gangs[name]
        assert wait == (None if gang.first_start is None else pytest.approx(gang.first_start - gang.arrived))
        assert (domains, least) == (gang.domains, gang.least_domains)
        assert sum(hours) == pytest.approx(gang.lost / HOUR, abs=1e-4)


@given(scenarios())
@settings(max_examples=EXAMPLES // 3)
def test_figures_are_those_of_the_rows(parts: Raw) -> None:
    """Waits with their ranks, states, evictions and failures, from the CSV files alone."""
    result, _ = simulated(parts)
    gangs = {row["gang"]: row for row in rows_of(to_csv([("s", result.gangs)]))}
    events = rows_of(to_csv([("s", result.events)]))
    figures, waits = result.figures, waits_in(events)
    assert figures["gangs"]["started"] == len(waits)
    assert figures["gangs"]["finished"] == sum(row["event"] == "finished" for row in events)
    for label, column in (("byClass", "class"), ("byQueue", "queue"), ("all", "scenario")):
        groups = {row[column] for row in gangs.values()}
        for group in groups:
            spread = figures["waitSeconds"][label] if label == "all" else figures["waitSeconds"][label][group]
            inside = [waits[name] for name, row in gangs.items() if row[column] == group and name in waits]
            assert spread["count"] == len(inside)
            for percent in (50, 95, 99) if inside else ():
                assert spread[f"p{percent}"] == pytest.approx(rank(inside, percent), abs=1e-3)
    pods = Counter[str]()
    for row in events:
        pods[row["event"]] += int(row["pods"])
    assert figures["evictions"]["movedPods"] == pods["moved"]
    assert figures["evictions"]["failedPods"] == pods["node lost"]
    assert figures["evictions"]["evictedPods"] == pods["evicted"] + pods["drain"]
    for name, row in gangs.items():
        rows = [(event["event"], float(event["at_seconds"])) for event in events if event["gang"] == name]
        assert int(row["starts"]) == sum(event == "started" for event, _ in rows)
        assert row["finished_seconds"] == "" or float(row["finished_seconds"]) == dict(rows)["finished"]
