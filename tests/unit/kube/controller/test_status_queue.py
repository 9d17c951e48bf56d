"""Statuses behind actions: none waits for ever, none is written on another spec, refusals are reported and spaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.api.resources import REPLICA_SETS, Resource
from muster.kube.cluster import Raw
from muster.kube.controller import status_queue
from muster.kube.controller.object_cache import ObjectCache
from muster.kube.controller.status_queue import StatusQueue
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading
from muster.workloads.types import Key


class Term(AlwaysLeading):
    """A leadership that ends when a test says so."""

    term = 0


class Statuses:
    """A queue on a cluster that notes what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []
        self.error: ApiError | None = None
        self.is_busy = False
        self.retried: list[float] = []
        self.reported: list[str] = []
        self.may_report = asyncio.Event()
        self.may_report.set()
        self.leadership = Term()
        self.cache = ObjectCache(asyncio.get_running_loop().time, lambda *_: None)
        self.queue = StatusQueue(
            self,  # type: ignore[arg-type]
            self.cache,
            self.leadership,
            asyncio.get_running_loop().time,
            lambda: self.is_busy,
            lambda _, seconds: self.retried.append(seconds),
            self._report,
        )

    async def replace(self, _resource: Resource, raw: Raw, _subresource: str) -> Raw:
        if self.error is not None:
            raise self.error
        self.written.append((raw["metadata"]["name"], raw["status"]["count"]))
        version = str(int(raw["metadata"]["resourceVersion"]) + 1)
        return {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}}

    async def _report(self, _resource: Resource, _owner: Raw, reason: str, message: str, _term: int) -> None:
        self.reported.append(f"{reason}: {message}")
        await self.may_report.wait()

    def store(self, name: str, generation: int = 1, version: int = 1) -> Raw:
        metadata = {"name": name, "namespace": "default", "uid": name, "generation": generation}
        self.cache.observe(REPLICA_SETS, {"metadata": {**metadata, "resourceVersion": str(version)}})
        stored = self.cache.get(REPLICA_SETS, "default", name)
        assert stored is not None
        return stored

    def put(self, owner: Raw, count: int) -> None:
        self.queue.put(_key(owner), owner, {"count": count}, 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.queue.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _key(owner: Raw) -> Key:
    return REPLICA_SETS, "default", owner["metadata"]["name"]


async def test_the_newest_status_is_written_once() -> None:
    statuses = Statuses()
    owner = statuses.store("a")
    for count in range(1, 4):
        statuses.put(owner, count)
    async with statuses.running():
        await asyncio.sleep(0.05)
    assert statuses.written == [("a", 3)]


async def test_a_status_waits_for_actions_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is replaced again and again, and others come behind it."""
    monkeypatch.setattr(status_queue, "LONGEST_WAIT_SECONDS", 0.2)
    statuses = Statuses()
    statuses.is_busy = True
    first = statuses.store("first")
    async with statuses.running():
        for count in range(1, 30):
            statuses.put(first, count)
            statuses.put(statuses.store(f"other-{count}"), 1)
            await asyncio.sleep(0.01)
            if count < 10:
                assert not statuses.written
    assert "first" in {name for name, _ in statuses.written}


async def test_statuses_that_are_written_at_once_keep_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_queue, "LONGEST_WAIT_SECONDS", 0.05)
    statuses = Statuses()
    statuses.error, statuses.may_report = ApiError(403, "Forbidden", "no right"), asyncio.Event()
    statuses.is_busy, urgent = True, statuses.store("urgent")
    statuses.put(urgent, 1)
    async with statuses.running():
        in_flight = asyncio.create_task(statuses.queue.write_now(_key(urgent)))
        await asyncio.sleep(0.02)
        assert statuses.queue.in_flight == 1
        statuses.error = None
        statuses.put(statuses.store("a"), 1)
        await asyncio.sleep(0.2)
        assert statuses.written == [("a", 1)]
        statuses.may_report.set()
        assert not await in_flight


async def test_a_status_of_an_older_spec_is_not_written() -> None:
    statuses = Statuses()
    owner = statuses.store("a")
    statuses.put(owner, 1)
    statuses.store("a", generation=2, version=2)
    async with statuses.running():
        await asyncio.sleep(0.05)
    assert statuses.written == []


async def test_a_status_of_another_term_is_not_written() -> None:
    statuses = Statuses()
    statuses.put(statuses.store("a"), 1)
    statuses.leadership.term = 1
    async with statuses.running():
        await asyncio.sleep(0.05)
    assert statuses.written == []


async def test_a_refused_status_is_reported_and_waits_longer_each_time() -> None:
    statuses = Statuses()
    statuses.error = ApiError(403, "Forbidden", "no right")
    owner = statuses.store("a")
    async with statuses.running():
        for count in range(1, 8):
            statuses.put(owner, count)
            await asyncio.sleep(0.02)
    assert len(statuses.retried) == 7
    assert statuses.retried[-1] > 4 * statuses.retried[0]
    assert statuses.reported[0] == "FailedUpdate: Error updating status: no right"


async def test_a_conflict_is_tried_again_without_a_report() -> None:
    statuses = Statuses()
    statuses.error = ApiError(409, "Conflict", "changed")
    statuses.put(statuses.store("a"), 1)
    async with statuses.running():
        await asyncio.sleep(0.05)
    assert len(statuses.retried) == 1
    assert statuses.reported == []


async def test_a_status_that_is_written_while_an_older_one_is_reported_as_refused_stops_nothing() -> None:
    """The object is reconciled meanwhile, and its next status is taken at once: nothing is left to wait for."""
    statuses = Statuses()
    statuses.error, statuses.may_report = ApiError(403, "Forbidden", "no right"), asyncio.Event()
    owner = statuses.store("a")
    async with statuses.running():
        statuses.put(owner, 1)
        await asyncio.sleep(0.02)
        statuses.error = None
        statuses.put(owner, 2)
        assert await statuses.queue.write_now(_key(owner))
        statuses.may_report.set()
        await asyncio.sleep(0.02)
        statuses.put(statuses.store("b"), 3)
        await asyncio.sleep(0.02)
    assert statuses.written == [("a", 2), ("b", 3)]
    assert len(statuses.retried) == 1
