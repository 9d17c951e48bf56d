"""Orders in any order of answers, with some that never come: cores before extras, nobody twice, nobody forgotten."""

import asyncio
from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.control.crew import Answer, Crew

GANGS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6)  # core, extras of each


class Job:
    """One order, and what became of it."""

    rest_seconds = 0.002

    def __init__(self, cluster: "Cluster", whose: str, first: bool, name: str) -> None:
        self.cluster, self.whose, self.first, self.name = cluster, whose, first, name
        self.sent = self.kept = self.dropped = 0
        self.doubted = False
        self.good: bool | None = None

    async def send(self) -> Answer:
        self.sent += 1
        answer = await self.cluster.answer(self)
        self.good = None if answer is Answer.DOUBT else answer is Answer.YES
        return answer

    def keep(self) -> None:
        self.kept += 1

    def drop(self) -> None:
        self.dropped += 1


class Cluster:
    """Answers in random order, says no to some, and to some nothing until it is told to."""

    def __init__(self, dice: Random, refuses: float = 0.0, hangs: float = 0.0, doubts: float = 0.0) -> None:
        self.dice, self.refuses, self.hangs, self.doubts = dice, refuses, hangs, doubts
        self.go = asyncio.Event()
        self.now = self.most = 0
        self.turn = 0
        self.sent: list[Job] = []
        self.failed: dict[str, int] = {}  # gangs whose core was refused, and in which turn
        self.after_failure: Counter[str] = Counter()  # sent in the turn in which the core of their gang had failed
        self.wrong: list[str] = []
        self.jobs: dict[str, list[Job]] = defaultdict(list)

    def gang(self, whose: str, core: int, extras: int) -> list[Job]:
        number = len(self.jobs[whose])
        made = [Job(self, whose, i < core, f"{whose}-{number + i}") for i in range(core + extras)]
        self.jobs[whose] += made
        return made

    async def answer(self, job: Job) -> Answer:
        self.after_failure[job.whose] += self.failed.get(job.whose) == self.turn
        if job.sent == 1 and any(one is not job and one.doubted for one in self.jobs[job.whose]):
            self.wrong.append(f"{job.name} is sent while another one of its gang is in doubt")
        if not job.first and any(one.first and one.sent and one.good is None for one in self.jobs[job.whose]):
            self.wrong.append(f"{job.name} is sent before its core is bound")
        self.sent.append(job)
        self.now += 1
        self.most = max(self.most, self.now)
        if self.dice.random() < self.hangs:
            await self.go.wait()
        for _ in range(self.dice.randint(0, 4)):
            await asyncio.sleep(0)
        self.now -= 1
        if self.dice.random() < self.doubts:
            asyncio.get_running_loop().call_later(0.0002, setattr, job, "doubted", True)  # others are about to be sent
            return Answer.DOUBT
        job.doubted = False
        good = self.dice.random() >= self.refuses
        if job.first and not good:
            self.failed[job.whose] = self.turn
        return Answer.YES if good else Answer.NO


@settings(max_examples=300)
@given(GANGS, st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**32).map(Random))
def test_any_order_of_answers(gangs: list[tuple[int, int]], at_once: int, refuses: float, dice: Random) -> None:
    cluster = asyncio.run(_one_turn(gangs, at_once, Cluster(dice, refuses)))
    assert cluster.wrong == []
    assert max(cluster.after_failure.values(), default=0) < at_once, "only what was on its way already"
    assert cluster.most <= at_once
    for whose, jobs in cluster.jobs.items():
        assert {job.sent for job in jobs} <= {0, 1}, "nobody twice"
        if whose not in cluster.failed:
            assert all(job.sent for job in jobs), "nobody forgotten"


async def _one_turn(gangs: list[tuple[int, int]], at_once: int, cluster: Cluster) -> Cluster:
    crew = Crew(at_once)
    crew.open()
    for i, (core, extras) in enumerate(gangs):
        every = cluster.gang(f"g{i}", core, extras)
        cut = cluster.dice.randint(core, len(every))  # later grants bring more extras
        crew.add(every[:cut])
        await asyncio.sleep(0)
        crew.add(every[cut:])
    crew.finish()
    await crew.settle(5.0)
    assert crew.at_rest
    return cluster


@settings(max_examples=150, deadline=None)
@given(
    st.lists(GANGS, min_size=2, max_size=4),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(0, 2**32).map(Random),
)
def test_any_number_of_turns_with_answers_that_do_not_come(
    turns: list[list[tuple[int, int]]], at_once: int, refuses: float, hangs: float, doubts: float, dice: Random
) -> None:
    """What was begun is carried on or given up as a whole; what was not is never sent after its turn."""
    asyncio.run(_turns(turns, at_once, Cluster(dice, refuses, hangs, doubts)))


async def _turns(turns: list[list[tuple[int, int]]], at_once: int, cluster: Cluster) -> None:
    dice, doubts = cluster.dice, cluster.doubts
    crew = Crew(at_once)
    left: list[Job] = []  # to the next plan
    for cluster.turn, gangs in enumerate(turns, 1):
        crew.open()
        mine = [job for i, (core, extras) in enumerate(gangs) for job in cluster.gang(f"g{i}", core, extras)]
        dice.shuffle(gangs)
        crew.add(mine, urgent=dice.random() < 0.3)
        crew.finish()
        await crew.settle(0.002)
        left += [job for job in mine if not job.sent and not job.kept]
    cluster.go.set()
    cluster.doubts = min(doubts, 0.3)
    async with asyncio.timeout(5):
        while not crew.at_rest:
            await asyncio.sleep(0.0002)
    every = [job for jobs in cluster.jobs.values() for job in jobs]
    assert cluster.wrong == []
    assert cluster.most <= at_once
    assert not any(job.sent for job in left), "what its turn did not begin is forgotten"
    assert all(job.sent <= 1 for job in every if not doubts), "nobody twice, but after doubt"
    assert crew.doubtful == frozenset()
    assert all(job.good is not None for job in every if job.sent), "all doubt is settled"
    assert all(job.kept <= 1 and job.dropped <= job.kept for job in every)
    assert all(bool(job.sent) + job.dropped == 1 for job in every if job.kept), "sent or dropped, never both"
    for whose, jobs in cluster.jobs.items():
        if whose not in cluster.failed:
            assert not any(job.dropped for job in jobs)


async def test_a_late_gang_does_not_hold_up_the_next_turn() -> None:
    """Nor does it take more than its half of the places."""
    cluster = Cluster(Random(0), hangs=1.0)
    crew = Crew(4)
    crew.open()
    crew.add(cluster.gang("stuck", 6, 2))
    await crew.settle(0.01)
    cluster.hangs = 0.0
    crew.open()
    others = cluster.gang("other", 3, 3)
    crew.add(others)
    crew.finish()
    async with asyncio.timeout(1):
        await crew.settle(60.0)
    assert all(job.good for job in others)
    await crew.stop()
    assert crew.at_rest


async def test_while_one_is_in_doubt_the_rest_of_its_gang_waits_and_nobody_else() -> None:
    """Extras would run without their core (G1), and more of the core may have to be undone."""
    cluster = Cluster(Random(0), doubts=1.0)
    crew = Crew(2)
    crew.open()
    for job in cluster.gang("g", 4, 2):
        job.rest_seconds = 3600
    crew.add(cluster.jobs["g"])
    await asyncio.sleep(0.001)
    cluster.doubts = 0.0
    others = cluster.gang("h", 2, 2)
    crew.add(others)
    crew.finish()
    async with asyncio.timeout(1):
        await crew.settle(60.0)
    assert all(job.good for job in others)
    assert crew.doubtful == {"g"}
    assert not crew.at_rest
    assert sum(bool(job.sent) for job in cluster.jobs["g"]) <= 2
    await crew.stop()


async def test_a_gang_of_which_one_failed_and_one_hangs_may_try_again_in_the_next_turn() -> None:
    cluster = Cluster(Random(0), hangs=1.0)
    crew = Crew(4)
    crew.open()
    crew.add(cluster.gang("g", 1, 0))
    await asyncio.sleep(0)
    cluster.hangs, cluster.refuses = 0.0, 1.0
    crew.add(cluster.gang("g", 1, 0))
    await crew.settle(0.01)
    assert [job.good for job in cluster.jobs["g"]] == [None, False]
    cluster.refuses = 0.0
    crew.open()
    crew.add(cluster.gang("g", 1, 0))
    crew.finish()
    async with asyncio.timeout(1):
        while [job.good for job in cluster.jobs["g"]] != [None, False, True]:
            await asyncio.sleep(0)
    await crew.stop()


@pytest.mark.parametrize("late", [False, True])
async def test_where_one_raises_nothing_more_is_sent(late: bool) -> None:
    """Neither from answers, nor from whoever still plans; the turn, or the next one, tells."""
    sent: list[str] = []

    class Bug(Job):
        async def send(self) -> Answer:
            sent.append(self.name)
            await asyncio.sleep(0.02 if late else 0)
            if self.name == "g0-0":
                raise RuntimeError("a bug")
            await asyncio.sleep(0.1)
            return Answer.YES

    def gang(whose: str) -> list[Job]:
        return [Bug(Cluster(Random(0)), whose, i < 2, f"{whose}-{i}") for i in range(4)]

    woken = asyncio.Event()
    crew = Crew(4, woken.set)
    crew.open()
    for whose in ("g0", "g1", "g2"):
        crew.add(gang(whose))
    if late:
        await crew.settle(0.005)
        await woken.wait()
        with pytest.raises(RuntimeError, match="a bug"):
            crew.open()
    else:
        await asyncio.sleep(0.002)
        crew.add(gang("g9"))
        with pytest.raises(RuntimeError, match="a bug"):
            await crew.settle(1.0)
        assert crew.at_rest
    await crew.stop()
    assert len(sent) <= 4
