"""Writes, so many at once and no more.

Rule: where one raises or all are cancelled, every one of them has ended before this returns: nothing keeps writing
behind a cycle that has failed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from muster.planning.decision import Binding

T = TypeVar("T")
Bindings = Sequence[Binding]


async def each(do: Callable[[T], Awaitable[object]], things: Sequence[T], at_once: int) -> None:
    """One after the other, by a few at a time."""
    line = iter(things)

    async def work() -> None:
        for thing in line:
            await do(thing)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(things))):
            tasks.create_task(work())


class Gang:
    """The bindings of one gang: the core first, as extras are not worth having without it."""

    def __init__(self) -> None:
        self.core: deque[Binding] = deque()
        self.extras: deque[Binding] = deque()
        self.sent = 0  # and not yet answered
        self.core_sent = 0  # of them
        self.good = True  # no binding of the core has failed: else the rest is left to the next plan (G5)
        self.listed = False  # it stands in line

    @property
    def waiting(self) -> deque[Binding]:
        """Those that may be sent now."""
        if not self.good:
            return deque()
        return self.core or (self.extras if not self.core_sent else deque())


class Line:
    """Bindings that may be sent now, gang by gang; the extras of a gang come once its whole core is bound.

    No gang has more than half of the places, so that one whose bindings are not answered does not hold up the others;
    where no others can come any more, it has all of them.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._gangs: dict[tuple[str, str], Gang] = {}
        self._ready: deque[Gang] = deque()
        self.complete = False  # no more will be added

    @property
    def _most(self) -> int:
        return self._at_once if self.complete and len(self._gangs) == 1 else max(self._at_once // 2, 1)

    def add(self, bindings: Bindings) -> None:
        """More of some gangs."""
        for one in bindings:
            gang = self._gangs.setdefault((one.namespace, one.pod_group), Gang())
            (gang.core if one.role == "core" else gang.extras).append(one)
        for key in {(one.namespace, one.pod_group): None for one in bindings}:
            self._list(self._gangs[key])

    def finish(self) -> None:
        """Nothing will be added."""
        self.complete = True
        for gang in self._gangs.values():
            self._list(gang)

    def take(self) -> tuple[Gang, Binding] | None:
        """The next one, and whose it is; None: there is none right now."""
        while self._ready and not self._ready[0].waiting:
            self._ready.popleft().listed = False  # its core has failed while it stood in line
        if not self._ready:
            return None
        gang = self._ready[0]
        found = gang.waiting.popleft()
        gang.sent += 1
        gang.core_sent += found.role == "core"
        if not gang.waiting or gang.sent >= self._most:
            self._ready.popleft()
            gang.listed = False
        return gang, found

    def answered(self, gang: Gang, binding: Binding, good: bool) -> None:
        """One of them is done with, well or not."""
        gang.sent -= 1
        if binding.role == "core":
            gang.core_sent -= 1
            gang.good = gang.good and good
        self._list(gang)

    def _list(self, gang: Gang) -> None:
        if not gang.listed and gang.waiting and gang.sent < self._most:
            gang.listed = True
            self._ready.append(gang)


class Crew:
    """Sends bindings as they are added, so many at once."""

    def __init__(self, bind: Callable[[Binding], Awaitable[bool]], at_once: int, tasks: asyncio.TaskGroup) -> None:
        self._bind, self._at_once, self._tasks = bind, at_once, tasks
        self._line = Line(at_once)
        self._busy = 0
        self._stopped = False

    def stop(self) -> None:
        """Send nothing more: the group of tasks is ending, and takes no new ones."""
        self._stopped = True

    def add(self, bindings: Bindings) -> None:
        """These, too."""
        self._line.add(bindings)
        self._grow()

    def finish(self) -> None:
        """These were all."""
        self._line.finish()
        self._grow()

    def _grow(self) -> None:
        while not self._stopped and self._busy < self._at_once and (turn := self._line.take()) is not None:
            self._busy += 1
            self._tasks.create_task(self._work(turn))

    async def _work(self, turn: tuple[Gang, Binding] | None) -> None:
        while turn is not None and not self._stopped:
            gang, binding = turn
            try:
                good = await self._bind(binding)
            except BaseException:
                self.stop()
                raise
            self._line.answered(gang, binding, good)
            turn = self._line.take()
            self._grow()  # an answer may let many extras go
        self._busy -= 1
