"""`python -m bench.shards [PODS] [NODES] [SHARDS…]`: a backlog that 1, 2 and 4 shards bind together.

As `bench.live`: every `muster run` is a process of its own on one real kube-apiserver with etcd, and gangs of eight
wait when they start, as many in each pool. Beside them a bare client that only posts as many bindings: what this API
server allows. All share the cores of this machine. Before a row is printed, every pod is on a node of its own pool.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from msgspec import Struct
from tests.support.apiserver.apiserver import ApiServer

from bench.cluster import AT_ONCE, FOREIGN, GANG, REST_SECONDS, each, gang, make_gangs, numbered_node, say, serving
from bench.live import (
    LEASES,
    LONGEST_SECONDS,
    LOOK_SECONDS,
    BacklogRun,
    MusterProcess,
    ProgramCpu,
    ServerCpu,
    cpu_seconds,
    muster_run,
    peak_bytes,
    requests_of,
    run_bare,
)
from muster.api.names import NODE_POOL
from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS
from muster.kube.cluster import Cluster, Raw


class ShardsRun(Struct, frozen=True):
    """How the shards bound the backlog together."""

    run: BacklogRun
    bound: tuple[int, ...]  # by shard


def in_pool(raw: Raw, number: int, shards: int) -> Raw:
    """An object with the label of its pool; one shard has the whole cluster, without labels."""
    if shards > 1:
        raw["metadata"].setdefault("labels", {})[NODE_POOL] = pool_name(number, shards)
    return raw


def pool_name(number: int, shards: int) -> str:
    return f"pool-{number % shards}"


async def make_backlog(cluster: Cluster, pods: int, nodes: int, shards: int) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": LEASES}})
    size = -(-4 * pods // nodes)
    made = [in_pool(numbered_node(i, size), i, shards) for i in range(nodes)]
    await each(lambda raw: cluster.create(NODES, raw), made, AT_ONCE)
    gangs = [gang(i) for i in range(pods // GANG)]
    groups = [in_pool(raws[0], i, shards) for i, raws in enumerate(gangs)]
    await each(lambda raw: cluster.create(POD_GROUPS, raw), groups, AT_ONCE)
    await each(lambda raw: cluster.create(PODS, raw), [raw for raws in gangs for raw in raws[1:]], AT_ONCE)
    await make_gangs(cluster, range(pods // GANG), FOREIGN)
    await asyncio.sleep(REST_SECONDS)


async def run_shards(server: ApiServer, pods: int, shards: int) -> ShardsRun:
    """From the start of the processes until the last pod is bound."""
    before, servers, began = requests_of(server), ServerCpu(server), time.monotonic()
    with ExitStack() as running:
        pools = [{"enabled": True, "partitionLabelValue": pool_name(i, shards)} for i in range(shards)]
        settings = [{"shard": pool} if shards > 1 else {} for pool in pools]
        musters = [running.enter_context(muster_run(server, **each)) for each in settings]
        first = await until_bound(musters, 1)
        last = await until_bound(musters, pods)
        pids = [muster.process.pid for muster in musters]
        cpu = ProgramCpu(sum(map(cpu_seconds, pids)), *servers.spent())
        requests, peak = requests_of(server) - before, max(map(peak_bytes, pids))
        bound = tuple([muster.bound() for muster in musters])
    run = BacklogRun(pods, last - first, cpu, requests, start_seconds=first - began, peak_bytes=peak)
    return ShardsRun(run, bound)


async def until_bound(musters: Sequence[MusterProcess], pods: int) -> float:
    """When they have bound so many pods together."""
    async with asyncio.timeout(LONGEST_SECONDS):
        while sum([await asyncio.to_thread(muster.bound) for muster in musters]) < pods:
            assert all(muster.process.poll() is None for muster in musters), "a muster has ended"
            await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic()


async def check_places(cluster: Cluster, shards: int) -> None:
    """Every pod of muster's is on a node of the pool of its PodGroup."""
    pools = {
        kind: {raw["metadata"]["name"]: raw["metadata"].get("labels", {}).get(NODE_POOL, "") for raw in raws}
        for kind, raws in [(kind, (await cluster.list(kind)).items) for kind in (NODES, POD_GROUPS)]
    }
    for raw in (await cluster.list(PODS)).items:
        if raw["spec"]["schedulerName"] != FOREIGN:
            group = raw["metadata"]["annotations"]["pod-group-name"]
            assert pools[NODES][raw["spec"]["nodeName"]] == pools[POD_GROUPS][group], raw["metadata"]["name"]
    assert len(set(pools[NODES].values())) == shards


async def measure(pods: int, nodes: int, shards: int) -> tuple[ShardsRun, BacklogRun]:
    async with serving() as (server, cluster):
        await make_backlog(cluster, pods, nodes, shards)
        run = await run_shards(server, pods, shards)
        await check_places(cluster, shards)
        return run, await run_bare(server, pods)


def row(shards: int, nodes: int, measured: ShardsRun, bare: BacklogRun) -> str:
    run = measured.run
    cpu, bare_cpu = (_for_thousand(each) for each in (run, bare))
    return (
        f"| {shards} | {nodes:,} | {run.pods:,} | {run.rate:,.0f} | {bare.rate:,.0f} | {run.rate / bare.rate:.0%} "
        f"| {cpu} | {bare_cpu} | {run.start_seconds:.1f} s | {run.peak_bytes / 2**20:,.0f} MiB |"
    )


def _for_thousand(run: BacklogRun) -> str:
    seconds = (run.cpu.client, run.cpu.api_server, run.cpu.etcd)
    return " / ".join(f"{1000 * each / run.pods:.2f}" for each in seconds)


async def main(pods: int, nodes: int, counts: Sequence[int]) -> None:
    pods -= pods % GANG
    head = "shards | nodes | pods | pods/s in sum | bare client | share"
    cpu = "CPU s per 1,000 pods: all shards / API server / etcd | the same with the bare client"
    print(f"| {head} | {cpu} | to the first binding | RSS of the largest |\n|" + "---:|" * 10)
    for shards in counts:
        measured, bare = await measure(pods, nodes, shards)
        print(row(shards, nodes, measured, bare), flush=True)
        say(f"bound by shard: {', '.join(map(str, measured.bound))}")


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    pods_, nodes_ = (*arguments[:2], *(8_000, 1_000)[len(arguments) :])
    asyncio.run(main(pods_, nodes_, arguments[2:] or (1, 2, 4)))
