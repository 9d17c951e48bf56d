"""Results as a report shows them: the same numbers, and why gangs waited over time."""

from itertools import pairwise
from pathlib import Path

import pytest

from muster.reporting.simulation.render import render
from muster.simulator.engine.histories import MOST_REASONS, MOST_SAMPLES, DomainSamples, QueueHistory, WaitHistory
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.result import Result
from muster.simulator.simulate import simulate
from tests.support.simulations import scenario_of, workload

RACKS = {"nodes": 4, "gpus": 8, "topology": "rack=2"}


def result(**parts: object) -> Result:
    return simulate(scenario_of(cluster=RACKS, **parts), Path())


@pytest.fixture(scope="module")
def busy() -> Result:
    """Three gangs of three nodes each, one after the other; a node is lost while the second one runs."""
    failure = {"nodes": ["node-000"], "at": "15m", "lasts": "5m"}
    return result(workloads=[workload(gpus=8, pods=3, arrivals={"count": 3})], failures=[failure])


def test_every_column_has_a_row_for_each_gang_and_each_moment(busy: Result) -> None:
    (variant,) = describe_results([busy]).variants
    moments, gangs = len(busy.timeline["at_seconds"]), len(busy.gangs["gang"])
    columns = [variant.timeline.waiting_gangs, variant.timeline.idle_gpus, variant.timeline.resources[0].allocated]
    assert {len(column) for column in columns} == {moments}
    assert {len(part) for queue in variant.queues for part in (queue.allocated, queue.fair_share)} == {moments}
    assert {len(getattr(variant.gangs, name)) for name in variant.gangs.__struct_fields__} == {gangs}


def test_figures_are_those_of_the_result(busy: Result) -> None:
    (variant,) = describe_results([busy]).variants
    shown = {figure.name: figure.amount for figure in variant.figures}
    assert shown["gangs finished"] == busy.figures["gangs"]["finished"] == 3
    assert shown["first wait, p99"] == busy.figures["waitSeconds"]["all"]["p99"]
    assert shown["nvidia.com/gpu allocated"] == busy.figures["resources"]["nvidia.com/gpu"]["allocated"]


def test_stretches_of_waiting_add_up_to_the_wait_and_say_why(busy: Result) -> None:
    (variant,) = describe_results([busy]).variants
    assert [wait.gang for wait in variant.longest_waits][:2] == ["train-2", "train-1"]
    for wait in variant.longest_waits:
        assert sum(one.to_seconds - one.from_seconds for one in wait.stretches) == pytest.approx(wait.waited_seconds)
        assert all(one.reason and one.from_seconds < one.to_seconds for one in wait.stretches)


def test_the_heat_map_has_the_gpus_of_every_rack_and_a_lost_node_offers_none(busy: Result) -> None:
    (variant,) = describe_results([busy]).variants
    heat = variant.heat
    assert heat is not None
    assert (heat.level, len(heat.domains)) == ("rack", 2)
    by_time = dict(zip(heat.at_seconds, zip(heat.used_gpus, heat.capacity_gpus, strict=True), strict=True))
    used, capacity = by_time[0.0]
    assert (sum(used), list(capacity)) == (24, [16, 16])
    assert list(by_time[900.0][1]) == [8, 16]


def test_a_cluster_without_a_topology_has_no_heat_map() -> None:
    plain = simulate(scenario_of(cluster={"nodes": 1, "gpus": 8}, workloads=[workload()]), Path())
    assert describe_results([plain]).variants[0].heat is None


def test_scenarios_of_one_name_are_numbered(busy: Result) -> None:
    report = describe_results([busy, busy])
    assert [variant.name for variant in report.variants] == ["test (1)", "test (2)"]
    assert report.note == ""
    assert "train-2" in render(report)


def test_settings_are_those_that_the_scenario_states(busy: Result) -> None:
    settings = dict(describe_results([busy]).variants[0].settings)
    assert settings["cluster.nodes"] == "4"
    assert settings["workloads[0].gang.pods"] == "3"


# histories ------------------------------------------------------------------------------------------------------------


def test_a_wait_has_a_stretch_for_each_reason() -> None:
    waits = WaitHistory()
    for at_ms, reason in ((5, "a"), (7, "a"), (9, "b")):
        waits.note("g", 1, at_ms, reason)
    waits.end("g", 12)
    waits.end("g", 13)
    waits.note("g", 20, 21, "a")
    stretches = [(one.from_ms, one.to_ms, one.reason) for one in waits.by_gang["g"]]
    assert stretches == [(1, 9, "a"), (9, 12, "b"), (20, None, "a")]


def test_reasons_that_alternate_without_end_are_bounded() -> None:
    waits = WaitHistory()
    for at_ms in range(3 * MOST_REASONS):
        waits.note("g", 0, at_ms, str(at_ms % 2))
    assert len(waits.by_gang["g"]) == MOST_REASONS


def test_a_queue_that_comes_later_had_nothing_before() -> None:
    queues = QueueHistory(["nvidia.com/gpu"])
    queues.sample(0, {"a": {"nvidia.com/gpu": 1}}, {})
    queues.sample(1, {"b": {"nvidia.com/gpu": 2}}, {"b": {"nvidia.com/gpu": 3}})
    queues.sample(1, {"b": {"nvidia.com/gpu": 4}}, {"b": {"nvidia.com/gpu": 3}})
    assert queues.allocated == {"a": [1, 0], "b": [0, 4]}
    assert queues.fair_share == {"a": [0, 0], "b": [0, 3]}


def test_samples_of_domains_are_bounded_and_cover_the_whole_time(busy: Result) -> None:
    samples = DomainSamples(busy.histories.domains.usage)
    for at_ms in range(0, 100_000_000, 10_000):
        samples.sample(at_ms)
    assert MOST_SAMPLES // 4 < len(samples.at_ms) <= MOST_SAMPLES
    assert samples.at_ms[0] == 0
    assert samples.at_ms[-1] > 99_000_000
    steps = [after - before for before, after in pairwise(samples.at_ms)]
    assert max(steps) < 100_000_000 / 100
