"""Writes in any order of answers, with some that never come: cores before extras, none twice, none forgotten."""

import asyncio
from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.scheduler.apply.write_pool import WritePool
from muster.scheduler.apply.write_state import WriteResult

GANGS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6)  # core, extras of each


class Job:
    """One write, and what became of it."""

    rest_seconds = 0.001

    def __init__(self, cluster: "Cluster", owner: str, first: bool, name: str) -> None:
        self.cluster, self.owner, self.is_first, self.name = cluster, owner, first, name
        self.sent = self.reads = 0
        self.is_unconfirmed = False
        self.good: bool | None = None

    async def send(self) -> WriteResult:
        self.sent += 1
        return self._came(await self.cluster.answer(self))

    async def settle(self) -> WriteResult:
        result = WriteResult.UNCONFIRMED
        while result is WriteResult.UNCONFIRMED:
            await asyncio.sleep(self.rest_seconds)
            self.reads += 1
            result = self._came(self.cluster.fate(self))
        return result

    def _came(self, answer: WriteResult) -> WriteResult:
        self.is_unconfirmed = answer is WriteResult.UNCONFIRMED
        self.good = None if self.is_unconfirmed else answer is WriteResult.CONFIRMED
        return answer


class Cluster:
    """Answers in random order, refuses some, and does not answer some until `go` is set."""

    def __init__(self, dice: Random, refuses: float = 0.0, hangs: float = 0.0, unconfirmed: float = 0.0) -> None:
        self.dice, self.refuses, self.hangs, self.unconfirmed = dice, refuses, hangs, unconfirmed
        self.go = asyncio.Event()
        self.now = self.most = 0
        self.cycle = 0
        self.failed: dict[str, int] = {}  # gangs whose core was refused, and in which cycle
        self.after_failure: Counter[str] = Counter()  # sent in the cycle in which the core of their gang had failed
        self.wrong: list[str] = []
        self.jobs: dict[str, list[Job]] = defaultdict(list)

    def gang(self, owner: str, core: int, extras: int) -> list[Job]:
        number = len(self.jobs[owner])
        made = [Job(self, owner, i < core, f"{owner}-{number + i}") for i in range(core + extras)]
        self.jobs[owner] += made
        return made

    async def answer(self, job: Job) -> WriteResult:
        self.after_failure[job.owner] += self.failed.get(job.owner) == self.cycle
        others = [one for one in self.jobs[job.owner] if one is not job and one.sent and one.good is None]
        if not job.is_first and any(one.is_first for one in others):
            self.wrong.append(f"{job.name} is sent before its core is bound")
        self.now += 1
        self.most = max(self.most, self.now)
        if self.dice.random() < self.hangs:
            await self.go.wait()
        for _ in range(self.dice.randint(0, 4)):
            await asyncio.sleep(0)
        self.now -= 1
        return self.fate(job)

    def fate(self, job: Job) -> WriteResult:
        if self.dice.random() < self.unconfirmed:
            return WriteResult.UNCONFIRMED
        good = self.dice.random() >= self.refuses
        if job.is_first and not good:
            self.failed[job.owner] = self.cycle
        return WriteResult.CONFIRMED if good else WriteResult.REJECTED


@settings(max_examples=300)
@given(GANGS, st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**32).map(Random))
def test_any_order_of_answers(gangs: list[tuple[int, int]], at_once: int, refuses: float, dice: Random) -> None:
    cluster = asyncio.run(_one_cycle(gangs, at_once, Cluster(dice, refuses)))
    assert cluster.wrong == []
    assert max(cluster.after_failure.values(), default=0) < at_once, "only what was on its way already"
    assert cluster.most <= at_once
    for owner, jobs in cluster.jobs.items():
        assert {job.sent for job in jobs} <= {0, 1}, "none twice"
        if owner not in cluster.failed:
            assert all(job.sent for job in jobs), "none forgotten"


async def _one_cycle(gangs: list[tuple[int, int]], at_once: int, cluster: Cluster) -> Cluster:
    write_pool = WritePool(at_once)
    write_pool.begin_cycle()
    for i, (core, extras) in enumerate(gangs):
        every = cluster.gang(f"g{i}", core, extras)
        cut = cluster.dice.randint(core, len(every))  # later grants bring more extras
        write_pool.add(every[:cut])
        await asyncio.sleep(0)
        write_pool.add(every[cut:])
    assert await write_pool.end_cycle(5.0) == frozenset()
    assert write_pool.at_rest
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
def test_any_number_of_cycles_with_answers_that_do_not_come(
    cycles: list[list[tuple[int, int]]], at_once: int, refuses: float, hangs: float, unconfirmed: float, dice: Random
) -> None:
    """Nothing is sent after its cycle, or while a write of its gang is behind; all that was sent is settled."""
    asyncio.run(_cycles(cycles, at_once, Cluster(dice, refuses, hangs, unconfirmed)))


async def _cycles(cycles: list[list[tuple[int, int]]], at_once: int, cluster: Cluster) -> None:
    dice, write_pool = cluster.dice, WritePool(at_once)
    ended: set[str] = set()
    for cluster.cycle, gangs in enumerate(cycles, 1):
        write_pool.begin_cycle()
        behind = write_pool.unsettled
        mine = [job for i, (core, extras) in enumerate(gangs) for job in cluster.gang(f"g{i}", core, extras)]
        write_pool.add(mine, urgent=dice.random() < 0.3)
        unsent = await write_pool.end_cycle(0.002)
        assert not any(job.sent for job in mine if job.owner in behind & write_pool.unsettled)
        assert {job.owner for job in mine if not job.sent} <= unsent | cluster.failed.keys()
        ended |= {job.name for job in mine if not job.sent}
    cluster.go.set()
    cluster.unconfirmed = min(cluster.unconfirmed, 0.3)
    async with asyncio.timeout(5):
        while not write_pool.at_rest:
            await asyncio.sleep(0.0002)
    every = [job for jobs in cluster.jobs.values() for job in jobs]
    assert cluster.wrong == []
    assert cluster.most <= at_once + (at_once + 1) // 2 * len(cycles)
    assert not any(job.sent for job in every if job.name in ended), "what its cycle did not send is forgotten"
    assert all(job.sent <= 1 for job in every), "none twice"
    assert all(job.good is not None for job in every if job.sent), "all that was sent is settled"
    began = asyncio.get_running_loop().time()
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("fresh", 2, 1))
    cluster.hangs = cluster.refuses = cluster.unconfirmed = 0.0
    assert await write_pool.end_cycle(60.0) == frozenset()
    assert asyncio.get_running_loop().time() - began < 5.0, "no earlier write keeps a cycle waiting"


@pytest.mark.parametrize("stuck", [4, 8])
async def test_gangs_that_hang_do_not_hold_up_the_next_cycle(stuck: int) -> None:
    """However many of them: all together they hold no more than half of the slots."""
    cluster = Cluster(Random(0), hangs=1.0)
    write_pool = WritePool(4)
    write_pool.begin_cycle()
    for i in range(stuck):
        write_pool.add(cluster.gang(f"stuck{i}", 6, 2))
    unsent = await write_pool.end_cycle(0.01)
    assert unsent == {f"stuck{i}" for i in range(stuck)}
    cluster.hangs = 0.0
    write_pool.begin_cycle()
    others = cluster.gang("other", 3, 3)
    write_pool.add(others)
    async with asyncio.timeout(1):
        assert await write_pool.end_cycle(60.0) == frozenset()
    assert all(job.good for job in others)
    await write_pool.stop()


async def test_an_unconfirmed_write_holds_up_its_own_gang_and_no_other() -> None:
    """Extras would run without their core (G1), and what was decided grows old."""
    cluster, late = Cluster(Random(0), unconfirmed=1.0), list[bool]()
    write_pool = WritePool(2, late.append)
    write_pool.begin_cycle()
    for job in cluster.gang("g", 4, 2):
        job.rest_seconds = 0.2
    write_pool.add(cluster.jobs["g"])
    await asyncio.sleep(0.01)
    others = cluster.gang("h", 2, 2)
    cluster.unconfirmed = 0.0
    write_pool.add(others)
    async with asyncio.timeout(1):
        assert await write_pool.end_cycle(60.0) == {"g"}
    assert all(job.good for job in others)
    assert write_pool.unsettled == {"g"}
    sent = sum(job.sent for job in cluster.jobs["g"])
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("g", 2, 2))
    assert await write_pool.end_cycle(0.01) == {"g"}
    assert sum(job.sent for job in cluster.jobs["g"]) == sent <= 2
    async with asyncio.timeout(2):
        while not write_pool.at_rest:
            await asyncio.sleep(0.01)
    assert late == [True] * sent
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("g", 2, 2))
    assert await write_pool.end_cycle(1.0) == frozenset()


async def test_answers_to_earlier_writes_do_not_keep_a_cycle_open() -> None:
    """A write that stays unconfirmed is reported again and again."""
    cluster = Cluster(Random(0), hangs=1.0)
    write_pool = WritePool(4)
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("old", 2, 0))
    await write_pool.end_cycle(0.005)
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("new", 1, 0))
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()
    asyncio.get_running_loop().call_later(0.05, cluster.go.set)
    cluster.jobs["new"][0].cluster = Cluster(Random(0), hangs=1.0)
    assert await write_pool.end_cycle(0.01) == frozenset()
    assert asyncio.get_running_loop().time() - began < 0.05
    await write_pool.stop()


@pytest.mark.parametrize("late", [False, True])
async def test_where_one_raises_nothing_more_is_sent(late: bool) -> None:
    """Neither from answers, nor from a plan that is still made; this cycle or the next one raises the error."""
    sent: list[str] = []

    class Bug(Job):
        async def send(self) -> WriteResult:
            sent.append(self.name)
            await asyncio.sleep(0.02 if late else 0)
            if self.name == "g0-0":
                raise RuntimeError("a bug")
            await asyncio.sleep(0.1)
            return WriteResult.CONFIRMED

    def gang(owner: str) -> list[Job]:
        return [Bug(Cluster(Random(0)), owner, i < 2, f"{owner}-{i}") for i in range(4)]

    woken = asyncio.Event()
    write_pool = WritePool(4, lambda _: woken.set())
    write_pool.begin_cycle()
    for owner in ("g0", "g1", "g2"):
        write_pool.add(gang(owner))
    if late:
        await write_pool.end_cycle(0.005)
        await woken.wait()
        with pytest.raises(RuntimeError, match="a bug"):
            write_pool.begin_cycle()
    else:
        await asyncio.sleep(0.002)
        write_pool.add(gang("g9"))
        with pytest.raises(RuntimeError, match="a bug"):
            await write_pool.end_cycle(1.0)
    await write_pool.stop()
    assert len(sent) <= 4


async def test_cycles_that_hang_add_half_of_the_slots_each_and_no_more() -> None:
    """An API server that does not answer is not sent more and more at once."""
    cluster, write_pool = Cluster(Random(0), hangs=1.0), WritePool(4)
    for cycle in range(4):
        write_pool.begin_cycle()
        for i in range(6):
            write_pool.add(cluster.gang(f"g{cycle}-{i}", 1, 0))
        await write_pool.end_cycle(0.005)
    assert cluster.most == 4 + 2 + 2 + 2
    await write_pool.stop()


async def test_however_many_cycles_hang_the_requests_in_flight_are_bounded() -> None:
    """Four times the places; once answers come, everything that was sent is settled and new gangs are served."""
    cluster, write_pool = Cluster(Random(0), hangs=1.0), WritePool(4)
    for cycle in range(40):
        write_pool.begin_cycle()
        for i in range(6):
            write_pool.add(cluster.gang(f"g{cycle}-{i}", 1, 0))
        await write_pool.end_cycle(0.001)
    assert cluster.most == 4 * 4
    cluster.hangs = 0.0
    cluster.go.set()
    async with asyncio.timeout(5):
        while not write_pool.at_rest:
            await asyncio.sleep(0.0002)
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("fresh", 2, 1))
    assert await write_pool.end_cycle(60.0) == frozenset()
    await write_pool.stop()


async def test_an_urgent_write_is_sent_before_all_that_wait() -> None:
    """Evictions: it takes time until capacity is free."""
    sent: list[str] = []

    class Recorded(Job):
        async def send(self) -> WriteResult:
            sent.append(self.owner)
            await asyncio.sleep(0)
            return WriteResult.CONFIRMED

    write_pool = WritePool(1)
    write_pool.begin_cycle()
    write_pool.add([Recorded(Cluster(Random(0)), owner, True, owner) for owner in ("a", "b", "c")])
    write_pool.add([Recorded(Cluster(Random(0)), "urgent", True, "urgent")], urgent=True)
    assert await write_pool.end_cycle(1.0) == frozenset()
    assert sent == ["a", "urgent", "b", "c"]


async def test_an_answer_that_comes_together_with_an_error_sends_nothing_more() -> None:
    """The pool is not stopped yet, and still nothing follows."""
    go, sent = asyncio.Event(), list[str]()

    class Bug(Job):
        async def send(self) -> WriteResult:
            sent.append(self.owner)
            await go.wait()
            if self.owner == "a":
                raise RuntimeError("a bug")
            return WriteResult.CONFIRMED

    write_pool = WritePool(2)
    write_pool.begin_cycle()
    write_pool.add([Bug(Cluster(Random(0)), owner, True, owner) for owner in ("a", "b", "c", "d")])
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(RuntimeError, match="a bug"):
        await write_pool.end_cycle(1.0)
    assert sent == ["a", "b"]


async def test_when_all_are_stopped_every_one_has_ended() -> None:
    """A leader that gives the lease back after that has no write in flight."""
    ended: list[str] = []

    class Busy(Job):
        async def send(self) -> WriteResult:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                ended.append(self.name)
            return WriteResult.CONFIRMED

    write_pool = WritePool(4)
    write_pool.begin_cycle()
    write_pool.add([Busy(Cluster(Random(0)), f"g{i}", True, f"g{i}") for i in range(3)])
    await asyncio.sleep(0)
    await write_pool.stop()
    assert sorted(ended) == ["g0", "g1", "g2"]


async def test_what_is_added_after_the_core_has_failed_is_not_sent() -> None:
    """G5: a plan is applied gang by gang as it is made, and its extras may come when the core was refused already."""
    cluster = Cluster(Random(0), refuses=1.0)
    write_pool = WritePool(4)
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("g", 1, 0))
    async with asyncio.timeout(1):
        while "g" not in cluster.failed:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    extras = cluster.gang("g", 0, 2)
    write_pool.add(extras)
    assert await write_pool.end_cycle(1.0) == frozenset()
    assert [job.sent for job in extras] == [0, 0]


async def test_extras_of_a_core_that_is_rejected_while_they_are_planned_are_not_sent() -> None:
    """G5: the plan counted on the unconfirmed core; the next plan does not."""
    cluster = Cluster(Random(0), unconfirmed=1.0)
    write_pool = WritePool(4)
    write_pool.begin_cycle()
    write_pool.add(cluster.gang("g", 1, 0))
    await write_pool.end_cycle(1.0)
    write_pool.begin_cycle()
    cluster.unconfirmed, cluster.refuses = 0.0, 1.0
    async with asyncio.timeout(1):
        while not write_pool.at_rest:
            await asyncio.sleep(0.001)
    extras = cluster.gang("g", 0, 2)
    write_pool.add(extras)
    assert await write_pool.end_cycle(1.0) == {"g"}
    assert [job.sent for job in extras] == [0, 0]
    cluster.refuses = 0.0
    again = cluster.gang("g", 1, 2)
    write_pool.begin_cycle()
    write_pool.add(again)
    assert await write_pool.end_cycle(1.0) == frozenset()
    assert [job.sent for job in again] == [1, 1, 1]
