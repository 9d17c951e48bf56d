"""Work on the event loop, which the scheduler runs on, too: in slices, and for a share of its time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
SLICE_SECONDS = 0.004
BATCH = 1_000  # items on which next to nothing is done
REST = 4  # times as long as the work took: a fifth of the time


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a pause whenever the work on them took a while."""
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.monotonic()


async def in_batches(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items, many at a time, with a pause after each batch."""
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
        await asyncio.sleep(0)


class LoopShare:
    """Work for viewers: one piece at a time, for at most a share of the time, however much is requested.

    A peer waits for one piece of each other peer, and not for all that they request.
    """

    def __init__(self) -> None:
        self._peers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._working = asyncio.Lock()
        self._rested_at = float("-inf")

    async def run(self, peer: str, work: Callable[[], T]) -> T:
        """Does the work once the loop has rested from what was done before it."""
        own = self._peers.setdefault(peer, asyncio.Lock())
        async with own, self._working:
            await asyncio.sleep(max(self._rested_at - time.monotonic(), 0))
            began = time.monotonic()
            try:
                return work()
            finally:
                ended = time.monotonic()
                self._rested_at = ended + REST * (ended - began)
