"""`python -m bench.grouping [embedded|kubernetes] [PODS] [NODES]`: pods of LeaderWorkerSets, grouped and bound.

In each of a few rounds the pods of LeaderWorkerSet groups of eight wait on a cluster, as their operator makes them:
leaders of one StatefulSet, workers of another that belongs to the leader's pod. A control plane that stood by begins,
groups and binds them: a PodGroup a group, a binding a pod, which also marks it. A bare client applies a PodGroup a
group, and sends a patch and a binding a pod, as many at once: nothing is watched, grouped, planned or reported. Then
pods that were grouped at admission wait for their queue while their PodGroups are written, and are bound when it lets
them go, beside a bare client that only posts bindings, for pods that have waited in the same way. Both take turns at
being first; the figures are medians of the rounds. First of all, on the quiet cluster, groups come one by one: how
long from a pod's event until it has joined.

`kubernetes` is a real kube-apiserver with etcd on this machine (`make envtest`): both share its cores with us. Pods
that were grouped at admission are bound by `muster run`, a process of its own as users run it, and by
`bench.bare_client`, another one. In `embedded` everything of muster is one process, as in `muster up`; the bare client
posts its writes as clients do, to an embedded API server in another process.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct
from tests.support.apiserver.apiserver import ApiServer

from bench.cluster import (
    AT_ONCE,
    FOREIGN,
    GANG,
    NAMESPACE,
    Lead,
    Notes,
    each,
    node_name,
    numbered_node,
    peak,
    rested,
    say,
    serving,
)
from bench.embedded_server import embedded_api_server
from bench.leader_worker_sets import LWS, make_set, reference, typed
from bench.live import (
    LEASES,
    LONGEST_SECONDS,
    MusterProcess,
    muster_run,
    requests_of,
    run_bare,
    until_bound,
    until_quiet,
)
from muster.api.resources import (
    DEFINITIONS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
)
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.cli.assemble.process import tune
from muster.config.settings import Config, Log
from muster.controllers.grouper.grouper import Grouper
from muster.controllers.grouper.grouping_observer import NoGroupingObserver
from muster.controllers.grouper.grouping_writer import MANAGER
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Cluster, PatchType, Raw
from muster.observability.logging import configure
from muster.scheduler.loop import Scheduler
from muster.workloads.operators.crds import operator_crds

ROUNDS = 2, 6  # of pods without marks, and with: the API server's own cost of a binding varies by half
ONE_BY_ONE = 50  # groups
REPORTS = "PATCH podgroups/status"
LOOK_SECONDS = 0.1  # between scrapes of how many pods are bound


class GroupingFigures(Struct, frozen=True):
    """What came out."""

    pods: int
    nodes: int
    grouped: list[tuple[float, float]]  # pods a second, grouped and bound, in each round; bare
    admitted: list[tuple[float, float]]  # pods a second, grouped at admission and bound; bare bindings
    joined: list[float]  # seconds from a pod's first event until it joined, one group at a time
    memory: int  # bytes, at most


class JoinTimes(NoGroupingObserver):
    """How long pods wait for their groups."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def pod_grouped(self, seconds: float) -> None:
        self.seconds.append(seconds)


# measuring ------------------------------------------------------------------------------------------------------------


class Rounds(Struct, frozen=True):
    """Where both work, and on how much."""

    cluster: Cluster
    bare_cluster: Cluster
    server: ApiServer | None  # None: an embedded cluster
    groups: int
    nodes: int


async def measure(rounds: Rounds) -> GroupingFigures:
    cluster, groups, nodes = rounds.cluster, rounds.groups, rounds.nodes
    say(f"{nodes} nodes, {groups} groups of {GANG}; rounds without marks and with: {ROUNDS}")
    size = -(-3 * sum(ROUNDS) * groups * GANG // nodes)
    for where in [cluster] if rounds.bare_cluster is cluster else [cluster, rounds.bare_cluster]:
        await each(partial(make_node, where, size), range(nodes), AT_ONCE)
    say("groups come one by one")
    joined = await one_by_one(cluster)
    rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for is_marked, count in enumerate(ROUNDS):
        for number in range(count):
            rates[bool(is_marked)].append(await one_round(rounds, number, bool(is_marked)))
            say("{:,.0f} pods/s, {:,.0f} bare".format(*rates[bool(is_marked)][-1]))
    return GroupingFigures(groups * GANG, nodes, rates[False], rates[True], joined, peak())


async def make_node(cluster: Cluster, size: int, number: int) -> None:
    await cluster.create(NODES, numbered_node(number, size))


async def one_round(rounds: Rounds, number: int, is_marked: bool) -> tuple[float, float]:
    """Pods a second of both, in one round."""
    name, pods = f"set-{int(is_marked)}-{number}", rounds.groups * GANG
    before = await bare_seconds(rounds, f"bare-{name}", is_marked) if number % 2 else 0.0
    seconds = await muster_seconds(rounds, name, is_marked)
    return pods / seconds, pods / (before or await bare_seconds(rounds, f"bare-{name}", is_marked))


async def muster_seconds(rounds: Rounds, name: str, is_marked: bool) -> float:
    if not is_marked:
        return await grouped(rounds.cluster, name, rounds.groups)
    if rounds.server is None:
        return await bound(rounds.cluster, name, rounds.groups)
    return await bound_by_process(rounds.server, rounds.cluster, name, rounds.groups)


async def bare_seconds(rounds: Rounds, name: str, is_marked: bool) -> float:
    if is_marked and rounds.server is not None:
        return await bare_process(rounds.server, rounds.cluster, name, rounds.groups)
    bare = bare_bindings if is_marked else bare_writes
    return await bare(rounds.bare_cluster, name, rounds.groups, rounds.nodes)


async def grouped(cluster: Cluster, name: str, groups: int) -> float:
    """Seconds from when a control plane began to lead until the last pod is bound."""
    async with control_plane(cluster) as (notes, lead, grouper, scheduler, _):
        await make_set(cluster, name, groups, "muster")
        await settled(scheduler, grouper)
        await rested(cluster)
        began = time.monotonic()
        lead.leading = True
        grouper.lead()
        scheduler.wake()
        await notes.until(groups * GANG)
        seconds = notes.last_bound - began
        await settled(scheduler, grouper)  # its statuses and events are not the next round's
        return seconds


async def bound(cluster: Cluster, name: str, groups: int) -> float:
    """Seconds from when the queue lets marked pods go until the last one is bound."""
    async with waiting_pods(cluster, name, groups) as (_, notes, settle):
        await rested(cluster)
        began = time.monotonic()
        await set_limit(cluster, -1)
        await notes.until(groups * GANG)
        seconds = notes.last_bound - began
        await settle()
        return seconds


async def bound_by_process(server: ApiServer, cluster: Cluster, name: str, groups: int) -> float:
    """The same of `muster run`, as its metrics have it."""
    async with waiting_process(server, cluster, name, groups) as muster:
        began = time.monotonic()
        await set_limit(cluster, -1)
        seconds = await until_bound(muster, groups * GANG, LOOK_SECONDS) - began
        await until_quiet(server)
        return seconds


async def bare_process(server: ApiServer, cluster: Cluster, name: str, groups: int) -> float:
    """Seconds for a binding a pod, posted by a process that does nothing else."""
    async with waiting_process(server, cluster, name, groups):
        pass
    return (await run_bare(server, groups * GANG, "muster")).seconds


@asynccontextmanager
async def waiting_process(server: ApiServer, cluster: Cluster, name: str, groups: int) -> AsyncIterator[MusterProcess]:
    """`muster run` that has reported of each gang that it waits for its queue."""
    await set_limit(cluster, 0)
    with muster_run(server) as muster:
        before = requests_of(server)[REPORTS]
        await make_set(cluster, name, groups, "muster", is_marked=True)
        async with asyncio.timeout(LONGEST_SECONDS):
            while requests_of(server)[REPORTS] - before < groups:
                await asyncio.sleep(1)
        await until_quiet(server)
        yield muster


@asynccontextmanager
async def waiting_pods(
    cluster: Cluster, name: str, groups: int
) -> AsyncIterator[tuple[list[Raw], Notes, Callable[[], Awaitable[None]]]]:
    """Pods that were grouped at admission and wait for their queue, under a control plane that leads."""
    async with control_plane(cluster) as (notes, lead, grouper, scheduler, _):
        await set_limit(cluster, 0)
        lead.leading = True
        grouper.lead()
        pods = await make_set(cluster, name, groups, "muster", is_marked=True)
        await settled(scheduler, grouper)
        yield pods, notes, partial(settled, scheduler, grouper)


async def set_limit(cluster: Cluster, gpus: int) -> None:
    """How many GPUs the queue of all pods may have; -1: any number."""
    await cluster.patch(QUEUES, "", "default", {"spec": {"resources": {"gpu": {"limit": gpus}}}})


async def settled(scheduler: Scheduler, grouper: Grouper) -> None:
    """Every pod is assigned, every gang written and every status reported."""
    await asyncio.sleep(1)
    while scheduler.reported_cycle < scheduler.cycles or len(scheduler.events) or not grouper.is_settled:
        await asyncio.sleep(0.05)


@asynccontextmanager
async def control_plane(cluster: Cluster) -> AsyncIterator[tuple[Notes, Lead, Grouper, Scheduler, JoinTimes]]:
    """Scheduler and grouper that know everything and stand by."""
    notes, lead, times, settings = Notes(), Lead(), JoinTimes(), Config()
    scheduler = Scheduler(cluster, settings.scheduling, lead, observer=notes, reports_orphan=reports_orphan)
    grouper = build_grouper(settings, cluster, scheduler, times)
    loops = [asyncio.create_task(loop()) for loop in (scheduler.run, grouper.run)]
    try:
        while not scheduler.synced or not grouper.assigner.is_idle:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        yield notes, lead, grouper, scheduler, times
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.wait(loops)


async def bare_writes(cluster: Cluster, name: str, groups: int, nodes: int) -> float:
    """Seconds for a PodGroup a group, and a patch and a binding a pod; the pods are of no scheduler."""
    pods = await make_set(cluster, name, groups, FOREIGN)

    async def write(numbered: tuple[int, list[Raw]]) -> None:
        number, members = numbered
        await apply_group(cluster, f"{name}-{number}", members[0])
        for raw in members:
            await join(cluster, raw, f"{name}-{number}")
        await bind_all(cluster, members, node_name(number % nodes))

    return await timed(cluster, write, pods)


async def bare_bindings(cluster: Cluster, name: str, groups: int, nodes: int) -> float:
    """Seconds for a binding a pod; nobody watches."""
    async with waiting_pods(cluster, name, groups) as (pods, _, _):
        pass

    async def write(numbered: tuple[int, list[Raw]]) -> None:
        await bind_all(cluster, numbered[1], node_name(numbered[0] % nodes))

    return await timed(cluster, write, pods)


async def timed(cluster: Cluster, write: Callable[[tuple[int, list[Raw]]], Awaitable[None]], pods: list[Raw]) -> float:
    """Seconds for all groups, once the API server has rested."""
    by_group: dict[str, list[Raw]] = {}
    for raw in pods:
        by_group.setdefault(raw["metadata"]["labels"][f"{LWS}/group-index"], []).append(raw)
    await rested(cluster)
    began = time.monotonic()
    await each(write, list(enumerate(by_group.values())), AT_ONCE)
    return time.monotonic() - began


async def bind_all(cluster: Cluster, pods: list[Raw], node: str) -> None:
    for raw in pods:
        await cluster.bind(NAMESPACE, raw["metadata"]["name"], raw["metadata"]["uid"], node)


async def apply_group(cluster: Cluster, name: str, pod: Raw) -> None:
    owner = {**reference(pod), "controller": False}
    leaves = [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": GANG - 1}]
    raw = typed(POD_GROUPS, name, {"queue": "default", "subGroups": leaves}, ownerReferences=[owner])
    kind: PatchType = "application/apply-patch+yaml"
    await cluster.patch(POD_GROUPS, NAMESPACE, name, raw, kind, field_manager=MANAGER)


async def join(cluster: Cluster, raw: Raw, group: str) -> None:
    meta = raw["metadata"]
    annotations = {"pod-group-name": group, "muster.dev/grouped-by": "LeaderWorkerSet"}
    body = {"uid": meta["uid"], "annotations": annotations, "labels": {"kai.scheduler/subgroup-name": "workers"}}
    await cluster.patch(PODS, NAMESPACE, meta["name"], {"metadata": body})


async def one_by_one(cluster: Cluster) -> list[float]:
    async with control_plane(cluster) as (notes, lead, grouper, scheduler, times):
        lead.leading = True
        grouper.lead()
        scheduler.wake()
        while not notes.cycles:
            await asyncio.sleep(0.01)
        for number in range(ONE_BY_ONE):
            await make_set(cluster, f"single-{number}", 1, "muster")
            await notes.until((number + 1) * GANG)
    return times.seconds


# showing --------------------------------------------------------------------------------------------------------------


def row(where: str, measured: GroupingFigures) -> str:
    """One line of docs/performance.md."""
    cuts = statistics.quantiles(measured.joined, n=100)
    return (
        f"| {where} | {measured.nodes:,} | {measured.pods:,} | {_rates(measured.grouped)} "
        f"| {_rates(measured.admitted)} | {cuts[49] * 1000:.0f} / {cuts[98] * 1000:.0f} ms "
        f"| {measured.memory / 2**20:,.0f} MiB |"
    )


def _rates(rates: list[tuple[float, float]]) -> str:
    rate, bare_rate = (statistics.median(column) for column in zip(*rates, strict=True))
    share = statistics.median(rate / bare for rate, bare in rates)
    return f"{rate:,.0f} | {bare_rate:,.0f} | {share:.0%}"


async def main(where: str, pods: int, nodes: int) -> None:
    configure(Log(level="warning"))
    tune()
    head = "cluster | nodes | pods | grouped and bound/s | bare client | share | with the webhook, bound/s"
    print(f"| {head} | bare bindings | share | joined, p50 / p99 | RSS |")
    print("|---|" + "---:|" * 10)
    if where != "embedded":
        async with serving() as (server, cluster):
            await install(cluster)
            await cluster.create(NAMESPACES, {"metadata": {"name": LEASES}})
            print(row(where, await measure(Rounds(cluster, cluster, server, pods // GANG, nodes))))
        return
    cluster = MemoryCluster()
    async with embedded_api_server() as bare_cluster:
        await install(cluster)
        await install(bare_cluster)
        print(row(where, await measure(Rounds(cluster, bare_cluster, None, pods // GANG, nodes))))


async def install(cluster: Cluster) -> None:
    """The CRDs of the operators."""
    for definition in operator_crds():
        await cluster.create(DEFINITIONS, definition)
    await asyncio.sleep(3)
    await cluster.create(QUEUES, {"metadata": {"name": "default"}, "spec": {"resources": {"gpu": {"quota": 0}}}})


if __name__ == "__main__":
    where, pods, nodes = (*sys.argv[1:], *("embedded", "10000", "1000")[len(sys.argv) - 1 :])
    asyncio.run(main(where, int(pods), int(nodes)))
