"""Grove's own end-to-end scenarios of termination (GT-1 to GT-6) and updates (RU-7 to RU-21).

The same shapes, steps and numbers; its delay of 10 seconds is one second here. `strict` is its workload1, `flexible`
its workload2. Where upstream waits and then looks, a test looks as long as the delay and half of it again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import GroveSeen, GroveSite, clique, flexible, fresh, group, pod_clique_set, strict
from tests.e2e.site import is_ready
from tests.e2e.test_grove_upstream import both, cluster, embedded

__all__ = ["cluster"]  # a fixture
DELAY: dict[str, Any] = {"template": {"terminationDelay": "1s"}}
LONGER_SECONDS = 1.5  # than the delay


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


def uids(seen: GroveSeen, **labels: str) -> set[str]:
    """Pods with a clique, or a replica of a group."""
    keys = {"clique": names.POD_CLIQUE, "replica": names.SCALING_GROUP_REPLICA}
    wanted = {keys[name]: value for name, value in labels.items()}
    return {raw["metadata"]["uid"] for raw in seen.pods if wanted.items() <= raw["metadata"]["labels"].items()}


# termination ----------------------------------------------------------------------------------------------------------


class Killer:
    """Cordons the nodes of ready pods of a clique, and deletes the pods."""

    def __init__(self, site: GroveSite) -> None:
        self.site = site
        self.cordoned: list[str] = []

    async def kill(self, clique_name: str, number: int) -> set[str]:
        """The pods that are left alone."""
        seen = await self.site.seen()
        own = [raw for raw in seen.pods if raw["metadata"]["labels"][names.POD_CLIQUE] == clique_name]
        ready = list(filter(is_ready, own))[:number]
        assert len(ready) == number, seen
        nodes = [raw["spec"]["nodeName"] for raw in ready]
        self.cordoned += nodes
        await self.site.cordon(nodes)
        for raw in ready:
            await self.site.delete(PODS, raw["metadata"]["name"])
        return seen.uids - {raw["metadata"]["uid"] for raw in ready}

    async def recovers(self) -> None:
        await self.site.uncordon(self.cordoned)
        await self.site.until(lambda seen: seen.ready == 10)


async def all_are_recreated(site: GroveSite, before: set[str]) -> None:
    await site.until(lambda seen: len(seen.pods) == 10 and not seen.uids & before)


@both
@pytest.mark.parametrize("target", ["w-0-a", "w-0-sg-0-c"])
async def test_gt_1_and_2_a_lost_pod_that_is_needed_recreates_the_replica_of_the_set(
    site: GroveSite, target: str
) -> None:
    await site.add_nodes(10)
    await site.submit(strict(**DELAY))
    before = (await site.until_counts(10, 0)).uids
    killer = Killer(site)
    await killer.kill(target, 1)
    await all_are_recreated(site, before)
    await killer.recovers()


@embedded
async def test_gt_3_a_standalone_clique_is_terminated_only_below_its_minimum(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(flexible(**DELAY))
    await site.until_counts(10, 0)
    killer = Killer(site)
    survivors = await killer.kill("w-0-a", 1)
    await site.until(lambda seen: seen.counts == (9, 1))
    await site.stays(lambda seen: survivors <= seen.uids and seen.counts == (9, 1), LONGER_SECONDS)
    before = (await site.seen()).uids
    await killer.kill("w-0-a", 1)
    await all_are_recreated(site, before)
    await killer.recovers()


@both
async def test_gt_4_a_group_is_terminated_replica_by_replica_and_then_with_the_set(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(flexible(**DELAY))
    await site.until_counts(10, 0)
    killer = Killer(site)
    survivors = await killer.kill("w-0-sg-0-c", 1)
    await site.until(lambda seen: seen.counts == (9, 1))
    before = await site.stays(lambda seen: survivors <= seen.uids and seen.counts == (9, 1), LONGER_SECONDS)
    await killer.kill("w-0-sg-0-c", 2)
    first = uids(before, replica="0")
    seen = await site.until(lambda seen: len(uids(seen, replica="0")) == 4 and not uids(seen, replica="0") & first)
    assert before.uids - first <= seen.uids
    await killer.kill("w-0-sg-1-c", 1)
    standalone = uids(before, clique="w-0-a")
    await site.until(lambda seen: seen.counts[0] == 5)
    await site.stays(lambda seen: standalone <= seen.uids and seen.counts == (5, 5), LONGER_SECONDS)
    last = (await site.seen()).uids
    await killer.kill("w-0-sg-1-c", 2)
    await all_are_recreated(site, last)
    await killer.recovers()


@embedded
async def test_gt_5_a_replica_of_a_group_is_terminated_alone(site: GroveSite) -> None:
    await site.add_nodes(10)
    cliques = [clique("a", 2, 1), clique("b", 1, 1), clique("c", 3, 3)]
    await site.submit(pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2, 1)], **DELAY))
    before = await site.until_counts(10, 0)
    killer = Killer(site)
    await killer.kill("w-0-sg-0-c", 3)
    first = uids(before, replica="0")
    seen = await site.until(lambda seen: len(uids(seen, replica="0")) == 4 and not uids(seen, replica="0") & first)
    assert before.uids - first <= seen.uids
    await killer.recovers()


@embedded
async def test_gt_6_a_lost_pod_of_a_scaled_gang_above_its_minimum_terminates_nothing(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(flexible(**DELAY))
    await site.until_counts(10, 0)
    killer = Killer(site)
    survivors = await killer.kill("w-0-sg-1-c", 1)
    await site.until(lambda seen: seen.counts == (9, 1))
    await site.stays(lambda seen: survivors <= seen.uids and seen.counts == (9, 1), LONGER_SECONDS)
    await killer.recovers()


# updates --------------------------------------------------------------------------------------------------------------


async def change(site: GroveSite, *cliques: str) -> None:
    for name in cliques:
        await site.change_image("w", name, "none:2")


def is_updated(replicas: int) -> Callable[[GroveSeen], bool]:
    def test(seen: GroveSeen) -> bool:
        status = seen[POD_CLIQUE_SETS]["w"]["status"]
        is_done = status.get("updatedReplicas", 0) == replicas and status.get("updateProgress", {}).get("updateEndedAt")
        return bool(is_done) and not seen.counts[1]

    return test


async def history(site: GroveSite, replicas: int) -> list[GroveSeen]:
    """What was there until the update was over."""
    watched = [await site.seen()]
    while not is_updated(replicas)(watched[-1]):
        assert len(watched) < 5000, f"the update does not end{watched[-1]}"
        await asyncio.sleep(0.005)
        watched.append(await site.seen())
    return watched


def most_missing(watched: list[GroveSeen], label: str, full: int) -> int:
    """How many domains of a label lacked ready pods at a time."""
    return max(
        sum(count < full for count in _ready_by(seen, label).values()) + len(_gone(watched[0], seen, label))
        for seen in watched
    )


def _ready_by(seen: GroveSeen, label: str) -> dict[str, int]:
    own = [raw for raw in seen.pods if label in raw["metadata"]["labels"]]
    values = {raw["metadata"]["labels"][label] for raw in own}
    return {value: sum(is_ready(raw) for raw in own if raw["metadata"]["labels"][label] == value) for value in values}


def _gone(first: GroveSeen, seen: GroveSeen, label: str) -> set[str]:
    return _ready_by(first, label).keys() - _ready_by(seen, label).keys()


@embedded
async def test_ru_7_one_pod_of_a_standalone_clique_is_replaced_at_a_time(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    await change(site, "a")
    watched = await history(site, 1)
    assert min(_ready_by(seen, names.POD_CLIQUE).get("w-0-a", 0) for seen in watched) >= 1
    assert not uids(watched[-1], clique="w-0-a") & before.uids
    assert len(watched[-1].uids & before.uids) == 8


@embedded
async def test_ru_8_one_replica_of_a_group_is_replaced_at_a_time(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    await change(site, "b")
    watched = await history(site, 1)
    assert most_missing(watched, names.SCALING_GROUP_REPLICA, 4) <= 1
    assert watched[-1].uids & before.uids == uids(before, clique="w-0-a")


@both
async def test_ru_9_all_cliques_are_updated_one_pod_and_one_replica_at_a_time(site: GroveSite) -> None:
    await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    await change(site, "a", "b", "c")
    watched = await history(site, 1)
    assert most_missing(watched, names.SCALING_GROUP_REPLICA, 4) <= 1
    assert min(_ready_by(seen, names.POD_CLIQUE).get("w-0-a", 0) for seen in watched) >= 1
    assert not watched[-1].uids & before.uids


@embedded
async def test_ru_10_without_nodes_an_update_stops_after_its_first_pod(site: GroveSite) -> None:
    nodes = await site.add_nodes(10)
    await site.submit(strict())
    before = await site.until_counts(10, 0)
    await site.cordon(nodes)
    await change(site, "a")
    await site.until(lambda seen: seen.counts == (9, 1))
    seen = await site.stays(lambda seen: seen.counts == (9, 1), 1.0)
    assert len(before.uids & seen.uids) == 9
    await site.uncordon(nodes)
    await site.until(is_updated(1))


async def two_replicas(site: GroveSite, nodes: int, replicas: int = 2) -> GroveSeen:
    """Twenty pods, or so many replicas of the group more."""
    await site.add_nodes(nodes)
    await site.submit(strict())
    await site.until_counts(10, 0)
    await site.scale(POD_CLIQUE_SETS, "w", 2)
    seen = await site.until_counts(20, 0)
    if replicas != 2:
        await scale_groups(site, replicas)
        seen = await site.until_counts(20 + 8 * (replicas - 2), 0)
    return seen


async def scale_groups(site: GroveSite, replicas: int) -> None:
    for index in (0, 1):
        await site.scale(POD_CLIQUE_SCALING_GROUPS, f"w-{index}-sg", replicas)


async def scale_cliques(site: GroveSite, replicas: int) -> None:
    for index in (0, 1):
        await site.scale(POD_CLIQUES, f"w-{index}-a", replicas)


def images(seen: GroveSeen) -> set[str]:
    return {raw["spec"]["containers"][0]["image"] for raw in seen.pods}


@embedded
async def test_ru_11_a_replica_that_is_added_during_an_update_has_the_latest_template(site: GroveSite) -> None:
    await two_replicas(site, 30)
    await change(site, "a")
    await site.scale(POD_CLIQUE_SETS, "w", 3)
    seen = await site.until(lambda seen: len(seen.pods) == 30 and is_updated(3)(seen))
    added = [raw for raw in seen.pods if raw["metadata"]["labels"][names.POD_CLIQUE] == "w-2-a"]
    assert {raw["spec"]["containers"][0]["image"] for raw in added} == {"none:2"}


@embedded
@pytest.mark.parametrize("is_updating", [True, False], ids=["ru_12", "ru_13"])
async def test_ru_12_and_13_a_replica_may_be_removed_while_it_is_updated_or_afterwards(
    site: GroveSite, is_updating: bool
) -> None:
    await two_replicas(site, 30)
    await change(site, "a", "b", "c")
    if is_updating:
        await site.until(lambda seen: bool(_updating(seen)))
    else:
        await site.until(is_updated(2))
    await site.scale(POD_CLIQUE_SETS, "w", 1)
    seen = await site.until(lambda seen: len(seen.pods) == 10 and is_updated(1)(seen))
    assert images(seen) == {"none:2"}


def _updating(seen: GroveSeen) -> list[Raw]:
    return list(seen[POD_CLIQUE_SETS]["w"]["status"].get("updateProgress", {}).get("currentlyUpdating") or ())


@embedded
@pytest.mark.parametrize("is_before", [False, True], ids=["ru_14", "ru_15"])
async def test_ru_14_and_15_a_group_may_grow_during_or_before_its_update(site: GroveSite, is_before: bool) -> None:
    """Both are flaky upstream."""
    await two_replicas(site, 28)
    for step in (scale_groups, change) if is_before else (change, scale_groups):
        await (scale_groups(site, 3) if step is scale_groups else change(site, "a", "b", "c"))
    seen = await site.until(lambda seen: len(seen.pods) == 28 and is_updated(2)(seen))
    assert images(seen) == {"none:2"}


@embedded
@pytest.mark.parametrize("is_before", [False, True], ids=["ru_16", "ru_17"])
async def test_ru_16_and_17_a_group_may_shrink_during_or_before_its_update(site: GroveSite, is_before: bool) -> None:
    """The latter is flaky upstream."""
    await two_replicas(site, 28, replicas=3)
    for step in (scale_groups, change) if is_before else (change, scale_groups):
        await (scale_groups(site, 2) if step is scale_groups else change(site, "a", "b", "c"))
    seen = await site.until(lambda seen: len(seen.pods) == 20 and is_updated(2)(seen))
    assert images(seen) == {"none:2"}


@embedded
@pytest.mark.parametrize("is_before", [False, True], ids=["ru_18", "ru_19"])
async def test_ru_18_and_19_a_clique_may_grow_during_or_before_its_update(site: GroveSite, is_before: bool) -> None:
    await two_replicas(site, 24)
    for step in (scale_cliques, change) if is_before else (change, scale_cliques):
        await (scale_cliques(site, 4) if step is scale_cliques else change(site, "a", "b", "c"))
    seen = await site.until(lambda seen: len(seen.pods) == 24 and is_updated(2)(seen))
    assert images(seen) == {"none:2"}


@embedded
@pytest.mark.parametrize("is_before", [False, True], ids=["ru_20", "ru_21"])
async def test_ru_20_and_21_a_clique_may_shrink_during_or_before_its_update(site: GroveSite, is_before: bool) -> None:
    """The latter is flaky upstream."""
    await two_replicas(site, 22)
    await scale_cliques(site, 3)
    await site.until_counts(22, 0)
    for step in (scale_cliques, change) if is_before else (change, scale_cliques):
        await (scale_cliques(site, 2) if step is scale_cliques else change(site, "a", "b", "c"))
    seen = await site.until(lambda seen: len(seen.pods) == 20 and is_updated(2)(seen))
    assert images(seen) == {"none:2"}
