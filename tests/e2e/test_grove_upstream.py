"""Grove's own end-to-end scenarios of gang scheduling (GS-1 to GS-12): the same shapes, nodes, steps and numbers.

`strict` is its workload1 and `flexible` its workload2: every pod takes a node. Numbers hold once nothing moves.
Where upstream names the cliques of the pods that start, so does the test, if all nodes come at once: of nodes that come
one by one, as on a real API server, an extra takes the first where a minimum needs two.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_GANGS
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import GroveSeen, GroveSite, flexible, fresh, strict
from tests.e2e.test_grove import CLUSTERS

BASE = {"w-0-a": 1, "w-0-sg-0-b": 1, "w-0-sg-0-c": 1}
OTHER_BASE = {"w-1-a": 1, "w-1-sg-0-b": 1, "w-1-sg-0-c": 1}


def scaled(replica: int, index: int = 0) -> dict[str, int]:
    """The minimum of a further replica of the group."""
    return {f"w-{index}-sg-{replica}-b": 1, f"w-{index}-sg-{replica}-c": 1}


def on_each_cluster(*params: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cluster", params, indirect=True)


embedded, both = on_each_cluster("embedded"), on_each_cluster("embedded", "kubernetes")


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    async with CLUSTERS[request.param](request) as opened:
        yield opened


class UpstreamScenario:
    """A cluster of which some nodes are cordoned, and a set."""

    def __init__(self, site: GroveSite) -> None:
        self.site = site
        self._cordoned: list[str] = []

    async def begin(self, nodes: int, cordoned: int, pcs: Raw) -> None:
        names = await self.site.add_nodes(nodes)
        self._cordoned = names[:cordoned]
        await self.site.cordon(self._cordoned)
        await self.site.submit(pcs)

    async def uncordon(self, number: int) -> None:
        freed, self._cordoned = self._cordoned[:number], self._cordoned[number:]
        assert len(freed) == number
        await asyncio.gather(*(self.site.uncordon([name]) for name in freed))

    async def uncordon_all(self) -> None:
        await self.uncordon(len(self._cordoned))

    async def scale_set(self, replicas: int) -> None:
        await self.site.scale(POD_CLIQUE_SETS, "w", replicas)

    async def scale_group(self, replicas: int, index: int = 0) -> None:
        await self.site.until(lambda seen: f"w-{index}-sg" in seen[POD_CLIQUE_SCALING_GROUPS])
        await self.site.scale(POD_CLIQUE_SCALING_GROUPS, f"w-{index}-sg", replicas)

    async def expect(self, running: int, waiting: int, *bound: dict[str, int]) -> GroveSeen:
        """So many pods run and wait; with `bound`, exactly these run."""
        seen = await self.site.until_counts(running, waiting)
        assert len(seen.nodes()) == running, "each pod has a node of its own"
        if bound and isinstance(self.site.cluster, MemoryCluster):
            assert seen.bound == {name: number for cliques in bound for name, number in cliques.items()}
        return seen


@pytest.fixture
async def scenario(cluster: Cluster) -> AsyncIterator[UpstreamScenario]:
    async with fresh(cluster).open() as site:
        yield UpstreamScenario(site)


# every pod is needed --------------------------------------------------------------------------------------------------


@embedded
async def test_gs_1_ten_pods_wait_for_the_tenth_node(scenario: UpstreamScenario) -> None:
    await scenario.begin(10, 1, strict())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(10, 0)


@embedded
async def test_gs_2_a_further_replica_of_the_group_waits_for_four_nodes(scenario: UpstreamScenario) -> None:
    await scenario.begin(14, 5, strict())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(10, 0)
    await scenario.scale_group(3)
    await scenario.expect(10, 4)
    await scenario.uncordon_all()
    await scenario.expect(14, 0)


@embedded
async def test_gs_3_a_further_replica_of_the_set_waits_for_ten_nodes(scenario: UpstreamScenario) -> None:
    await scenario.begin(20, 11, strict())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(10, 0)
    await scenario.scale_set(2)
    await scenario.expect(10, 10)
    await scenario.uncordon_all()
    await scenario.expect(20, 0)


@both
async def test_gs_4_set_and_groups_are_scaled_one_after_the_other(scenario: UpstreamScenario) -> None:
    await scenario.begin(28, 19, strict())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(10, 0)
    await scenario.scale_group(3)
    await scenario.expect(10, 4)
    await scenario.uncordon(4)
    await scenario.expect(14, 0)
    await scenario.scale_set(2)
    await scenario.expect(14, 10)
    await scenario.uncordon(10)
    await scenario.expect(24, 0)
    await scenario.scale_group(3, index=1)
    await scenario.expect(24, 4)
    await scenario.uncordon_all()
    seen = await scenario.expect(28, 0)
    assert {*seen[POD_GANGS]} == {"w-0", "w-0-sg-0", "w-1", "w-1-sg-0"}


# a few pods are needed ------------------------------------------------------------------------------------------------


@embedded
async def test_gs_5_three_nodes_are_for_the_minimum_of_the_base(scenario: UpstreamScenario) -> None:
    await scenario.begin(10, 8, flexible())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(3, 7, BASE)
    await scenario.uncordon_all()
    await scenario.expect(10, 0)


@embedded
async def test_gs_6_a_further_replica_of_the_group_starts_with_its_minimum(scenario: UpstreamScenario) -> None:
    await scenario.begin(14, 12, flexible())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(3, 7, BASE)
    await scenario.uncordon(7)
    first = (await scenario.expect(10, 0)).bound
    await scenario.scale_group(3)
    await scenario.expect(10, 4)
    await scenario.uncordon(2)
    await scenario.expect(12, 2, first, scaled(2))
    await scenario.uncordon(2)
    await scenario.expect(14, 0)


@both
async def test_gs_7_the_minimum_of_the_scaled_gang_comes_before_extras_of_the_base(scenario: UpstreamScenario) -> None:
    await scenario.begin(14, 12, flexible())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(3, 7, BASE)
    await scenario.uncordon(2)
    await scenario.expect(5, 5, BASE, scaled(1))
    await scenario.uncordon(5)
    first = (await scenario.expect(10, 0)).bound
    await scenario.scale_group(3)
    await scenario.expect(10, 4)
    await scenario.uncordon(2)
    await scenario.expect(12, 2, first, scaled(2))
    await scenario.uncordon(2)
    await scenario.expect(14, 0)


@embedded
async def test_gs_8_minimums_of_two_scaled_gangs_come_before_extras(scenario: UpstreamScenario) -> None:
    await scenario.begin(14, 12, flexible())
    await scenario.expect(0, 10)
    await scenario.scale_group(3)
    await scenario.expect(0, 14)
    await scenario.uncordon(1)
    await scenario.expect(3, 11, BASE)
    await scenario.uncordon(4)
    await scenario.expect(7, 7, BASE, scaled(1), scaled(2))
    await scenario.uncordon(7)
    await scenario.expect(14, 0)


@embedded
async def test_gs_9_a_further_replica_of_the_set_starts_with_the_minimum_of_its_base(
    scenario: UpstreamScenario,
) -> None:
    await scenario.begin(20, 18, flexible())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(3, 7, BASE)
    await scenario.uncordon(7)
    first = (await scenario.expect(10, 0)).bound
    await scenario.scale_set(2)
    await scenario.expect(10, 10)
    await scenario.uncordon(3)
    await scenario.expect(13, 7, first, OTHER_BASE)
    await scenario.uncordon(7)
    await scenario.expect(20, 0)


@embedded
async def test_gs_10_both_bases_start_then_both_scaled_gangs_then_extras(scenario: UpstreamScenario) -> None:
    await scenario.begin(20, 18, flexible())
    await scenario.expect(0, 10)
    await scenario.scale_set(2)
    await scenario.expect(0, 20)
    await scenario.uncordon(4)
    await scenario.expect(6, 14, BASE, OTHER_BASE)
    await scenario.uncordon(4)
    await scenario.expect(10, 10, BASE, OTHER_BASE, scaled(1), scaled(1, 1))
    await scenario.uncordon(10)
    await scenario.expect(20, 0)


@embedded
async def test_gs_11_set_and_groups_are_scaled_with_minimums(scenario: UpstreamScenario) -> None:
    await scenario.begin(28, 26, flexible())
    await scenario.expect(0, 10)
    await scenario.uncordon(1)
    await scenario.expect(3, 7, BASE)
    await scenario.uncordon(7)
    await scenario.expect(10, 0)
    await scenario.scale_group(3)
    await scenario.expect(10, 4)
    await scenario.uncordon(2)
    await scenario.expect(12, 2)
    await scenario.uncordon(2)
    first = (await scenario.expect(14, 0)).bound
    await scenario.scale_set(2)
    await scenario.expect(14, 10)
    await scenario.uncordon(3)
    await scenario.expect(17, 7, first, OTHER_BASE)
    await scenario.uncordon(7)
    second = (await scenario.expect(24, 0)).bound
    await scenario.scale_group(3, index=1)
    await scenario.expect(24, 4)
    await scenario.uncordon(2)
    await scenario.expect(26, 2, second, scaled(2, 1))
    await scenario.uncordon(2)
    await scenario.expect(28, 0)


@both
async def test_gs_12_everything_is_scaled_while_everything_waits(scenario: UpstreamScenario) -> None:
    await scenario.begin(28, 26, flexible())
    await scenario.expect(0, 10)
    await scenario.scale_set(2)
    await scenario.expect(0, 20)
    for index in (0, 1):
        await scenario.scale_group(3, index)
    await scenario.expect(0, 28)
    await scenario.uncordon(4)
    await scenario.expect(6, 22, BASE, OTHER_BASE)
    await scenario.uncordon(8)
    gangs = [scaled(replica, index) for replica in (1, 2) for index in (0, 1)]
    await scenario.expect(14, 14, BASE, OTHER_BASE, *gangs)
    await scenario.uncordon(14)
    await scenario.expect(28, 0)
