"""Clocks of the kubelet loop: the real one, and one that tests advance."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """The time, and waiting for it."""

    def now(self) -> datetime:
        """The current time, with a zone."""

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        """Wait until the event is set or the time has come; None: for the event alone."""


class RealClock:
    """The system's clock."""

    def now(self) -> datetime:
        """See Clock."""
        return datetime.now(UTC)

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        """See Clock."""
        seconds = None if until is None else max(0.0, (until - self.now()).total_seconds())
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            return


class ManualClock:
    """A clock that only `advance` moves."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._now = start
        self._waiters: dict[int, tuple[datetime, asyncio.Event]] = {}

    def now(self) -> datetime:
        """See Clock."""
        return self._now

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        """See Clock."""
        if until is not None and until <= self._now:
            return
        if until is not None:
            self._waiters[id(woken)] = (until, woken)
        try:
            await woken.wait()
        finally:
            self._waiters.pop(id(woken), None)

    async def advance(self, seconds: float) -> None:
        """Move the clock once other tasks are idle; tasks that waited for the new time have run on return."""
        await settled()
        self._now += timedelta(seconds=seconds)
        for until, woken in tuple(self._waiters.values()):
            if until <= self._now:
                woken.set()
        await settled()


async def settled(iterations: int = 200) -> None:
    """Let other tasks run until they are idle; enough where none of them waits for I/O."""
    for _ in range(iterations):
        await asyncio.sleep(0)
