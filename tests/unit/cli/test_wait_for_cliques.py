"""`muster wait-for-cliques`: what runs in an init container."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli import wait_for_cliques
from muster.cli.main import cli

LIMIT_SECONDS = 60  # generous: nothing is measured


@pytest.fixture(autouse=True)
def restore_signals() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def replace(path: Path, text: str) -> None:
    """As a kubelet does: at once, never half."""
    written = path.with_suffix(".new")
    written.write_text(text)
    written.replace(path)


def test_it_ends_at_once_where_the_pod_may_start(tmp_path: Path) -> None:
    file = tmp_path / "startup"
    file.write_text("start\n")
    outcome = CliRunner().invoke(cli, ["wait-for-cliques", str(file)], standalone_mode=False)
    assert outcome.return_value == 0
    assert outcome.stdout == ""


def test_it_waits_for_the_annotation_and_says_what_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_for_cliques, "POLL_SECONDS", 0.01)
    file = tmp_path / "startup"
    file.write_text("after w-0-a")
    timer = threading.Timer(0.1, replace, (file, "start"))
    timer.start()
    outcome = CliRunner().invoke(cli, ["wait-for-cliques", str(file)], standalone_mode=False)
    timer.join()
    assert outcome.return_value == 0
    assert outcome.stderr == "waits to start after w-0-a\nstarts\n"


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "muster.cli.main", "wait-for-cliques", str(tmp_path / "nothing")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: `")
    assert "Traceback" not in ended.stderr


def test_a_deleted_pod_ends_at_once(tmp_path: Path) -> None:
    """As the first process of a container it would ignore the signal, and take the whole grace period."""
    file = tmp_path / "startup"
    file.write_text("after w-0-a")
    command = [sys.executable, "-m", "muster.cli.main", "wait-for-cliques", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waits to start after w-0-a\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 128 + signal.SIGTERM


def test_of_a_large_file_only_the_beginning_is_read(tmp_path: Path) -> None:
    file = tmp_path / "startup"
    file.write_bytes(b"x" * 10**6)
    assert len(wait_for_cliques.read_state(file)) == wait_for_cliques.LARGEST_BYTES
