"""Writes, so many at once and no more, turn after turn.

Rule 1: a turn waits for its answers, but not for those that do not come forth. What was sent is waited for beside the
next turns, and its gang gets nothing more until it is settled; what was not sent is left to the next plan: nothing is
sent that was decided in another turn. Rule 2: where nobody knows whether a write was done, somebody finds out, and that
takes no place from others. Rule 3: where one raises or all are stopped, every one of them has ended before that
returns: nothing keeps writing behind a cycle that has failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from functools import partial
from typing import Any, Protocol


class WriteResult(Enum):
    """What came of a write."""

    YES = "it was done"
    NO = "it was not, and will not be"
    DOUBT = "nobody knows"


class PendingWrite(Protocol):
    """One write that was decided."""

    @property
    def whose(self) -> str:
        """Of which gang it is, say: what is behind holds up only what is of the same."""

    @property
    def first(self) -> bool:
        """The others wait for all of these, and are not sent where one of these fails."""

    @property
    def rest_seconds(self) -> float:
        """How long to wait, while there is doubt, before `find_out` is called again."""

    async def send(self) -> WriteResult:
        """Do it."""

    async def find_out(self) -> WriteResult:
        """What has become of it."""


class GangWrites:
    """What one gang has to send: the core first, as extras are not worth having without it."""

    def __init__(self) -> None:
        self.core: deque[PendingWrite] = deque()
        self.extras: deque[PendingWrite] = deque()
        self.open = 0  # sent, and not settled
        self.core_open = 0  # of them
        self.under_way = 0  # of them, those that have a place
        self.good = True  # no binding of the core has failed: else the rest is left to the next plan (G5)
        self.late = False  # the turn that it is of is over, or one of its writes is in doubt: nothing more is sent
        self.listed = False  # it stands in line

    @property
    def waiting(self) -> deque[PendingWrite]:
        """Those that may be sent now."""
        return self.core or (self.extras if not self.core_open else deque())

    def drop(self) -> int:
        """Send nothing more; how many were left."""
        left = len(self.core) + len(self.extras)
        self.core.clear()
        self.extras.clear()
        return left


class PendingWrites:
    """Orders that may be sent now, gang by gang; the extras of a gang come once its whole core is bound.

    No gang has more than half of the places, and all that are late together do not, either: whoever is not answered
    does not hold up the others.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._half = at_once, max(at_once // 2, 1)
        self._gangs: dict[str, GangWrites] = {}
        self._ready: deque[GangWrites] = deque()
        self._busy = self._late = 0  # places that are taken; of them, by those that are late
        self.left = 0  # of this turn, without an answer

    def __contains__(self, whose: str) -> bool:
        """Whether something of it is not settled."""
        return whose in self._gangs

    @property
    def unsettled(self) -> frozenset[str]:
        """Of whom something was sent, and is not settled."""
        return frozenset(whose for whose, gang in self._gangs.items() if gang.open)

    def add(self, orders: Iterable[PendingWrite], urgent: bool = False) -> set[str]:
        """More of some gangs; whose are not taken, as something of theirs is behind."""
        touched: dict[str, GangWrites] = {}
        behind = set()
        for one in orders:
            gang = touched.setdefault(one.whose, self._gangs.setdefault(one.whose, GangWrites()))
            if gang.late:
                behind.add(one.whose)
            elif gang.good:
                (gang.core if one.first else gang.extras).append(one)
                self.left += 1
        for gang in touched.values():
            self._list(gang, urgent)
        return behind

    def close(self) -> set[str]:
        """The turn is over: what was sent is waited for, what was not is dropped; whose that was."""
        dropped = {whose for whose, gang in self._gangs.items() if gang.core or gang.extras}
        for gang in self._gangs.values():
            self._leave_behind(gang)
        self._gangs = {whose: gang for whose, gang in self._gangs.items() if gang.open}
        self._ready.clear()
        self.left = 0
        return dropped

    def take(self) -> tuple[GangWrites, PendingWrite] | None:
        """The next one, and whose it is; None: there is none right now, or no place."""
        if self._busy - max(self._late - self._half, 0) >= self._at_once:
            return None
        while self._ready and not self._ready[0].waiting:
            self._ready.popleft().listed = False  # it was given up while it stood in line
        if not self._ready:
            return None
        gang = self._ready[0]
        found = gang.waiting.popleft()
        gang.open += 1
        gang.under_way += 1
        gang.core_open += found.first
        self._busy += 1
        if not gang.waiting or gang.under_way >= self._half:
            self._ready.popleft()
            gang.listed = False
        return gang, found

    def answered(self, gang: GangWrites) -> None:
        """A place is free again."""
        gang.under_way -= 1
        self._busy -= 1
        self._late -= gang.late

    def settled(self, gang: GangWrites, order: PendingWrite, good: bool) -> None:
        """One of them is done with, well or not."""
        gang.open -= 1
        gang.core_open -= order.first
        self.left -= not gang.late
        if order.first and not good:
            gang.good = False
            dropped = gang.drop()
            self.left -= 0 if gang.late else dropped
        if gang.late and not gang.open and self._gangs.get(order.whose) is gang:
            del self._gangs[order.whose]
        self._list(gang)

    def doubted(self, gang: GangWrites) -> bool:
        """Nobody knows about one of them: no turn waits for that; whether more of the gang was to be sent."""
        more = bool(gang.core or gang.extras)
        self._leave_behind(gang)
        return more

    def _leave_behind(self, gang: GangWrites) -> None:
        if not gang.late:
            gang.late = True
            self._late += gang.under_way
            self.left -= gang.open + gang.drop()

    def _list(self, gang: GangWrites, urgent: bool = False) -> None:
        if not gang.listed and gang.waiting and gang.under_way < self._half:
            gang.listed = True
            (self._ready.appendleft if urgent else self._ready.append)(gang)


class WritePool:
    """Carries out orders as they are added, so many at once."""

    def __init__(self, at_once: int, late: Callable[[bool], None] = lambda _: None) -> None:
        self._late = late  # called when something is settled after its turn: whether it was done
        self._pending = PendingWrites(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = 0  # but for those that came after their turn
        self._rest = asyncio.Event()  # all of this turn is settled or in doubt
        self._undone: set[str] = set()  # whose orders were not sent in this turn
        self._stopped = False
        self._error: BaseException | None = None

    @property
    def answers(self) -> int:
        """How many writes were answered in their turn, ever: a number that grows is progress."""
        return self._answers

    @property
    def at_rest(self) -> bool:
        """Nothing is on its way or in doubt."""
        return not self._pending.unsettled

    @property
    def unsettled(self) -> frozenset[str]:
        """Whose writes are on their way or in doubt."""
        return self._pending.unsettled

    def __contains__(self, whose: str) -> bool:
        """Whether something of it is not settled."""
        return whose in self._pending

    def open(self) -> None:
        """A turn begins."""
        if self._error is not None:
            raise self._error
        self._undone = set()

    def add(self, orders: Iterable[PendingWrite], urgent: bool = False) -> None:
        """These, too; before all that wait where it is urgent."""
        self._undone |= self._pending.add(orders, urgent)
        self._grow()

    async def settle(self, settle_seconds: float) -> frozenset[str]:
        """Until all of the turn is settled or in doubt, or nothing was answered for so long. Then it is over.

        Nothing of it is sent any more; whose orders were not is returned.
        """
        while self._pending.left and self._error is None:
            before = self._answers
            self._rest.clear()
            try:
                async with asyncio.timeout(settle_seconds):
                    await self._rest.wait()
            except TimeoutError:
                if self._answers == before:
                    break
        if self._error is not None:
            await self.stop()
            raise self._error
        return frozenset(self._undone | self._pending.close())

    async def stop(self) -> None:
        """Send nothing more, and give up what is on its way."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _grow(self) -> None:
        while not self._stopped and (turn := self._pending.take()) is not None:
            self._do(partial(self._work, turn))

    def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # a bug: whoever waits for this turn, or begins the next one, is told
            self._stopped, self._error = True, self._error or error
            self._rest.set()
            self._late(True)

    async def _work(self, turn: tuple[GangWrites, PendingWrite] | None) -> None:
        while turn is not None and not self._stopped:
            gang, order = turn
            self._answered(gang, order, await order.send())
            turn = self._pending.take()
            self._grow()  # an answer may let many extras go

    def _answered(self, gang: GangWrites, order: PendingWrite, answer: WriteResult) -> None:
        self._answers += not gang.late
        self._pending.answered(gang)
        if answer is WriteResult.DOUBT:
            if self._pending.doubted(gang):
                self._undone.add(order.whose)
            self._do(partial(self._find_out, gang, order))
            self._look()
        else:
            self._settled(gang, order, answer)

    async def _find_out(self, gang: GangWrites, order: PendingWrite) -> None:
        answer = WriteResult.DOUBT
        while answer is WriteResult.DOUBT:
            await asyncio.sleep(order.rest_seconds)
            answer = await order.find_out()
        self._settled(gang, order, answer)
        self._grow()

    def _settled(self, gang: GangWrites, order: PendingWrite, answer: WriteResult) -> None:
        late = gang.late
        self._pending.settled(gang, order, answer is WriteResult.YES)
        self._look()
        if late:
            self._late(answer is WriteResult.YES)

    def _look(self) -> None:
        if not self._pending.left:
            self._rest.set()
