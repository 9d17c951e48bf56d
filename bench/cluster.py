"""A cluster for measurements: nodes, gangs of eight, and who watches what happens to them."""

import asyncio
import math
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer, started
from tests.support.apiserver.controller_manager import ControllerManager

from muster.api.resources import NODES, POD_GROUPS, PODS
from muster.config.settings import Scheduling
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.planning.decision import CyclePlan, Role
from muster.scheduler.observer import NoObserver

GANG = 8
AT_ONCE = Scheduling().bind_concurrency
REST_SECONDS = 2.0  # after pods were made and listed, for an API server that is still busy with them
NAMESPACE = "default"
FOREIGN = "nobody"  # the scheduler of pods that the bare client binds
T = TypeVar("T")


class Notes(NoObserver):
    """When things happen."""

    def __init__(self) -> None:
        self.planning = 0.0
        self.bindings: dict[tuple[str, str], str] = {}
        self.cycles = self.done = 0  # plans, pods bound
        self.first_began = self.last_plan = self.last_bound = 0.0

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        self.cycles += 1
        if plan.bindings:
            self.last_plan = time.monotonic()
            self.first_began = self.first_began or self.last_plan - seconds
            self.planning += seconds
        self.bindings.update({(one.namespace, one.pod): one.node for one in plan.bindings})

    def bound(self, role: Role, seconds: float) -> None:  # noqa: ARG002
        self.last_bound = time.monotonic()
        self.done += 1

    async def until(self, pods: int) -> None:
        """So many are bound, and the plan that says so is there: bindings start before it is complete."""
        while self.done < pods or len(self.bindings) < pods:
            await asyncio.sleep(0.002)


class Lead:
    """Whether to act, as the bench says."""

    leading = False
    seconds_left = math.inf
    term = 0


# objects ------------------------------------------------------------------------------------------------------------


def numbered_node(i: int, size: int) -> Raw:
    allocatable = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": str(size), "pods": "256"}
    labels = {"kubernetes.io/hostname": node_name(i), "topology/rack": f"rack-{i // 16}"}
    return {
        "metadata": {"name": node_name(i), "labels": labels},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def node_name(i: int) -> str:
    return f"node-{i:05}"


def gang(i: int, scheduler: str = "muster") -> list[Raw]:
    name = f"{scheduler}-{i:05}"
    group = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"minMember": GANG}}
    return [group, *(worker_pod(name, j, scheduler) for j in range(GANG))]


def worker_pod(gang: str, j: int, scheduler: str) -> Raw:
    requests = {"cpu": "1", "memory": "8Gi", "nvidia.com/gpu": "1"}
    box = {"name": "main", "image": "none:1", "resources": {"requests": requests, "limits": requests}}
    notes = {"annotations": {"pod-group-name": gang}, "labels": {"app": gang}}
    meta = {"name": f"{gang}-{j}", "namespace": NAMESPACE, **notes}
    return {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [box]}}


async def make_gangs(cluster: Cluster, numbers: range, scheduler: str = "muster") -> None:
    made = [gang(i, scheduler) for i in numbers]
    await each(lambda one: cluster.create(POD_GROUPS, one[0]), made, AT_ONCE)
    pods = [raw for one in made for raw in one[1:]]
    await each(lambda raw: cluster.create(PODS, raw), pods, AT_ONCE)


async def each(do: Callable[[T], Awaitable[object]], things: Sequence[T], at_once: int) -> None:
    """One after the other, by a few at a time."""
    line = iter(things)

    async def work() -> None:
        for thing in line:
            await do(thing)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(things))):
            tasks.create_task(work())


async def rested(cluster: Cluster) -> None:
    """The API server is done with what came before, and connections are open."""
    await asyncio.sleep(REST_SECONDS)
    await each(lambda _: cluster.get(NODES, "", node_name(0)), range(AT_ONCE), AT_ONCE)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def opened(where: str, *, with_controllers: bool = False) -> AsyncIterator[Cluster]:
    """An embedded cluster, or a real API server with etcd that ends with the block; maybe with real controllers."""
    if where == "embedded":
        yield MemoryCluster()
        return
    async with serving(with_controllers=with_controllers) as (_, cluster):
        yield cluster


@asynccontextmanager
async def serving(*, with_controllers: bool = False) -> AsyncIterator[tuple[ApiServer, Cluster]]:
    """A real API server with etcd, and a client of it."""
    programs = envtest.find_programs()
    if programs is None:
        sys.exit(envtest.HOW_TO_GET_THEM)
    server = started(programs)
    manager = ControllerManager(server)
    if with_controllers:
        manager.start()
    cluster = connect(server.kubeconfig)
    try:
        yield server, cluster
    finally:
        await cluster.close()
        manager.stop()
        server.stop()
        server.clean(keep_logs=False)
