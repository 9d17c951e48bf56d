"""`muster run` on a real API server: a process of its own, with a kubeconfig and a config file."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from muster.api.resources import LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e.installed import free_port, until
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import node, pod, podgroup

SHORT = "leaderElection: {leaseSeconds: 5, renewDeadlineSeconds: 3, retrySeconds: 1}\n"


def gpu_pod(name: str) -> Raw:
    limits = {"nvidia.com/gpu": "4"}
    return pod(name, namespace="run", scheduler="muster", image="none", limits=limits)


def gpu_node(name: str) -> Raw:
    return node(name, allocatable={"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"})


async def made(cluster: Cluster, name: str) -> None:
    with suppress(ApiError):  # it may be there
        await cluster.create(NAMESPACES, {"metadata": {"name": name}})


class Replica:
    """One process, and what it says of itself."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (URLError, OSError):
            return 0, ""

    async def ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200

    async def metric(self, name: str) -> float:
        lines = (await self.get("/metrics"))[1].splitlines()
        own = (f"muster_{name} ", f"muster_{name}{{")
        return sum(float(line.split()[-1]) for line in lines if line.startswith(own))

    async def leads(self) -> bool:
        return await self.metric("leader") == 1

    def stopped(self) -> str:
        """After SIGTERM it stops by itself; what it wrote."""
        self.process.terminate()
        _, logged = self.process.communicate(timeout=30)
        return logged.decode()


@contextmanager
def replica(apiserver: ApiServer, folder: Path, more: str = "") -> Iterator[Replica]:
    port = free_port()
    settings = folder / f"config-{port}.yaml"
    settings.write_text(
        f"webhook: {{enabled: false}}\nobservability: {{host: 127.0.0.1, port: {port}}}\n{more}", encoding="utf-8"
    )
    command = [sys.executable, "-m", "muster.cli.main", "run", "--config", str(settings)]
    with subprocess.Popen([*command, "--kubeconfig", str(apiserver.kubeconfig)], stderr=subprocess.PIPE) as process:
        try:
            yield Replica(process, port)
        finally:
            process.kill()


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    for name in ("run", "muster-system"):
        await made(client, name)
    with suppress(ApiError):  # a queue of our own: where others have left theirs, there is no default one
        await client.create(QUEUES, {"metadata": {"name": "run"}, "spec": {}})
    yield client
    for kind, namespace in ((PODS, "run"), (POD_GROUPS, "run"), (NODES, ""), (QUEUES, "")):
        for raw in (await client.list(kind, namespace)).items:
            with suppress(ApiError):
                await client.delete(kind, namespace, raw["metadata"]["name"], grace_seconds=0)
    await client.close()


async def seats(cluster: Cluster) -> list[str]:
    return [raw["spec"].get("nodeName", "") for raw in (await cluster.list(PODS, "run")).items]


async def gang(cluster: Cluster, pods: int) -> None:
    await cluster.create(POD_GROUPS, podgroup(minMember=pods, namespace="run", queue="run"))
    for i in range(pods):
        await cluster.create(PODS, gpu_pod(f"run-{i}"))


async def test_a_gang_is_bound_whole_and_its_status_says_so(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    """G1, E3, health and metrics, and a graceful end: the lease is given back on SIGTERM."""
    await gang(cluster, 3)
    with replica(apiserver, tmp_path) as muster:
        await cluster.create(NODES, gpu_node("run-a"))

        async def waits() -> bool:
            stored = await cluster.get(POD_GROUPS, "run", "gang")
            conditions = (stored.get("status") or {}).get("conditions") or []
            return any(condition["type"] == "Scheduled" and condition["reason"] == "NoRoom" for condition in conditions)

        await until(waits)
        assert not any(await seats(cluster)), "half a gang"
        await cluster.create(NODES, gpu_node("run-b"))

        async def runs() -> bool:
            return all(await seats(cluster))

        await until(runs)

        async def conditions() -> bool:
            return bool((await cluster.get(POD_GROUPS, "run", "gang"))["status"]["phase"] == "Running")

        await until(conditions)
        assert await muster.get("/livez") == (200, "[+] cycle ok\nlivez ok\n")
        status, text = await muster.get("/readyz")
        assert (status, "[+] watch-pods ok" in text, text.count("[+]")) == (200, True, 13)
        assert await muster.metric("bindings_total") == 3
        assert await muster.leads()
        for counted in ("cycle_duration_seconds_count", "decision_latency_seconds_count", "search_steps_count"):
            assert await muster.metric(counted) > 0, counted
        logged = muster.stopped()
    assert muster.process.returncode == 0, logged[-2000:]
    lease = await cluster.get(LEASES, "muster-system", "muster")
    assert not lease["spec"].get("holderIdentity")


async def test_a_replica_that_stands_by_is_ready_and_takes_over(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    """I9: one leads; when it stops, the other goes on within a few seconds, without any change to wake it."""
    await cluster.create(NODES, gpu_node("run-a"))
    with replica(apiserver, tmp_path, SHORT) as first:
        await until(first.leads)
        with replica(apiserver, tmp_path, f"{SHORT}scheduling: {{idleCycleSeconds: 3600}}\n") as second:
            await until(second.ready)
            assert (await first.leads(), await second.leads()) == (True, False)
            assert (await second.get("/livez"))[0] == 200
            first.process.send_signal(signal.SIGSTOP)  # it is stopped in the middle of whatever it does
            await gang(cluster, 2)
            await until(second.leads)

            async def runs() -> bool:
                return all(await seats(cluster))

            await until(runs, 5.0)
            second.stopped()
            assert second.process.returncode == 0
