"""Figures, comparisons and views of results."""

from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.reporting.text import plain
from muster.simulator.results.comparison import compare_results
from muster.simulator.results.figures import percentile, size_of, spread
from muster.simulator.results.result import Result, to_csv
from muster.simulator.results.views import comparison_lines, duration, result_lines, signed
from muster.simulator.simulate import simulate
from tests.support.simulations import GPU, scenario_of, workload

ONE_NODE = {"nodes": 1, "gpus": 8}


def result_of(**parts: Any) -> Result:
    return simulate(scenario_of(**{"cluster": ONE_NODE, "kubelet": {"start": 0, "stop": 0}, **parts}), Path())


def test_allocation_is_weighted_by_time() -> None:
    """Half of the GPUs for half of the time."""
    result = result_of(horizon="20m", workloads=[workload(gpus=4)])
    assert result.figures["resources"][GPU] == {"allocated": 0.25, "utilised": 0.25}
    assert result.figures["fragmentation"]["idleGpus"] == 6.0
    assert result.figures["fragmentation"]["stranded"] == 0


def test_pods_that_start_are_allocated_and_not_utilised() -> None:
    """The start takes as long as the work."""
    result = result_of(horizon="20m", kubelet={"start": "10m"}, workloads=[workload(gpus=8)])
    assert result.figures["resources"][GPU] == {"allocated": 1.0, "utilised": 0.5}


def test_idle_gpus_are_stranded_while_a_gang_fits_nowhere() -> None:
    """6 GPUs idle for ten minutes while 7 are waited for; then 8 idle GPUs, of which 7 are used."""
    late = {"count": 1, "first": "1ms"}
    result = result_of(horizon="20m", workloads=[workload("small", gpus=2), workload("large", gpus=7, arrivals=late)])
    assert result.figures["fragmentation"]["strandedGpuHours"] == pytest.approx(1.0, abs=0.001)


def test_waits_are_grouped_and_those_that_never_started_are_counted_apart() -> None:
    result = result_of(workloads=[workload("a", gpus=8, arrivals={"count": 3}), workload("b", gpus=9)])
    waits = result.figures["waitSeconds"]
    assert waits["all"]["count"] == 3
    assert waits["all"]["never"] == 1
    assert waits["byClass"]["a"]["p50"] == 600
    assert waits["byClass"]["b"] == {"count": 0, "never": 1}
    assert result.figures["gangs"]["waitingBecause"] == {"NoRoom": 1}


def test_fairness_compares_what_queues_hold_with_their_share() -> None:
    """Queue `b` comes second, and lacks its half until the first gang is done."""
    quota = {"cpu": {"quota": -1}, "memory": {"quota": -1}}
    queues = [{"name": name, "resources": {"gpu": {"quota": 4}, **quota}} for name in "ab"]
    result = result_of(
        horizon="20m",
        queues=queues,
        workloads=[
            workload("a", gpus=8, queue="a", preemptibility="non-preemptible"),
            workload("b", gpus=8, queue="b", preemptibility="preemptible", arrivals={"count": 1, "first": "1ms"}),
        ],
    )
    fairness = result.figures["fairness"]
    assert fairness["resource"] == GPU
    assert set(fairness["queues"]) == {"a", "b"}
    assert fairness["queues"]["b"]["allocated"] > 0


def test_domains_are_compared_with_the_fewest_possible() -> None:
    """Two racks of 8 GPUs: 12 GPUs need both."""
    result = result_of(
        cluster={"nodes": 4, "gpus": 4, "topology": "rack=2"},
        workloads=[workload(pods=3, gpus=4), workload("two", gpus=2)],
    )
    assert result.gangs["gang"] == ["train-0", "two-0"]
    assert result.gangs["domains"] == [2, 1]
    assert result.gangs["least_domains"] == [2, 1]
    assert result.figures["domains"]["least"] == 1.0


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (50, 2), (75, 3), (95, 4), (100, 4)])
def test_a_percentile_is_one_of_the_values(percent: int, value: float) -> None:
    assert percentile([1, 2, 3, 4], percent) == value


def test_a_spread_of_nothing_has_no_percentiles() -> None:
    assert spread([None, None]) == {"count": 0, "never": 2}


@pytest.mark.parametrize(("pods", "name"), [(1, "1 pod"), (4, "2-4 pods"), (16, "5-16 pods"), (500, "65 pods or more")])
def test_sizes_are_classes(pods: int, name: str) -> None:
    assert size_of(pods) == name


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0s"), (59.94, "59.9s"), (250, "4m 10s"), (7300, "2h 1m"), (190_000, "2d 4h")]
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_difference_has_its_sign() -> None:
    assert [signed(value) for value in (-90, 0, 5)] == ["-1m 30s", "0", "+5.0s"]


# comparison -----------------------------------------------------------------------------------------------------------


def variants() -> list[Result]:
    """The same three arrivals on one node and on two."""
    work = [workload(gpus=8, arrivals={"count": 3})]
    return [result_of(name=f"n{nodes}", cluster={"nodes": nodes, "gpus": 8}, workloads=work) for nodes in (1, 2)]


def test_differences_are_paired_by_gang() -> None:
    """Waits of 0, 10 and 20 minutes become 0, 0 and 10."""
    [paired] = compare_results(variants())
    assert paired.figures["pairs"] == 3
    assert paired.figures["waitSeconds"] == {
        "count": 3,
        "less": 2,
        "more": 0,
        "mean": -400.0,
        "p5": -600.0,
        "p50": -600.0,
        "p95": 0.0,
    }
    assert (paired.base, paired.other) == ("n1", "n2")


def test_gangs_that_start_in_one_scenario_only_are_counted() -> None:
    small, large = (
        result_of(name=f"g{gpus}", cluster={"nodes": 1, "gpus": gpus}, workloads=[workload(gpus=8)]) for gpus in (4, 8)
    )
    [paired] = compare_results([small, large])
    assert paired.figures["startedOnlyInOther"] == 1
    assert paired.figures["waitSeconds"] == {"count": 0, "less": 0, "more": 0}


def test_scenarios_without_common_arrivals_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="no arrivals in common"):
        compare_results([result_of(workloads=[workload("a")]), result_of(workloads=[workload("b")])])


def test_a_result_is_shown_as_tables() -> None:
    text = plain(result_lines(variants()[0]))
    for word in ("n1  seed 0", "3 gangs arrived: 3 finished", "WAIT", "RESOURCE", "100.0%", "QUEUE"):
        assert word in text


def test_scenarios_are_shown_side_by_side() -> None:
    results = variants()
    text = plain(comparison_lines(results, compare_results(results)))
    for word in ("n2 against n1  3 gangs in both", "first wait", "-6m 40s", "wait p99"):
        assert word in text


def test_csv_has_a_row_a_gang() -> None:
    results = variants()
    rows = to_csv((result.scenario.name, result.gangs) for result in results).splitlines()
    assert rows[0].startswith("scenario,gang,queue,class,pods,gpus,is_elastic,state,arrived_seconds,wait_seconds")
    assert [row.split(",")[:2] for row in rows[1:]] == [[f"n{n}", f"train-{i}"] for n in (1, 2) for i in range(3)]
