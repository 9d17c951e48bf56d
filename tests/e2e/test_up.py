"""The embedded cluster as a person meets it: one command, and other commands that look at it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

MUSTER = [sys.executable, "-m", "muster.cli.main"]


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUSTER, *args], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_the_demonstration_forms_loses_a_node_and_heals(tmp_path: Path) -> None:
    """The README's first command: real loops, a real API server, simulated nodes."""
    shown = run("up", "--demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("Scheduled  inference/dynamo") == 2
    assert "is lost, and its pods with it" in shown.stdout
    assert "Traceback" not in shown.stderr
    assert not (tmp_path / "muster.kubeconfig").exists(), "the kubeconfig goes with the cluster"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A running `muster up`, by its kubeconfig."""
    path = tmp_path / "kubeconfig"
    with subprocess.Popen(
        [*MUSTER, "up", "--nodes", "4", "--topology", "zone=2,rack=4", "--kubeconfig", str(path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            for _ in range(600):
                if path.exists():
                    break
                time.sleep(0.05)
            yield path
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert process.returncode == 0


def test_reading_verbs_take_a_live_cluster(cluster: Path, tmp_path: Path) -> None:
    """CONTRACT: with --kubeconfig the reading commands take the live cluster; files are added to it."""
    assert run("topology", "--kubeconfig", str(cluster), cwd=tmp_path).stdout.count("z0") >= 1
    gang = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    (tmp_path / "gang.json").write_text(json.dumps(gang), encoding="utf-8")
    planned = run("plan", "-o", "json", "--kubeconfig", str(cluster), "gang.json", cwd=tmp_path)
    assert json.loads(planned.stdout)["podGroups"][0]["name"] == "g", planned.stderr


def test_a_snapshot_is_a_folder_that_every_verb_reads(cluster: Path, tmp_path: Path) -> None:
    """`muster snapshot` captures what planning reads, and nothing else."""
    taken = run("snapshot", "captured", "--kubeconfig", str(cluster), cwd=tmp_path)
    assert taken.returncode == 0, taken.stderr
    assert "captured/nodes.yaml: 4" in taken.stdout
    assert "z1" in run("topology", "captured", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["up", "--topology", "zone=3,rack=8"], "cannot be shared evenly"),
        (["up", "--topology", "rack"], "is no level"),
        (["plan", "--kubeconfig", "nowhere.yaml"], "nowhere.yaml"),
        (["plan"], "Missing argument"),
    ],
)
def test_a_wrong_word_gets_a_clear_answer(arguments: list[str], says: str, tmp_path: Path) -> None:
    """Bad input gets a sentence and exit code 2, never a traceback."""
    answered = run(*arguments, cwd=tmp_path)
    assert answered.returncode == 2
    assert says in answered.stderr
    assert "Traceback" not in answered.stderr
