"""`muster snapshot`: afterwards the folder says what the cluster says, and nothing of anybody else's is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.api.codec import Document
from muster.cli import live
from muster.cli.main import cli
from muster.errors import InputError

Take = Callable[..., Result]


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Take:
    """A snapshot of a cluster with these objects, as `plural/name`, into `tmp_path`."""

    def taken(*objects: str) -> Result:
        found = [Document(one, {"kind": "X", "metadata": {"name": one.partition("/")[2]}}) for one in objects]
        monkeypatch.setattr(live, "documents", lambda *_: found)
        return CliRunner().invoke(cli, ["snapshot", str(tmp_path), "--kubeconfig", "k"], standalone_mode=False)

    return taken


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_files_of_kinds_that_are_gone_go(take: Take, tmp_path: Path) -> None:
    """Else the next plan would count pods that are no more."""
    take("nodes/a", "pods/p", "podgroups/g")
    assert files(tmp_path) == {"nodes.yaml", "pods.yaml", "podgroups.yaml"}
    take("nodes/b")
    assert files(tmp_path) == {"nodes.yaml"}
    assert "name: b" in (tmp_path / "nodes.yaml").read_text()


@pytest.mark.parametrize("kinds", [("nodes/a", "pods/p"), ("nodes/a",)])
def test_a_file_that_muster_did_not_write_is_neither_overwritten_nor_removed(
    take: Take, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    (tmp_path / "pods.yaml").write_text("precious")
    told = take(*kinds)
    assert isinstance(told.exception, InputError)
    assert "pods.yaml" in str(told.exception)
    assert told.exception.hint
    assert files(tmp_path) == {"pods.yaml"}, "and nothing is written beside it"
    assert (tmp_path / "pods.yaml").read_text() == "precious"


def test_other_manifests_in_the_folder_stay_and_are_told(take: Take, tmp_path: Path) -> None:
    """`muster plan FOLDER` reads them, too."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.json").write_text("{}")
    (tmp_path / "README.md").write_text("mine")
    told = take("nodes/a")
    assert told.exit_code == 0
    assert "more.json" in told.stderr
    assert "README" not in told.stderr
    assert files(tmp_path) == {"deep", "README.md", "nodes.yaml"}


def test_a_folder_that_cannot_be_written_is_named(take: Take, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.write_text("a file, not a folder")
    take("nodes/a")
    told = CliRunner().invoke(cli, ["snapshot", str(target / "x"), "--kubeconfig", "k"], standalone_mode=False)
    assert isinstance(told.exception, InputError)
    assert str(target) in str(told.exception)
