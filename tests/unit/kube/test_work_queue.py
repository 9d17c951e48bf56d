"""The work queue that controllers share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.kube.work_queue import WorkQueue


@asynccontextmanager
async def working(queue: WorkQueue[str], reconcile: "Reconciler", workers: int = 4) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(reconcile, workers))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class Reconciler:
    """Records what it is given; a key waits while its gate is closed, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.at_work: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.failures: dict[str, int] = {}
        self.most_at_work = 0

    async def __call__(self, key: str) -> bool:
        assert key not in self.at_work, "two workers have the same key"
        self.begun.append(key)
        self.at_work.append(key)
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        await asyncio.sleep(0)
        if key in self.gates:
            await self.gates[key].wait()
        self.at_work.remove(key)
        self.failures[key] = self.failures.get(key, 0) - 1
        return self.failures[key] < 0


async def rounds(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_key_that_is_added_twice_is_worked_on_once() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    queue.add("a")
    queue.add("a")
    async with working(queue, reconciler):
        await rounds()
    assert reconciler.begun == ["a"]


async def test_a_key_that_changes_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    reconciler.gates["a"] = asyncio.Event()
    async with working(queue, reconciler):
        queue.add("a")
        await rounds()
        queue.add("a")
        queue.add("a")
        await rounds()
        assert reconciler.begun == ["a"]
        reconciler.gates["a"].set()
        await rounds()
    assert reconciler.begun == ["a", "a"]


async def test_a_key_that_does_not_end_holds_up_no_other() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    reconciler.gates["stuck"] = asyncio.Event()
    async with working(queue, reconciler, workers=2):
        queue.add("stuck")
        for i in range(50):
            queue.add(f"key-{i}")
        await rounds(200)
        assert len(reconciler.begun) == 51
        assert not queue.is_idle


async def test_no_more_keys_are_worked_on_at_once_than_there_are_workers() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    for i in range(50):
        queue.add(f"key-{i}")
    async with working(queue, reconciler, workers=3):
        await rounds(200)
    assert reconciler.most_at_work == 3


async def test_a_key_that_fails_comes_again_after_a_growing_wait() -> None:
    queue, reconciler = WorkQueue[str](first_seconds=0.001, longest_seconds=0.01), Reconciler()
    reconciler.failures["a"] = 3
    async with working(queue, reconciler):
        queue.add("a")
        while len(reconciler.begun) < 4:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert not queue.has_failures
    assert reconciler.begun == ["a"] * 4


async def test_keys_that_fail_together_do_not_come_again_together() -> None:
    """A webhook that refuses the PodGroups of a thousand gangs is not asked about all of them at once, every time."""
    parts = iter(range(100))
    queue, reconciler = WorkQueue[str](first_seconds=10.0, chance=lambda: next(parts) / 100), Reconciler()
    keys = [str(number) for number in range(100)]
    reconciler.failures = dict.fromkeys(keys, 1)
    async with working(queue, reconciler):
        for key in keys:
            queue.add(key)
        while len(queue._timers) < len(keys):
            await asyncio.sleep(0)
        due = sorted(timer.when() for timer in queue._timers.values())
    assert due[-1] - due[0] > 4.0, "they are spread over the upper half of the wait"


async def test_a_key_that_waits_for_its_time_is_taken_at_once_when_it_changes() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    async with working(queue, reconciler):
        queue.add_later("a", 3600)
        assert (len(queue), queue.is_idle) == (1, True)
        await rounds()
        assert reconciler.begun == []
        queue.add("a")
        await rounds()
        assert (reconciler.begun, len(queue)) == (["a"], 0)


async def test_the_earlier_of_two_times_counts() -> None:
    queue, reconciler = WorkQueue[str](), Reconciler()
    async with working(queue, reconciler):
        queue.add_later("a", 3600)
        queue.add_later("a", 0.001)
        queue.add_later("a", 60)
        await asyncio.sleep(0.05)
        assert (reconciler.begun, len(queue)) == (["a"], 0)


async def test_an_exception_of_a_worker_ends_the_queue_and_is_raised() -> None:
    queue = WorkQueue[str]()

    async def fail(_key: str) -> bool:
        raise ZeroDivisionError

    queue.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await queue.run(fail, 2)
    assert raised.group_contains(ZeroDivisionError)
