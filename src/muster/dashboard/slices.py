"""Work on the event loop in slices: others run between them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.004
BATCH = 1_000  # items on which next to nothing is done


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
