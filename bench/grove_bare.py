"""The bare client of `bench.grove`: the creates and binds of a PodCliqueSet, and its deletion, without a control plane.

Rule 1: what it creates is what muster's operator makes of the set: the same labels, variables and owners. Rule 2: it
has as many requests in flight as a scheduler, and nothing to wait for but answers. Rule 3: pods run before it deletes
them.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from bench.cluster import AT_ONCE, NAMESPACE, REST_SECONDS, each, node_name
from bench.cpu import cpu_seconds
from muster.api.names import GANG_GATE, PART_OF, SET_REPLICA
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS, SERVICES, Resource
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.grove.table import GROVE
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.workloads.expansion import expand_objects

KINDS = (POD_CLIQUES, PODS, POD_GANGS, POD_GROUPS, SERVICES)  # owners come first
ASSIGNED = ("uid", "creationTimestamp", "generation", "resourceVersion")  # by an API server
NOT_FOUND = 404
TIMINGS = KubeletTimings(start_seconds=0.0, stop_seconds=0.0)


Moment = tuple[float, float]  # on the clock, and of CPU


def now() -> Moment:
    return time.monotonic(), cpu_seconds()


def passed(began: Moment, ended: Moment) -> Moment:
    return ended[0] - began[0], ended[1] - began[1]


class BareFigures(Struct, frozen=True):
    """Seconds until all is created and bound, and until all pods are deleted; and of CPU."""

    bound: float
    deleted: float
    bound_cpu: float
    deleted_cpu: float


class BareClient:
    """Creates, binds and deletes what becomes of one set. `is_gated`: pods have their gates, which it lifts."""

    def __init__(self, cluster: Cluster, pcs: Raw, nodes: int, *, is_gated: bool = False) -> None:
        self._cluster, self._nodes, self._is_gated = cluster, nodes, is_gated
        self._pcs = {**pcs, "metadata": {**pcs["metadata"], "uid": "of the set"}}
        self._replicas = replicas_of(self._pcs)
        self._uids: dict[str, str] = {}  # of created objects, by the uids that others name them with
        self._pods: list[str] = []

    async def measure(self) -> BareFigures:
        """Everything from the first creation to the last deletion; what is no pod goes uncounted."""
        began = now()
        await self._create(POD_CLIQUE_SETS, self._pcs)
        await each(self._make, range(len(self._replicas)), AT_ONCE)
        bound, bound_cpu = passed(began, now())
        await self._run_pods()
        began = now()
        await each(self._delete_pod, self._pods, AT_ONCE)
        deleted, deleted_cpu = passed(began, now())
        await self._clean()
        return BareFigures(bound, deleted, bound_cpu, deleted_cpu)

    async def _run_pods(self) -> None:
        """Kubelets run the pods, uncounted: a pod that ran is larger, and its deletion costs an API server more."""
        mine = f"{PART_OF}={self._pcs['metadata']['name']}"
        async with Kubelets(self._cluster, timings=TIMINGS).running():
            while not all(map(is_ready, (await self._cluster.list(PODS, NAMESPACE, labels=mine)).items)):
                await asyncio.sleep(1.0)
        await asyncio.sleep(REST_SECONDS)

    async def _make(self, i: int) -> None:
        pods = []
        for resource, raw in self._replicas[i]:
            created = await self._create(resource, raw)
            pods += [created] if resource == PODS else []
        for pod in pods:
            await self._bind(pod["metadata"], node_name(i % self._nodes))

    async def _create(self, resource: Resource, raw: Raw) -> Raw:
        metadata = {name: value for name, value in raw["metadata"].items() if name not in ASSIGNED}
        owners = metadata.get("ownerReferences") or ()
        if owners:
            metadata["ownerReferences"] = [{**owner, "uid": self._uids[owner["uid"]]} for owner in owners]
        spec = raw["spec"]
        if resource == PODS and self._is_gated:
            spec = {**spec, "schedulingGates": [{"name": GANG_GATE}]}
        created = await self._cluster.create(resource, {**_kind(resource), "metadata": metadata, "spec": spec})
        self._uids[raw["metadata"]["uid"]] = created["metadata"]["uid"]
        return created

    async def _bind(self, metadata: Raw, node: str) -> None:
        name, uid = metadata["name"], metadata["uid"]
        if self._is_gated:
            patch = {"metadata": {"uid": uid}, "spec": {"schedulingGates": None}}
            await self._cluster.patch(PODS, NAMESPACE, name, patch)
        await self._cluster.bind(NAMESPACE, name, uid, node)
        self._pods.append(name)

    async def _delete_pod(self, name: str) -> None:
        await self._cluster.delete(PODS, NAMESPACE, name)
        await self._cluster.delete(PODS, NAMESPACE, name, grace_seconds=0)  # as its kubelet does

    async def _clean(self) -> None:
        """Deletes what is left, and waits for those who collect garbage."""
        left = [(resource, raw["metadata"]["name"]) for replica in self._replicas for resource, raw in replica]
        left.append((POD_CLIQUE_SETS, self._pcs["metadata"]["name"]))

        await each(lambda one: delete_present(self._cluster, *one), [one for one in left if one[0] != PODS], AT_ONCE)
        mine = f"{PART_OF}={self._pcs['metadata']['name']}"
        while any([(await self._cluster.list(kind, NAMESPACE, labels=mine, limit=1)).items for kind in KINDS]):
            await asyncio.sleep(0.1)


def is_ready(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def delete_present(cluster: Cluster, resource: Resource, name: str, grace_seconds: int | None = None) -> None:
    """Deletes an object, unless it is gone."""
    try:
        await cluster.delete(resource, NAMESPACE, name, grace_seconds=grace_seconds)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise


def replicas_of(pcs: Raw) -> Sequence[Sequence[tuple[Resource, Raw]]]:
    """What each replica of a set consists of, by the operator's own controllers; owners come first."""
    made = [*_made(expand_objects([pcs], GROVE).objects)]
    indexes = sorted({int(raw["metadata"]["labels"][SET_REPLICA]) for _, raw in made})
    replicas: dict[int, list[tuple[Resource, Raw]]] = {index: [] for index in indexes}
    for resource, raw in sorted(made, key=lambda one: KINDS.index(one[0])):
        replicas[int(raw["metadata"]["labels"][SET_REPLICA])].append((resource, raw))
    return [replicas[index] for index in indexes]


def _made(objects: Sequence[Raw]) -> Iterator[tuple[Resource, Raw]]:
    by_kind = {(kind.api_version, kind.kind): kind for kind in KINDS}
    for raw in objects:
        resource = by_kind.get((raw["apiVersion"], raw["kind"]))
        if resource is not None:
            yield resource, raw


def _kind(resource: Resource) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
