"""`muster snapshot`: afterwards the folder says what the cluster says, and nothing of anybody else's is lost."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from muster.api.codec import Document
from muster.api.objects import WATCHED_KINDS
from muster.api.resources import Resource
from muster.cli import live
from muster.cli.main import cli
from muster.embedded.memory_cluster import MemoryCluster
from muster.errors import InputError
from muster.kube.cluster import Listing
from muster.kube.errors import ApiError

T = TypeVar("T")
Take = Callable[..., Result]
OLD = ("nodes/a", "pods/p", "queues/q")
NEW = ("nodes/b", "pods/r", "podgroups/g")


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Take:
    """A snapshot of a cluster with these objects, as `plural/name`, into `tmp_path`."""

    def taken(*objects: str) -> Result:
        def read(_kubeconfig: str, _context: str, keep: live.Reduce[T]) -> dict[Resource, list[T]]:
            return {kind: [keep([item]) for item in documents(kind, objects)] or [keep([])] for kind in WATCHED_KINDS}

        monkeypatch.setattr(live, "read", read)
        return snapshot(tmp_path)

    return taken


def documents(kind: Resource, objects: tuple[str, ...]) -> list[Document]:
    typed = {"apiVersion": kind.api_version, "kind": kind.kind}
    named = [item.partition("/")[2] for item in objects if item.startswith(f"{kind.plural}/")]
    return [Document(name, {**typed, "metadata": {"name": name}}) for name in named]


def snapshot(folder: Path) -> Result:
    return CliRunner().invoke(cli, ["snapshot", str(folder), "--kubeconfig", "k"], standalone_mode=False)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


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
    result = take(*kinds)
    assert isinstance(result.exception, InputError)
    assert "pods.yaml" in str(result.exception)
    assert result.exception.hint
    assert files(tmp_path) == {"pods.yaml"}, "and nothing is written beside it"
    assert (tmp_path / "pods.yaml").read_text() == "precious"


def test_a_file_above_the_default_limit_is_noted(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--max-file-mib" not in take("nodes/a").stderr
    monkeypatch.setattr("muster.cli.snapshot.MOST_MIB", 0)
    assert "`--max-file-mib 1`" in take("nodes/a").stderr


def test_other_manifests_in_the_folder_stay_and_are_noted(take: Take, tmp_path: Path) -> None:
    """`muster plan FOLDER` reads them, too."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.json").write_text("{}")
    (tmp_path / "README.md").write_text("mine")
    result = take("nodes/a")
    assert result.exit_code == 0
    assert "more.json" in result.stderr
    assert "README" not in result.stderr
    assert files(tmp_path) == {"deep", "README.md", "nodes.yaml"}


def test_a_folder_that_cannot_be_written_is_named(take: Take, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.write_text("a file, not a folder")
    take("nodes/a")
    result = snapshot(target / "x")
    assert isinstance(result.exception, InputError)
    assert str(target) in str(result.exception)


def test_pages_of_a_kind_are_one_file(take: Take, tmp_path: Path) -> None:
    result = take("pods/p", "pods/q", "pods/r")
    assert [raw["metadata"]["name"] for raw in yaml.safe_load_all((tmp_path / "pods.yaml").read_text())] == [*"pqr"]
    assert result.stdout == f"{tmp_path / 'pods.yaml'}: 3\n"


class NotKubernetes(MemoryCluster):
    """Says 404 to everything, as a load balancer's default backend does."""

    server = "https://nobody.example.com"

    async def list(self, *_: Any, **__: Any) -> Listing:
        raise ApiError(404, "NotFound", "GET /api/v1/pods: HTTP status 404")


def test_a_server_that_is_no_kubernetes_costs_no_file(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a wrong address would remove the snapshot, and call that success."""
    take(*OLD)
    before = contents(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(live, "connect_reader", lambda *_: NotKubernetes())
    result = snapshot(tmp_path)
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 2
    assert contents(tmp_path) == before


STEPS = [*(("open", i) for i in range(3)), *(("replace", i) for i in range(6))]  # three new files; three old ones go


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize(("step", "before"), STEPS)
def test_what_fails_in_the_middle_leaves_the_old_snapshot(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, step: str, before: int
) -> None:
    """Nodes of one moment with pods of another make plans of a cluster that never was."""
    take(*OLD)
    module = Path if step == "replace" else os
    old, does, done = contents(tmp_path), getattr(module, step), list[Path]()

    def fails(path: Path, *words: Any, **more: Any) -> Any:
        done.append(path)
        if len(done) == before + 1:
            raise error
        return does(path, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, step, fails)
        result = take(*NEW)
    assert isinstance(result.exception, InputError | click.Abort)
    assert contents(tmp_path) == old, "and nothing is left beside it"


def test_no_reader_ever_meets_a_mix_of_old_and_new(take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the process is ended between two files, and nobody is left to undo it."""
    take(*OLD)
    seen, move = list[set[str]](), Path.replace

    def look() -> set[str]:
        return {text.partition("name: ")[2].strip() for name, text in contents(tmp_path).items() if name[0] != "."}

    def moved(path: Path, to: Path) -> Path:
        seen.append(look())
        return move(path, to)

    monkeypatch.setattr(Path, "replace", moved)
    take(*NEW)
    seen.append(look())
    assert seen[0] == {"a", "p", "q"}
    assert seen[-1] == {"b", "r", "g"}
    assert all(names <= seen[0] or names <= seen[-1] for names in seen)
    assert {path.name for path in tmp_path.iterdir()} == {"nodes.yaml", "pods.yaml", "podgroups.yaml"}
