"""Writes, so many at once and no more.

Rule: where one raises or all are cancelled, every one of them has ended before this returns: nothing keeps writing
behind a cycle that has failed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from muster.planning.decision import Binding

T = TypeVar("T")
Bindings = Iterable[Binding]  # of one gang


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

    def __init__(self, bindings: Bindings) -> None:
        every = list(bindings)
        core, extras = (deque(one for one in every if (one.role == "core") is first) for first in (True, False))
        self.waiting, self.later = (core, extras) if core else (extras, core)
        self.sent = 0  # and not yet answered
        self.good = True  # so far


class Line:
    """Bindings that may be sent now, gang by gang; the extras of a gang come once its whole core is bound.

    No gang has more than `most` under way, so that one whose bindings are not answered does not hold up the others.
    """

    def __init__(self, gangs: Iterable[Bindings], most: int) -> None:
        self._most = most
        self._ready = deque(map(Gang, gangs))

    def take(self) -> tuple[Gang, Binding] | None:
        """The next one, and whose it is; None: there is none right now."""
        if not self._ready:
            return None
        gang = self._ready[0]
        gang.sent += 1
        found = gang.waiting.popleft()
        if not gang.waiting or gang.sent == self._most:
            self._ready.popleft()
        return gang, found

    def answered(self, gang: Gang, good: bool) -> None:
        """One of them is done with, well or not."""
        held_up = bool(gang.waiting) and gang.sent == self._most
        gang.sent -= 1
        gang.good = gang.good and good
        if not gang.waiting and not gang.sent and gang.good and gang.later:
            gang.waiting, gang.later = gang.later, gang.waiting
            self._ready.append(gang)
        elif held_up:
            self._ready.append(gang)


async def bind_all(bind: Callable[[Binding], Awaitable[bool]], gangs: Iterable[Bindings], at_once: int) -> None:
    """Every binding whose turn comes."""
    every = list(gangs)
    line = Line(every, at_once if len(every) == 1 else max(at_once // 2, 1))
    busy = 0

    async def work(turn: tuple[Gang, Binding] | None) -> None:
        nonlocal busy
        while turn is not None:
            gang, binding = turn
            line.answered(gang, await bind(binding))
            turn = line.take()
            grow()  # an answer may let many extras go
        busy -= 1

    def grow() -> None:
        nonlocal busy
        while busy < at_once and (turn := line.take()) is not None:
            busy += 1
            tasks.create_task(work(turn))

    async with asyncio.TaskGroup() as tasks:
        grow()
