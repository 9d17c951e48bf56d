"""The live loop under faults on a real API server: its answers and its watches, on which things go wrong by a script.

The same as `test_faults`, with a smaller story and fewer of them, as each takes a second or two: by default every 7th
call is one to crash at, and some seeds are tried; nightly it is every call and many more.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from muster.kube.cache import reflector
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.scheduler.apply import pod_api
from tests.e2e.site import Seen, Site, fresh
from tests.support.apiserver.apiserver import ApiServer
from tests.support.live.faults import Call, Fault, Faulty, Script, crash_at, seeded
from tests.support.live.objects import group, leaf

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
STRIDE = 1 if NIGHTLY else 7
SEEDS = 300 if NIGHTLY else 6
KINDS: tuple[Fault, ...] = ("conflict", "busy", "broken", "lost", "unanswered")
OF_WATCHES: tuple[Fault, ...] = ("cut", "reset", "expired", "twice", "late")

NESTED = group("nested", preemptibility="semi-preemptible", subGroups=[leaf("w", 2, rack=True)])
ELASTIC = group("elastic", minMember=1, priorityClassName="low", preemptibility="semi-preemptible")
URGENT = group("urgent", minMember=2, priorityClassName="high", preemptibility="preemptible")
WELL = {"nested": 2, "elastic": 2, "urgent": 2}  # where it ends


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers that do not rest for long."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    yield client
    await client.close()


class Story:
    """Two gangs fill three nodes, one of them with three extras; then a third needs the room of two of these."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.lives: list[Faulty] = []

    async def run(self, *scripts: Script) -> None:
        """Each script is one process' life; where one has crashed, the next begins; the last has no faults."""
        for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2")):
            await self.site.node(name, rack)
        await self.site.submit(NESTED, {"w": 2})
        await self.site.submit(ELASTIC, {"": 4})
        urgent = False
        for script in [*scripts, lambda _: None]:
            self.lives.append(Faulty(self.site.cluster, script))
            async with self.site.scheduling(self.lives[-1], idle_cycle_seconds=0) as process:
                while await process.settle():
                    if urgent:
                        return
                    await self.site.submit(URGENT, {"": 2})
                    urgent = True
        raise AssertionError("the last life had no faults and crashed")

    async def ends_well(self) -> None:
        """I1-I5 at every moment; and in the end every gang that can run does, and none in part."""
        seen = await self.site.seen()
        await self.site.judged()
        assert self.site.judge.halves() == []
        assert sizes(seen) == WELL
        assert all(seen.running(gang) for gang in WELL), {gang: seen.status(gang) for gang in WELL}

    @property
    def log(self) -> list[str]:
        return [line for life in self.lives for line in life.log]


def sizes(seen: Seen) -> dict[str, int]:
    return {gang: len(seen.seats(gang)) for gang in WELL}


@asynccontextmanager
async def played(cluster: Cluster, *scripts: Script) -> AsyncIterator[Story]:
    """A story that was played to its end."""
    async with fresh(cluster).open() as site:
        story = Story(site)
        await story.run(*scripts)
        await story.ends_well()
        yield story


async def test_without_faults_the_story_ends_well(cluster: Cluster) -> None:
    """P6: exactly the two extras that it takes are evicted."""
    async with played(cluster) as story:
        assert sorted(story.site.judge.evicted.values()) == ["elastic-2", "elastic-3"]
        assert len([line for line in story.log if line.startswith("bind")]) == 8


async def test_a_crash_at_any_call_ends_in_the_same_place(cluster: Cluster) -> None:
    """I8: the process dies right before its n-th call, and another takes over; no pod is evicted in vain (I6)."""
    calls = 0
    for number in count(1, STRIDE):
        async with played(cluster, crash_at(number)) as story:
            assert len(story.site.judge.evicted) == 2, f"crash at call {number}: {story.log[number - 1]}"
            calls = max(calls, number)
            if len(story.lives) == 1:
                break  # it ended well before so many calls
    assert calls > 40


@pytest.mark.parametrize("verb", ["bind", "evict"])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_fault_of_a_decision_is_overcome(cluster: Cluster, kind: Fault, verb: str) -> None:
    """Every first binding, or every first eviction, of each pod goes wrong in this way."""

    def script(call: Call) -> Fault | None:
        return kind if call.verb == verb and call.again == 0 else None

    async with played(cluster, script) as story:
        assert [line for line in story.log if line.startswith(verb) and line.endswith(kind)]


@pytest.mark.parametrize("kind", OF_WATCHES)
async def test_each_fault_of_a_watch_is_overcome(cluster: Cluster, kind: Fault) -> None:
    """Every third event comes late or twice, or the watch ends with it, or cannot be taken up again."""
    numbers = count()
    hit = 0

    def script(call: Call) -> Fault | None:
        nonlocal hit
        if call.verb != "event" or next(numbers) % 3:
            return None
        hit += 1
        return kind

    async with played(cluster, script):
        assert hit > 5


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_any_trouble_is_overcome(cluster: Cluster, seed: int) -> None:
    """I1-I8 under conflicts, 429, 500, lost calls, lost answers, crashes, and events late, twice or cut off."""
    async with played(cluster, *(seeded(3 * seed + i) for i in range(3))):
        pass
