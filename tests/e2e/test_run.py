"""`muster run` on a real API server: a process of its own, told by a kubeconfig and a config file."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from muster.cluster.kinds import LEASES, NAMESPACES, NODES, POD_GROUPS, PODS
from muster.cluster.kubernetes import connect
from muster.cluster.store import ApiError, Cluster, Raw
from tests.apiserver import ApiServer
from tests.given import podgroup


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def pod(name: str) -> Raw:
    spec = {
        "schedulerName": "muster",
        "containers": [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
    }
    meta = {"name": name, "namespace": "run", "annotations": {"pod-group-name": "gang"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def node(name: str) -> Raw:
    room = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    for _ in range(int(seconds / 0.2)):
        if await holds():
            return
        await asyncio.sleep(0.2)
    raise AssertionError("waited in vain")


async def made(cluster: Cluster, name: str) -> None:
    with suppress(ApiError):  # it may be there
        await cluster.create(NAMESPACES, {"metadata": {"name": name}})


async def test_a_gang_is_bound_whole_and_told_so(apiserver: ApiServer, tmp_path: Path) -> None:
    """G1, E3, and a graceful end: the lease is given back on SIGTERM."""
    cluster = connect(apiserver.kubeconfig)
    for name in ("run", "muster-system"):
        await made(cluster, name)
    settings = tmp_path / "config.yaml"
    settings.write_text(
        f"webhook: {{enabled: false}}\nobservability: {{host: 127.0.0.1, port: {free_port()}}}\n", encoding="utf-8"
    )
    await cluster.create(POD_GROUPS, podgroup(minMember=3, namespace="run"))
    for i in range(3):
        await cluster.create(PODS, pod(f"run-{i}"))
    command = [sys.executable, "-m", "muster.cli.main", "run", "--config", str(settings)]
    with subprocess.Popen([*command, "--kubeconfig", str(apiserver.kubeconfig)], stderr=subprocess.PIPE) as process:
        try:
            await cluster.create(NODES, node("run-a"))

            async def waits() -> bool:
                stored = await cluster.get(POD_GROUPS, "run", "gang")
                told = (stored.get("status") or {}).get("conditions") or []
                return any(one["type"] == "Scheduled" and one["reason"] == "NoRoom" for one in told)

            await until(waits)
            assert not any(one["spec"].get("nodeName") for one in (await cluster.list(PODS, "run")).items), (
                "half a gang"
            )
            await cluster.create(NODES, node("run-b"))

            async def runs() -> bool:
                return all(one["spec"].get("nodeName") for one in (await cluster.list(PODS, "run")).items)

            await until(runs)
        finally:
            process.terminate()
            try:
                _, said = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert process.returncode == 0, said.decode()[-2000:]
    lease = await cluster.get(LEASES, "muster-system", "muster")
    assert not lease["spec"].get("holderIdentity")
    for name in ("run-a", "run-b"):
        await cluster.delete(NODES, "", name)
    await cluster.close()
