"""What the webhook knows of Grove's objects: nothing until they are listed, then all of them."""

import asyncio

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, NAMESPACES, POD_CLIQUE_SETS
from muster.cli.assemble.grove_operator import reader_of
from muster.embedded.memory_cluster import MemoryCluster
from muster.grove.table import GROVE
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.validation.context import ValidationContext
from tests.support.grove import NAMESPACE, clique, pod_clique_set


async def test_sets_and_bindings_are_known_once_they_are_listed() -> None:
    """A cold cache must not refuse a set that is valid."""
    cluster = MemoryCluster()
    cluster.store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    cluster.store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a"), replicas=0))
    operator = ControllerRuntime(cluster, GROVE)
    assert reader_of(operator) is None
    running = asyncio.create_task(operator.run())
    async with asyncio.timeout(10):
        while (read := reader_of(operator)) is None:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    context = ValidationContext(read_others=read)
    assert [pcs.metadata.name for pcs in context.clique_sets[NAMESPACE]] == ["w"]
    assert context.topology_bindings == {}
    await cluster.close()


def test_without_an_operator_nothing_is_known() -> None:
    """Beside another one, or where it is switched off."""
    assert reader_of(None) is None
    assert reader_of(ControllerRuntime(MemoryCluster(), {})) is None
    assert CLUSTER_TOPOLOGY_BINDINGS in GROVE
