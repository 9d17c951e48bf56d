"""How many pods of a PodCliqueSet run and wait while it lives: terminations, updates, order, deletion.

Every pod takes a node of its own, on an embedded cluster and on a real API server. Numbers hold once nothing moves.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import (
    AUTOSCALERS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.cluster import Cluster
from muster.planning import staleness
from tests.e2e.grove_site import GroveSeen, GroveSite, clique, fresh, group, pod_clique_set
from tests.e2e.site import said
from tests.e2e.test_grove import NEVER_READY, cluster
from tests.e2e.test_grove_numbers import own, uids

__all__ = ["cluster"]  # a fixture
DELAY: dict[str, Any] = {"template": {"terminationDelay": "1s"}}
LONGER_SECONDS = 1.6  # than the delay
OWNED = (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS, SERVICES)


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


async def lose(site: GroveSite, clique_name: str, number: int) -> None:
    """Nodes of pods of a clique are cordoned, and the pods deleted."""
    victims = [raw for raw in own(await site.seen(), clique=clique_name) if raw["spec"].get("nodeName")][:number]
    assert len(victims) == number
    await site.cordon([raw["spec"]["nodeName"] for raw in victims])
    for raw in victims:
        await site.delete(PODS, raw["metadata"]["name"])


# termination ----------------------------------------------------------------------------------------------------------


async def test_a_standalone_clique_below_its_minimum_recreates_its_replica_of_the_set_alone(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(pod_clique_set("w", [clique("a", 3, 2), clique("b", 2)], replicas=2, **DELAY))
    before = await site.until_counts(10, 0)
    await lose(site, "w-1-a", 1)
    await site.until(lambda seen: seen.counts == (9, 1))
    await site.stays(lambda seen: seen.counts == (9, 1) and len(seen.uids & before.uids) == 9, LONGER_SECONDS)
    await lose(site, "w-1-a", 1)
    seen = await site.until(lambda seen: not uids(seen, index="1") & before.uids and len(seen.pods) == 10)
    assert uids(seen, index="0") == uids(before, index="0")
    # eight nodes are left: five of the other replica, and three for a base that needs four
    await site.until_counts(5, 5)
    await site.add_nodes(1)
    await site.until_counts(9, 1)
    await site.add_nodes(1)
    await site.until_counts(10, 0)


async def test_replicas_of_a_group_are_recreated_alone_until_too_few_are_left(site: GroveSite) -> None:
    """Four replicas of two pods, of which two are needed."""
    nodes = await site.add_nodes(9)
    cliques = [clique("a", 1), clique("b", 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 4, 2)], **DELAY))
    before = await site.until_counts(9, 0)
    await site.cordon(nodes)
    await replica_is_recreated(site, before, ["3"], 7)
    await replica_is_recreated(site, before, ["3", "0"], 5)
    await lose(site, "w-0-sg-1-b", 1)
    await site.until(lambda seen: not seen.uids & before.uids and seen.counts == (0, 9))
    await site.until(lambda seen: seen.gated == 4)  # those of scaled gangs wait for the new base
    await site.uncordon(nodes[:6])  # the base needs five, and a scaled gang two
    await site.until_counts(5, 4)
    await site.uncordon(nodes[6:])
    await site.until_counts(9, 0)


async def replica_is_recreated(site: GroveSite, before: GroveSeen, rows: list[str], running: int) -> None:
    """The last of these replicas loses a pod, and is recreated; but for them, nothing is."""
    await lose(site, f"w-0-sg-{rows[-1]}-b", 1)
    gone = {uid for row in rows for uid in uids(before, row=row)}
    await site.until(lambda seen: not seen.uids & gone and seen.counts == (running, 9 - running))
    await site.stays(lambda seen: before.uids - gone <= seen.uids and seen.counts[0] == running, LONGER_SECONDS)


async def test_a_scaled_gang_below_its_minimum_is_recreated_and_waits_for_its_own_nodes(site: GroveSite) -> None:
    """Two groups: what happens to a replica of one concerns nothing of the other."""
    nodes = await site.add_nodes(9)
    cliques = [clique("a", 1), clique("b", 1), clique("c", 3, 2)]
    groups = [group("s", ["b"], 2), group("t", ["c"], 2)]
    await site.submit(pod_clique_set("w", cliques, groups, **DELAY))
    before = await site.until_counts(9, 0)
    await site.cordon(nodes)
    await lose(site, "w-0-t-1-c", 1)
    await site.until(lambda seen: seen.counts == (8, 1))
    await site.stays(lambda seen: seen.counts == (8, 1) and len(seen.uids & before.uids) == 8, LONGER_SECONDS)
    await lose(site, "w-0-t-1-c", 1)
    gone = uids(before, clique="w-0-t-1-c")
    await site.until(lambda seen: not seen.uids & gone and seen.counts == (6, 3))
    seen = await site.stays(lambda seen: before.uids - gone <= seen.uids, LONGER_SECONDS)
    assert seen.gated == 0, "the base is scheduled"
    free = [name for name in nodes if name not in seen.nodes()]
    await site.uncordon(free[:1])
    await site.until_counts(6, 3)
    await site.uncordon(free[1:2])
    await site.until(lambda seen: seen.counts == (8, 1))


@pytest.mark.parametrize("cause", ["lost pod", "scale from zero", "update"])
async def test_what_was_healthy_runs_on_below_its_minimum_until_the_delay(
    site: GroveSite, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler releases other gangs after its grace, which is a second here (S2)."""
    monkeypatch.setattr(staleness, "GRACE", timedelta(seconds=1))
    nodes = await site.add_nodes(4)
    await site.submit(pod_clique_set("w", [clique("a", 2), clique("b", 2)]))
    await site.until_counts(4, 0)
    await site.until(lambda seen: seen[POD_CLIQUE_SETS]["w"]["status"].get("availableReplicas") == 1)
    if cause == "scale from zero":
        await site.scale(POD_CLIQUES, "w-0-b", 0)
        await site.until_counts(2, 0)
    await site.cordon(nodes)
    if cause == "lost pod":
        await lose(site, "w-0-a", 1)
    elif cause == "update":
        await site.change_image("w", "a", "none:2")
    else:
        await site.scale(POD_CLIQUES, "w-0-b", 2)
    running = 2 if cause == "scale from zero" else 3
    await site.until(lambda seen: seen.counts == (running, 4 - running))
    await site.stays(lambda seen: seen.counts == (running, 4 - running), 3.0)
    await site.uncordon(nodes)
    await site.until(lambda seen: seen.counts == (4, 0))


async def test_what_started_in_part_makes_way_after_the_grace(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: one clique is healthy, and the next one loses a pod before it is: the gang never ran as a whole."""
    monkeypatch.setattr(staleness, "GRACE", timedelta(seconds=1))
    async with fresh(cluster).open(KubeletTimings(start_seconds=4.0, stop_seconds=0.0)) as site:
        nodes = await site.add_nodes(4)
        template = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
        await site.submit(pod_clique_set("w", [clique("a", 2), clique("b", 2)], template=template))
        await site.until(lambda seen: "status" in said(seen[POD_CLIQUES]["w-0-a"], "HealthyStateObserved"))
        await site.cordon(nodes)
        await lose(site, "w-0-b", 1)
        before = await site.seen()
        assert before.bound == {"w-0-a": 2, "w-0-b": 1}
        await site.until(lambda seen: len(seen.pods) == 4 and not seen.bound)


async def test_a_breach_that_ends_before_the_delay_terminates_nothing(site: GroveSite) -> None:
    nodes = await site.add_nodes(5)
    pcs = pod_clique_set("w", [clique("a", 3), clique("b", 2)], template={"terminationDelay": "3s"})
    await site.submit(pcs)
    before = await site.until_counts(5, 0)
    await lose(site, "w-0-a", 1)
    await site.until(lambda seen: seen.counts == (4, 1))
    await asyncio.sleep(1.0)
    await site.uncordon(nodes)
    await site.until(lambda seen: seen.counts == (5, 0))
    await site.stays(lambda seen: len(seen.uids & before.uids) == 4, 3.0)


# updates --------------------------------------------------------------------------------------------------------------


async def test_an_update_of_all_on_a_cordoned_cluster_costs_one_pod_and_one_replica(site: GroveSite) -> None:
    nodes = await site.add_nodes(9)
    cliques = [clique("a", 3, 2), clique("b", 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 3, 2)]))
    before = await site.until_counts(9, 0)
    await site.cordon(nodes)
    for name in "ab":
        await site.change_image("w", name, "none:2")
    await site.until(lambda seen: seen.counts == (6, 3))
    seen = await site.stays(lambda seen: seen.counts == (6, 3), 1.5)
    assert len(seen.uids & before.uids) == 6
    assert seen.bound["w-0-a"] == 2
    await site.uncordon(nodes)
    seen = await site.until(lambda seen: seen.counts == (9, 0) and not seen.uids & before.uids)
    assert {raw["spec"]["containers"][0]["image"] for raw in seen.pods} == {"none:2"}


async def test_an_update_takes_pods_that_wait_at_once_and_replicas_that_wait_first(site: GroveSite) -> None:
    """The second replica has no nodes: it is updated first, and at once."""
    nodes = await site.add_nodes(3)
    await site.submit(pod_clique_set("w", [clique("a", 3)], replicas=2))
    before = await site.until_counts(3, 3)
    waiting = {raw["metadata"]["labels"][names.SET_REPLICA] for raw in before.pods if not raw["spec"].get("nodeName")}
    assert len(waiting) == 1
    index = waiting.pop()
    await site.cordon(nodes)
    await site.change_image("w", "a", "none:2")
    seen = await site.until(lambda seen: not uids(seen, index=index) & before.uids and seen.counts == (3, 3))
    await site.stays(lambda seen: seen.counts == (3, 3) and len(seen.uids & before.uids) == 3)
    assert uids(before, index="0" if index == "1" else "1") <= seen.uids


async def test_on_delete_a_pod_of_a_group_alone_is_replaced_and_keeps_its_place(site: GroveSite) -> None:
    await site.add_nodes(5)
    cliques, groups = [clique("a", 1), clique("b", 2)], [group("sg", ["b"], 2)]
    await site.submit(pod_clique_set("w", cliques, groups, updateStrategy={"type": "OnDelete"}))
    before = await site.until_counts(5, 0)
    for name in "ab":
        await site.change_image("w", name, "none:2")
    await site.stays(lambda seen: seen.uids == before.uids and seen.counts == (5, 0))
    victim = own(before, clique="w-0-sg-1-b")[0]
    await site.delete(PODS, victim["metadata"]["name"])
    seen = await site.until(lambda seen: seen.counts == (5, 0) and victim["metadata"]["uid"] not in seen.uids)
    assert len(seen.uids & before.uids) == 4
    new = next(raw for raw in seen.pods if raw["metadata"]["uid"] not in before.uids)
    assert new["spec"]["containers"][0]["image"] == "none:2"
    assert new["spec"]["hostname"] == victim["spec"]["hostname"]


async def test_an_update_of_one_replica_of_two_that_cannot_end_holds_up_the_other(site: GroveSite) -> None:
    """One replica of the group at a time, and one of the set: the rest runs the old template."""
    nodes = await site.add_nodes(12)
    cliques = [clique("a", 2), clique("b", 1), clique("c", 1)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2)], replicas=2))
    before = await site.until_counts(12, 0)
    await site.cordon(nodes)
    await site.change_image("w", "c", "none:2")
    await site.until(lambda seen: seen.counts == (10, 2))
    seen = await site.stays(lambda seen: seen.counts == (10, 2), 1.5)
    assert {raw["metadata"]["labels"][names.SET_REPLICA] for raw in seen.pods if not raw["spec"].get("nodeName")} == {
        "0"
    }
    assert len(seen.uids & before.uids) == 10
    await site.uncordon(nodes)
    await site.until(lambda seen: seen.counts == (12, 0) and len(seen.uids & before.uids) == 4)


# startup order --------------------------------------------------------------------------------------------------------


async def test_cliques_in_order_are_bound_together_and_start_one_after_the_other(cluster: Cluster) -> None:
    """The first clique never gets ready: all pods have nodes, and only its own run."""
    async with fresh(cluster).open(NEVER_READY) as site:
        await site.add_nodes(6)
        cliques = [clique("a", 2), clique("b", 1), clique("c", 1)]
        template = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
        await site.submit(pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2)], template=template))
        seen = await site.until(lambda seen: sum(seen.bound.values()) == 6)
        seen = await site.stays(lambda seen: sum(seen.bound.values()) == 6)
        started = {
            raw["metadata"]["labels"][names.POD_CLIQUE]
            for raw in seen.pods
            if raw["metadata"]["annotations"].get(names.STARTUP, "start") == "start"
        }
        assert started == {"w-0-a", "w-0-sg-1-b"}, "in a scaled replica only its own cliques are waited for"


async def test_a_set_in_order_is_terminated_and_starts_in_order_again(site: GroveSite) -> None:
    nodes = await site.add_nodes(6)
    cliques = [clique("a", 2), clique("b", 1), clique("c", 1)]
    template = {"cliqueStartupType": "CliqueStartupTypeInOrder", "terminationDelay": "1s"}
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2, 2)], template=template))
    before = await site.until_counts(6, 0)
    await site.cordon(nodes)
    await lose(site, "w-0-sg-0-c", 1)
    await site.until(lambda seen: not seen.uids & before.uids and seen.counts == (0, 6))
    await site.uncordon(nodes)
    seen = await site.until(lambda seen: seen.ready == 6)
    times = {
        name: [said(raw, "Ready")["lastTransitionTime"] for raw in seen.pods if raw["spec"]["hostname"][-3] == name]
        for name in "abc"
    }
    assert max(times["a"]) <= min(times["b"])
    assert max(times["b"]) <= min(times["c"])


# deletion -------------------------------------------------------------------------------------------------------------


async def test_a_set_that_is_deleted_and_submitted_again_at_once_starts_whole(site: GroveSite) -> None:
    await site.add_nodes(5)
    pcs = pod_clique_set("w", [clique("a", 1), clique("b", 2)], [group("sg", ["b"], 2)])
    await site.submit(pcs)
    before = await site.until_counts(5, 0)
    await site.delete(POD_CLIQUE_SETS, "w")
    await site.until(lambda seen: not seen[POD_CLIQUE_SETS])
    await site.submit(pcs)
    await site.until(lambda seen: seen.counts == (5, 0) and not seen.uids & before.uids)
    await site.until_counts(5, 0)


async def test_a_clique_that_is_deleted_comes_back_with_all_its_pods(site: GroveSite) -> None:
    """The set makes it again; until its pods have nodes the base is not scheduled, and scaled gangs wait."""
    nodes = await site.add_nodes(8)
    await site.submit(pod_clique_set("w", [clique("a", 2), clique("b", 2)], [group("sg", ["b"], 2)]))
    before = await site.until_counts(6, 0)
    await site.cordon(nodes)
    await site.delete(POD_CLIQUES, "w-0-a")
    await site.until(lambda seen: seen.counts == (4, 2) and not seen.uids & uids(before, clique="w-0-a"))
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    seen = await site.until_counts(4, 4)
    assert seen.gated == 2
    await site.uncordon(nodes)
    await site.until_counts(8, 0)


@pytest.mark.parametrize("moment", ["waiting", "updating", "terminating"])
async def test_a_set_is_deleted_with_all_that_it_had_whatever_happens_to_it(site: GroveSite, moment: str) -> None:
    nodes = await site.add_nodes(3 if moment == "waiting" else 6)
    scaling = {"autoScalingConfig": {"minReplicas": 2, "maxReplicas": 4}}
    cliques = [clique("a", 2, spec=scaling), clique("b", 2)]
    groups = [group("sg", ["b"], 2, scaleConfig={"maxReplicas": 3})]
    await site.submit(pod_clique_set("w", cliques, groups, **DELAY))
    await site.until_counts(*(0, 6) if moment == "waiting" else (6, 0))
    if moment == "updating":
        await site.cordon(nodes)
        await site.change_image("w", "a", "none:2")
        await site.until(lambda seen: seen.counts[1] > 0)
    elif moment == "terminating":
        await lose(site, "w-0-a", 1)
        before = (await site.seen()).uids
        await site.until(lambda seen: not before <= seen.uids)
    await site.delete(POD_CLIQUE_SETS, "w")
    await site.until(lambda seen: not any(seen[kind] for kind in OWNED))
    assert not (await site.cluster.list(AUTOSCALERS, site.name)).items
