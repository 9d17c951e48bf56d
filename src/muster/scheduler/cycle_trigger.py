"""When the next cycle runs: after a change once changes pause for a moment, after a failure with a backoff, or idly.

Level-triggered: a cycle plans on everything that is known, so no change has to be replayed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from muster.config.settings import Scheduling
from muster.kube.backoff import Backoff

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 12.8  # after failures in a row


class CycleTrigger:
    """Woken by whatever changes or fails; the loop waits for it."""

    def __init__(self, settings: Scheduling, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._woken = asyncio.Event()
        self._late_writes = RetryTimer(self)
        self.changed_at: float | None = None  # the first change that no plan answers yet

    def wake(self) -> None:
        """Something changed: plan soon."""
        if self.changed_at is None:
            self.changed_at = self._clock()
        self._woken.set()

    def retry(self) -> None:
        """Nothing changed, but something is to be tried again: plan soon."""
        self._woken.set()

    def settled_late(self, is_confirmed: bool) -> None:
        """A write was settled after its cycle: its gang has waited for that."""
        self._late_writes.report(failed=not is_confirmed)
        if is_confirmed:
            self.wake()

    async def wait(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Returns once something changed and then nothing for a moment, or for long enough; or when idle for too long.

        `meanwhile` is work that the cycle would do otherwise.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.idle_cycle_seconds):  # wait_for may lose a cancellation
                await self._woken.wait()
        end = self._clock() + self._settings.longest_debounce_milliseconds / 1000
        while self._clock() < end:
            self._woken.clear()
            await asyncio.sleep(self._settings.debounce_milliseconds / 1000)
            await meanwhile()
            if not self._woken.is_set():
                break
        self._woken.clear()


class CycleTimer:
    """Starts a cycle later; one at a time, or they would multiply."""

    def __init__(self, trigger: CycleTrigger) -> None:
        self._trigger = trigger
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Whether a cycle will start."""
        return self._handle is not None

    def start(self, seconds: float) -> None:
        """Unless it is set already."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(seconds, self._fire)

    def cancel(self) -> None:
        """No cycle has to start any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._trigger.retry()


class RetryTimer:
    """Starts a cycle after failures; each in a row waits twice as long."""

    def __init__(self, trigger: CycleTrigger) -> None:
        self._timer, self._backoff = CycleTimer(trigger), Backoff(FIRST_SECONDS, LONGEST_SECONDS)

    def report(self, failed: bool) -> None:
        """Some work has ended."""
        if not failed:
            self._backoff.reset()
            self._timer.cancel()
        elif not self._timer.is_set:
            self._timer.start(self._backoff.next_seconds())
