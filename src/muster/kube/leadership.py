"""Whether this replica may write, for how long, and in which term: decisions carry their term (I9)."""

import asyncio
import math
from types import TracebackType
from typing import Protocol

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


class WriteTimeout:
    """`asyncio.timeout` that raises ApiError 504. A class: a generator costs half as much again."""

    def __init__(self, seconds: float) -> None:
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise ApiError(504, "Timeout", "no answer in time") from None
        if isinstance(error, TimeoutError):
            raise ApiError(504, "Timeout", "no answer in time") from None
