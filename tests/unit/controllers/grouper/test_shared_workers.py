"""Large gangs and kinds that cannot be listed: other pods are served, and waiting ones say why."""

import asyncio

import pytest

from muster.api.resources import JOBS
from muster.controllers.grouper import grouper
from tests.support.live.faults import Faulty
from tests.support.live.grouping import GroupingWorld


class Slow(Faulty):
    """Every write takes a moment."""

    async def patch(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.005)
        return await super().patch(*args, **kwargs)


async def test_a_small_gang_does_not_wait_for_forty_large_ones() -> None:
    """There are fewer workers than large gangs: each gives its worker back after some pods."""
    world = GroupingWorld()
    minimum = {"kai.scheduler/batch-min-member": "1"}
    for number in range(40):
        owner = world.create(JOBS, f"large-{number}", annotations=minimum)
        for index in range(150):
            world.pod(f"large-{number}-{index}", owner)
    small = world.create(JOBS, "small", annotations=minimum)
    cluster = Slow(world.memory)
    async with world.grouping(cluster) as live:
        await live.until(lambda: len(cluster.log) > 200, 60)
        world.pod("small-0", small)
        await live.until(lambda: world.group_of("small-0"), 60)
        assert len(cluster.writes()) < 3500, "of about 6,000: 32 workers would write 4,800 for the first 32 gangs"
        await live.until(lambda: len(world.groups()) == 41 and live.grouper.is_settled, 120)
    assert all(group for group, _ in world.membership().values())


async def test_a_pod_whose_owners_cannot_be_listed_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouper, "UNREAD_SECONDS", 0.1)
    world = GroupingWorld()
    world.pod("train-0", world.create(JOBS, "train"))
    world.pod("alone")
    cluster = Faulty(world.memory, lambda call: "broken" if "jobs" in call.what else None)
    async with world.grouping(cluster) as live:
        await live.until(lambda: world.group_of("alone"))
        await live.until(lambda: "etcd has no leader" in world.events("train-0").get("OwnerNotRead", ""))
