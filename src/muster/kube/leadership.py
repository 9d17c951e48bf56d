"""Whether this replica may write, for how long, and in which term: decisions carry their term (I9)."""

import asyncio
import math
from types import TracebackType
from typing import Protocol
from weakref import WeakKeyDictionary

from muster.kube.errors import ApiError


class Leadership(Protocol):
    """A lease that is held, or lost, while the scheduler works."""

    @property
    def leading(self) -> bool:
        """Whether this replica may write now."""

    @property
    def seconds_left(self) -> float:
        """How long it may write without another renewal."""

    @property
    def term(self) -> int:
        """How often leadership has begun. After a change, another replica may have written in between."""


class AlwaysLeading:
    """The leadership of a single replica."""

    leading = True
    seconds_left = math.inf
    term = 0


def leads_in(leadership: Leadership, term: int) -> bool:
    """Whether a decision of this term may still be written."""
    return leadership.leading and leadership.term == term


def within_leadership(leadership: Leadership, seconds: float) -> "WriteTimeout":
    """Ends a write after so many seconds, or when leadership ends, whichever is first; ApiError 504 where it did.

    So no request is under way when leadership ends. The API server may still carry out a request that was given up:
    the margin between the end of leadership and the end of the lease is for that. A margin as long as a binding may
    take would be simpler, but a long `bindTimeoutSeconds` would then delay every change of leaders.
    """
    return WriteTimeout(max(min(seconds, leadership.seconds_left), 0.0))


class WriteDeadlines:
    """The deadlines of all writes under way on one event loop. One timer watches them: most writes end long before."""

    def __init__(self) -> None:
        self._writes: set[WriteTimeout] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: "WriteTimeout", loop: asyncio.AbstractEventLoop) -> None:
        """A write begins."""
        self._writes.add(write)
        if self._timer is None or write.deadline < self._timer.when():
            self._set_timer(loop, write.deadline)

    def discard(self, write: "WriteTimeout") -> None:
        """A write has ended."""
        self._writes.discard(write)
        if not self._writes and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the writes that are due, and waits for the next one."""
        self._timer, now = None, loop.time()
        for write in [each for each in self._writes if each.deadline <= now]:
            self._writes.remove(write)
            write.expire()
        if self._writes:
            self._set_timer(loop, min(write.deadline for write in self._writes))


_deadlines: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteDeadlines] = WeakKeyDictionary()


class WriteTimeout:
    """As `asyncio.timeout`, without a timer of its own and with ApiError 504: every binding has one."""

    __slots__ = ("_cancelling", "_deadlines", "_is_expired", "_seconds", "_task", "deadline")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_expired = False

    def __enter__(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # there is nothing else that could be cancelled
        self._task, self._cancelling = task, task.cancelling()
        self.deadline = loop.time() + self._seconds
        deadlines = _deadlines.get(loop)
        if deadlines is None:
            deadlines = _deadlines[loop] = WriteDeadlines()
        self._deadlines = deadlines
        deadlines.add(self, loop)

    def expire(self) -> None:
        """It took too long."""
        self._is_expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_expired:  # the caller's own cancellation goes on
            is_ended = self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)
        else:
            self._deadlines.discard(self)
            is_ended = False
        if is_ended or isinstance(error, TimeoutError):
            raise ApiError(504, "Timeout", "no answer in time") from None
