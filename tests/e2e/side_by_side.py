"""Several `muster run` on one real API server, each with an account of its own: the audit log says who wrote what.

Rule: whatever belongs to a muster has a name that begins with the muster's.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from muster.api.resources import EVENTS, LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, Resource
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e.installed import HOME, free_port, gone, put
from tests.e2e.muster_process import kubeconfig, muster_run, token
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import NONE, node, pod, podgroup, queue

GPU, GPUS = "nvidia.com/gpu", 8  # of every node
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
READING = ("get", "list", "watch")


class Write(NamedTuple):
    """A request that changes something."""

    resource: str  # with its subresource
    name: str


class SharedCluster:
    """Nodes, queues and gangs of one test, in a namespace of their own."""

    def __init__(self, apiserver: ApiServer, cluster: Cluster, space: str, folder: Path) -> None:
        self.apiserver, self.cluster, self.space, self.folder = apiserver, cluster, space, folder
        self._since = apiserver.audit.stat().st_size if apiserver.audit.exists() else 0

    async def muster(self, name: str, scheduling: Raw) -> AbstractAsyncContextManager[Path]:
        """`muster run` as an account of this name, with a lease of this name."""
        meta = {"name": name, "namespace": HOME}
        await put(self.cluster, SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", **meta}
        bound = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, "metadata": {"name": f"side-{name}"}}
        await put(self.cluster, BINDINGS, {**bound, "roleRef": admin, "subjects": [subject]})
        election = {"leaseName": name, "leaseSeconds": 6, "renewDeadlineSeconds": 4, "retrySeconds": 1}
        settings = {
            "scheduling": scheduling,
            "leaderElection": election,
            "webhook": {"enabled": False},
            "observability": {"host": "127.0.0.1", "port": free_port()},
        }
        folder = self.folder / f"{name}-{free_port()}"
        folder.mkdir()
        access = kubeconfig(self.apiserver, await token(self.apiserver, name))
        return muster_run(folder, yaml.safe_dump(settings), access)

    async def add_node(self, name: str, labels: Mapping[str, str]) -> None:
        allocatable = {"cpu": "64", "pods": "110", GPU: str(GPUS)}
        raw = node(name, allocatable=allocatable, labels={"space": self.space, **labels})
        await self.cluster.create(NODES, raw)

    async def add_queue(self, name: str, labels: Mapping[str, str]) -> None:
        raw = queue(name)
        raw["metadata"]["labels"] = dict(labels)
        await self.cluster.create(QUEUES, raw)

    def pod(self, name: str, scheduler: str, gang: str = "", **more: Raw) -> Raw:
        """A pod of half a node."""
        raw = pod(name, gang=gang, namespace=self.space, scheduler=scheduler, image="none", limits={GPU: GPUS // 2})
        raw["metadata"]["labels"] |= more.get("labels", {})
        raw["spec"]["nodeSelector"] = {"space": self.space}
        return raw

    async def add_gang(self, name: str, scheduler: str, queue_name: str, labels: Mapping[str, str] = NONE) -> None:
        """Two pods, which fill a node."""
        raw = podgroup(name=name, namespace=self.space, minMember=2, queue=queue_name)
        raw["metadata"]["labels"] = dict(labels)
        await self.cluster.create(POD_GROUPS, raw)
        for i in range(2):
            await self.cluster.create(PODS, self.pod(f"{name}-{i}", scheduler, name))

    async def remove_gang(self, name: str) -> None:
        for i in range(2):
            await gone(self.cluster, PODS, self.space, f"{name}-{i}")
        await gone(self.cluster, POD_GROUPS, self.space, name)

    async def objects(self, resource: Resource) -> dict[str, Raw]:
        listed = await self.cluster.list(resource, self.space if resource.namespaced else "")
        return {raw["metadata"]["name"]: raw for raw in listed.items}

    async def places(self) -> dict[str, str]:
        """The node of every pod; empty: it waits. No node is over its GPUs (I2)."""
        places = {name: raw["spec"].get("nodeName", "") for name, raw in (await self.objects(PODS)).items()}
        used = [name for name in places.values() if name]
        assert all(used.count(name) * GPUS // 2 <= GPUS for name in used), f"I2: {places}"
        return places

    async def runs(self, *gangs: str) -> bool:
        places = await self.places()
        return all(places.get(f"{gang}-{i}") for gang in gangs for i in range(2))

    def writes(self, account: str) -> Iterator[Write]:
        """What an account changed, or tried to; without its lease, whose name begins with that of the account."""
        user = f"system:serviceaccount:{HOME}:{account}"
        for line in self.apiserver.audit.read_bytes()[self._since :].splitlines():
            call = msgspec.json.decode(line)
            about = call.get("objectRef") or {}
            if call["user"]["username"] != user or call["verb"] in READING:
                continue
            if about["resource"] == LEASES.plural:
                assert about.get("name", account).startswith(account)
                continue
            sub = f"/{about['subresource']}" if about.get("subresource") else ""
            yield Write(about["resource"] + sub, about.get("name", ""))

    async def assert_apart(self, *musters: str) -> None:
        """Every write of an account is about an object of its own; an event, about what it involves."""
        events = await self.objects(EVENTS)
        for account in musters:
            written = set(self.writes(account))
            assert {write.resource for write in written} >= {"pods/binding", "podgroups/status", "events"}
            for write in written:
                if write.resource == "queues/status":
                    continue  # of a queue without gangs, the first that sees it reports (N6)
                about = events[write.name]["involvedObject"]["name"] if write.resource == "events" else write.name
                assert about.removeprefix("pg-").startswith(f"{account}-"), f"{account} wrote {write}"


@asynccontextmanager
async def shared_cluster(apiserver: ApiServer, space: str, folder: Path) -> AsyncIterator[SharedCluster]:
    """An empty namespace; afterwards, nothing of it is left."""
    cluster = connect(apiserver.kubeconfig)
    for name in (space, HOME):
        with suppress(ApiError):  # it may be there
            await cluster.create(NAMESPACES, {"metadata": {"name": name}})
    shared = SharedCluster(apiserver, cluster, space, folder)
    try:
        yield shared
    finally:
        for resource in (PODS, POD_GROUPS, NODES, QUEUES):
            for name in await shared.objects(resource):
                await gone(cluster, resource, space if resource.namespaced else "", name)
        await cluster.close()
