"""The embedded cluster as a person meets it: one command, and other commands that look at it."""

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubectl import MISSING

MUSTER = [sys.executable, "-m", "muster.cli.main"]
EXAMPLES = Path(__file__).parents[2] / "examples"
DYING = """
import sys
from muster.scheduler.loop import Scheduler
async def run(self):
    raise RuntimeError("this loop died")
Scheduler.run = run
from muster.cli.main import main
sys.argv = ["muster", "up", "--nodes", "2", "--kubeconfig", "kubeconfig"]
main()
"""


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUSTER, *args], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def kubectl(kubeconfig: Path, *args: str, code: int = 0) -> str:
    """What it prints, and complains where it is to fail."""
    path = shutil.which("kubectl")
    if path is None:
        pytest.skip(MISSING)
    words = [path, "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache"), *args]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def until(test: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (result := test()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)
    return result


@contextmanager
def up(folder: Path, *words: str, name: str = "kubeconfig", code: int = 0) -> Iterator[tuple[Path, Any]]:
    """A running `muster up`: its kubeconfig and its process; ended when left, with this exit code."""
    path = folder / name
    with subprocess.Popen(
        [*MUSTER, "up", *words, "--kubeconfig", str(path)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also where the tests were begun by `nohup`
    ) as process:
        try:
            until(lambda: path.exists() or process.poll() is not None)
            yield path, process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                output, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert process.returncode == code, output
            assert "Traceback" not in output
            assert "WebSocket" not in output, "what a library would like to have is not for users"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A running `muster up`, by its kubeconfig."""
    with up(tmp_path, "--nodes", "4", "--topology", "zone=2,rack=4") as (path, _):
        yield path


# the demonstration ----------------------------------------------------------------------------------------------------


def test_the_demonstration_forms_loses_a_node_and_heals(tmp_path: Path) -> None:
    """The README's first command. Issue 5, outcome 7: it shows the gang form, kills a node, and shows it heal."""
    shown = run("up", "--demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    forming, _, rest = shown.stdout.partition("fails, and with it")
    lost = re.findall(r"Node (\S+)", forming)[-1]
    assert re.search(r"prefill-0 +8 waiting", forming), "from the beginning"
    assert re.search(rf"starting on {lost}", forming)
    assert forming.count("running on") > rest.count(f"running on {lost}") == 0, "no pod runs there any more"
    for part in (forming, rest):
        assert re.search(r"└─ decode-1 +4 pods +4/4 +4 running on node-\d+", part), "as a tree, with nodes"
    assert re.search(r"Healed: 8 pods \((.+)\) started instead, on node-\d+", rest)
    assert "its cluster is gone" in rest
    assert "kubectl" not in shown.stdout + shown.stderr, "no hint at a cluster that is gone"
    assert list(tmp_path.iterdir()) == []


def test_the_demonstration_is_drawn_over_itself_on_a_terminal(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execvpe(MUSTER[0], [*MUSTER, "up", "--demo"], os.environ | {"TERM": "xterm", "COLUMNS": "120"})
    output = b""
    while chunk := _read(terminal):
        output += chunk
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert output.count(b"\x1b[1A") > 50, "lines are drawn again where they were"
    assert output.count(b"running on") > 12
    assert b"Healed: 8 pods" in output


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_a_cluster_that_is_too_small_for_the_demonstration_says_why(tmp_path: Path) -> None:
    shown = run("up", "--demo", "--nodes", "2", cwd=tmp_path)
    assert shown.returncode == 1
    assert re.search(r"does not form on this cluster: no \w+ holds `\S+`: needs \d+ pods", shown.stderr)
    assert "hint:" in shown.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whatever_ends_the_demonstration_its_token_goes(tmp_path: Path, number: int) -> None:
    with up(tmp_path, "--demo", code=130) as (path, process):
        process.send_signal(number)
        until(lambda: not path.exists())
    assert list(tmp_path.iterdir()) == []


# files of others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [["--port", "TAKEN"], ["bad.yaml"], ["--topology", "zone"], []])
def test_a_file_that_muster_did_not_write_is_left_alone(tmp_path: Path, wrong: list[str]) -> None:
    """Whether it could have started or not."""
    path = tmp_path / "precious"
    path.write_text("mine")
    (tmp_path / "bad.yaml").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [port if word == "TAKEN" else word for word in wrong]
        result = run("up", *words, "--kubeconfig", "precious", cwd=tmp_path)
    assert (result.returncode, "hint:" in result.stderr) == (2, True)
    assert path.read_text() == "mine"


def test_what_a_killed_cluster_leaves_behind_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder holds the key of its certificate."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with up(tmp_path, "--nodes", "1", code=-signal.SIGKILL) as (_, process):
        (folder,) = (tmp_path / "tmp").iterdir()
        process.kill()
        process.wait()
    assert folder.exists()
    with up(tmp_path, "--nodes", "1", name="next"):
        assert not folder.exists()
        assert len(list((tmp_path / "tmp").iterdir())) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_second_cluster_does_not_take_over_the_file_of_the_first(cluster: Path, tmp_path: Path) -> None:
    before = cluster.read_bytes()
    result = run("up", "--nodes", "1", "--kubeconfig", str(cluster), cwd=tmp_path)
    assert (result.returncode, "still runs" in result.stderr, "--kubeconfig" in result.stderr) == (2, True, True)
    assert cluster.read_bytes() == before


def test_a_loop_that_dies_ends_the_cluster_with_an_error(tmp_path: Path) -> None:
    """A cluster without a scheduler that goes on serving in silence is worse than none."""
    result = subprocess.run(
        [sys.executable, "-c", DYING], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert "the scheduler ended by itself" in result.stderr
    assert "this loop died" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "kubeconfig").exists()


# looking at it --------------------------------------------------------------------------------------------------------


def test_reading_verbs_take_a_live_cluster(cluster: Path, tmp_path: Path) -> None:
    """CONTRACT: with --kubeconfig the reading commands take the live cluster; files are added to it."""
    assert run("topology", "--kubeconfig", str(cluster), cwd=tmp_path).stdout.count("z0") >= 1
    gang = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    (tmp_path / "gang.json").write_text(json.dumps(gang), encoding="utf-8")
    planned = run("plan", "-o", "json", "--kubeconfig", str(cluster), "gang.json", cwd=tmp_path)
    assert json.loads(planned.stdout)["podGroups"][0]["name"] == "g", planned.stderr
    assert "no PodGroups in this cluster" in run("tree", "--kubeconfig", str(cluster), cwd=tmp_path).stderr


def test_a_snapshot_comes_up_as_the_cluster_that_it_was_taken_of(tmp_path: Path) -> None:
    """One gang runs, one waits: the plan is the same on the first cluster, on its files, and on the second."""
    late = (EXAMPLES / "dynamo-inference.yaml").read_text().replace("name: dynamo-inference", "name: late")
    (tmp_path / "late.yaml").write_text(late)
    files = [EXAMPLES / "cluster", EXAMPLES / "dynamo-inference.yaml", EXAMPLES / "dynamo-pods.yaml", "late.yaml"]
    with up(tmp_path, *map(str, files)) as (path, _):
        until(lambda: _running(path, tmp_path, 41))
        taken = run("snapshot", "captured", "--kubeconfig", str(path), cwd=tmp_path)
        assert (taken.returncode, "captured/nodes.yaml: 16" in taken.stdout) == (0, True), taken.stderr
        first = run("plan", "-o", "json", "--kubeconfig", str(path), cwd=tmp_path).stdout
    read = run("plan", "-o", "json", "captured", cwd=tmp_path).stdout
    with up(tmp_path, "--nodes", "0", "captured", name="second") as (path, _):
        second = run("plan", "-o", "json", "--kubeconfig", str(path), cwd=tmp_path).stdout
        assert _running(path, tmp_path, 41)
    assert [gang["verdict"] for gang in json.loads(first)["podGroups"]] == ["Scheduled", "Waiting"]
    assert first == read == second


def _running(kubeconfig: Path, folder: Path, pods: int) -> bool:
    shutil.rmtree(folder / "looked", ignore_errors=True)
    run("snapshot", "looked", "--kubeconfig", str(kubeconfig), cwd=folder)
    return (folder / "looked" / "pods.yaml").read_text().count("phase: Running") == pods


# things that go wrong in it -------------------------------------------------------------------------------------------


def test_kubectl_can_lose_nodes_and_fail_pods(tmp_path: Path) -> None:
    """Issue 5: simulated kubelets can be set to fail."""
    gang = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    (tmp_path / "g.json").write_text(json.dumps(gang | {"spec": {"minMember": 2}}), encoding="utf-8")
    for i in range(2):
        main = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        meta = {"name": f"p{i}", "annotations": {"pod-group-name": "g"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        pod["spec"] = {"schedulerName": "muster", "containers": [main]}
        (tmp_path / f"p{i}.json").write_text(json.dumps(pod), encoding="utf-8")
    with up(tmp_path, "--nodes", "4", "g.json", "p0.json", "p1.json") as (path, _):

        def field(what: str, of: str) -> str:
            return kubectl(path, "get", *what.split(), "--ignore-not-found", "-o", f"jsonpath={{{of}}}")

        until(lambda: field("podgroup g", ".status.phase") == "Running")
        assert "simulated pods have no `pods/exec`" in kubectl(path, "exec", "p0", "--", "ls", code=1)
        nodes = [field(f"pod p{i}", ".spec.nodeName") for i in range(2)]
        kubectl(path, "annotate", "pod", "p0", "muster.dev/fail=out of memory")
        until(lambda: field("pod p0", ".status.phase") == "Failed")
        assert field("pod p0", ".status.message") == "out of memory"
        kubectl(path, "delete", "node", nodes[1])
        until(lambda: not field("pod p1", ".metadata.name"))
        until(lambda: field("podgroup g", ".status.satisfied") == "false")
        kubectl(path, "annotate", "node", nodes[0], "muster.dev/fail=true")
        kubectl(path, "wait", "--for=condition=Ready=False", f"node/{nodes[0]}", "--timeout=30s")
        kubectl(path, "annotate", "node", nodes[0], "muster.dev/fail-")
        kubectl(path, "wait", "--for=condition=Ready", f"node/{nodes[0]}", "--timeout=30s")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["up", "--topology", "zone=3,rack=8"], "cannot be shared evenly"),
        (["up", "--topology", "rack"], "is no level"),
        (["up", "--host", ""], "--host"),
        (["up", "--host", "192.0.2.1"], "--host is an address of this machine"),
        (["up", "--kubeconfig", "missing/kubeconfig"], "there is no folder"),
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
    assert list(tmp_path.iterdir()) == []
