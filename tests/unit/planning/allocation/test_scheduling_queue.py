"""The line of gangs (G4): the order of its definition, at a cost that does not grow with what has happened before."""

import random
from collections.abc import Iterator

import pytest

import muster
from muster.api.names import GPU
from muster.fairness.order import rank
from muster.fairness.queue_usage import QueueUsage, initial_usage
from muster.fairness.shares import divide_cluster
from muster.model.snapshot import take
from muster.planning.allocation.scheduling_queue import SchedulingQueue
from tests.support.factories import Raw, pod, podgroup

LEAVES = ("a-1", "a-2", "b-1", "c")


def queue(name: str, parent: str = "") -> Raw:
    spec: Raw = {"resources": {"gpu": {"quota": 10}}} | ({"parentQueue": parent} if parent else {})
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def usage() -> QueueUsage:
    """Four leaf queues at two levels, all of which ask for something."""
    asks: Raw = {GPU: 5}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "100", "pods": "10"}}}
    gangs = [podgroup(name=name, queue=name, minMember=1) for name in LEAVES]
    snapshot = take(
        muster.objects(
            [
                {"apiVersion": "v1", "kind": "Node", **node},
                *(queue(name) for name in "abc"),
                *(queue(name, name[0]) for name in LEAVES if "-" in name),
                *gangs,
                *(pod(f"{name}-0", gang=name, **asks) for name in LEAVES),
            ]
        )
    )
    return initial_usage(divide_cluster(snapshot), snapshot.columns)


class Driver:
    """A line, and the same gangs in a plain dict."""

    def __init__(self) -> None:
        self.usage, self.usage_reads, self.number = usage(), 0, 0
        self.line = SchedulingQueue(self._read_usage)
        self.gangs: dict[str, tuple[str, int]] = {}  # queue and rank

    def _read_usage(self) -> QueueUsage:
        self.usage_reads += 1
        return self.usage

    def add(self, name: str, number: int) -> None:
        self.number += 1
        gang = f"g{self.number}"
        self.gangs[gang] = name, number
        self.line.add(name, (number, gang), gang)

    def hold(self, name: str, gpus: int) -> None:
        """A queue holds more, or less: of less, the scheduling queue is notified."""
        self.usage = self.usage.with_(name, {GPU: gpus})
        if gpus < 0:
            self.line.usage_fell(name)

    def expected(self) -> str | None:
        """By the definition of the order."""
        held = self.usage

        def key(gang: str) -> object:
            name, number = self.gangs[gang]
            return rank(held.tree, held.shares, held.allocated, name), number, gang

        return min(self.gangs, key=key, default=None)  # type: ignore[arg-type]

    def next(self) -> str | None:
        gang = self.line.next()
        if gang is not None:
            del self.gangs[gang]
        return gang


def played(seed: int) -> Iterator[tuple[str | None, str | None]]:
    """What comes next, and what should, after every few random events."""
    rng, driver = random.Random(seed), Driver()
    for _ in range(120):
        match rng.randrange(4):
            case 0:
                driver.add(rng.choice(LEAVES), rng.randrange(3))
            case 1:
                driver.hold(rng.choice(LEAVES), rng.randint(1, 4))
            case 2:
                driver.hold(rng.choice(LEAVES), -rng.randint(1, 4))
            case _:
                expected = driver.expected()
                yield driver.next(), expected


@pytest.mark.parametrize("seed", range(50))
def test_the_next_gang_is_the_one_that_the_definition_says(seed: int) -> None:
    """G4: whatever queues have come to hold meanwhile."""
    for gang, expected in played(seed):
        assert gang == expected


@pytest.mark.parametrize("gang_states", [100, 1_000])
def test_the_next_gang_costs_the_same_however_often_usage_fell(gang_states: int) -> None:
    """X7: one gang after the other frees what is kept for it, is granted it, and goes back into the line (P7)."""
    driver = Driver()
    for name in LEAVES:
        driver.add(name, 0)
    driver.usage_reads = 0
    for _ in range(gang_states):
        gang = driver.line.next()
        assert gang is not None
        name, number = driver.gangs[gang]
        driver.hold(name, -2)
        driver.hold(name, 2)
        driver.hold(name, 1)
        driver.line.add(name, (number + 1, gang), gang)
        driver.gangs[gang] = name, number + 1
    assert driver.usage_reads < 20 * gang_states
