"""PodCliqueSets from submission to deletion, embedded and on a real API server: exact numbers of pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.api.resources import (
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from tests.e2e.grove_site import GroveSite, clique, flexible, fresh, group, pod_clique_set, strict

NEVER_READY = KubeletTimings(start_seconds=3600.0, stop_seconds=0.0)


@asynccontextmanager
async def embedded(_: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    yield MemoryCluster()


@asynccontextmanager
async def kubernetes(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    manager = request.getfixturevalue("controller_manager")
    client = connect(manager.apiserver.kubeconfig)
    yield client
    await client.close()


CLUSTERS = {"embedded": embedded, "kubernetes": kubernetes}


@pytest.fixture(params=list(CLUSTERS))
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    async with CLUSTERS[request.param](request) as opened:
        yield opened


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


# gangs start whole ----------------------------------------------------------------------------------------------------


async def test_a_set_waits_whole_until_the_last_node_is_there(site: GroveSite) -> None:
    """Ten pods on nine nodes: none runs; with the tenth node, all do."""
    nodes = await site.add_nodes(10)
    await site.cordon(nodes[:1])
    await site.submit(strict())
    seen = await site.until(lambda seen: len(seen.pods) == 10 and not seen.gated)
    assert (await site.until_counts(0, 10)).bound == {}
    await site.until(lambda seen: seen.gang_condition("w-0").get("status") == "False")
    await site.uncordon(nodes[:1])
    seen = await site.until_counts(10, 0)
    assert len(seen.nodes()) == 10
    assert seen.cliques == {"w-0-a": 2, "w-0-sg-0-b": 1, "w-0-sg-0-c": 3, "w-0-sg-1-b": 1, "w-0-sg-1-c": 3}
    assert {*seen[POD_GANGS]} == {*seen[POD_GROUPS]} == {"w-0"}
    assert {*seen[SERVICES]} == {"w-0"}


async def test_a_scaled_group_waits_as_a_gang_of_its_own(site: GroveSite) -> None:
    nodes = await site.add_nodes(14)
    await site.cordon(nodes[:5])
    await site.submit(strict())
    await site.until(lambda seen: len(seen.pods) == 10)
    await site.until_counts(0, 10)
    await site.uncordon(nodes[:1])
    await site.until_counts(10, 0)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    await site.until_counts(10, 4)
    await site.uncordon(nodes[1:])
    seen = await site.until_counts(14, 0)
    assert {*seen[POD_GANGS]} == {"w-0", "w-0-sg-0"}
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 2)
    seen = await site.until_counts(10, 0)
    assert {*seen[POD_GANGS]} == {"w-0"}


async def test_a_scaled_set_gets_a_base_gang_for_each_replica(site: GroveSite) -> None:
    nodes = await site.add_nodes(20)
    await site.cordon(nodes[:11])
    await site.submit(strict())
    await site.until_counts(0, 10)
    await site.uncordon(nodes[:1])
    await site.until_counts(10, 0)
    await site.scale(POD_CLIQUE_SETS, "w", 2)
    await site.until_counts(10, 10)
    await site.uncordon(nodes[1:])
    seen = await site.until_counts(20, 0)
    assert {*seen[POD_GANGS]} == {"w-0", "w-1"}
    await site.until(lambda seen: seen[POD_CLIQUE_SETS]["w"]["status"].get("availableReplicas") == 2)
    await site.scale(POD_CLIQUE_SETS, "w", 0)
    seen = await site.until(lambda seen: not seen.pods and not seen[POD_GANGS])
    assert not seen[POD_CLIQUES]
    assert not seen[SERVICES]


async def test_scaling_while_pods_wait_adds_to_what_waits(site: GroveSite) -> None:
    nodes = await site.add_nodes(14)
    await site.cordon(nodes[:5])
    await site.submit(strict())
    await site.until_counts(0, 10)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    seen = await site.until_counts(0, 14)
    assert seen.gated == 4, "those of the scaled gang wait for their base"
    await site.uncordon(nodes)
    await site.until_counts(14, 0)


# floors ---------------------------------------------------------------------------------------------------------------


async def test_only_minimums_start_where_only_minimums_fit(site: GroveSite) -> None:
    """Three nodes hold the base, two more the scaled gang, the rest comes one by one."""
    nodes = await site.add_nodes(10)
    await site.cordon(nodes[2:])
    await site.submit(flexible())
    await site.until_counts(0, 10)
    await site.uncordon(nodes[2:3])
    seen = await site.until_counts(3, 7)
    assert seen.bound == {"w-0-a": 1, "w-0-sg-0-b": 1, "w-0-sg-0-c": 1}
    await site.uncordon(nodes[3:])
    await site.until_counts(10, 0)


async def test_two_scaled_gangs_are_scheduled_apart(site: GroveSite) -> None:
    """One that fits does not wait for one that does not."""
    small, large = clique("b", 2, 2), clique("l", 4, 4)
    groups = [group("s", ["b"], 2), group("t", ["l"], 2)]
    nodes = await site.add_nodes(12)
    await site.cordon(nodes[9:])
    await site.submit(pod_clique_set("w", [clique("a", 1, 1), small, large], groups))
    seen = await site.until_counts(9, 4)
    assert seen.bound == {"w-0-a": 1, "w-0-s-0-b": 2, "w-0-t-0-l": 4, "w-0-s-1-b": 2}
    await site.uncordon(nodes[9:])
    await site.until_counts(9, 4)  # twelve nodes are one too few
    await site.add_nodes(1)
    await site.until_counts(13, 0)


# gates ----------------------------------------------------------------------------------------------------------------


async def test_a_base_that_is_scheduled_lifts_gates_before_it_is_ready(cluster: Cluster) -> None:
    async with fresh(cluster).open(NEVER_READY) as site:
        await site.add_nodes(10)
        await site.submit(flexible())
        seen = await site.until(lambda seen: sum(seen.bound.values()) == 10)
        assert seen.ready == 0


async def test_a_base_short_of_one_pod_keeps_the_gates(site: GroveSite) -> None:
    nodes = await site.add_nodes(6)
    await site.cordon(nodes[:1])
    cliques = [clique("a", 2, 2), clique("b", 4, 4)]
    await site.submit(pod_clique_set("w", [*cliques, clique("c", 1, 1)], [group("sg", ["c"], 3)]))
    seen = await site.until_counts(0, 9)
    assert seen.gated == 2
    assert all("w-0" in seen.gang_condition(gang).get("message", "") for gang in ("w-0-sg-0", "w-0-sg-1")), (
        "scaled gangs say what they wait for"
    )


# deletion -------------------------------------------------------------------------------------------------------------


async def test_deleting_a_set_leaves_nothing(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(flexible())
    await site.until_counts(10, 0)
    await site.delete(POD_CLIQUE_SETS, "w")
    await site.until(
        lambda seen: (
            not seen.pods
            and not any(
                seen[kind]
                for kind in (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, POD_GANGS, POD_GROUPS, SERVICES)
            )
        )
    )


async def test_a_deleted_pod_comes_back_in_its_place(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    gone = before.pods[0]["metadata"]
    await site.delete(PODS, gone["name"])
    seen = await site.until(lambda seen: seen.counts == (10, 0) and gone["uid"] not in seen.uids)
    assert seen.cliques == before.cliques
