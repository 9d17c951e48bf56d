"""Two replicas with Grove's operator: only the leader writes, in its term, and the next one ends what it began (I9)."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.api.resources import POD_CLIQUE_SETS
from muster.cli.assemble.grove_operator import attach_operator
from muster.config.settings import GroveOperator
from muster.embedded.kubelet.kubelet import Kubelets
from muster.scheduler.loop import Scheduler
from tests.e2e.test_grove_faults import SCENARIOS, Story, a_set, quick, undisturbed
from tests.support.live.faults import WRITES, Call, Faulty
from tests.support.live.world import HABITS, HASTY, Live

__all__ = ["quick"]  # a fixture
MOST_WRITES = 200


class Term:
    """A lease that a test gives and takes."""

    def __init__(self) -> None:
        self.leading, self.term = False, 0

    @property
    def seconds_left(self) -> float:
        return math.inf if self.leading else 0.0

    def begin(self) -> None:
        self.leading, self.term = True, self.term + 1


class Replica:
    """One of the two: a scheduler with an operator, and what the operator has sent."""

    def __init__(self, story: Story) -> None:
        self.story, self.lease = story, Term()
        self.cluster = Faulty(story.world.memory, self._script)
        world = story.world
        self.scheduler = Scheduler(world.memory, HASTY, self.lease, lambda: world.seconds, world.time.now)
        operator = attach_operator(GroveOperator(), self.cluster, self.scheduler)
        assert operator is not None
        self.operator = operator
        self.writes, self.loses_after, self.late = 0, 0, 0

    def _script(self, call: Call) -> None:
        if call.verb not in WRITES:
            return
        self.late += not self.lease.leading
        self.writes += 1
        if self.writes == self.loses_after:
            self.lease.leading = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Live]:
        tasks = [asyncio.create_task(part.run()) for part in (self.scheduler, self.operator)]
        live = Live(self.story.world, self.scheduler, tasks[0], operator=self.operator)
        try:
            yield live
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def lead(self) -> None:
        self.lease.begin()
        self.operator.lead()


async def has_lost(replica: Replica, live: Live) -> bool:
    """Whether it lost its lease before nothing was left to do."""
    settled = asyncio.create_task(live.settle())
    while replica.lease.leading and not settled.done():
        await asyncio.sleep(0.001)
    settled.cancel()
    await asyncio.gather(settled, return_exceptions=True)
    return not replica.lease.leading


@pytest.mark.parametrize("scenario", ["create", "update"])
async def test_a_leader_that_lost_its_lease_writes_nothing_and_the_next_ends_its_work(scenario: str) -> None:
    """I9: the lease ends with the n-th write, for many n; what was decided before it is not written after it."""
    expected = await asyncio.to_thread(undisturbed, scenario)
    for number in range(1, MOST_WRITES, 3):
        story = Story(scenario)
        if not await hand_over(story, number):
            break
        assert story.wrong() == [], f"after {number} writes"
        assert story.end() == expected.end(), f"after {number} writes"
    assert number > 20


async def hand_over(story: Story, number: int) -> bool:
    """Whether the first leader lost its lease before it was done; the second has done the rest."""
    story.world.create(POD_CLIQUE_SETS, a_set())
    if story.scenario != "create":
        await story.live(lambda _: None)
        SCENARIOS[story.scenario](story)
    old, new = Replica(story), Replica(story)
    async with (
        Kubelets(story.world.memory, story.world.time, HABITS).running(),
        old.running() as first,
        new.running() as second,
    ):
        old.loses_after = number
        old.lead()
        if not await has_lost(old, first):
            return False
        new.lead()
        await second.settle()
        assert old.late == 0, f"{old.late} writes after the lease was lost"
        assert old.writes >= number
    return True
