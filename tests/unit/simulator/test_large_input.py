"""Large input and large results: read as a stream, bounded in memory, and reported in a small file."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.reporting.simulation.render import render
from muster.simulator.engine.timeline import MOST_ROWS
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.result import Result
from muster.simulator.simulate import simulate
from muster.simulator.traces import jobs
from tests.support.simulations import GPU, scenario_of

ROWS = 250_000  # about 20 MB
MOST_MIB = 230  # of the process; the rows alone, kept, would be as much again
SCENARIO = """\
horizon: 1h
cluster: {nodes: 2, gpus: 8}
traces:
  - file: jobs.csv
    limit: 20
    columns: {name: job, arrival: at, duration: takes, gpu: gpus}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 20 MB whose earliest rows come last."""
    path = tmp_path_factory.mktemp("large")
    (path / "large.yaml").write_text(SCENARIO)
    with (path / "jobs.csv").open("w") as file:
        file.write("job,at,takes,gpus,note\n")
        note = "x" * 50
        file.writelines(f"job-{i},{ROWS - i},60,1,{note}\n" for i in range(ROWS))
    return path


# The peak that a parent gets from `wait4` is never below what the parent itself held when it started the process.
MEASURED = """
import re, sys
from pathlib import Path
from muster.cli.main import main
peak = Path(sys.argv.pop(1))
try:
    main()
finally:
    peak.write_text(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def run(folder: Path, *words: object) -> tuple[int, str, str, float]:
    """Exit code, output, errors, and the peak of memory in MiB."""
    peak = folder / "peak"
    command = [sys.executable, "-c", MEASURED, str(peak), "simulate", str(folder / "large.yaml"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr, int(peak.read_text()) / 1024


def test_a_large_trace_is_read_as_a_stream(folder: Path) -> None:
    """The first gangs in the order of time are those of the last rows."""
    code, output, errors, mib = run(folder)
    assert code == 0, errors
    assert "20 gangs arrived: 20 finished" in output
    assert mib < MOST_MIB


def test_a_bad_row_at_the_end_of_a_large_trace_is_named_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    with (folder / "jobs.csv").open("a") as file:
        file.write("last,soon,60,1,\n")
    report, gangs = tmp_path / "report.html", tmp_path / "gangs.csv"
    code, output, errors, mib = run(folder, "--report", report, "--gangs-csv", gangs)
    assert (code, output) == (2, "")
    assert f"jobs.csv, line {ROWS + 2}: `at`: `soon` is no number" in errors
    assert list(tmp_path.iterdir()) == []
    assert mib < MOST_MIB


def test_more_gangs_than_can_be_kept_are_refused_with_a_way_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_GANGS", 100)
    columns = {"name": "job", "arrival": "at", "duration": "takes"}
    scenario = scenario_of(cluster={"nodes": 1}, traces=[{"file": "jobs.csv", "columns": columns}])
    with pytest.raises(Exception, match=r"jobs.csv, line 102: there are more than 100 gangs"):
        simulate(scenario, folder)


# results --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> Result:
    """10,000 gangs, twenty each minute; some of them elastic."""
    interval = {"kind": "constant", "value": "1m"}
    workloads: list[dict[str, Any]] = [
        {
            "name": f"w{i}",
            "arrivals": {"interval": interval, "count": 500},
            "duration": {"kind": "uniform", "least": "10s", "most": "90s"},
            "gang": {"pods": 2, "minPods": 1 + i % 2, "requests": {GPU: 1}},
        }
        for i in range(20)
    ]
    return simulate(scenario_of(cluster={"nodes": 8, "gpus": 8, "topology": "rack=4"}, workloads=workloads), Path())


def test_a_report_of_10_000_gangs_is_smaller_than_5_mb(many: Result) -> None:
    report = render(describe_results([many], with_times=True))
    assert len(many.gangs["gang"]) == 10_000
    assert len(report.encode()) < 5_000_000


def test_what_is_kept_over_time_is_bounded(many: Result) -> None:
    assert len(many.timeline["at_seconds"]) <= MOST_ROWS
    assert len(many.histories.waits.by_gang) <= 10
    assert len(many.histories.domains.at_ms) <= 481
