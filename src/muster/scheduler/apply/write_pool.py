"""Sends writes, a bounded number at once, cycle after cycle. What a write is, and what became of it, it does not know.

Rule 1: a cycle waits for its answers, but not for those that do not come. Writes that were sent are awaited beside the
next cycles, and their owner sends nothing more until they are settled; writes that were not sent are dropped: nothing
is sent that was decided in another cycle. Rule 2: an unconfirmed write is settled beside the bound: it takes no place
from others. Rule 3: where a write raises, or the pool is stopped, every task has ended before that returns: nothing is
written after a cycle that has failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Protocol

from muster.scheduler.apply.write_state import WriteResult

MOST_IN_FLIGHT = 4  # times the number of places: late writes, too


class PendingWrite(Protocol):
    """One write that was decided."""

    @property
    def owner(self) -> str:
        """Its gang, for example: a late write holds up only those of the same owner."""

    @property
    def is_first(self) -> bool:
        """The other writes of the owner wait for all of these, and are dropped where one of these fails."""

    async def send(self) -> WriteResult:
        """Sends it once."""

    async def settle(self) -> WriteResult:
        """Where it is unconfirmed: returns once it is confirmed or rejected."""


class OwnerWrites:
    """The writes of one gang: the core first, as extras are of no use without it."""

    def __init__(self) -> None:
        self.core: deque[PendingWrite] = deque()
        self.extras: deque[PendingWrite] = deque()
        self.unsettled = 0  # sent, and not settled
        self.unsettled_core = 0  # of them
        self.in_flight = 0  # of them, those that take a place
        self.is_core_intact = True  # no write of the core has failed: else the rest is left to the next plan (G5)
        self.is_late = False  # its cycle is over, or one of its writes is unconfirmed: nothing more is sent
        self.is_queued = False

    @property
    def ready(self) -> deque[PendingWrite]:
        """Those that may be sent now."""
        return self.core or (self.extras if not self.unsettled_core else deque())

    def drop(self) -> int:
        """Drops what was not sent; returns how many that were."""
        number = len(self.core) + len(self.extras)
        self.core.clear()
        self.extras.clear()
        return number


class PendingWrites:
    """The writes that may be sent now, owner by owner; the extras of a gang come once its whole core is bound.

    No owner takes more than half of the places, and neither do all late ones together: writes that are not answered do
    not hold up the others. Only when several times as many as there are places hang, nothing more is sent until one of
    them ends or times out: an API server that is stuck is not sent more and more.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._half = at_once, max(at_once // 2, 1)
        self._owners: dict[str, OwnerWrites] = {}
        self._queue: deque[OwnerWrites] = deque()
        self._in_flight = self._late = 0  # places that are taken; of them, by late owners
        self.unanswered = 0  # of this cycle
        self.unsettled_number = 0  # writes that were sent and are not settled
        self._broken: set[str] = set()  # owners whose core was rejected late, while this cycle was planned

    def __contains__(self, owner: str) -> bool:
        """Whether something of it is not settled."""
        return owner in self._owners

    @property
    def is_sending(self) -> bool:
        """Whether requests are in flight or wait for a place."""
        return self._in_flight > 0

    @property
    def in_flight(self) -> int:
        """How many requests take a place."""
        return self._in_flight

    @property
    def unsettled(self) -> frozenset[str]:
        """The owners of writes that were sent and are not settled."""
        return frozenset(name for name, owner in self._owners.items() if owner.unsettled)

    def begin_cycle(self) -> None:
        """A cycle is planned from what is known now."""
        self._broken = set()

    def add(self, writes: Iterable[PendingWrite], urgent: bool = False) -> set[str]:
        """Queues more writes; returns the owners whose writes were dropped, as earlier ones are late or were rejected.

        A plan counts on unconfirmed writes: where one of a core is rejected since, extras would run without it (G5).
        """
        touched: dict[str, OwnerWrites] = {}
        late = set()
        for write in writes:
            if write.owner in self._broken:
                late.add(write.owner)
                continue
            owner = touched.setdefault(write.owner, self._owners.setdefault(write.owner, OwnerWrites()))
            if owner.is_late:
                late.add(write.owner)
            elif owner.is_core_intact:
                (owner.core if write.is_first else owner.extras).append(write)
                self.unanswered += 1
        for owner in touched.values():
            self._enqueue(owner, urgent)
        return late

    def end_cycle(self) -> set[str]:
        """Drops what was not sent; returns its owners. What was sent is late from now on."""
        dropped = {name for name, owner in self._owners.items() if owner.core or owner.extras}
        for owner in self._owners.values():
            self._mark_late(owner)
        self._owners = {name: owner for name, owner in self._owners.items() if owner.unsettled}
        self._queue.clear()
        self.unanswered = 0
        return dropped

    def take(self) -> tuple[OwnerWrites, PendingWrite] | None:
        """The next write, and its owner; None: none is ready, or no place is free."""
        counted = self._in_flight - max(self._late - self._half, 0)
        if counted >= self._at_once or self._in_flight >= self._at_once * MOST_IN_FLIGHT:
            return None
        while self._queue and not self._queue[0].ready:
            self._queue.popleft().is_queued = False  # its writes were dropped while it was queued
        if not self._queue:
            return None
        owner = self._queue[0]
        write = owner.ready.popleft()
        owner.unsettled += 1
        self.unsettled_number += 1
        owner.in_flight += 1
        owner.unsettled_core += write.is_first
        self._in_flight += 1
        if not owner.ready or owner.in_flight >= self._half:
            self._queue.popleft()
            owner.is_queued = False
        return owner, write

    def release(self, owner: OwnerWrites) -> None:
        """A write was answered: its place is free again."""
        owner.in_flight -= 1
        self._in_flight -= 1
        self._late -= owner.is_late

    def settle(self, owner: OwnerWrites, write: PendingWrite, is_confirmed: bool) -> None:
        """A write is confirmed or rejected."""
        owner.unsettled -= 1
        self.unsettled_number -= 1
        owner.unsettled_core -= write.is_first
        self.unanswered -= not owner.is_late
        if write.is_first and not is_confirmed:
            owner.is_core_intact = False
            dropped = owner.drop()
            self.unanswered -= 0 if owner.is_late else dropped
            if owner.is_late:
                self._broken.add(write.owner)
        if owner.is_late and not owner.unsettled and self._owners.get(write.owner) is owner:
            del self._owners[write.owner]
        self._enqueue(owner)

    def mark_unconfirmed(self, owner: OwnerWrites) -> bool:
        """No cycle waits for an unconfirmed write; returns whether other writes of the owner were dropped."""
        more = bool(owner.core or owner.extras)
        self._mark_late(owner)
        return more

    def _mark_late(self, owner: OwnerWrites) -> None:
        if not owner.is_late:
            owner.is_late = True
            self._late += owner.in_flight
            self.unanswered -= owner.unsettled + owner.drop()

    def _enqueue(self, owner: OwnerWrites, urgent: bool = False) -> None:
        if not owner.is_queued and owner.ready and owner.in_flight < self._half:
            owner.is_queued = True
            (self._queue.appendleft if urgent else self._queue.append)(owner)


class WritePool:
    """Sends writes as they are added, a bounded number at once."""

    def __init__(self, at_once: int, settled_late: Callable[[bool], None] = lambda _: None) -> None:
        self._settled_late = settled_late  # called when a write is settled after its cycle: whether it was confirmed
        self._pending = PendingWrites(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = 0  # but for those that came after their cycle
        self._answered = asyncio.Event()  # every write of this cycle is settled or unconfirmed
        self._unsent: set[str] = set()  # owners of writes that were dropped in this cycle
        self._is_stopped = False
        self._error: BaseException | None = None

    @property
    def answers(self) -> int:
        """How many writes were answered within their cycle, ever: a number that grows is progress."""
        return self._answers

    @property
    def at_rest(self) -> bool:
        """No write is in flight or unconfirmed."""
        return not self._pending.unsettled_number

    @property
    def is_sending(self) -> bool:
        """Whether requests are in flight or wait for a place."""
        return self._pending.is_sending

    @property
    def in_flight(self) -> int:
        """How many writes were sent and are not answered."""
        return self._pending.in_flight

    @property
    def unsettled(self) -> frozenset[str]:
        """The owners of writes that are in flight or unconfirmed."""
        return self._pending.unsettled

    def __contains__(self, owner: str) -> bool:
        """Whether something of it is not settled."""
        return owner in self._pending

    def begin_cycle(self) -> None:
        """Comes before the snapshot. Raises what a write of an earlier cycle has raised."""
        if self._error is not None:
            raise self._error
        self._unsent = set()
        self._pending.begin_cycle()

    def add(self, writes: Iterable[PendingWrite], urgent: bool = False) -> None:
        """Sends these, too; before all that are queued where it is urgent."""
        self._unsent |= self._pending.add(writes, urgent)
        self._start_tasks()

    async def end_cycle(self, quiet_seconds: float) -> frozenset[str]:
        """Waits until every write of the cycle is settled or unconfirmed, or none was answered for so long.

        Drops what was not sent, and returns its owners.
        """
        while self._pending.unanswered and self._error is None:
            before = self._answers
            self._answered.clear()
            try:
                async with asyncio.timeout(quiet_seconds):
                    await self._answered.wait()
            except TimeoutError:
                if self._answers == before:
                    break
        if self._error is not None:
            await self.stop()
            raise self._error
        return frozenset(self._unsent | self._pending.end_cycle())

    async def stop(self) -> None:
        """Sends nothing more, and gives up what is in flight."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start_tasks(self) -> None:
        while not self._is_stopped and (taken := self._pending.take()) is not None:
            self._start(partial(self._send_all, taken))

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # a bug: it is raised by `end_cycle`, or by the next `begin_cycle`
            self._is_stopped, self._error = True, self._error or error
            self._answered.set()
            self._settled_late(True)

    async def _send_all(self, taken: tuple[OwnerWrites, PendingWrite] | None) -> None:
        while taken is not None and not self._is_stopped:
            owner, write = taken
            self._handle(owner, write, await write.send())
            taken = self._pending.take()
            self._start_tasks()  # an answer may make many extras ready

    def _handle(self, owner: OwnerWrites, write: PendingWrite, result: WriteResult) -> None:
        self._answers += not owner.is_late
        self._pending.release(owner)
        if result is WriteResult.UNCONFIRMED:
            if self._pending.mark_unconfirmed(owner):
                self._unsent.add(write.owner)
            self._start(partial(self._settle, owner, write))
            self._check_answered()
        else:
            self._settled(owner, write, result)

    async def _settle(self, owner: OwnerWrites, write: PendingWrite) -> None:
        self._settled(owner, write, await write.settle())
        self._start_tasks()

    def _settled(self, owner: OwnerWrites, write: PendingWrite, result: WriteResult) -> None:
        was_late, is_confirmed = owner.is_late, result is WriteResult.CONFIRMED
        self._pending.settle(owner, write, is_confirmed)
        self._check_answered()
        if was_late:
            self._settled_late(is_confirmed)

    def _check_answered(self) -> None:
        if not self._pending.unanswered:
            self._answered.set()
