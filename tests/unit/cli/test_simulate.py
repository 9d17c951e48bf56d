"""`muster simulate`: output, files, errors, and how it is stopped."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import muster
from muster.cli.main import cli
from muster.errors import InputError

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SMALL = """\
cluster: {nodes: 2, gpus: 8, topology: rack=2}
workloads:
  - name: train
    arrivals: {count: 3}
    duration: {kind: constant, value: 10m}
    gang: {pods: 2, requests: {nvidia.com/gpu: 8}}
"""
ENDLESS = """\
horizon: 100000h
cluster: {nodes: 8, gpus: 8}
workloads:
  - name: train
    arrivals: {interval: {kind: exponential, mean: 1m}}
    duration: {kind: exponential, mean: 10m}
    gang: {pods: 2, requests: {nvidia.com/gpu: 1}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, words)], standalone_mode=False)


def refusal(*words: object) -> str:
    result = run(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_init_prints_a_scenario_that_runs(tmp_path: Path) -> None:
    """With comments; `muster simulate` accepts it as it is."""
    printed = run("--init")
    assert printed.return_value == 0
    assert printed.stdout.count("#") > 10
    path = tmp_path / "starter.yaml"
    path.write_text(printed.stdout)
    shown = run(path)
    assert shown.return_value == 0
    assert "starter  seed 1, 12h 0m of virtual time" in shown.stdout


def test_json_has_figures_gangs_and_events(scenario: Path) -> None:
    """Frames are columns of equal length; the name of the scenario is that of the file."""
    data = json.loads(run("-o", "json", scenario).stdout)
    assert (data["apiVersion"], data["kind"]) == ("muster.dev/v1", "Simulation")
    assert data["scenario"]["name"] == "small"
    assert data["gangs"]["wait_seconds"] == [0.0, 601.0, 1202.0]
    assert {len(column) for column in data["events"].values()} == {15}
    assert "plannerTimes" not in data
    assert "plannerTimes" in json.loads(run("-o", "json", "--times", scenario).stdout)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "random.yaml"
    path.write_text(ENDLESS.replace("100000h", "3h"))
    first, second, other = (run("-o", "json", *seed, path).stdout for seed in ((), (), ("--seed", 5)))
    assert first == second
    assert first != other


def test_csv_files_have_a_row_for_each_gang_and_event(scenario: Path, tmp_path: Path) -> None:
    gangs, events = tmp_path / "gangs.csv", tmp_path / "events.csv"
    assert run("--gangs-csv", gangs, "--events-csv", events, scenario).return_value == 0
    rows = list(csv.DictReader(StringIO(gangs.read_text())))
    assert [row["gang"] for row in rows] == ["train-0", "train-1", "train-2"]
    assert {row["event"] for row in csv.DictReader(StringIO(events.read_text()))} >= {"arrived", "finished"}


def test_nothing_is_written_where_the_scenario_is_wrong(tmp_path: Path) -> None:
    path, gangs = tmp_path / "bad.yaml", tmp_path / "gangs.csv"
    path.write_text(SMALL.replace("level", "x") + "    level: y\n")
    refusal("--gangs-csv", gangs, path)
    assert not gangs.exists()


def test_a_folder_that_does_not_exist_is_said(scenario: Path, tmp_path: Path) -> None:
    assert "cannot be written" in refusal("--gangs-csv", tmp_path / "none" / "gangs.csv", scenario)


def test_scenarios_are_compared_gang_by_gang() -> None:
    paths = (SCENARIOS / "whole-gangs.yaml", SCENARIOS / "elastic-gangs.yaml")
    shown = run(*paths, "--compare")
    assert "elastic-gangs against whole-gangs" in shown.stdout
    assert "first wait" in shown.stdout
    data = json.loads(run(*paths, "--compare", "-o", "json").stdout)
    assert data["kind"] == "SimulationComparison"
    assert data["differences"][0]["waitSeconds"]["less"] > data["differences"][0]["waitSeconds"]["more"]


def test_scenarios_without_common_arrivals_lose_no_result(scenario: Path, tmp_path: Path) -> None:
    """That they cannot be compared is known once both have run: each is shown, and files are written."""
    other, gangs = tmp_path / "other.yaml", tmp_path / "gangs.csv"
    other.write_text(SMALL.replace("name: train", "name: serve"))
    result = run(scenario, other, "--compare", "--gangs-csv", gangs)
    assert isinstance(result.exception, InputError)
    assert "`small` and `other` have no arrivals in common" in str(result.exception)
    assert result.stdout.count("3 gangs arrived") == 2
    assert len(gangs.read_text().splitlines()) == 1 + 2 * 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no scenario is given"),
        (["--compare", SCENARIOS / "jobs.yaml"], "--compare needs at least two scenarios"),
        (["none.yaml"], "none.yaml: no such file"),
        ([SCENARIOS], "cannot be read"),
    ],
)
def test_wrong_usage_is_a_sentence(words: list[object], says: str) -> None:
    assert says in refusal(*words)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("rack=2}", "rack=2}\nhorizn: 1h", "horizn: is not a setting"),
        ("value: 10m", "value: -10m", "workloads[0].duration.value: `-10m` is negative"),
        ("pods: 2,", "pods: 2, level: row,", "`row`"),
        ("nodes: 2", "nodes: two", "cluster.nodes: expected a whole number, got the text `two`"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_path(scenario: Path, before: str, after: str, says: str) -> None:
    scenario.write_text(SMALL.replace(before, after))
    assert says in refusal(scenario)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("job,at\nx,1\n", "jobs.csv, line 1: there is no column `takes`"),
        ("job,at,takes\nx,1,-5\n", "jobs.csv, line 2: `takes`: `-5` is negative"),
        ("job,at,takes\n", "jobs.csv: holds no rows"),
    ],
)
def test_a_bad_trace_is_refused_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "trace.yaml"
    columns = "{name: job, arrival: at, duration: takes}"
    path.write_text(f"cluster: {{nodes: 1}}\ntraces:\n  - {{file: jobs.csv, columns: {columns}}}\n")
    (tmp_path / "jobs.csv").write_text(text)
    assert says in refusal(path)


def test_control_characters_of_scenario_and_trace_come_out_as_escapes(tmp_path: Path) -> None:
    """In tables, errors and CSV files: a terminal obeys none of them."""
    path, gangs = tmp_path / "trace.yaml", tmp_path / "gangs.csv"
    columns = "{name: job, class: kind, gpu: gpus}"
    path.write_text(
        f'name: "\\e[2Jx"\nhorizon: 1h\ncluster: {{nodes: 1}}\ntraces:\n  - {{file: jobs.csv, columns: {columns}}}\n'
    )
    (tmp_path / "jobs.csv").write_text("job,kind,gpus\na,\x1b[2Jone,1\nb,two,1\n")
    shown = run(path, "--gangs-csv", gangs)
    assert shown.return_value == 0
    assert "\x1b" not in shown.output + gangs.read_text()
    assert shown.stdout.count("\\x1b[2J") >= 2
    (tmp_path / "jobs.csv").write_text("job,kind,gpus\na,x,\x1b[2J\n")
    assert "\x1b" not in refusal(path)


def test_python_runs_a_file_or_a_dict(scenario: Path) -> None:
    """Both give the same columns."""
    parts = {
        "cluster": {"nodes": 2, "gpus": 8},
        "workloads": [{"name": "w", "arrivals": {"count": 2}, "gang": {"requests": {"cpu": 1}}}],
    }
    assert muster.simulate(scenario).gangs["wait_seconds"] == [0.0, 601.0, 1202.0]
    assert muster.simulate(parts).gangs["gang"] == ["w-0", "w-1"]
    with pytest.raises(InputError, match=r"muster.simulate: expected a scenario"):
        muster.simulate(7)  # type: ignore[arg-type]


# in a process of its own ----------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_was_done(tmp_path: Path) -> None:
    """Ctrl-C: the figures so far, how far it came, the exit code of an interrupt; and progress on a terminal."""
    path = tmp_path / "endless.yaml"
    path.write_text(ENDLESS)
    main, worker = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "muster.cli.main", "simulate", str(path)],
        stdout=subprocess.PIPE,
        stderr=worker,
        text=True,
    )
    os.close(worker)
    shown = read_until(main, "real time")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    shown += read_until(main, "virtual time")
    os.close(main)
    assert process.returncode == 130
    assert "gangs arrived" in output
    assert "stopped before its end" in output
    assert "note: stopped in the scenario, after" in shown


def read_until(terminal: int, words: str) -> str:
    """What a terminal shows until these words come, or the other end is closed."""
    text, end = "", time.monotonic() + 60
    while words not in text and time.monotonic() < end:
        try:
            text += os.read(terminal, 4096).decode()
        except OSError:  # the other end is closed
            break
    return text


def test_a_report_is_one_html_file_with_every_scenario(scenario: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result = run(scenario, scenario, "--report", path)
    assert result.exit_code == 0
    assert f"open {path} in a browser" in result.output
    text = path.read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert "small (2)" in text
    assert "train-2" in text


def test_a_report_that_cannot_be_written_says_so(scenario: Path, tmp_path: Path) -> None:
    assert "its folder does not exist" in refusal(scenario, "--report", tmp_path / "missing" / "report.html")
    assert "it is a folder" in refusal(scenario, "--gangs-csv", tmp_path)


def test_a_pipe_is_written_to_and_stays_a_pipe(scenario: Path, tmp_path: Path) -> None:
    """So `--report /dev/stdout` works, and a device is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert run(scenario, "--gangs-csv", pipe).exit_code == 0
    assert b"train-2" in reader.communicate(timeout=20)[0]
    assert pipe.is_fifo()


def test_results_are_shown_before_a_file_fails(scenario: Path) -> None:
    result = run(scenario, "--report", "/dev/full")
    assert isinstance(result.exception, InputError)
    assert "3 gangs arrived" in result.output
    assert not Path("/dev/full").is_file()


def test_two_outputs_in_one_file_are_refused(scenario: Path, tmp_path: Path) -> None:
    """The second would replace the first, also by another way to the same place; a device takes both."""
    path = tmp_path / "x.csv"
    other = tmp_path / ".." / tmp_path.name / "x.csv"
    assert "--gangs-csv and --events-csv name the same file" in refusal(
        scenario, "--gangs-csv", path, "--events-csv", other
    )
    assert run(scenario, "--gangs-csv", "/dev/null", "--events-csv", "/dev/null").exit_code == 0


def test_a_folder_without_write_access_is_found_before_the_run(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    result = run(scenario, "--report", tmp_path / "report.html")
    assert "is read-only" in str(result.exception)
    assert result.stdout == ""


def test_an_interrupt_while_a_file_is_written_leaves_nothing_behind(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before stays."""
    gangs = tmp_path / "out" / "gangs.csv"
    gangs.parent.mkdir()
    gangs.write_text("before")

    def interrupt(_path: Path, _target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    run(scenario, "--gangs-csv", gangs)
    assert [path.name for path in gangs.parent.iterdir()] == ["gangs.csv"]
    assert gangs.read_text() == "before"


def test_one_scenario_twice_has_two_names(scenario: Path, tmp_path: Path) -> None:
    """So that every row of a CSV file says which of them it is of."""
    path = tmp_path / "gangs.csv"
    shown = run(scenario, scenario, "--compare", "--gangs-csv", path)
    assert "small (2) against small" in shown.stdout
    rows = path.read_text().splitlines()[1:]
    assert [row.partition(",")[0] for row in rows] == ["small"] * 3 + ["small (2)"] * 3
