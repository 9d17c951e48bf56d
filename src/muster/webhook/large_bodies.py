"""The bodies of large requests in memory: bounded in bytes, all together.

Rule: where the bytes are used up, a body waits for others to be answered. One that has been arriving for long gives its
bytes to others: an honest client sends megabytes in a fraction of a second, a slow one must not keep others waiting.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from muster.webhook.admission_review import ReviewError

SLOW_SECONDS = 1.0
CHECK_SECONDS = 0.1
TOO_MANY = 503


class LargeBody:
    """A body that is arriving, or whose request is being answered."""

    def __init__(self, since: float) -> None:
        self.since, self.size = since, 0
        self.limit: asyncio.Timeout | None = None  # around what its reader waits for
        self.is_displaced = False


class LargeBodies:
    """All of them. A single one is always let in, whatever its size."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most_bytes, clock
        self._arriving: OrderedDict[LargeBody, None] = OrderedDict()
        self._changed = asyncio.Event()
        self.size = 0  # in all
        self._highest = 0  # since none was left

    async def read(self, body: bytearray, chunks: AsyncIterator[bytes]) -> LargeBody:
        """Reads the rest of a body; to be released once it is not needed any more. ReviewError: others needed room."""
        reserved = LargeBody(self._clock())
        self._arriving[reserved] = None
        try:
            async with asyncio.timeout(None) as reserved.limit:
                await self._reserve(reserved, len(body))
                async for chunk in chunks:
                    await self._reserve(reserved, len(chunk))
                    body += chunk
        except BaseException as error:
            self.release(reserved)
            if reserved.is_displaced and isinstance(error, TimeoutError):
                raise ReviewError(TOO_MANY, "too many large requests at once, and this one is slow") from None
            raise
        finally:
            self._arriving.pop(reserved, None)
        return reserved

    def release(self, body: LargeBody) -> None:
        """Its bytes are free."""
        self.size -= body.size
        body.size = 0
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def becomes_quiet(self) -> bool:
        """Whether none is left of many; says so once."""
        was_busy = self._highest > self._most // 4
        if self.size or not was_busy:
            return False
        self._highest = 0
        return True

    async def _reserve(self, body: LargeBody, size: int) -> None:
        while self.size + size > self._most and self.size > body.size:
            if not self._displace_slow(body):
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._changed.wait()
        self.size += size
        body.size += size
        self._highest = max(self._highest, self.size)

    def _displace_slow(self, other: LargeBody) -> bool:
        """Ends the one that has been arriving for longest, if that is long."""
        oldest = next((body for body in self._arriving if body is not other), None)
        if oldest is None or self._clock() - oldest.since <= SLOW_SECONDS or oldest.limit is None:
            return False
        oldest.is_displaced = True
        del self._arriving[oldest]
        oldest.limit.reschedule(asyncio.get_running_loop().time())
        self.release(oldest)
        return True
