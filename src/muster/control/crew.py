"""Writes, so many at once and no more, turn after turn.

Rule 1: a turn waits for its answers, but not for those that do not come forth: what was begun is carried on while the
next turns go their way, everything else is left to the next plan. Rule 2: where nobody knows whether a write was done,
the rest of its gang waits until somebody does. Rule 3: where one raises or all are stopped, every one of them has ended
before that returns: nothing keeps writing behind a cycle that has failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Protocol


class Answer(Enum):
    """What came of a write."""

    YES = "it was done"
    NO = "it was not, and will not be"
    DOUBT = "nobody knows"


class Order(Protocol):
    """One write that was decided."""

    @property
    def whose(self) -> str:
        """Of which gang it is, say: what is behind holds up only what is of the same."""

    @property
    def first(self) -> bool:
        """The others wait for all of these, and are not sent where one of these fails."""

    @property
    def rest_seconds(self) -> float:
        """After doubt, it is sent again when so much time has passed: whoever sends it finds out."""

    async def send(self) -> Answer:
        """Do it."""

    def keep(self) -> None:
        """It will be sent later, when its turn is over."""

    def drop(self) -> None:
        """It was kept, and will not be sent."""


class Gang:
    """What one gang has to send: the core first, as extras are not worth having without it."""

    def __init__(self) -> None:
        self.core: deque[Order] = deque()
        self.extras: deque[Order] = deque()
        self.doubtful: set[Order] = set()  # nobody knows what became of them
        self.again: deque[Order] = deque()  # those of them to be sent again now
        self.resting = 0  # those of them whose time has not come
        self.sent = 0  # and not yet answered
        self.core_open = 0  # of the core: sent at least once, and not settled
        self.good = True  # no binding of the core has failed: else the rest is left to the next plan (G5)
        self.begun = False  # something was sent
        self.late = False  # the turn that it is of is over
        self.listed = False  # it stands in line

    @property
    def waiting(self) -> deque[Order]:
        """Those that may be sent now."""
        if self.doubtful:
            return self.again
        return self.core or (self.extras if not self.core_open else deque())

    @property
    def left(self) -> int:
        """How many are not settled."""
        return self.sent + self.resting + len(self.again) + len(self.core) + len(self.extras)

    def unsent(self) -> Iterator[Order]:
        """All that wait, also for others, and were never sent."""
        return chain(self.core, self.extras)


class Line:
    """Orders that may be sent now, gang by gang; the extras of a gang come once its whole core is bound.

    No gang has more than half of the places, so that one whose bindings are not answered does not hold up the others;
    where no others can come any more, it has all of them.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._gangs: dict[str, Gang] = {}
        self._ready: deque[Gang] = deque()
        self._complete = False  # no more will be added
        self.left = 0  # of this turn, without an answer

    @property
    def _most(self) -> int:
        return self._at_once if self._complete and len(self._gangs) == 1 else max(self._at_once // 2, 1)

    def __contains__(self, whose: str) -> bool:
        """Whether something of it is not settled."""
        return whose in self._gangs and self._gangs[whose].left > 0

    @property
    def doubtful(self) -> frozenset[str]:
        """Of whom nobody knows what became of something."""
        return frozenset(whose for whose, gang in self._gangs.items() if gang.doubtful)

    def open(self) -> None:
        """Another turn: whoever failed may try again."""
        self._complete = False
        for gang in self._gangs.values():
            gang.good = True

    def add(self, orders: Iterable[Order], urgent: bool = False) -> None:
        """More of some gangs."""
        touched: dict[str, Gang] = {}
        for one in orders:
            gang = touched.setdefault(one.whose, self._gangs.setdefault(one.whose, Gang()))
            if gang.good:
                (gang.core if one.first else gang.extras).append(one)
                self.left += not gang.late
                if gang.late:
                    one.keep()
        for gang in touched.values():
            self._list(gang, urgent)

    def finish(self) -> None:
        """Nothing will be added in this turn."""
        self._complete = True
        for gang in self._gangs.values():
            self._list(gang)

    def close(self) -> None:
        """The turn is over: what was begun goes on, what was not is left to the next plan."""
        self._gangs = {whose: gang for whose, gang in self._gangs.items() if gang.begun and gang.left}
        self._ready = deque(gang for gang in self._ready if gang.begun and gang.left)
        for gang in self._gangs.values():
            self._leave_behind(gang)

    def take(self) -> tuple[Gang, Order] | None:
        """The next one, and whose it is; None: there is none right now."""
        while self._ready and not self._ready[0].waiting:
            self._ready.popleft().listed = False  # its core has failed while it stood in line
        if not self._ready:
            return None
        gang = self._ready[0]
        found = gang.waiting.popleft()
        gang.begun = True
        gang.sent += 1
        gang.core_open += found.first and found not in gang.doubtful
        if not gang.waiting or gang.sent >= self._most:
            self._ready.popleft()
            gang.listed = False
        return gang, found

    def settled(self, gang: Gang, order: Order, good: bool) -> None:
        """One of them is done with, well or not."""
        gang.sent -= 1
        gang.core_open -= order.first
        gang.doubtful.discard(order)
        self.left -= not gang.late
        if order.first and not good:
            self._give_up(gang)
        if gang.late and not gang.left:
            self._gangs.pop(order.whose, None)
        self._list(gang)

    def doubted(self, gang: Gang, order: Order) -> None:
        """Nobody knows about one of them: no turn waits for that."""
        self._leave_behind(gang)
        gang.doubtful.add(order)
        gang.sent -= 1
        gang.resting += 1

    def again(self, gang: Gang, order: Order) -> None:
        """Time to find out."""
        gang.resting -= 1
        gang.again.append(order)
        self._list(gang)

    def _leave_behind(self, gang: Gang) -> None:
        if gang.late:
            return
        gang.late = True
        self.left -= gang.left
        for order in gang.unsent():
            order.keep()

    def _give_up(self, gang: Gang) -> None:
        gang.good = False
        for order in gang.unsent():
            self.left -= not gang.late
            if gang.late:
                order.drop()
        gang.core.clear()
        gang.extras.clear()

    def _list(self, gang: Gang, urgent: bool = False) -> None:
        if not gang.listed and gang.waiting and gang.sent < self._most:
            gang.listed = True
            (self._ready.appendleft if urgent else self._ready.append)(gang)


class Crew:
    """Carries out orders as they are added, so many at once."""

    def __init__(self, at_once: int, late: Callable[[], None] = lambda: None) -> None:
        self._at_once, self._late = at_once, late  # `late` is called when something is settled after its turn
        self._line = Line(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = 0  # of them: one that has just ended is still among the tasks
        self._resting: dict[Order, asyncio.TimerHandle] = {}
        self._answers = 0
        self._rest = asyncio.Event()  # all of this turn is answered
        self._stopped = False
        self._error: BaseException | None = None

    @property
    def at_rest(self) -> bool:
        """Nothing is on its way or in doubt."""
        return not self._busy and not self._resting

    @property
    def doubtful(self) -> frozenset[str]:
        """Whose writes are in doubt."""
        return self._line.doubtful

    def __contains__(self, whose: str) -> bool:
        """Whether something of it is not settled."""
        return whose in self._line

    def open(self) -> None:
        """A turn begins."""
        if self._error is not None:
            raise self._error
        self._line.open()

    def add(self, orders: Iterable[Order], urgent: bool = False) -> None:
        """These, too; before all that wait where it is urgent."""
        self._line.add(orders, urgent)
        self._grow()

    def finish(self) -> None:
        """These were all of this turn."""
        self._line.finish()
        self._grow()

    async def settle(self, patience_seconds: float) -> None:
        """Until all of the turn is settled or in doubt, or nothing was answered for so long; then it is over."""
        while self._line.left and self._error is None:
            before = self._answers
            self._rest.clear()
            try:
                async with asyncio.timeout(patience_seconds):
                    await self._rest.wait()
            except TimeoutError:
                if self._answers == before:
                    break
        if self._error is not None:
            await self.stop()
            raise self._error
        self._line.close()

    async def stop(self) -> None:
        """Send nothing more, and give up what is on its way."""
        self._stopped = True
        for handle in self._resting.values():
            handle.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _grow(self) -> None:
        while not self._stopped and self._busy < self._at_once and (turn := self._line.take()) is not None:
            self._busy += 1
            task = asyncio.create_task(self._work(turn))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, turn: tuple[Gang, Order] | None) -> None:
        try:
            while turn is not None and not self._stopped:
                gang, order = turn
                self._answered(gang, order, await order.send())
                turn = self._line.take()
                self._grow()  # an answer may let many extras go
        except Exception as error:  # a bug: whoever waits for this turn, or begins the next one, is told
            self._stopped, self._error = True, self._error or error
            self._rest.set()
            self._late()
        finally:
            self._busy -= 1

    def _answered(self, gang: Gang, order: Order, answer: Answer) -> None:
        self._answers += 1
        if answer is Answer.DOUBT:
            self._line.doubted(gang, order)
            loop = asyncio.get_running_loop()
            self._resting[order] = loop.call_later(order.rest_seconds, self._again, gang, order)
        else:
            self._line.settled(gang, order, answer is Answer.YES)
        if not self._line.left:
            self._rest.set()
        if gang.late and answer is not Answer.DOUBT:
            self._late()

    def _again(self, gang: Gang, order: Order) -> None:
        del self._resting[order]
        self._line.again(gang, order)
        self._grow()
