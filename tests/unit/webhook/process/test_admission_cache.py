"""What the webhook's process knows of the cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.resources import NAMESPACES, NODES, POD_CLIQUE_SETS, QUEUES, TOPOLOGIES
from muster.embedded.memory_cluster import MemoryCluster
from muster.webhook.cluster_context import ClusterContext
from muster.webhook.process.admission_cache import KINDS, AdmissionCache
from muster.webhook.process.gang_demands import ReceivedDemands
from tests.support.factories import node, queue, topology
from tests.support.grove import NAMESPACE, clique, pod_clique_set


@asynccontextmanager
async def watching(memory: MemoryCluster, *, grove: bool = True) -> AsyncIterator[AdmissionCache]:
    cache = AdmissionCache(memory, ReceivedDemands(), ("muster",), watches_grove=grove)
    running = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(10):
            while not all(health.has_synced for health in cache.health.values()):
                await asyncio.sleep(0.01)
            yield cache
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await memory.close()


def gpu_node(name: str, gpus: str = "8") -> dict[str, object]:
    return node(name, labels={"rack": "r1"}, allocatable={"nvidia.com/gpu": gpus})


async def test_every_kind_that_validation_reads_is_known() -> None:
    """Objects that were there, that came and that went."""
    memory = MemoryCluster()
    memory.store.create(NODES, gpu_node("n1"))
    memory.store.create(QUEUES, queue("q"))
    async with watching(memory) as cache:
        memory.store.create(TOPOLOGIES, topology("rack"))
        memory.store.delete(QUEUES, "", "q")
        while not cache.context().topologies or cache.context().queues:
            await asyncio.sleep(0.01)
        context = cache.context()
        assert (context.whole, context.schedulers) == (True, ("muster",))
        assert context.capacity.largest_domain(("rack",)) == {"nvidia.com/gpu": 8}


async def test_before_the_first_list_nothing_is_known_to_be_missing() -> None:
    """A cold cache must neither warn nor refuse."""
    cache = AdmissionCache(MemoryCluster(), ReceivedDemands(), (), watches_grove=True)
    context = cache.context()
    assert not context.whole
    assert context.topology_bindings is None


async def test_sets_and_bindings_are_known_once_they_are_listed() -> None:
    """Where PodCliqueSets are ours."""
    memory = MemoryCluster()
    memory.store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    memory.store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a"), replicas=0))
    async with watching(memory) as cache:
        context = cache.context()
        assert [pcs.metadata.name for pcs in context.clique_sets[NAMESPACE]] == ["w"]
        assert context.topology_bindings == {}
        assert "managedFields" not in next(iter(context._others(POD_CLIQUE_SETS)))["metadata"]


async def test_beside_another_operator_sets_are_not_watched() -> None:
    """Nothing is refused for what is not known."""
    async with watching(MemoryCluster(), grove=False) as cache:
        assert set(cache.health) == set(KINDS)
        assert cache.context().topology_bindings is None


async def test_a_heartbeat_of_a_node_costs_no_sum() -> None:
    """Sums over thousands of nodes hold until what nodes offer changes."""
    memory = MemoryCluster()
    memory.store.create(NODES, gpu_node("n1"))
    async with watching(memory) as cache:
        review = ClusterContext(cache.context)
        first = review().capacity
        beat = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await memory.patch(NODES, "", "n1", beat)
        await asyncio.sleep(0.1)
        assert review().capacity is first
        memory.store.create(NODES, gpu_node("n2"))
        while review().capacity is first:
            await asyncio.sleep(0.01)
        assert review().capacity.largest_domain(("rack",)) == {"nvidia.com/gpu": 16}
