"""`python -m bench.grove [embedded|kubernetes] [REPLICAS] [NODES]`: one large PodCliqueSet from creation to deletion.

The shape that Grove publishes: replicas of one clique of two pods. muster's operator makes everything that the set
consists of, its scheduler binds the pods, simulated kubelets run them; then the set is deleted. A bare client creates
as many Services, PodCliques, PodGangs, PodGroups and pods, binds the pods, and deletes all of them again: nothing is
watched, decided or reported. Nobody collects garbage on `kubernetes` but kube-controller-manager, for the set only.

`kubernetes` is a real kube-apiserver with etcd on this machine (`make envtest`): all share its cores with us.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from bench.cluster import AT_ONCE, FOREIGN, NAMESPACE, each, node_name, numbered_node, opened, say
from muster.api.resources import (
    NODES,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    QUEUES,
    SERVICES,
    Resource,
)
from muster.cli.assemble.grove_operator import attach_operator
from muster.cli.assemble.process import tune
from muster.config.settings import Config, Log
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.cluster import Cluster, Raw
from muster.observability.logging import configure
from muster.scheduler.loop import Scheduler

PODS_EACH = 2
TIMINGS = KubeletTimings(stop_seconds=0.0)
LONGEST_SECONDS = 600.0


class GroveFigures(Struct, frozen=True):
    """Seconds since the set was created, or deleted; and of the bare client."""

    created: float
    bound: float
    ready: float
    deleted: float
    bare_bound: float
    bare_deleted: float


def typed(resource: Resource, name: str, spec: Raw, **metadata: Any) -> Raw:
    own = {"name": name, "namespace": NAMESPACE, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": own, "spec": spec}


def pod_spec(scheduler: str) -> Raw:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "none:1", "resources": {"requests": requests, "limits": requests}}
    return {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": [container]}


def pod_clique_set(replicas: int) -> Raw:
    clique = {"roleName": "worker", "replicas": PODS_EACH, "podSpec": pod_spec("muster")}
    template = {"cliques": [{"name": "a", "spec": clique}]}
    return typed(POD_CLIQUE_SETS, "bench", {"replicas": replicas, "template": template})


async def measure(cluster: Cluster, replicas: int, nodes: int) -> GroveFigures:
    pods = replicas * PODS_EACH
    say(f"{nodes} nodes, one set of {replicas} replicas of {PODS_EACH} pods")
    await each(lambda i: cluster.create(NODES, numbered_node(i, 8)), range(nodes), AT_ONCE)
    bare_bound, bare_deleted = await bare(cluster, replicas, nodes)
    say(f"bare client: bound {bare_bound:.1f} s, deleted {bare_deleted:.1f} s")
    async with control_plane(cluster):
        began = time.monotonic()
        await cluster.create(POD_CLIQUE_SETS, pod_clique_set(replicas))
        times = await watched(cluster, pods, began)
        say("created {:.1f} s, bound {:.1f} s, ready {:.1f} s".format(*times))
        began = time.monotonic()
        await cluster.delete(POD_CLIQUE_SETS, NAMESPACE, "bench")
        deleted = await until(cluster, lambda pods: not pods, began)
        say(f"deleted {deleted:.1f} s")
    return GroveFigures(*times, deleted, bare_bound, bare_deleted)


@asynccontextmanager
async def control_plane(cluster: Cluster) -> AsyncIterator[None]:
    """Scheduler, operator and kubelets that know everything."""
    settings = Config()
    scheduler = Scheduler(cluster, settings.scheduling)
    operator = attach_operator(settings.grove, cluster, scheduler)
    assert operator is not None
    runs = (scheduler.run, operator.run, Kubelets(cluster, timings=TIMINGS).run)
    tasks = [asyncio.create_task(run()) for run in runs]
    try:
        while not scheduler.synced:
            await asyncio.sleep(0.01)
        await asyncio.sleep(2.0)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def watched(cluster: Cluster, number: int, began: float) -> tuple[float, float, float]:
    """When all pods exist, when all are bound, and when all are ready."""
    stages: list[Callable[[Raw], bool]] = [lambda _: True, lambda raw: bool(raw["spec"].get("nodeName")), is_ready]
    reached: list[set[str]] = [set() for _ in stages]  # names of pods
    times = [0.0] * len(stages)

    def look(raw: Raw) -> None:
        for stage, test in enumerate(stages):
            if test(raw):
                reached[stage].add(raw["metadata"]["name"])
            if not times[stage] and len(reached[stage]) == number:
                times[stage] = time.monotonic() - began

    listed = await cluster.list(PODS, NAMESPACE)
    for raw in listed.items:
        look(raw)
    async with asyncio.timeout(LONGEST_SECONDS), cluster.watch(PODS, listed.resource_version, NAMESPACE) as changes:
        while not all(times):
            change = await anext(changes)
            if change.type != "BOOKMARK":
                look(change.object)
    return times[0], times[1], times[2]


async def until(cluster: Cluster, test: Callable[[tuple[Raw, ...]], bool], began: float) -> float:
    async with asyncio.timeout(LONGEST_SECONDS):
        while not test((await cluster.list(PODS, NAMESPACE, limit=1)).items):
            await asyncio.sleep(0.1)
    return time.monotonic() - began


def is_ready(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


# the bare client ------------------------------------------------------------------------------------------------------


def bare_objects(i: int) -> list[tuple[Resource, Raw]]:
    """What a replica of the set consists of, but for its pods."""
    name = f"bare-{i}"
    references = [{"namespace": NAMESPACE, "name": f"{name}-a-{j}"} for j in range(PODS_EACH)]
    gang = {"podgroups": [{"name": f"{name}-a", "minReplicas": PODS_EACH, "podReferences": references}]}
    leaves = [{"name": f"{name}-a", "minMember": PODS_EACH}]
    clique = {"roleName": "worker", "replicas": PODS_EACH, "minAvailable": PODS_EACH, "podSpec": pod_spec(FOREIGN)}
    return [
        (SERVICES, typed(SERVICES, name, {"clusterIP": "None", "selector": {"app": name}})),
        (POD_CLIQUES, typed(POD_CLIQUES, f"{name}-a", clique)),
        (POD_GANGS, typed(POD_GANGS, name, gang)),
        (POD_GROUPS, typed(POD_GROUPS, name, {"queue": "default", "subGroups": leaves})),
    ]


async def bare(cluster: Cluster, replicas: int, nodes: int) -> tuple[float, float]:
    """Seconds to create everything and bind the pods, and to delete the pods."""

    async def make(i: int) -> None:
        for resource, raw in bare_objects(i):
            await cluster.create(resource, raw)
        for j in range(PODS_EACH):
            raw = await cluster.create(PODS, typed(PODS, f"bare-{i}-a-{j}", pod_spec(FOREIGN)))
            await cluster.bind(NAMESPACE, raw["metadata"]["name"], raw["metadata"]["uid"], node_name(i % nodes))

    async def remove(name: str) -> None:
        await cluster.delete(PODS, NAMESPACE, name)
        await cluster.delete(PODS, NAMESPACE, name, grace_seconds=0)  # as its kubelet does

    began = time.monotonic()
    await each(make, range(replicas), AT_ONCE)
    bound = time.monotonic() - began
    began = time.monotonic()
    await each(remove, [f"bare-{i}-a-{j}" for i in range(replicas) for j in range(PODS_EACH)], AT_ONCE)
    deleted = time.monotonic() - began
    for i in range(replicas):
        for resource, raw in bare_objects(i):
            await cluster.delete(resource, NAMESPACE, raw["metadata"]["name"])
    return bound, deleted


# showing --------------------------------------------------------------------------------------------------------------


def row(where: str, replicas: int, nodes: int, measured: GroveFigures) -> str:
    """One line of docs/performance.md."""
    return (
        f"| {where} | {nodes} | {replicas * PODS_EACH:,} | {measured.created:.1f} s | {measured.bound:.1f} s "
        f"| {measured.bare_bound:.1f} s | {measured.bound / measured.bare_bound:.2f} | {measured.ready:.1f} s "
        f"| {measured.deleted:.1f} s | {measured.bare_deleted:.1f} s |"
    )


async def main(where: str, replicas: int, nodes: int) -> None:
    configure(Log(level="warning"))
    tune()
    async with opened(where, with_controllers=True) as cluster:
        everything = {"resources": {name: {"quota": -1} for name in ("gpu", "cpu", "memory")}}
        await cluster.create(QUEUES, {"metadata": {"name": "default"}, "spec": everything})
        measured = await measure(cluster, replicas, nodes)
    print("| cluster | nodes | pods | created | bound | bare client | ratio | ready | deleted | bare client |")
    print("|---|" + "---:|" * 9)
    print(row(where, replicas, nodes, measured))


if __name__ == "__main__":
    where, replicas, nodes = (*sys.argv[1:], *("embedded", "500", "100")[len(sys.argv) - 1 :])
    asyncio.run(main(where, int(replicas), int(nodes)))
