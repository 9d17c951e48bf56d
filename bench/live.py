"""`python -m bench.live [embedded|kubernetes] [PODS] [NODES]`: the live loop beside a client that only posts bindings.

In each of a few rounds gangs of eight wait on a cluster, and a scheduler that stood by begins and binds them. As many
pods like theirs are bound by a bare client with as many requests at once: nothing is watched, planned or reported. The
share of its rate that is left is what a scheduler costs. Both begin with as many open connections as they need: a watch
keeps one to itself, and a handshake costs as much as ten bindings. The rate of a machine changes from minute to minute,
and that of an API server with what it did last, so the two take turns at being first, and the figures are medians of
the rounds. Last, on the full cluster, gangs come one by one: how long from their last pod to the plan, and to the last
binding.

`kubernetes` is a real kube-apiserver with etcd on this machine (`make envtest`): both share its cores with us.
"""

import asyncio
import math
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import started
from tests.support.apiserver.controller_manager import ControllerManager

from muster.api.resources import NODES, POD_GROUPS, PODS
from muster.cli.assemble.process import tune
from muster.config.settings import Log, Scheduling
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.observability.logging import configure
from muster.planning.decision import CyclePlan, Role
from muster.scheduler.loop import Scheduler
from muster.scheduler.observer import NoObserver

GANG = 8
AT_ONCE = Scheduling().bind_concurrency
ROUNDS = 9
REST_SECONDS = 2.0  # after pods were made and listed, for an API server that is still busy with them
ONE_BY_ONE = 100  # gangs
NAMESPACE = "default"
FOREIGN = "nobody"  # the scheduler of pods that the bare client binds
T = TypeVar("T")


class Figures(Struct, frozen=True):
    """What came out."""

    pods: int
    nodes: int
    rates: list[tuple[float, float]]  # pods a second in each round, from the first cycle to the last binding; bare
    planning: float  # seconds in all
    decided: list[float]  # seconds from the last pod of a gang to the plan
    bound: list[float]  # and to its last binding
    memory: int  # bytes, at most

    @property
    def rate(self) -> float:
        """Pods a second."""
        return statistics.median(rate for rate, _ in self.rates)

    @property
    def bare(self) -> float:
        """The same of the bare client."""
        return statistics.median(bare for _, bare in self.rates)

    @property
    def share(self) -> float:
        """Of the bare client's rate in the same round."""
        return statistics.median(rate / bare for rate, bare in self.rates)


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


async def make_gangs(cluster: Cluster, numbers: range) -> None:
    made = [gang(i) for i in numbers]
    await each(lambda one: cluster.create(POD_GROUPS, one[0]), made, AT_ONCE)
    pods = [raw for one in made for raw in one[1:]]
    await each(lambda raw: cluster.create(PODS, raw), pods, AT_ONCE)


# measuring ----------------------------------------------------------------------------------------------------------


async def measure(cluster: Cluster, pods: int, nodes: int) -> Figures:
    gangs = pods // GANG
    say(f"{nodes} nodes, {gangs} gangs of {GANG} in {ROUNDS} rounds")
    size = -(-4 * pods // nodes)
    await each(lambda i: cluster.create(NODES, numbered_node(i, size)), range(nodes), AT_ONCE)
    rates, planning = [], 0.0
    for round_number in range(ROUNDS):
        these = range(gangs * round_number // ROUNDS, gangs * (round_number + 1) // ROUNDS)
        before = await bare(cluster, these, nodes) if round_number % 2 else 0.0
        notes = await scheduled(cluster, these)
        theirs = before or await bare(cluster, these, nodes)
        number, planning = len(these) * GANG, planning + notes.planning
        rates.append((number / (notes.last_bound - notes.first_began), number / theirs))
        say("{:,.0f} pods/s, {:,.0f} bare".format(*rates[-1]))
    say("gangs come one by one")
    async with scheduling(cluster) as notes:
        decided, bound = await one_by_one(cluster, notes, gangs)
    return Figures(gangs * GANG, nodes, rates, planning, decided, bound, peak())


async def scheduled(cluster: Cluster, gangs: range) -> Notes:
    """By a scheduler that begins when all of them are there."""
    await make_gangs(cluster, gangs)
    async with scheduling(cluster) as notes:
        await notes.until(len(gangs) * GANG)
    return notes


@asynccontextmanager
async def scheduling(cluster: Cluster) -> AsyncIterator[Notes]:
    """A scheduler that knew everything and stood by, and now begins to act."""
    notes, lead = Notes(), Lead()
    scheduler = Scheduler(cluster, leadership=lead, observer=notes)
    loop = asyncio.create_task(scheduler.run())
    try:
        while not scheduler.synced:
            await asyncio.sleep(0.01)
        await rested(cluster)
        lead.leading = True
        scheduler.wake()
        yield notes
    finally:
        loop.cancel()
        await asyncio.wait([loop])


async def one_by_one(cluster: Cluster, notes: Notes, first: int) -> tuple[list[float], list[float]]:
    decided, bound = [], []
    while not notes.cycles:
        await asyncio.sleep(0.01)  # it reads the whole cluster first
    for i in range(first, first + ONE_BY_ONE):
        await make_gangs(cluster, range(i, i + 1))
        there = time.monotonic()
        await notes.until((i + 1 - first) * GANG)
        decided.append(max(notes.last_plan - there, 0.0))
        bound.append(notes.last_bound - there)
    return decided, bound


async def each(do: Callable[[T], Awaitable[object]], things: Sequence[T], at_once: int) -> None:
    """One after the other, by a few at a time."""
    line = iter(things)

    async def work() -> None:
        for thing in line:
            await do(thing)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(things))):
            tasks.create_task(work())


async def bare(cluster: Cluster, gangs: range, nodes: int) -> float:
    """As many pods of no gang, and their bindings posted; seconds."""
    pods = [raw for i in gangs for raw in gang(i, FOREIGN)[1:]]
    made: list[Raw] = []

    async def make(raw: Raw) -> None:
        made.append(await cluster.create(PODS, raw))

    async def bind(raw: Raw) -> None:
        meta = raw["metadata"]
        await cluster.bind(NAMESPACE, meta["name"], meta["uid"], node_name(int(meta["labels"]["app"][-5:]) % nodes))

    await each(make, pods, AT_ONCE)
    await rested(cluster)
    began = time.monotonic()
    await each(bind, made, AT_ONCE)
    return time.monotonic() - began


async def rested(cluster: Cluster) -> None:
    """The API server is done with what came before, and connections are open."""
    await asyncio.sleep(REST_SECONDS)
    await each(lambda _: cluster.get(NODES, "", node_name(0)), range(AT_ONCE), AT_ONCE)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# showing ------------------------------------------------------------------------------------------------------------


def row(where: str, measured: Figures) -> str:
    """One line of docs/performance.md."""
    decided, bound = (_percentiles(times) for times in (measured.decided, measured.bound))
    return (
        f"| {where} | {measured.nodes:,} | {measured.pods:,} | {measured.rate:,.0f} "
        f"| {measured.bare:,.0f} | {measured.share:.0%} | {measured.planning:.2f} s | {decided} | {bound} "
        f"| {measured.memory / 2**20:,.0f} MiB |"
    )


def _percentiles(times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=100)
    return f"{cuts[49] * 1000:.0f} / {cuts[98] * 1000:.0f} ms"


async def main(where: str, pods: int, nodes: int) -> None:
    configure(Log(level="warning"))
    tune()
    print("| cluster | nodes | pods | pods/s | bare client | share | planning | decided, p50 / p99 | bound | RSS |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    async with opened(where) as cluster:
        print(row(where, await measure(cluster, pods, nodes)))


@asynccontextmanager
async def opened(where: str, *, with_controllers: bool = False) -> AsyncIterator[Cluster]:
    """An embedded cluster, or a real API server with etcd that ends with the block; maybe with real controllers."""
    if where == "embedded":
        yield MemoryCluster()
        return
    programs = envtest.find_programs()
    if programs is None:
        sys.exit(envtest.HOW_TO_GET_THEM)
    server = started(programs)
    manager = ControllerManager(server)
    if with_controllers:
        manager.start()
    cluster = connect(server.kubeconfig)
    try:
        yield cluster
    finally:
        await cluster.close()
        manager.stop()
        server.stop()
        server.clean(keep_logs=False)


if __name__ == "__main__":
    where, pods, nodes = (*sys.argv[1:], *("embedded", "10000", "1000")[len(sys.argv) - 1 :])
    asyncio.run(main(where, int(pods), int(nodes)))
