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
