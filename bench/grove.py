"""`python -m bench.grove [embedded|kubernetes] [REPLICAS] [NODES]`: one large PodCliqueSet from creation to deletion.

The shape that Grove publishes: replicas of one clique of two pods. muster's operator makes everything that the set
consists of, its scheduler binds the pods; then simulated kubelets run them, and the set is deleted.

A bare client does the same creates and binds: the objects that the operator makes, byte for byte but for names, uids
and gates, with as many requests at once. It deletes the pods as a user and their kubelets do. Nothing is watched,
decided or reported. It runs before and after the operator, on a server that has warmed up, and the mean counts. A
second one lifts gates, too, which is a request for each pod that Grove's protocol asks for (R1).

Kubelets begin once all pods are bound: on a cluster they are other machines, and the bare client has none. The set is
deleted once every status and event is written; kubelets confirm deletions as the bare client does, a request for each
pod, with as many at once, when the scheduler's watch shows them. kube-controller-manager collects garbage.

Seconds of CPU are of all processes: of the API server, etcd, kube-controller-manager and muster.

`kubernetes` is a real kube-apiserver with etcd on this machine (`make envtest`): all share its cores with us.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import mean
from typing import Any

from msgspec import Struct

from bench.cluster import AT_ONCE, FOREIGN, NAMESPACE, each, numbered_node, opened, say
from bench.cpu import cpu_seconds
from bench.grove_bare import TIMINGS, BareClient, BareFigures, Moment, delete_present, is_ready, now, passed
from muster.api.names import PART_OF
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
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated, ReflectorEvent
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.observability.logging import configure
from muster.scheduler.loop import Scheduler

PODS_EACH = 2
WARM_UP = 50  # replicas
LONGEST_SECONDS = 600.0
PARTS = (SERVICES, POD_CLIQUES, POD_GANGS, POD_GROUPS)  # one a replica
LOOK_SECONDS = 0.01


class GroveFigures(Struct, frozen=True):
    """Seconds since the set was created, or deleted; and of the bare client."""

    created: float
    bound: float  # and everything else is created
    ready: float
    settled: float  # every status and event is written
    deleted: float
    bound_cpu: float
    deleted_cpu: float
    bare: BareFigures
    gated: BareFigures  # of the bare client that lifts gates


def typed(resource: Resource, name: str, spec: Raw, **metadata: Any) -> Raw:
    own = {"name": name, "namespace": NAMESPACE, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": own, "spec": spec}


def pod_spec(scheduler: str) -> Raw:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "none:1", "resources": {"requests": requests, "limits": requests}}
    return {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": [container]}


def pod_clique_set(replicas: int, name: str = "bench", scheduler: str = "muster") -> Raw:
    clique = {"roleName": "worker", "replicas": PODS_EACH, "podSpec": pod_spec(scheduler)}
    template = {"cliques": [{"name": "a", "spec": clique}]}
    return typed(POD_CLIQUE_SETS, name, {"replicas": replicas, "template": template})


# the bare client ------------------------------------------------------------------------------------------------------


async def bare(cluster: Cluster, replicas: int, nodes: int, *, is_gated: bool = False) -> BareFigures:
    client = BareClient(cluster, pod_clique_set(replicas, "bare", FOREIGN), nodes, is_gated=is_gated)
    figures = await client.measure()
    words = "bare client that lifts gates" if is_gated else "bare client"
    say(f"{words}: {replicas} replicas bound {figures.bound:.1f} s, deleted {figures.deleted:.1f} s")
    return figures


# the control plane ----------------------------------------------------------------------------------------------------


class PodCounts:
    """How many pods exist, are bound and are ready, by the scheduler's own watch: no other one is needed."""

    def __init__(self) -> None:
        self.created: set[str] = set()
        self.bound: set[str] = set()
        self.ready: set[str] = set()
        self.confirmed: set[str] = set()  # names of pods whose deletion a kubelet confirms: each once
        self.terminating: asyncio.Queue[str] = asyncio.Queue()

    def handle(self, resource: Resource, received: ReflectorEvent) -> None:
        """One event of the scheduler's watches."""
        match received:
            case ObjectUpdated(object=raw) if resource == PODS:
                name = raw["metadata"]["name"]
                self.created.add(name)
                if raw["spec"].get("nodeName"):
                    self.bound.add(name)
                if is_ready(raw):
                    self.ready.add(name)
                if raw["metadata"].get("deletionTimestamp") and name not in self.confirmed:
                    self.confirmed.add(name)
                    self.terminating.put_nowait(name)
            case ObjectDeleted(object=raw) if resource == PODS:
                for names in (self.created, self.bound, self.ready):
                    names.discard(raw["metadata"]["name"])
            case _:
                pass


class ControlPlane(Struct, frozen=True):
    """Scheduler and operator that know everything; kubelets that have not begun."""

    cluster: Cluster
    scheduler: Scheduler
    operator: ControllerRuntime
    kubelets: Kubelets
    pods: PodCounts

    def has_parts(self, number: int) -> bool:
        """Whether so many of each other kind are created."""
        return all(sum(map(is_of_set, self.operator.every(kind))) == number for kind in PARTS)

    def has_settled(self) -> bool:
        """Whether every status and every event is written."""
        operator, events = self.operator, self.scheduler.events
        return operator.is_at_rest and not operator.has_requests and not len(events)

    async def until(self, is_reached: Callable[[], bool]) -> float:
        """Waits; returns when it was."""
        async with asyncio.timeout(LONGEST_SECONDS):
            while not is_reached():
                await asyncio.sleep(LOOK_SECONDS)
        return time.monotonic()


@asynccontextmanager
async def control_plane(cluster: Cluster) -> AsyncIterator[ControlPlane]:
    settings = Config()
    scheduler = Scheduler(cluster, settings.scheduling)
    operator = attach_operator(settings.grove, cluster, scheduler)
    assert operator is not None
    pods = PodCounts()
    scheduler.watched.listeners.append(pods.handle)
    tasks = [asyncio.create_task(run()) for run in (scheduler.run, operator.run)]
    try:
        while not scheduler.synced:
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(2.0)
        yield ControlPlane(cluster, scheduler, operator, Kubelets(cluster, timings=TIMINGS), pods)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def is_of_set(raw: Raw) -> bool:
    return PART_OF in (raw["metadata"].get("labels") or ())


# measuring ------------------------------------------------------------------------------------------------------------


async def measure(cluster: Cluster, replicas: int, nodes: int) -> GroveFigures:
    say(f"{nodes} nodes, one set of {replicas} replicas of {PODS_EACH} pods")
    await each(lambda i: cluster.create(NODES, numbered_node(i, 8)), range(nodes), AT_ONCE)
    await bare(cluster, min(replicas, WARM_UP), nodes)
    before = await bare(cluster, replicas, nodes)
    async with control_plane(cluster) as plane:
        times = await started(plane, replicas)
        deleted, deleted_cpu = await removed(plane)
    both = [before, await bare(cluster, replicas, nodes)]
    average = BareFigures(*(mean(getattr(one, field) for one in both) for field in BareFigures.__struct_fields__))
    gated = await bare(cluster, replicas, nodes, is_gated=True)
    return GroveFigures(*times[:4], deleted, times[4], deleted_cpu, average, gated)


async def started(plane: ControlPlane, replicas: int) -> tuple[float, float, float, float, float]:
    """A set from its creation to its last status, and the CPU until it is bound; kubelets begin in between."""
    number, pods = replicas * PODS_EACH, plane.pods
    began, cpu = now()
    await plane.cluster.create(POD_CLIQUE_SETS, pod_clique_set(replicas))
    created = await plane.until(lambda: len(pods.created) == number)
    bound = await plane.until(lambda: len(pods.bound) == number and plane.has_parts(replicas))
    cpu = cpu_seconds() - cpu
    async with plane.kubelets.running():
        ready = await plane.until(lambda: len(pods.ready) == number)
        settled = await plane.until(plane.has_settled)
    times = created - began, bound - began, ready - began, settled - began
    say("created {:.1f} s, bound {:.1f} s, ready {:.1f} s, settled {:.1f} s".format(*times))
    return *times, cpu


async def removed(plane: ControlPlane) -> Moment:
    """The deletion of the set, until its last pod is gone."""
    tasks = [asyncio.create_task(confirm_deletions(plane)) for _ in range(AT_ONCE)]
    began = now()
    await plane.cluster.delete(POD_CLIQUE_SETS, NAMESPACE, "bench")
    await plane.until(lambda: not plane.pods.created)
    deleted = passed(began, now())
    gone = await plane.until(lambda: plane.has_parts(0)) - began[0]
    say(f"deleted {deleted[0]:.1f} s, and everything else {gone:.1f} s")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return deleted


async def confirm_deletions(plane: ControlPlane) -> None:
    """As kubelets do."""
    while True:
        name = await plane.pods.terminating.get()
        if name in plane.pods.created:
            await delete_present(plane.cluster, PODS, name, grace_seconds=0)


# showing --------------------------------------------------------------------------------------------------------------


HEAD = (
    "| | created | bound | bare client | ratio | with gates | ratio | ready | settled | deleted | bare client | ratio |"
)


def row(measured: GroveFigures) -> str:
    """The line of docs/performance.md with seconds on the clock."""
    bare, gated = measured.bare, measured.gated
    return (
        f"| clock | {measured.created:.1f} s | {measured.bound:.1f} s | {bare.bound:.1f} s "
        f"| {measured.bound / bare.bound:.2f} | {gated.bound:.1f} s | {measured.bound / gated.bound:.2f} "
        f"| {measured.ready:.1f} s | {measured.settled:.1f} s | {measured.deleted:.1f} s | {bare.deleted:.1f} s "
        f"| {measured.deleted / bare.deleted:.2f} |"
    )


def cpu_row(measured: GroveFigures) -> str:
    """The same with seconds of CPU."""
    bare, gated, bound, deleted = measured.bare, measured.gated, measured.bound_cpu, measured.deleted_cpu
    return (
        f"| CPU | - | {bound:.1f} s | {bare.bound_cpu:.1f} s | {bound / bare.bound_cpu:.2f} | {gated.bound_cpu:.1f} s "
        f"| {bound / gated.bound_cpu:.2f} | - | - | {deleted:.1f} s | {bare.deleted_cpu:.1f} s "
        f"| {deleted / bare.deleted_cpu:.2f} |"
    )


async def main(where: str, replicas: int, nodes: int) -> None:
    configure(Log(level="warning"))
    tune()
    async with opened(where, with_controllers=True) as cluster:
        everything = {"resources": {name: {"quota": -1} for name in ("gpu", "cpu", "memory")}}
        await cluster.create(QUEUES, {"metadata": {"name": "default"}, "spec": everything})
        measured = await measure(cluster, replicas, nodes)
    print(HEAD)
    print("|---|" + "---:|" * 11)
    print(row(measured))
    print(cpu_row(measured))


if __name__ == "__main__":
    where, replicas, nodes = (*sys.argv[1:], *("embedded", "500", "100")[len(sys.argv) - 1 :])
    asyncio.run(main(where, int(replicas), int(nodes)))
