"""SIGTERM in the middle of a plan without end: `muster up` and `muster run` are gone within seconds (X7)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.e2e.installed import free_port
from tests.support.factories import Raw
from tests.support.live.objects import gpu_pod, group, leaf

HUGE = "search_steps=10**9, cycle_steps=10**10"
SPINNING = f"""
import sys
from muster.cli.assemble import embedded_cluster
from muster.config.settings import Scheduling
from muster.placement.requirements.tree import subtree
from muster.placement.search import flat, preferences
from muster.planning import cycle_state
def find(search, requirement):
    begun = False
    while any(part.name == "endless" for part in subtree(requirement)):
        if not begun:
            print("spinning", file=sys.stderr, flush=True)
            begun = True
        search.budget.spend()
    return preferences.find_with_growth(search, requirement)
cycle_state.find_with_growth = find
flat.applies = lambda *_, **__: False
if "--spin" in sys.argv:
    sys.argv.remove("--spin")
    embedded_cluster.Scheduling = lambda **more: Scheduling({HUGE}, **more)
from muster.cli.main import main
main()
"""
CONFIG = """
scheduling: {schedulerNames: [other], searchSteps: 1000000000, cycleSteps: 10000000000}
webhook: {enabled: false}
observability: {host: 127.0.0.1, port: %d}
"""


def written(folder: Path, scheduler: str) -> Path:
    """A gang whose search does not end, for a scheduler of that name; and a place for the lease."""
    raws: list[Raw] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}},
        group("endless", subGroups=[leaf("endless", 1)]),
        gpu_pod("endless-0", "endless", 1, leaf="endless", scheduler=scheduler),
    ]
    path = folder / "gang.yaml"
    path.write_text("\n---\n".join(msgspec.json.encode(raw).decode() for raw in raws), encoding="utf-8")
    return path


@contextmanager
def process(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", SPINNING, *words],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def said(process: "subprocess.Popen[str]", word: str) -> None:
    """Until it says that."""
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            return
    raise AssertionError(f"it ended without a word of {word}")


def ended(process: "subprocess.Popen[str]", number: signal.Signals) -> float:
    """After a signal it ends by itself, with exit code 0; how many seconds it took."""
    began = time.monotonic()
    process.send_signal(number)
    _, rest = process.communicate(timeout=20)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest
    return time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_muster_up_ends_in_the_middle_of_a_plan(tmp_path: Path, number: signal.Signals) -> None:
    words = ("up", "--nodes", "2", "--kubeconfig", "kubeconfig", str(written(tmp_path, "muster")), "--spin")
    with process(tmp_path, *words) as up:
        said(up, "spinning")
        time.sleep(0.5)  # it is in the middle of it
        assert ended(up, number) < 5
    assert not (tmp_path / "kubeconfig").exists(), "nothing is left behind"


def test_muster_run_ends_in_the_middle_of_a_plan(tmp_path: Path) -> None:
    """Against the embedded cluster, whose own scheduler leaves these pods alone (N6)."""
    words = ("up", "--nodes", "2", "--kubeconfig", "kubeconfig", str(written(tmp_path, "other")))
    with process(tmp_path, *words) as up:
        said(up, "Ctrl-C")
        (tmp_path / "config.yaml").write_text(CONFIG % free_port(), encoding="utf-8")
        with process(tmp_path, "run", "--config", "config.yaml", "--kubeconfig", "kubeconfig") as run:
            said(run, "spinning")
            time.sleep(0.5)
            assert ended(run, signal.SIGTERM) < 5
        assert ended(up, signal.SIGTERM) < 5
