"""Work on the event loop in slices: others run between them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.004


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a pause whenever the work on them took a while."""
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.monotonic()
