"""Reading verbs on a real API server: what it says where a kind is not installed, or where it is asked off its path."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from muster.api.objects import WATCHED_KINDS
from muster.cli import live
from muster.cli.main import cli
from muster.errors import InputError
from tests.support.apiserver.apiserver import ApiServer


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, standalone_mode=False)


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kinds under a version that is not served: to the API server the same as no CRDs at all."""
    known = WATCHED_KINDS.items()
    unserved = {replace(kind, version="v9") if kind.kind in live.INSTALLED else kind: struct for kind, struct in known}
    monkeypatch.setattr(live, "WATCHED_KINDS", unserved)


@pytest.mark.usefixtures("not_installed")
def test_a_cluster_without_our_kinds_is_read_with_a_note(apiserver: ApiServer) -> None:
    result = run("plan", "-o", "json", "--kubeconfig", str(apiserver.kubeconfig))
    assert result.exit_code == 0
    assert "this cluster does not know PodGroups, Queues, Topologies: `muster crds | kubectl" in result.stderr


def test_a_cluster_with_our_kinds_misses_nothing(apiserver: ApiServer) -> None:
    result = run("plan", "-o", "json", "--kubeconfig", str(apiserver.kubeconfig))
    assert result.exit_code == 0
    assert "does not know" not in result.stderr


def test_the_wrong_path_is_no_empty_cluster(apiserver: ApiServer, tmp_path: Path) -> None:
    config = yaml.safe_load(apiserver.kubeconfig.read_text())
    for each in config["clusters"]:
        each["cluster"]["server"] += "/prefix"
    path, folder = apiserver.folder / "kubeconfig-elsewhere", tmp_path / "captured"  # it names files beside it
    path.write_text(yaml.safe_dump(config))
    run("snapshot", str(folder), "--kubeconfig", str(apiserver.kubeconfig))
    before = {file.name: file.read_text() for file in folder.iterdir()}
    result = run("snapshot", str(folder), "--kubeconfig", str(path))
    assert isinstance(result.exception, InputError)
    assert f"{apiserver.url}/prefix is not a Kubernetes API server" in result.exception.message
    assert before == {file.name: file.read_text() for file in folder.iterdir()} != {}
