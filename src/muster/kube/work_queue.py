"""Keys to reconcile: each waits at most once, and no two workers have the same key at a time.

Level-triggered: a key says that something about it changed, not what. A key that is added while it is worked on comes
again afterwards. Failures wait with a backoff of their own and hold up no other key; keys that fail together come again
one by one, as chance spreads them.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from muster.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)
FIRST_SECONDS, LONGEST_SECONDS = 0.05, 30.0  # after failures of one key in a row


class WorkQueue(Generic[K]):
    """Reconciles keys with a bounded number of workers."""

    def __init__(
        self,
        first_seconds: float = FIRST_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = first_seconds, longest_seconds, chance
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in `_ready`
        self._working: set[K] = set()
        self._again: set[K] = set()  # added while they were worked on
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._backoffs: dict[K, Backoff] = {}
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._working) + len(self._timers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now; keys may still wait for their time."""
        return not self._waiting and not self._working

    @property
    def has_failures(self) -> bool:
        """Whether a key failed and is to be tried again."""
        return bool(self._backoffs)

    def add(self, key: K) -> None:
        """Reconcile it soon; at once, even where it waits for its time."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._woken.set()

    def add_later(self, key: K, seconds: float) -> None:
        """Reconcile it after so many seconds, unless that happens before."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._waiting or key in self._again or (timer and timer.when() <= loop.time() + seconds):
            return
        if timer:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def clear(self) -> None:
        """Forgets all keys but those that are worked on."""
        for timer in self._timers.values():
            timer.cancel()
        for held in (self._ready, self._waiting, self._again, self._timers, self._backoffs):
            held.clear()

    async def run(self, reconcile: Callable[[K], Awaitable[bool]], workers: int) -> None:
        """Reconciles without end. `reconcile` returns whether it is done with the key; otherwise it comes again."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(workers):
                    tasks.create_task(self._work(reconcile), name=f"worker {number}")
        finally:
            self.clear()

    async def _work(self, reconcile: Callable[[K], Awaitable[bool]]) -> None:
        while True:
            key = await self._next()
            try:
                is_done = await reconcile(key)
            finally:
                self._working.discard(key)
            self._settle(key, is_done)

    async def _next(self) -> K:
        while not self._ready:
            self._woken.clear()
            await self._woken.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def _settle(self, key: K, is_done: bool) -> None:
        is_changed = key in self._again
        self._again.discard(key)
        if is_done:
            self._backoffs.pop(key, None)
        if is_changed:
            self.add(key)
        elif not is_done:
            backoff = self._backoffs.setdefault(key, Backoff(*self._backoff))
            self.add_later(key, backoff.next_seconds())
