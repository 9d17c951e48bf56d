"""Two `muster run` on a real API server: the leader goes deaf, gives its lease up and says why; the other one binds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import yaml

from muster.api.resources import LEASES, NAMESPACES, NODES, POD_GROUPS, PODS
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from tests.e2e.installed import HOME, free_port, gone, manifests, put, until
from tests.e2e.muster_process import kubeconfig, muster_run
from tests.support.apiserver.apiserver import ADMIN, ApiServer
from tests.support.apiserver.gate import Gate
from tests.support.factories import pod, podgroup
from tests.support.http import get

NAME = "failover"  # of the lease, the scheduler, the namespace, the node and the gang
SILENT_SECONDS = 10


class Process:
    """One `muster run`: where it answers, and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.log = folder, free_port(), Path()
        folder.mkdir()

    @asynccontextmanager
    async def running(self, access: str) -> AsyncIterator["Process"]:
        async with muster_run(self.folder, self._settings(), access) as self.log:
            yield self

    def _settings(self) -> str:
        election = {"leaseName": NAME, "leaseSeconds": 4, "renewDeadlineSeconds": 3, "retrySeconds": 1}
        return yaml.safe_dump(
            {
                "scheduling": {"schedulerNames": [NAME], "bindTimeoutSeconds": 2},
                "leaderElection": election,
                "grouping": {"enabled": False},
                "grove": {"enabled": False},
                "webhook": {"enabled": False},
                "observability": {"host": "127.0.0.1", "port": self.port, "silentWatchSeconds": SILENT_SECONDS},
            }
        )

    async def get(self, path: str) -> tuple[int, str]:
        return await get(f"http://127.0.0.1:{self.port}{path}")

    async def is_ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200

    async def leads(self) -> bool:
        return "\nmuster_leader 1.0\n" in (await self.get("/metrics"))[1]

    def lines(self) -> list[Raw]:
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines() if line.startswith(b"{")]


async def prepare(cluster: Cluster) -> None:
    """A node; and no lease of an earlier run."""
    await put(cluster, NAMESPACES, manifests("00-namespace.yaml")[0])
    await put(cluster, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    await gone(cluster, LEASES, HOME, NAME)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": {NAME: "yes"}}}
    await put(cluster, NODES, node)
    await cluster.patch(NODES, "", NAME, {"status": {"allocatable": {"cpu": "4", "pods": "10"}}}, subresource="status")


async def submit(cluster: Cluster) -> None:
    """A gang of one pod, which only fits on the node of this test."""
    await cluster.create(POD_GROUPS, podgroup(name=NAME, namespace=NAME, minMember=1))
    raw = pod("p", gang=NAME, namespace=NAME, scheduler=NAME, image="none")
    raw["spec"]["nodeSelector"] = {NAME: "yes"}
    await cluster.create(PODS, raw)


async def holder(cluster: Cluster) -> str:
    return str((await cluster.get(LEASES, HOME, NAME))["spec"]["holderIdentity"])


async def test_a_leader_whose_watches_are_swallowed_is_replaced_while_its_renewals_go_through(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    """/readyz fails and says why, /livez does not: no restart would cure it. It is a standby again afterwards."""
    cluster = connect(apiserver.kubeconfig)
    await prepare(cluster)
    direct = kubeconfig(apiserver, ADMIN)
    async with Gate(apiserver).open() as gate:
        behind = direct.replace(apiserver.url, gate.url)
        async with Process(tmp_path / "first").running(behind) as first:
            await until(first.leads)
            was = await holder(cluster)
            async with Process(tmp_path / "second").running(direct) as second:
                await until(second.is_ready)
                gate.is_shut = True
                await submit(cluster)
                await until(second.leads)

                async def is_bound() -> bool:
                    return bool(
                        (await cluster.get(PODS, NAME, "p"))["spec"].get("nodeName")
                    )  # nodes of other tests, too

                await until(is_bound)
                assert gate.swallowed > 0
                assert await holder(cluster) not in ("", was)
                await says_why(first)
                gate.is_shut = False
                await until(first.is_ready)
                assert not await first.leads(), "a standby like any other"
    (line,) = [line for line in first.lines() if line["event"] == "gives the lease up"]
    assert (line["level"], line["reason"]) == ("error", "WatchDead")
    assert not [line for line in second.lines() if line["event"] == "gives the lease up"]
    await cluster.close()


async def says_why(process: Process) -> None:
    status, text = await process.get("/readyz")
    assert status == 503
    (lease,) = [line for line in text.splitlines() if "lease" in line]
    assert lease.startswith(("[-] lease: was given up: the watch of ", "[-] lease: is not competed for: the watch of "))
    status, text = await process.get("/livez")
    assert (status, text) == (200, "[+] cycle ok\nlivez ok\n")
    counted = 'muster_lease_given_up_total{reason="WatchDead"} 1.0'
    assert counted in (await process.get("/metrics"))[1].splitlines()
