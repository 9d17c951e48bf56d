"""Longer searches for gangs that were cut short, beside the cycles: one at a time, and never while a cycle runs (X7).

Rule: an answer is a hint for the next cycle, which checks it again. What was tried on an unchanged cluster is not tried
again.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import structlog
from msgspec import Struct

from muster.model.snapshot import Snapshot
from muster.placement.budget import Cancelled
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.memory.longer_search import LongerAnswer, cut_short, search_longer
from muster.planning.policy import Policy
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.observer import Observer

log = structlog.get_logger()
MOST_TRIED = 10_000  # searches that are remembered
MOST_AT_ONCE = 8  # gangs that are searched for after one cycle: others follow after the next
REST_SECONDS = 0.001  # between slices of work: the loop has the interpreter to itself for a moment
LOOK_SECONDS = 0.2  # while a cycle runs: how often a search checks whether it is cancelled


class SearchRequest(Struct, frozen=True, eq=False):
    """The outcome of a cycle that left gangs without an answer."""

    snapshot: Snapshot
    policy: Policy
    gangs: tuple[str, ...]


class LongerSearches:
    """A loop of its own; `on_hint` is called when there is a hint for the next cycle."""

    def __init__(
        self, memory: AnswerCache, steps: int, observer: Observer, on_hint: Callable[[], None] = lambda: None
    ) -> None:
        self._memory, self._steps, self._observer, self._on_hint = memory, steps, observer, on_hint
        self._tried: OrderedDict[bytes, None] = OrderedDict()
        self._latest: SearchRequest | None = None
        self._woken = asyncio.Event()
        self._last = ""  # the gang that was searched for last
        self._no_cycle_runs = threading.Event()
        self._no_cycle_runs.set()
        self._cancelled = threading.Event()

    def offer(self, snapshot: Snapshot, policy: Policy, plan: CyclePlan) -> None:
        """A cycle has ended: searches soon for gangs whose search was cut short."""
        gangs = tuple(cut_short(plan)) if self._steps else ()
        self._latest = SearchRequest(snapshot, policy, gangs) if gangs else None
        known = {gang_plan.gang.key for gang_plan in plan.gangs}
        self._memory.hints = {key: hint for key, hint in self._memory.hints.items() if key in known}
        if gangs:
            self._woken.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pauses the search while a cycle runs: the cycle has the interpreter to itself."""
        self._no_cycle_runs.clear()
        try:
            yield
        finally:
            self._no_cycle_runs.set()

    def forget(self) -> None:
        """Cancels the search and drops every hint: another replica leads, and searches."""
        self._latest = None
        self._memory.hints = {}
        self._cancelled.set()

    async def run(self) -> None:
        """Searches without end."""
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                request, self._latest = self._latest, None
                if request is not None:
                    self._cancelled = threading.Event()
                    await self._search_each(request)
        finally:
            self._cancelled.set()

    async def _search_each(self, request: SearchRequest) -> None:
        is_cancelled = self._cancelled
        for gang in _next_gangs(request.gangs, self._last):
            work = partial(search_longer, request.snapshot, request.policy, gang, self._steps)
            try:
                answer = await in_daemon_thread(
                    "longer search", partial(work, partial(self._rest, is_cancelled), self._tried)
                )
            except Cancelled:
                return
            except Exception:  # as in a cycle: the failure of one gang does not affect others
                log.exception("longer search failed", gang=gang)
                answer = None
            self._last = gang
            if answer is not None and not is_cancelled.is_set():
                self._answered(gang, answer)

    def _answered(self, gang: str, answer: LongerAnswer) -> None:
        self._tried[answer.question] = None
        while len(self._tried) > MOST_TRIED:
            self._tried.popitem(last=False)
        outcome = "found" if answer.hint else "infeasible" if answer.is_known else "unknown"
        log.info("longer search", gang=gang, outcome=outcome, steps=answer.steps)
        self._observer.longer_search_ended(outcome)
        if answer.hint is not None:
            self._memory.hints[gang] = answer.hint
            self._on_hint()

    def _rest(self, is_cancelled: threading.Event) -> bool:
        """Called by the search between its steps, in its thread: waits for cycles; returns whether to stop."""
        time.sleep(REST_SECONDS)
        while not is_cancelled.is_set():
            if self._no_cycle_runs.wait(LOOK_SECONDS):
                return is_cancelled.is_set()
        return True


def _next_gangs(gangs: Sequence[str], last: str) -> list[str]:
    """Some of the gangs, from the one after `last` on."""
    return sorted(gangs, key=lambda gang: (gang <= last, gang))[:MOST_AT_ONCE]
