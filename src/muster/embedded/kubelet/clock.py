"""Time as something that is given: the real one, or one that stands still until it is told to go on."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What loops ask of time."""

    def now(self) -> datetime:
        """This moment, with a zone."""

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        """Until the event is set, or the moment has come; None: for the event alone."""


class RealClock:
    """The time on the wall."""

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
    """Time that moves only by `advance`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._now = start
        self._sleepers: dict[int, tuple[datetime, asyncio.Event]] = {}

    def now(self) -> datetime:
        """See Clock."""
        return self._now

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        """See Clock."""
        if until is not None and until <= self._now:
            return
        if until is not None:
            self._sleepers[id(woken)] = (until, woken)
        try:
            await woken.wait()
        finally:
            self._sleepers.pop(id(woken), None)

    async def advance(self, seconds: float) -> None:
        """So much later, once everybody is done with the present; who waited for it has had a turn on return."""
        await settled()
        self._now += timedelta(seconds=seconds)
        for until, woken in tuple(self._sleepers.values()):
            if until <= self._now:
                woken.set()
        await settled()


async def settled(turns: int = 200) -> None:
    """Let everybody else run for a while; enough where nothing waits for the world outside."""
    for _ in range(turns):
        await asyncio.sleep(0)
