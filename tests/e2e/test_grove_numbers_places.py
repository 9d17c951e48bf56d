"""How many pods of a PodCliqueSet run and wait where topology constrains them: of the set, a group or a clique.

Every pod takes a node of its own, on an embedded cluster and on a real API server. Numbers hold once nothing moves.
"""

from collections.abc import AsyncIterator

import pytest

from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    NODES,
    POD_CLIQUE_SETS,
)
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import BLOCK, RACK, ZONE, GroveSite, clique, fresh, group, pod_clique_set
from tests.e2e.site import said
from tests.e2e.test_grove import cluster
from tests.e2e.test_grove_numbers import own

__all__ = ["cluster"]  # a fixture
LONGER_SECONDS = 1.6  # than the delay


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


def packed(site: GroveSite, domain: str) -> Raw:
    return {"topologyName": site.name, "pack": {"required": domain}}


async def rack(site: GroveSite, name: str, size: int, block: str = "b0") -> list[str]:
    return await site.add_nodes(size, {ZONE: "z", BLOCK: block, RACK: name})


async def racks_of(site: GroveSite, nodes: set[str], key: str = RACK) -> set[str]:
    there = (await site.cluster.list(NODES)).items
    return {raw["metadata"]["labels"][key] for raw in there if raw["metadata"]["name"] in nodes}


async def test_a_set_in_a_rack_waits_for_the_rack_that_gets_large_enough(site: GroveSite) -> None:
    await site.bind_topology(site.name)
    for number in range(3):
        await rack(site, f"r{number}", 4)
    cliques = [clique("a", 2), clique("b", 3)]
    await site.submit(pod_clique_set("w", cliques, template={"topologyConstraint": packed(site, "rack")}))
    await site.until_counts(0, 5)
    await rack(site, "r1", 1)
    seen = await site.until_counts(5, 0)
    assert await racks_of(site, seen.nodes()) == {"r1"}


async def test_each_replica_of_a_group_waits_for_a_rack_and_scaled_ones_alone(site: GroveSite) -> None:
    await site.bind_topology(site.name)
    await rack(site, "r0", 3)
    await rack(site, "r1", 2)
    cliques = [clique("b", 1), clique("c", 2)]
    groups = [group("sg", ["b", "c"], 3, 2, topologyConstraint=packed(site, "rack"))]
    await site.submit(pod_clique_set("w", cliques, groups))
    seen = await site.until_counts(0, 9)
    assert seen.gated == 3
    await rack(site, "r1", 1)
    seen = await site.until_counts(6, 3)
    for row in "01":
        assert len(await racks_of(site, {raw["spec"]["nodeName"] for raw in own(seen, row=row)})) == 1
    await rack(site, "r2", 2)
    await rack(site, "r3", 2)
    await site.until_counts(6, 3)
    await rack(site, "r3", 1)
    seen = await site.until_counts(9, 0)
    assert await racks_of(site, {raw["spec"]["nodeName"] for raw in own(seen, row="2")}) == {"r3"}


async def test_a_clique_in_a_rack_holds_up_its_gang_until_there_is_one(site: GroveSite) -> None:
    await site.bind_topology(site.name)
    await rack(site, "r0", 3)
    await rack(site, "r1", 3)
    cliques = [clique("a", 2), clique("b", 4, topologyConstraint=packed(site, "rack"))]
    await site.submit(pod_clique_set("w", cliques))
    await site.until_counts(0, 6)
    await rack(site, "r0", 1)
    seen = await site.until_counts(6, 0)
    assert await racks_of(site, seen.nodes("w-0-b")) == {"r0"}


async def test_extras_and_scaled_gangs_stay_in_the_block_of_the_base(site: GroveSite) -> None:
    await site.bind_topology(site.name)
    await rack(site, "r0", 2, "b0")
    await rack(site, "r1", 2, "b0")
    await rack(site, "r2", 3, "b1")
    cliques = [clique("a", 3, 1), clique("b", 2, topologyConstraint=packed(site, "rack"))]
    template = {"topologyConstraint": packed(site, "block")}
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 2)], template=template))
    seen = await site.until(lambda seen: seen.counts[0] >= 4)
    block = await racks_of(site, seen.nodes(), BLOCK)
    assert block == {"b0"}, "most of the waiting pods can follow there"
    seen = await site.until_counts(4, 3)
    await rack(site, "r9", 9, "b1")
    await site.until_counts(4, 3)
    await rack(site, "r3", 3, "b0")
    seen = await site.until_counts(7, 0)
    assert await racks_of(site, seen.nodes(), BLOCK) == {"b0"}


async def test_a_base_starts_in_the_zone_in_which_its_scaled_gangs_fit(site: GroveSite) -> None:
    """Alone it would fill the small zone, and its scaled gangs would wait for ever (R3)."""
    await site.bind_topology(site.name)
    for zone, block, name, size in (("small", "b9", "r9", 4), ("large", "b0", "r0", 2), ("large", "b0", "r1", 2)):
        await site.add_nodes(size, {ZONE: zone, BLOCK: block, RACK: name})
    await site.add_nodes(3, {ZONE: "large", BLOCK: "b1", RACK: "r2"})
    cliques = [clique("a", 1), clique("b", 1), clique("c", 2, topologyConstraint=packed(site, "rack"))]
    groups = [group("sg", ["b", "c"], 3, topologyConstraint=packed(site, "block"))]
    await site.submit(pod_clique_set("w", cliques, groups, template={"topologyConstraint": packed(site, "zone")}))
    seen = await site.until_counts(7, 3)
    assert await racks_of(site, seen.nodes(), ZONE) == {"large"}
    await site.add_nodes(3, {ZONE: "large", BLOCK: "b2", RACK: "r3"})
    await site.until_counts(10, 0)


async def test_a_set_that_loses_and_gets_its_binding_runs_without_a_move(site: GroveSite) -> None:
    await site.bind_topology(site.name)
    await rack(site, "r0", 2)
    await rack(site, "r1", 1)
    await site.submit(pod_clique_set("w", [clique("a", 3)], template={"topologyConstraint": packed(site, "rack")}))
    await site.until_counts(0, 3)
    await site.cluster.delete(CLUSTER_TOPOLOGY_BINDINGS, "", site.name)
    before = await site.until_counts(3, 0)
    condition = "TopologyLevelsUnavailable"
    await site.until(lambda seen: said(seen[POD_CLIQUE_SETS]["w"], condition).get("status") == "Unknown")
    await site.bind_topology(site.name)
    await site.until(lambda seen: said(seen[POD_CLIQUE_SETS]["w"], condition).get("status") == "False")
    await site.stays(lambda seen: seen.uids == before.uids and seen.counts == (3, 0), LONGER_SECONDS)
