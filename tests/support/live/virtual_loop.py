"""An event loop in virtual time: where nothing is ready, the clock jumps to the next timer.

Every sleep, timeout and timer of the code under test runs as it is, and an hour takes a moment. Rule: time stands still
while a thread works, as its result belongs to the moment in which it began.
"""

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from muster.embedded.kubelet.clock import EPOCH

T = TypeVar("T")
IDLE_SECONDS = 0.001  # of real time, between two looks at threads
MOST_IDLE = 60_000  # looks; then something waits for what never comes


class JumpingSelector(selectors.DefaultSelector):
    """Waits for real only while threads work; else the time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._threads = threading.active_count()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        for _ in range(MOST_IDLE):
            if ready := super().select(0):
                return ready
            if threading.active_count() > self._threads:
                if ready := super().select(IDLE_SECONDS):
                    return ready
                continue
            if timeout is not None:
                self.now += max(timeout, 0.0)
                return []
            super().select(IDLE_SECONDS)
        raise AssertionError("nothing will ever happen: no timer is set, and no thread works")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0, and is that of `JumpingSelector`."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class LoopClock:
    """The time of the running loop, for kubelets and stores."""

    def now(self) -> datetime:
        milliseconds = round(asyncio.get_running_loop().time() * 1000)
        return EPOCH + timedelta(milliseconds=milliseconds)

    async def wait(self, woken: asyncio.Event, until: datetime | None) -> None:
        seconds = None if until is None else max(0.0, (until - self.now()).total_seconds())
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            return


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
