"""Folders with keys in them go with their process; if it was killed, with the start of the next. Nobody else's go."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from muster.kube.temporary_folder import MARK, PREFIX, HeldFolder, remove_abandoned, temporary_folder

HOLD = """
import sys
from muster.kube.temporary_folder import HeldFolder
held = HeldFolder()
(held.path / "key.pem").write_text("secret")
print(held.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def abandoned(tmp: Path, name: str = f"{PREFIX}abandone", mode: int = 0o700) -> Path:
    folder = tmp / name
    folder.mkdir(mode)
    (folder / MARK).touch()
    (folder / "key.pem").write_text("secret")
    return folder


def test_a_folder_is_private_and_goes_when_it_is_left(tmp: Path) -> None:
    with temporary_folder() as folder:
        assert folder.parent == tmp
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "key.pem").write_text("secret")
    assert list(tmp.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_at_the_next_start_and_not_before(tmp: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp)}
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        remove_abandoned()
        assert (folder / "key.pem").exists(), "its process lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / "key.pem").exists()
    with temporary_folder():
        assert not folder.exists()


def test_folders_of_this_process_stay(tmp: Path) -> None:
    with temporary_folder() as first, temporary_folder() as second:
        assert first.exists()
        assert second.exists()


def test_a_link_is_neither_followed_nor_removed(tmp: Path) -> None:
    """Anybody may put one into a shared folder, to have others delete what they cannot."""
    target = abandoned(tmp, "precious")
    (tmp / f"{PREFIX}linklink").symlink_to(target)
    inside = abandoned(tmp)
    (inside / "out").symlink_to(target)
    remove_abandoned()
    assert (target / "key.pem").exists()
    assert (tmp / f"{PREFIX}linklink").is_symlink()
    assert not inside.exists()


@pytest.mark.parametrize("name", ["muster-held-notes", "muster-held-notes-of-mine", "muster-12345678"])
def test_folders_with_other_names_stay(tmp: Path, name: str) -> None:
    folder = abandoned(tmp, name)
    remove_abandoned()
    assert (folder / "key.pem").exists()


def test_folders_that_muster_did_not_make_stay(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmarked, shared = abandoned(tmp), abandoned(tmp, f"{PREFIX}sharedxx", 0o755)
    (unmarked / MARK).unlink()
    others = abandoned(tmp, f"{PREFIX}othersxx")
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: others.stat().st_uid + 1)
        remove_abandoned()
    assert (others / "key.pem").exists(), "of another user"
    remove_abandoned()
    assert not others.exists()
    assert (unmarked / "key.pem").exists()
    assert (shared / "key.pem").exists(), "others may read it, so that muster did not make it"


def test_what_is_let_go_stays(tmp: Path) -> None:
    held = HeldFolder()
    (held.path / "log").write_text("why")
    held.let_go()
    remove_abandoned()
    assert (held.path / "log").exists()
