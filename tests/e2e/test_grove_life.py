"""What happens to PodCliqueSets while they run: lost pods, updates, topology, startup order; embedded and real."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.api import names
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    NODES,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
)
from muster.embedded.kubelet.pod_lifecycle import FAIL
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import BLOCK, RACK, ZONE, GroveSite, clique, fresh, group, pod_clique_set, strict
from tests.e2e.site import is_ready, said
from tests.e2e.test_grove import CLUSTERS


@pytest.fixture(params=list(CLUSTERS))
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    async with CLUSTERS[request.param](request) as opened:
        yield opened


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


def packed(**levels: str) -> Raw:
    return {"topologyName": "bound", "pack": levels}


async def racks(site: GroveSite, sizes: list[int]) -> list[str]:
    """One rack of so many nodes each, two racks a block."""
    nodes = []
    for number, size in enumerate(sizes):
        labels = {ZONE: "z", BLOCK: f"b{number // 2}", RACK: f"r{number}"}
        nodes += await site.add_nodes(size, labels)
    return nodes


async def domains(site: GroveSite, key: str, nodes: set[str]) -> set[str]:
    nodes_there = (await site.cluster.list(NODES)).items
    labels = {raw["metadata"]["name"]: raw["metadata"].get("labels", {}) for raw in nodes_there}
    return {labels[name].get(key, "") for name in nodes}


# breach and termination -----------------------------------------------------------------------------------------------


async def test_a_standalone_clique_below_its_minimum_for_too_long_recreates_the_replica(site: GroveSite) -> None:
    nodes = await site.add_nodes(10)
    await site.submit(strict(template={"terminationDelay": "1s"}))
    before = await site.until_counts(10, 0)
    victim = next(raw for raw in before.pods if raw["metadata"]["labels"][names.POD_CLIQUE] == "w-0-a")
    await site.cordon(nodes)
    await site.delete(PODS, victim["metadata"]["name"])
    seen = await site.until(lambda seen: len(seen.pods) == 10 and not (seen.uids & before.uids))
    assert seen.counts == (0, 10)
    await site.uncordon(nodes)
    await site.until_counts(10, 0)


async def test_a_group_replica_below_its_minimum_is_recreated_alone(site: GroveSite) -> None:
    """The other replica still makes the group's minimum, and nothing else is touched."""
    nodes = await site.add_nodes(9)
    pcs = pod_clique_set(
        "w",
        [clique("a", 1, 1), clique("b", 1, 1), clique("c", 3, 3)],
        [group("sg", ["b", "c"], 2, 1)],
        template={"terminationDelay": "1s"},
    )
    await site.submit(pcs)
    before = await site.until_counts(9, 0)
    victim = next(raw for raw in before.pods if raw["metadata"]["labels"][names.POD_CLIQUE] == "w-0-sg-1-c")
    await site.cordon(nodes)
    await site.delete(PODS, victim["metadata"]["name"])
    replica = {
        raw["metadata"]["uid"]
        for raw in before.pods
        if raw["metadata"]["labels"].get(names.SCALING_GROUP_REPLICA) == "1"
    }
    seen = await site.until(lambda seen: len(seen.pods) == 9 and not (seen.uids & replica))
    assert before.uids - replica <= seen.uids
    assert seen.counts == (5, 4)


async def test_what_never_ran_is_not_terminated(site: GroveSite) -> None:
    await site.add_nodes(9)
    await site.submit(strict(template={"terminationDelay": "1s"}))
    before = await site.until_counts(0, 10)
    await asyncio.sleep(1.5)
    assert (await site.seen()).uids == before.uids


async def test_a_failed_pod_is_replaced(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    victim = before.pods[0]["metadata"]
    await site.cluster.patch(PODS, site.name, victim["name"], {"metadata": {"annotations": {FAIL: "broken"}}})
    await site.until(lambda seen: seen.counts == (10, 0) and victim["uid"] not in seen.uids)


# updates --------------------------------------------------------------------------------------------------------------


async def test_an_update_reaches_every_pod_and_keeps_the_minimum(site: GroveSite) -> None:
    await site.add_nodes(6)
    await site.submit(pod_clique_set("w", [clique("a", 4, 3)]))
    before = await site.until_counts(4, 0)
    await site.change_image("w", "a", "none:2")
    ready = []
    while True:
        seen = await site.seen()
        ready.append(seen.ready)
        if seen.counts == (4, 0) and not (seen.uids & before.uids):
            break
        await asyncio.sleep(0.01)
    assert min(ready) >= 3
    assert {raw["spec"]["containers"][0]["image"] for raw in seen.pods} == {"none:2"}
    done = await site.until(lambda seen: seen[POD_CLIQUE_SETS]["w"]["status"].get("updatedReplicas") == 1)
    assert done[POD_CLIQUE_SETS]["w"]["status"]["updateProgress"].get("updateEndedAt")


async def test_an_update_on_a_cordoned_cluster_stops_at_the_first_ready_pod(site: GroveSite) -> None:
    nodes = await site.add_nodes(4)
    await site.submit(pod_clique_set("w", [clique("a", 4, 1)]))
    before = await site.until_counts(4, 0)
    await site.cordon(nodes)
    await site.change_image("w", "a", "none:2")
    await site.until(lambda seen: seen.counts == (3, 1))
    seen = await site.stays(lambda seen: seen.counts == (3, 1), 1.5)
    assert len(seen.uids & before.uids) == 3
    await site.uncordon(nodes)
    await site.until(lambda seen: seen.counts == (4, 0) and not (seen.uids & before.uids))


async def test_replicas_of_a_set_are_updated_one_after_the_other(site: GroveSite) -> None:
    nodes = await site.add_nodes(4)
    await site.submit(pod_clique_set("w", [clique("a", 2, 1)], replicas=2))
    before = await site.until_counts(4, 0)
    await site.cordon(nodes)
    await site.change_image("w", "a", "none:2")
    await site.until(lambda seen: seen.counts == (3, 1))
    seen = await site.stays(lambda seen: seen.counts == (3, 1), 1.0)
    fresh_pods = [raw for raw in seen.pods if raw["metadata"]["uid"] not in before.uids]
    assert [raw["metadata"]["labels"][names.SET_REPLICA] for raw in fresh_pods] == ["0"]
    await site.uncordon(nodes)
    await site.until(lambda seen: seen.counts == (4, 0) and not (seen.uids & before.uids))


async def test_with_on_delete_only_deleted_pods_are_updated(site: GroveSite) -> None:
    await site.add_nodes(4)
    await site.submit(pod_clique_set("w", [clique("a", 3, 1)], updateStrategy={"type": "OnDelete"}))
    before = await site.until_counts(3, 0)
    await site.change_image("w", "a", "none:2")
    await site.stays(lambda seen: seen.uids == before.uids)
    await site.delete(PODS, before.pods[0]["metadata"]["name"])
    seen = await site.until(lambda seen: seen.counts == (3, 0) and len(seen.uids & before.uids) == 2)
    images = sorted(raw["spec"]["containers"][0]["image"] for raw in seen.pods)
    assert images == ["none:1", "none:1", "none:2"]


async def test_a_group_is_updated_replica_by_replica(site: GroveSite) -> None:
    await site.add_nodes(12)
    pcs = pod_clique_set("w", [clique("b", 1, 1), clique("c", 2, 2)], [group("sg", ["b", "c"], 3, 2)])
    await site.submit(pcs)
    before = await site.until_counts(9, 0)
    await site.change_image("w", "c", "none:2")
    ready: list[int] = []
    while True:
        seen = await site.seen()
        by_replica: dict[str, int] = {}
        for raw in filter(is_ready, seen.pods):
            index = raw["metadata"]["labels"][names.SCALING_GROUP_REPLICA]
            by_replica[index] = by_replica.get(index, 0) + 1
        ready.append(sum(count == 3 for count in by_replica.values()))
        if seen.counts == (9, 0) and not (seen.uids & before.uids):
            break
        await asyncio.sleep(0.01)
    assert min(ready) >= 2


# topology -------------------------------------------------------------------------------------------------------------


async def test_a_set_with_a_required_block_sits_in_one_block_with_its_scaled_gangs(site: GroveSite) -> None:
    """R3: the scaled gang waits for its base gang's block, although another one is free."""
    await site.bind_topology("bound")
    await racks(site, [2, 1, 3])
    pcs = pod_clique_set(
        "w",
        [clique("a", 1, 1), clique("b", 2, 2)],
        [group("sg", ["b"], 2, 1)],
        template={"topologyConstraint": packed(required="block")},
    )
    await site.submit(pcs)
    seen = await site.until_counts(3, 2)
    assert len(await domains(site, BLOCK, seen.nodes())) == 1
    await site.add_nodes(2, {ZONE: "z", BLOCK: (await domains(site, BLOCK, seen.nodes())).pop(), RACK: "r9"})
    seen = await site.until_counts(5, 0)
    assert len(await domains(site, BLOCK, seen.nodes())) == 1


async def test_each_replica_of_a_group_sits_in_one_rack(site: GroveSite) -> None:
    await site.bind_topology("bound")
    await racks(site, [3, 3, 1])
    pcs = pod_clique_set(
        "w",
        [clique("a", 1, 1), clique("b", 1, 1), clique("c", 2, 2)],
        [group("sg", ["b", "c"], 2, 2, topologyConstraint=packed(required="rack"))],
    )
    await site.submit(pcs)
    seen = await site.until_counts(7, 0)
    for replica in (0, 1):
        nodes = seen.nodes(f"w-0-sg-{replica}-b") | seen.nodes(f"w-0-sg-{replica}-c")
        assert len(await domains(site, RACK, nodes)) == 1


async def test_a_clique_sits_in_one_rack(site: GroveSite) -> None:
    await site.bind_topology("bound")
    await racks(site, [2, 2, 3])
    await site.submit(
        pod_clique_set("w", [clique("a", 2, 2), clique("b", 3, 3, topologyConstraint=packed(required="rack"))])
    )
    seen = await site.until_counts(5, 0)
    assert len(await domains(site, RACK, seen.nodes("w-0-b"))) == 1


async def test_a_set_whose_binding_is_gone_runs_without_it_and_says_so(site: GroveSite) -> None:
    """Two racks of one node each hold no clique of two; without levels there is nothing to hold it back."""
    await site.bind_topology("bound")
    await racks(site, [1, 1])
    await site.submit(
        pod_clique_set("w", [clique("a", 2, 2)], template={"topologyConstraint": packed(required="rack")})
    )
    await site.until_counts(0, 2)
    await site.cluster.delete(CLUSTER_TOPOLOGY_BINDINGS, "", "bound")
    await site.until_counts(2, 0)
    await site.until(
        lambda seen: said(seen[POD_CLIQUE_SETS]["w"], "TopologyLevelsUnavailable").get("status") == "Unknown"
    )


# status ---------------------------------------------------------------------------------------------------------------


async def test_statuses_tell_how_a_set_fares(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    await site.until_counts(10, 0)
    seen = await site.until(
        lambda seen: (
            seen[POD_GANGS]["w-0"]["status"].get("phase") == "Running"
            and seen.gang_condition("w-0", "Ready").get("status") == "True"
            and seen[POD_CLIQUE_SETS]["w"]["status"].get("availableReplicas") == 1
        )
    )
    assert seen.gang_condition("w-0").get("status") == "True"
    assert seen[POD_GANGS]["w-0"]["status"]["placementScore"] == 1.0
    clique_status = seen[POD_CLIQUES]["w-0-a"]["status"]
    assert (clique_status["replicas"], clique_status["readyReplicas"], clique_status["scheduledReplicas"]) == (2, 2, 2)
    assert said(seen[POD_CLIQUES]["w-0-a"], "MinAvailableBreached")["status"] == "False"
    assert {one["name"] for one in seen[POD_CLIQUE_SETS]["w"]["status"]["podGangStatuses"]} == {"w-0"}
    assert {*seen[POD_GROUPS]} == {"w-0"}


# startup order --------------------------------------------------------------------------------------------------------


async def test_cliques_start_in_order_and_are_bound_as_one(site: GroveSite) -> None:
    await site.add_nodes(3)
    pcs = pod_clique_set(
        "w",
        [clique("a", 1, 1), clique("b", 1, 1), clique("c", 1, 1)],
        template={"cliqueStartupType": "CliqueStartupTypeInOrder"},
    )
    await site.submit(pcs)
    seen = await site.until(lambda seen: seen.ready == 3)
    times = {raw["metadata"]["labels"][names.POD_CLIQUE]: said(raw, "Ready")["lastTransitionTime"] for raw in seen.pods}
    assert times["w-0-a"] <= times["w-0-b"] <= times["w-0-c"]
