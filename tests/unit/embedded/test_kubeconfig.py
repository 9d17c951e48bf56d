"""The kubeconfig of the embedded cluster: no other file is lost, and nothing is left behind."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
import yaml

from muster.api.codec import to_yaml
from muster.embedded.kubeconfig import build_kubeconfig, publish_kubeconfig, remove_stale_kubeconfig
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.errors import InputError

CONFIG = build_kubeconfig("http://127.0.0.1:1", "t")


def test_it_exists_while_it_is_published_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with publish_kubeconfig(path, CONFIG):
        assert yaml.safe_load(path.read_text()) == CONFIG
        assert path.stat().st_mode & 0o777 == 0o600
        assert [entry.name for entry in tmp_path.iterdir()] == ["config"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("precious")
    with pytest.raises(InputError, match="is there already"), publish_kubeconfig(path, CONFIG):
        pass
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("config", "precious")]


def test_a_file_that_was_written_since_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with publish_kubeconfig(path, CONFIG):
        path.write_text("precious")
    assert path.read_text() == "precious"


def test_no_folder_is_made_for_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        remove_stale_kubeconfig(tmp_path / "missing" / "config")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "precious",
        "{]",
        to_yaml([{key: value for key, value in CONFIG.items() if key != "extensions"}]),
        to_yaml([CONFIG | {"clusters": [*CONFIG["clusters"], {"name": "production", "cluster": {}}]}]),
        to_yaml([CONFIG | {"users": [*CONFIG["users"], {"name": "admin", "user": {}}]}]),
        to_yaml([CONFIG, CONFIG]),
    ],
)
def test_only_a_kubeconfig_of_an_embedded_cluster_is_removed(tmp_path: Path, text: str) -> None:
    """One that holds another cluster or user as well is not."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="not a kubeconfig of `muster up`"):
        remove_stale_kubeconfig(path)
    assert path.read_text() == text


def test_a_path_that_is_no_regular_file_stays(tmp_path: Path) -> None:
    """Nor is it read: no process ever writes to this pipe."""
    path = tmp_path / "config"
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a kubeconfig"):
        remove_stale_kubeconfig(path)
    assert path.exists()


def test_the_kubeconfig_of_a_cluster_that_has_stopped_is_removed(tmp_path: Path) -> None:
    """Also after kubectl has chosen another namespace in it."""
    path = tmp_path / "config"
    contexts = [{"name": "muster", "context": {"cluster": "muster", "user": "muster", "namespace": "other"}}]
    path.write_text(to_yaml([CONFIG | {"contexts": contexts}]))
    remove_stale_kubeconfig(path)
    assert not path.exists()


async def test_the_kubeconfig_of_a_cluster_that_still_runs_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with serve(MemoryCluster(), kubeconfig_path=path):
        before = path.read_bytes()
        with pytest.raises(InputError, match="still runs") as caught:
            await asyncio.to_thread(remove_stale_kubeconfig, path)
        assert "--kubeconfig" in caught.value.hint
        assert path.read_bytes() == before
    assert not path.exists()


async def test_another_server_on_the_port_is_not_the_cluster(tmp_path: Path) -> None:
    """A port is reused sooner or later; a server without the cluster's certificate is another one."""
    path = tmp_path / "config"
    async with serve(MemoryCluster(), kubeconfig_path=path):
        old = yaml.safe_load(path.read_text())
    async with serve(MemoryCluster()) as other:
        old["clusters"][0]["cluster"]["server"] = other.address
        path.write_text(to_yaml([old]))
        await asyncio.to_thread(remove_stale_kubeconfig, path)
    assert not path.exists()


async def test_nothing_is_written_where_the_port_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen"):
            async with serve(MemoryCluster(), port=port, kubeconfig_path=path):
                pass
    assert list(tmp_path.iterdir()) == []
