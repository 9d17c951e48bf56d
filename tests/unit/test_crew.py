"""Bindings in any order of answers: cores before extras, nothing after a core that failed, nobody forgotten."""

import asyncio
from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.control.crew import Crew
from muster.planning.decision import Binding

GANGS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6)  # core, extras of each


def bindings(gang: int, core: int, extras: int) -> list[Binding]:
    roles = ["core"] * core + ["extra"] * extras
    return [Binding("ns", f"p{gang}-{i}", "node", f"g{gang}", "", role) for i, role in enumerate(roles)]  # type: ignore[arg-type]


class Cluster:
    """Answers in random order, and says no to some."""

    def __init__(self, dice: Random, refuses: float) -> None:
        self.dice, self.refuses = dice, refuses
        self.under_way: Counter[str] = Counter()
        self.most = 0
        self.sent: list[Binding] = []
        self.failed: set[str] = set()  # gangs whose core was refused
        self.core_done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.late: Counter[str] = Counter()  # sent after the core of their gang had failed
        self.cores: dict[str, int] = defaultdict(int)

    async def bind(self, one: Binding) -> bool:
        self.late[one.pod_group] += one.pod_group in self.failed
        if one.role != "core" and self.core_done[one.pod_group] < self.cores[one.pod_group]:
            self.wrong.append(f"{one.pod} is sent before its core is bound")
        self.sent.append(one)
        self.under_way[one.pod_group] += 1
        self.most = max(self.most, self.under_way.total())
        for _ in range(self.dice.randint(0, 4)):
            await asyncio.sleep(0)
        self.under_way[one.pod_group] -= 1
        good = self.dice.random() >= self.refuses
        if one.role == "core":
            self.core_done[one.pod_group] += good
            if not good:
                self.failed.add(one.pod_group)
        return good


@settings(max_examples=300)
@given(GANGS, st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.5]), st.randoms(use_true_random=False))
def test_any_order_of_answers(gangs: list[tuple[int, int]], at_once: int, refuses: float, dice: Random) -> None:
    cluster = asyncio.run(_sent(gangs, at_once, refuses, dice))
    assert cluster.wrong == []
    assert max(cluster.late.values(), default=0) < at_once, "only what was on its way already"
    assert cluster.most <= at_once
    assert len(cluster.sent) == len(set(cluster.sent)), "nobody twice"
    for i, (core, extras) in enumerate(gangs):
        if f"g{i}" not in cluster.failed:
            assert sum(one.pod_group == f"g{i}" for one in cluster.sent) == core + extras, "nobody forgotten"


async def _sent(gangs: list[tuple[int, int]], at_once: int, refuses: float, dice: Random) -> Cluster:
    cluster = Cluster(dice, refuses)
    async with asyncio.TaskGroup() as tasks:
        crew = Crew(cluster.bind, at_once, tasks)
        for i, (core, extras) in enumerate(gangs):
            cluster.cores[f"g{i}"] = core
            every = bindings(i, core, extras)
            cut = dice.randint(core, len(every))  # later grants bring more extras
            crew.add(every[:cut])
            await asyncio.sleep(0)
            crew.add(every[cut:])
        crew.finish()
    return cluster


async def test_where_one_raises_nothing_more_is_sent() -> None:
    """The group of tasks is ending and takes no new ones: neither from answers, nor from whoever still plans."""
    sent: list[str] = []

    async def bind(one: Binding) -> bool:
        sent.append(one.pod)
        await asyncio.sleep(0)
        if one.pod == "p0-0":
            raise RuntimeError("a bug")
        await asyncio.sleep(0.01)
        return True

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            crew = Crew(bind, 4, tasks)
            for i in range(3):
                crew.add(bindings(i, 2, 2))
            asyncio.get_running_loop().call_later(0.002, crew.add, bindings(9, 2, 0))
            await asyncio.sleep(0.05)

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await work()
    await asyncio.sleep(0.01)
    assert len(sent) <= 4
