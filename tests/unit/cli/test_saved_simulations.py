"""`muster simulate --save` and `--resume`: files, errors, and an interrupt."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import muster
from muster.cli.main import cli
from muster.errors import InputError
from muster.simulator.engine.simulation import Simulation
from tests.unit.cli.test_simulate import read_until

SCENARIO = """\
seed: 5
horizon: 6h
cluster: {nodes: 4, gpus: 8, topology: rack=2}
workloads:
  - name: train
    arrivals: {interval: {kind: exponential, mean: 4m}}
    duration: {kind: lognormal, median: 20m, sigma: 0.8}
    gang: {pods: 4, minPods: 2, requests: {nvidia.com/gpu: 2}}
traces:
  - {file: jobs.csv, columns: {name: job, arrival: at, duration: takes, gpu: gpus}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text("job,at,takes,gpus\na,10,600,1\nb,9000,600,4\n")
    path = tmp_path / "month.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def state(scenario: Path) -> Path:
    path = scenario.with_name("month.state")
    assert run(scenario, "--stop-at", "2h", "--save", path).return_value == 0
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, words)], standalone_mode=False)


def refusal(*words: object) -> str:
    result = run(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_a_simulation_goes_on_to_the_same_end(scenario: Path, state: Path) -> None:
    """Also when it is saved again on the way, under the same name."""
    whole = run(scenario, "-o", "json").stdout
    assert run("--resume", state, "-o", "json").stdout == whole
    assert run("--resume", state, "--stop-at", "4h", "--save", state).return_value == 0
    assert run("--resume", state, "-o", "json").stdout == whole


def test_how_to_go_on_is_said(scenario: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    result = run(scenario, "--stop-at", "1h", "--save", path)
    assert "stopped in the scenario, after" in result.output
    assert f"`muster simulate --resume {path}` goes on from there" in result.output


def test_nothing_is_saved_at_the_end(scenario: Path, tmp_path: Path) -> None:
    assert run(scenario, "--save", tmp_path / "x.state").return_value == 0
    assert not (tmp_path / "x.state").exists()


def test_a_changed_trace_is_refused(scenario: Path, state: Path) -> None:
    scenario.with_name("jobs.csv").write_text("job,at,takes,gpus\na,10,600,2\n")
    assert "jobs.csv: has changed since" in refusal("--resume", state)


def test_a_state_of_another_version_is_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muster, "__version__", "99.0")
    assert "was saved by muster" in refusal("--resume", state)


@pytest.mark.parametrize("content", [b"", b"seed: 1", b"muster simulation 1\n", b"muster simulation 1\n\x81"])
def test_another_file_is_no_state(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.state"
    path.write_bytes(content)
    assert "holds no saved simulation" in refusal("--resume", path)


def test_a_state_that_was_cut_or_mangled_is_no_state(state: Path) -> None:
    """Whatever byte is missing or another: a sentence, never a traceback."""
    whole = state.read_bytes()
    for length in range(0, len(whole), len(whole) // 40):
        for mangled in (whole[:length], whole[:length] + bytes([whole[length] ^ 1]) + whole[length + 1 :]):
            state.write_bytes(mangled)
            assert "holds no saved simulation" in refusal("--resume", state)


def test_what_is_no_state_is_not_read_to_its_end() -> None:
    """`/dev/zero` has none."""
    assert "holds no saved simulation" in refusal("--resume", "/dev/zero")


def test_a_trace_that_changes_while_it_is_simulated_is_refused_later(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is of the rows that were read at the start."""
    path, trace, run_to = tmp_path / "x.state", scenario.with_name("jobs.csv"), Simulation.run

    def change_and_run(simulation: Simulation, until_ms: int | None = None) -> None:
        trace.write_text("job,at,takes,gpus\na,10,600,2\n")
        run_to(simulation, until_ms)

    monkeypatch.setattr(Simulation, "run", change_and_run)
    assert run(scenario, "--stop-at", "2h", "--save", path).return_value == 0
    assert "jobs.csv: has changed since" in refusal("--resume", path)


def test_what_was_done_is_shown_where_it_cannot_be_saved(scenario: Path) -> None:
    result = run(scenario, "--stop-at", "2h", "--save", "/dev/full")
    assert "/dev/full: cannot be written: No space left on device" in str(result.exception)
    assert "gangs arrived" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--resume", "none.state"), "no such file"),
        (("--resume", "x", "y.yaml"), "--resume has its scenario"),
        (("--resume", "x", "--seed", "3"), "--resume has its scenario, seed and folder"),
        (("a.yaml", "b.yaml", "--save", "x"), "--save is for one scenario"),
        (("a.yaml", "--stop-at", "soon"), "--stop-at"),
        (("a.yaml", "--stop-at", "-5m"), "`-5m` is negative"),
    ],
)
def test_wrong_usage_of_states_is_a_sentence(words: tuple[str, ...], says: str) -> None:
    assert says in refusal(*words)


def test_paths_begin_where_the_user_says(scenario: Path, tmp_path: Path) -> None:
    """So that a scenario can be in one place, and published files in another."""
    elsewhere = tmp_path / "files"
    elsewhere.mkdir()
    scenario.with_name("jobs.csv").rename(elsewhere / "jobs.csv")
    assert "no such file" in refusal(scenario)
    assert run(scenario, "--folder", elsewhere).return_value == 0


def test_an_interrupt_saves_what_was_done(scenario: Path, tmp_path: Path) -> None:
    """Ctrl-C ends after the current moment, and the rest is done later: to the same end."""
    scenario.write_text(SCENARIO.replace("6h", "240h"))
    path = tmp_path / "x.state"
    command = [sys.executable, "-m", "muster.cli.main", "simulate", str(scenario), "--save", str(path)]
    main, worker = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=worker, text=True) as process:
        os.close(worker)
        read_until(main, "real time")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    os.close(main)
    assert process.returncode == 130
    reached = json.loads(run("--resume", path, "--stop-at", "0s", "-o", "json").stdout)
    assert not reached["isComplete"]
    end = f"{reached['reachedSeconds'] / 3600 + 1}h"
    assert (
        run("--resume", path, "--stop-at", end, "-o", "json").stdout
        == run(scenario, "--stop-at", end, "-o", "json").stdout
    )
