"""Kubeconfigs as the real kubectl reads them: the same entries of several files, the same call of exec plugins."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.client.cluster_config import load_kubeconfig
from muster.kube.client.kubeconfig import KubeConfig, merge_kubeconfigs, parse_kubeconfig
from tests.e2e.kubectl import KUBECTL, MISSING
from tests.support.apiserver.envtest_certificates import certificates
from tests.support.kubeconfigs import credential, read_run, write_kubeconfig, write_script

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=MISSING)

NAMES = ("a", "b", "c")


def kubectl(paths: str, *words: str) -> subprocess.CompletedProcess[str]:
    assert KUBECTL
    environment = {**os.environ, "KUBECONFIG": paths}
    return subprocess.run([KUBECTL, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)


def draw_config(chance: random.Random, file: str) -> dict[str, Any]:
    """Entries say which file they are of; some are missing, or empty."""

    def entries(kind: str, make: Any) -> dict[str, Any]:
        names = [name for name in NAMES if chance.random() < 0.5]
        return {f"{kind}s": [{"name": name, kind: make(name)} for name in names]} if names else {}

    return {
        "current-context": chance.choice(["", *NAMES]),
        **entries(
            "cluster", lambda name: {"server": f"https://{name}.{file}", **_some(chance, "tls-server-name", file)}
        ),
        **entries("user", lambda name: {"username": name, **_some(chance, "password", file)}),
        **entries("context", lambda _: {"cluster": chance.choice(NAMES), "user": chance.choice(NAMES)}),
    }


def _some(chance: random.Random, key: str, value: str) -> dict[str, str]:
    return {key: value} if chance.random() < 0.5 else {}


def entries_of(config: KubeConfig) -> dict[str, Any]:
    """As kubectl prints them."""
    kinds = {"cluster": config.clusters, "user": config.users, "context": config.contexts}
    return {kind: {name: entry.value for name, entry in entries.items()} for kind, entries in kinds.items()}


@pytest.mark.parametrize("seed", range(12))
def test_files_are_merged_as_by_kubectl(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file in files:
        file.write_text(yaml.safe_dump(draw_config(chance, file.name)))
    paths = os.pathsep.join(map(str, [*files, tmp_path / "missing"]))
    view = json.loads(kubectl(paths, "config", "view", "--raw", "-o", "json").stdout)
    parsed = [parse_kubeconfig(file.read_bytes(), file) for file in files]
    merged = merge_kubeconfigs([config for config in parsed if config])
    printed = {
        kind: {item["name"]: item[kind] for item in view[f"{kind}s"] or ()} for kind in ("cluster", "user", "context")
    }
    assert entries_of(merged) == printed
    assert merged.current_context == view["current-context"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("provide", [False, True])
def test_plugins_are_run_as_by_kubectl(tmp_path: Path, version: str, provide: bool) -> None:
    """Arguments, variables and the description of the cluster; the command is relative to the file."""
    api_version = f"client.authentication.k8s.io/{version}"
    certificates(tmp_path)
    user = write_script(
        tmp_path / "plugin",
        credential({"token": "t"}, api_version),
        apiVersion=api_version,
        command="./plugin",
        args=["get", "token"],
        env=[{"name": "EXTRA", "value": "x"}],
        provideClusterInfo=provide,
    )
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster: dict[str, Any] = {
        "server": "https://127.0.0.1:1",
        "certificate-authority": "ca.crt",
        "tls-server-name": "inside",
        "extensions": [extension],
    }
    path = write_kubeconfig(tmp_path / "c", user, **cluster)
    runs = []
    for run in (lambda: load_kubeconfig(path), lambda: kubectl(path, "get", "--raw", "/", "--request-timeout=1s")):
        run()
        environment, arguments = read_run(tmp_path / "plugin")
        runs.append((json.loads(environment["KUBERNETES_EXEC_INFO"]), environment["EXTRA"], arguments))
        Path(f"{tmp_path}/plugin.seen").unlink()
    assert runs[0] == runs[1]
