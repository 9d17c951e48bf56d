"""How many pods of a PodCliqueSet run and wait after each step, on an embedded cluster and on a real API server.

Every pod takes a node of its own. Numbers hold once nothing moves; shapes and nodes are others than upstream's.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import (
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e.grove_site import GroveSeen, GroveSite, clique, fresh, group, pod_clique_set
from tests.e2e.test_grove import NEVER_READY, cluster

__all__ = ["cluster"]  # a fixture


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


def own(seen: GroveSeen, **labels: str) -> list[Raw]:
    """Pods of a replica of the set, of a clique, or of a replica of a group."""
    keys = {"index": names.SET_REPLICA, "clique": names.POD_CLIQUE, "row": names.SCALING_GROUP_REPLICA}
    wanted = {keys[name]: value for name, value in labels.items()}
    return [raw for raw in seen.pods if wanted.items() <= raw["metadata"]["labels"].items()]


def uids(seen: GroveSeen, **labels: str) -> set[str]:
    return {raw["metadata"]["uid"] for raw in own(seen, **labels)}


# too few nodes ------------------------------------------------------------------------------------------------------


async def test_nine_pods_of_three_cliques_wait_for_the_ninth_node(site: GroveSite) -> None:
    await site.add_nodes(8)
    cliques = [clique("a", 3), clique("b", 2), clique("c", 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["c"], 2, 2)]))
    seen = await site.until_counts(0, 9)
    assert seen.gated == 0
    await site.add_nodes(1)
    seen = await site.until_counts(9, 0)
    assert seen.bound == {"w-0-a": 3, "w-0-b": 2, "w-0-sg-0-c": 2, "w-0-sg-1-c": 2}


async def test_of_three_replicas_of_a_set_two_start_where_two_fit(site: GroveSite) -> None:
    """Each has a base of three and a scaled gang of two."""
    await site.add_nodes(8)
    cliques = [clique("a", 1), clique("b", 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 2)], replicas=3))
    seen = await site.until_counts(8, 7)
    assert Counter(len(own(seen, index=str(index))) for index in range(3)) == {5: 3}
    bases = [name for name in ("w-0", "w-1", "w-2") if seen.gang_condition(name).get("status") == "True"]
    assert len(bases) == 2
    waiting = ({"w-0", "w-1", "w-2"} - {*bases}).pop()
    assert sum(bool(raw["spec"].get("schedulingGates")) for raw in own(seen, index=waiting[-1])) == 2
    await site.add_nodes(1)
    await site.until_counts(8, 7)  # a base needs three nodes, and no minimum is taken in part
    await site.add_nodes(6)
    await site.until_counts(15, 0)


# scaling --------------------------------------------------------------------------------------------------------------


async def test_what_is_scaled_while_it_waits_starts_in_the_size_that_it_has_then(site: GroveSite) -> None:
    nodes = await site.add_nodes(7)
    await site.cordon(nodes)
    cliques = [clique("a", 2), clique("b", 1), clique("c", 1)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2)]))
    await site.until_counts(0, 6)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 5)
    seen = await site.until_counts(0, 12)
    assert seen.gated == 8
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    await site.until_counts(0, 8)
    await site.scale(POD_CLIQUE_SETS, "w", 2)
    await site.until_counts(0, 14)
    await site.scale(POD_CLIQUE_SETS, "w", 1)
    seen = await site.until_counts(0, 8)
    assert {*seen[POD_GANGS]} == {"w-0", "w-0-sg-0", "w-0-sg-1"}
    await site.uncordon(nodes)
    seen = await site.until_counts(6, 2)
    await site.add_nodes(1)
    await site.until_counts(8, 0)


async def test_a_standalone_clique_grows_by_extras_and_shrinks_to_its_minimum(site: GroveSite) -> None:
    await site.add_nodes(5)
    await site.submit(pod_clique_set("w", [clique("a", 3, 2), clique("b", 1)]))
    before = await site.until_counts(4, 0)
    await site.scale(POD_CLIQUES, "w-0-a", 6)
    seen = await site.until_counts(5, 2)
    assert before.uids <= seen.uids
    await site.scale(POD_CLIQUES, "w-0-a", 4)
    seen = await site.until_counts(5, 0)
    assert before.uids <= seen.uids, "pods without a node go first"
    await site.scale(POD_CLIQUES, "w-0-a", 2)
    await site.until_counts(3, 0)
    for replicas in (1, -1):
        with pytest.raises(ApiError) as error:
            await site.scale(POD_CLIQUES, "w-0-a", replicas)
        assert error.value.status == 422
    await site.until_counts(3, 0)


async def test_a_group_that_is_scaled_to_zero_comes_back_whole(site: GroveSite) -> None:
    """Two replicas of two are needed: with three nodes for them none starts."""
    nodes = await site.add_nodes(6)
    await site.submit(pod_clique_set("w", [clique("a", 2), clique("b", 2)], [group("sg", ["b"], 2, 2)]))
    before = await site.until_counts(6, 0)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 0)
    seen = await site.until_counts(2, 0)
    free = [name for name in nodes if name not in seen.nodes()]
    await site.cordon(free[:1])
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 2)
    seen = await site.until_counts(2, 4)
    assert seen.uids & before.uids == uids(before, clique="w-0-a")
    await site.uncordon(free[:1])
    await site.until_counts(6, 0)


async def test_a_set_that_is_scaled_to_zero_comes_back_as_its_template_says(site: GroveSite) -> None:
    await site.add_nodes(9)
    await site.submit(pod_clique_set("w", [clique("a", 1), clique("b", 2)], [group("sg", ["b"], 2)]))
    await site.until_counts(5, 0)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 4)
    await site.until_counts(9, 0)
    await site.scale(POD_CLIQUE_SETS, "w", 0)
    await site.until(lambda seen: not any(seen[kind] for kind in (PODS, POD_CLIQUES, POD_GANGS, POD_GROUPS, SERVICES)))
    await site.scale(POD_CLIQUE_SETS, "w", 1)
    await site.until_counts(5, 0)


async def test_a_group_that_shrinks_and_grows_at_once_has_new_pods_that_start_whole(site: GroveSite) -> None:
    await site.add_nodes(7)
    await site.submit(pod_clique_set("w", [clique("a", 1), clique("b", 3)], [group("sg", ["b"], 2)]))
    before = await site.until_counts(7, 0)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    await site.until(lambda seen: "w-0-sg-1-b" not in seen[POD_CLIQUES])
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 2)
    seen = await site.until(lambda seen: seen.counts == (7, 0) and not uids(before, row="1") & seen.uids)
    assert uids(before, clique="w-0-a") | uids(before, clique="w-0-sg-0-b") <= seen.uids


# floors ---------------------------------------------------------------------------------------------------------------


async def test_minimums_come_before_extras_and_no_gang_is_taken_in_part(site: GroveSite) -> None:
    """A base of two and two of thirteen pods, then two scaled gangs of two, then extras."""
    nodes = await site.add_nodes(13)
    await site.cordon(nodes[3:])
    cliques = [clique("a", 4, 2), clique("b", 3, 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 3)]))
    seen = await site.until_counts(0, 13)
    assert seen.gated == 6
    await site.uncordon(nodes[3:4])
    seen = await site.until_counts(4, 9)
    assert seen.bound == {"w-0-a": 2, "w-0-sg-0-b": 2}
    assert seen.gated == 0
    await site.uncordon(nodes[4:5])
    seen = await site.until_counts(5, 8)
    assert {name: seen.bound.get(name, 0) for name in ("w-0-sg-1-b", "w-0-sg-2-b")} == {
        "w-0-sg-1-b": 0,
        "w-0-sg-2-b": 0,
    }
    await site.uncordon(nodes[5:])
    await site.until_counts(13, 0)


# gates ----------------------------------------------------------------------------------------------------------------


async def test_a_base_that_never_gets_ready_lets_two_scaled_gangs_go(cluster: Cluster) -> None:
    async with fresh(cluster).open(NEVER_READY) as site:
        await site.add_nodes(8)
        cliques = [clique("a", 2), clique("b", 2), clique("c", 1)]
        groups = [group("s", ["b"], 2), group("t", ["c"], 2)]
        await site.submit(pod_clique_set("w", cliques, groups))
        seen = await site.until(lambda seen: sum(seen.bound.values()) == 8)
        assert (seen.ready, seen.gated) == (0, 0)


async def test_a_base_short_of_one_pod_in_one_of_two_groups_keeps_all_gates(site: GroveSite) -> None:
    await site.add_nodes(4)
    cliques = [clique("a", 2), clique("b", 2), clique("c", 1)]
    groups = [group("s", ["b"], 3), group("t", ["c"], 2)]
    await site.submit(pod_clique_set("w", cliques, groups))
    seen = await site.until_counts(0, 10)
    assert seen.gated == 5
    await site.add_nodes(1)
    seen = await site.until_counts(5, 5)
    assert seen.gated == 0
    assert {*seen.bound} == {"w-0-a", "w-0-s-0-b", "w-0-t-0-c"}
    await site.add_nodes(1)
    seen = await site.until_counts(6, 4)
    assert seen.bound["w-0-t-1-c"] == 1, "the gang of one does not wait for those of two"
    await site.add_nodes(3)
    await site.until_counts(8, 2)
    await site.add_nodes(1)
    await site.until_counts(10, 0)


# two sets -------------------------------------------------------------------------------------------------------------


async def test_of_two_sets_one_starts_whole_and_the_other_follows_it(site: GroveSite) -> None:
    await site.add_nodes(6)
    for name in ("first", "other"):
        await site.submit(pod_clique_set(name, [clique("a", 2), clique("b", 2)]))
    seen = await site.until_counts(4, 4)
    running = {raw["metadata"]["labels"][names.PART_OF] for raw in seen.pods if raw["spec"].get("nodeName")}
    assert len(running) == 1
    await site.delete(POD_CLIQUE_SETS, running.pop())
    await site.until_counts(4, 0)


# status ---------------------------------------------------------------------------------------------------------------


async def test_statuses_count_what_is_gated_scheduled_ready_and_available(site: GroveSite) -> None:
    await site.add_nodes(4)
    cliques = [clique("a", 3, 2), clique("b", 2)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b"], 3)]))
    await site.until_counts(4, 5)
    await site.scale(POD_CLIQUE_SETS, "w", 2)
    await site.until_counts(4, 14)

    def status(seen: GroveSeen, kind: Any, name: str) -> dict[str, Any]:
        return dict(seen[kind][name]["status"])

    def tells(seen: GroveSeen) -> bool:
        numbers = ("replicas", "readyReplicas", "scheduledReplicas", "scheduleGatedReplicas")
        cliques = {
            name: tuple(status(seen, POD_CLIQUES, name).get(number, 0) for number in numbers)
            for name in ("w-0-a", "w-0-sg-0-b", "w-0-sg-2-b", "w-1-a", "w-1-sg-1-b")
        }
        groups = {
            name: tuple(
                status(seen, POD_CLIQUE_SCALING_GROUPS, name).get(number, 0)
                for number in ("replicas", "scheduledReplicas", "availableReplicas")
            )
            for name in ("w-0-sg", "w-1-sg")
        }
        pcs = status(seen, POD_CLIQUE_SETS, "w")
        return (
            cliques
            == {
                "w-0-a": (3, 2, 2, 0),
                "w-0-sg-0-b": (2, 2, 2, 0),
                "w-0-sg-2-b": (2, 0, 0, 0),
                "w-1-a": (3, 0, 0, 0),
                "w-1-sg-1-b": (2, 0, 0, 2),
            }
            and groups == {"w-0-sg": (3, 1, 1), "w-1-sg": (3, 0, 0)}
            and (pcs.get("replicas"), pcs.get("availableReplicas", 0)) == (2, 1)
        )

    seen = await site.until(tells)
    phases = {name: raw["status"]["phase"] for name, raw in seen[POD_GANGS].items()}
    assert phases == {
        "w-0": "Running",
        "w-0-sg-0": "Pending",
        "w-0-sg-1": "Pending",
        "w-1": "Pending",
        "w-1-sg-0": "Pending",
        "w-1-sg-1": "Pending",
    }
