"""Scenarios that are empty, endless, huge or ambiguous: a result or a sentence, soon and in little memory."""

from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.errors import InputError
from muster.reporting.simulation.render import render
from muster.simulator.engine.node_changes import node_changes
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.views import result_lines
from muster.simulator.scenario.cluster_objects import build_objects
from muster.simulator.simulate import make_result, simulate
from tests.support import factories
from tests.support.simulations import GPU, run, scenario_of, workload

ONE_NODE = {"nodes": 1, "gpus": 8}
YEARS = f"{10 * 365 * 24}h"
HOUR_MS = 3_600_000
SIX = {"interval": {"kind": "constant", "value": "5m"}, "count": 6}


@pytest.mark.parametrize("horizon", [{}, {"horizon": "1h"}, {"horizon": 0}, {"horizon": YEARS}])
def test_nothing_arrives(horizon: dict[str, Any]) -> None:
    """Figures, tables and a report of nothing."""
    scenario = scenario_of(cluster=ONE_NODE, workloads=[workload(arrivals={"count": 0})], **horizon)
    result = simulate(scenario, Path())
    assert result.is_complete
    assert result.figures["gangs"]["arrived"] == 0
    assert list(result_lines(result))
    assert render(describe_results([result], with_times=True))


def test_ten_quiet_years_cost_nothing() -> None:
    """One gang a year: a few events, whatever the horizon."""
    yearly = {"interval": {"kind": "constant", "value": f"{365 * 24}h"}}
    simulation = run(cluster=ONE_NODE, horizon=YEARS, workloads=[workload(arrivals=yearly)])
    assert len(simulation.recorder.timeline) < 60
    assert sum(simulation.recorder.cycles.frame["plans"]) == 9


def test_failures_by_chance_are_drawn_as_time_passes() -> None:
    """A thousand million of them in ten years: none is kept before it happens."""
    failures = {"interval": {"kind": "constant", "value": 1}, "repair": {"kind": "constant", "value": 1}}
    scenario = scenario_of(
        cluster={"nodes": 100}, horizon=YEARS, randomFailures=failures, workloads=[workload(arrivals={"count": 1})]
    )
    first = list(islice(node_changes(scenario, build_objects(scenario, Path())), 500))
    assert [at for at, _ in first] == sorted(at for at, _ in first)
    assert first[-1][0] < 10_000


def test_a_gang_larger_than_any_cluster_is_refused() -> None:
    gang = {"pods": 100_000, "replicas": 1000}
    with pytest.raises(InputError, match=r"gang `train-0`, after 0 s: there are more than 300,000 pods at once"):
        run(cluster=ONE_NODE, workloads=[workload(gang=gang)])


def test_two_gangs_of_one_name_are_refused(tmp_path: Path) -> None:
    """One of a workload, one of a trace."""
    (tmp_path / "jobs.csv").write_text("job,at\ntrain-0,5\n")
    trace = {"name": "jobs", "file": "jobs.csv", "columns": {"name": "job", "arrival": "at"}}
    with pytest.raises(InputError, match=r"gang `train-0`, after 5 s: another gang has its name"):
        run(tmp_path, cluster=ONE_NODE, workloads=[workload()], traces=[trace])


def test_two_pods_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,role\nx,0\nx,1\nx-0,\n")
    columns = {"gang": "job", "role": "role"}
    with pytest.raises(InputError, match=r"gangs `x` and `x-0` have pods of the same name, `x-0-0`"):
        run(tmp_path, cluster=ONE_NODE, traces=[{"name": "jobs", "file": "jobs.csv", "columns": columns}])


def test_captured_gangs_of_one_name_have_names_of_their_own(tmp_path: Path) -> None:
    objects: list[dict[str, Any]] = [factories.node("n1", allocatable={GPU: "8", "pods": "110"})]
    for namespace in ("red", "blue"):
        meta = {"name": "train", "namespace": namespace}
        kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
        objects.append({**kind, "metadata": meta, "spec": {"minMember": 1}})
    (tmp_path / "captured.json").write_bytes(
        msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects})
    )
    simulation = run(tmp_path, cluster={"snapshot": "captured.json"})
    scenario = scenario_of(cluster={"snapshot": "captured.json"})
    assert sorted(make_result(scenario, simulation).gangs["gang"]) == ["blue/train", "red/train"]


def test_gangs_that_take_no_time_end_at_once() -> None:
    """Nothing takes any time, and still nothing is endless."""
    simulation = run(
        cluster=ONE_NODE,
        kubelet={"start": 0, "stop": 0},
        workloads=[workload(duration={"kind": "constant", "value": 0}, arrivals={"count": 50})],
    )
    assert simulation.now_ms == 300
    assert all(one.finished_ms is not None for one in simulation.runs.values())


@pytest.mark.parametrize("kind", ["failures", "drains"])
def test_a_node_that_is_gone_for_no_time_comes_back(kind: str) -> None:
    """Its end does not come before its begin, at the same moment."""
    changes: dict[str, Any] = {kind: [{"nodes": ["node-000"], "at": "5m", "lasts": 0}]}
    simulation = run(cluster=ONE_NODE, horizon="1h", workloads=[workload()], **changes)
    assert simulation.runs["simulated/train-0"].finished_ms is not None


def test_a_node_that_is_repaired_in_no_time_comes_back() -> None:
    failures = {"interval": {"kind": "constant", "value": "7m"}, "repair": {"kind": "constant", "value": 0}}
    simulation = run(cluster=ONE_NODE, horizon="1h", randomFailures=failures, workloads=[workload(arrivals=SIX)])
    events = simulation.recorder.events["event"]
    assert events.count("node lost") == events.count("node back") == 8


def test_time_ends_with_the_last_gang() -> None:
    """An elastic gang grows, and finishes before its first stretch of work would have: nothing happens after it."""
    elastic = workload("sweep", pods=2, gang={"minPods": 1}, duration={"kind": "constant", "value": "10h"})
    simulation = run(cluster={"nodes": 1, "gpus": 2}, workloads=[workload(), elastic])
    assert simulation.now_ms == max(one.finished_ms or 0 for one in simulation.runs.values())
    assert simulation.now_ms < 11 * HOUR_MS


def test_time_ends_with_the_last_gang_and_not_with_a_minimum_run_time() -> None:
    queue = {"name": "q", "preemptMinRuntime": "1000h"}
    one_by_one = workload(queue="q", gpus=8, arrivals={"count": 2})
    simulation = run(cluster=ONE_NODE, queues=[queue], workloads=[one_by_one])
    assert simulation.now_ms < HOUR_MS


def test_gangs_that_arrive_after_a_hundred_years_do_not() -> None:
    """Dates end in the year 9999."""
    arrivals = {"interval": {"kind": "constant", "value": "200000h"}, "count": 500}
    simulation = run(cluster=ONE_NODE, workloads=[workload(arrivals=arrivals)])
    assert len(simulation.runs) == 4


def test_a_minimum_run_time_of_ten_thousand_years_never_ends() -> None:
    queue = {"name": "q", "preemptMinRuntime": "90000000h"}
    one_by_one = workload(queue="q", gpus=8, arrivals={"count": 3})
    assert run(cluster=ONE_NODE, queues=[queue], workloads=[one_by_one]).now_ms < HOUR_MS


def test_all_nodes_fail_at_once_with_all_of_their_pods() -> None:
    """Pods of a node are found without a look at those of others."""
    failure = {"domain": "zone=z0", "at": "5m", "lasts": "5m"}
    many = workload(pods=50, arrivals={"count": 4})
    simulation = run(cluster={"nodes": 40, "gpus": 8, "topology": "zone=1"}, workloads=[many], failures=[failure])
    assert sum(one.failed_pods for one in simulation.runs.values()) == 200
    assert all(one.finished_ms is not None for one in simulation.runs.values())
    assert not any(simulation.cluster.pods_on(f"node-{i:03}") for i in range(40))


def test_a_pod_is_lost_once() -> None:
    """A pod that is drained, drained again and then fails with its node was evicted: figures and rows agree."""
    change = {"nodes": ["node-000"], "lasts": "1m"}
    simulation = run(
        cluster=ONE_NODE,
        kubelet={"stop": "30s"},
        workloads=[workload()],
        drains=[{**change, "at": "5m"}, {**change, "at": "5m10s"}],
        failures=[{**change, "at": "5m20s"}],
    )
    one = simulation.runs["simulated/train-0"]
    assert (one.evicted_pods, one.failed_pods, one.lost_to_failures) == (1, 0, 0)
    events = simulation.recorder.events
    rows = [row for row in zip(events["event"], events["pods"], strict=True) if row[0] in ("drain", "node lost")]
    assert rows == [("drain", 1), ("drain", 0), ("node lost", 0)]
