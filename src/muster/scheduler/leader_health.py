"""Why a replica must not lead: its watch is dead, its cycle makes no progress, or its writes are not answered.

A lease that is renewed says only that the API server answers renewals. A leader with one of these problems gives the
lease up, and a candidate with one does not compete.
"""

import math
from collections.abc import Callable

from muster.api.resources import PODS
from muster.scheduler.apply.write_state import LOST_SECONDS
from muster.scheduler.leader_election import LeaderProblem
from muster.scheduler.loop import Scheduler
from muster.scheduler.progress import Progress

SETTLE_SECONDS = LOST_SECONDS + 15.0  # a write without an answer is settled by then, if the API server answers reads


class LeaderHealth:
    """Polled by the election; `problem` is that of the last poll."""

    def __init__(
        self, scheduler: Scheduler, progress_seconds: float, silent_watch_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._scheduler, self._silent_seconds = scheduler, silent_watch_seconds
        self._progress_seconds = progress_seconds
        self._write_seconds = max(progress_seconds, scheduler.settings.bind_timeout_seconds + SETTLE_SECONDS)
        self._cycle = Progress(self._progress_seconds, clock)
        self._writes = Progress(self._write_seconds, clock)
        self._own_changes = Progress(silent_watch_seconds, clock)
        self.problem: LeaderProblem | None = None

    def poll(self) -> LeaderProblem | None:
        """What is wrong now; None: nothing."""
        problems = (self._dead_watch(), self._unseen_changes(), self._stuck_cycle(), self._unanswered_writes())
        self.problem = next((problem for problem in problems if problem is not None), None)
        return self.problem

    def _dead_watch(self) -> LeaderProblem | None:
        """The watch that has been without a response for longest, where that is too long."""
        kind, health = max(self._scheduler.watched.health.items(), key=lambda watch: watch[1].lag_seconds())
        lag = health.lag_seconds()
        if lag <= self._silent_seconds:
            return None
        why = f": {health.error.message}" if health.error else ""
        return LeaderProblem("WatchDead", f"the watch of {kind.plural} is dead: silent for {math.floor(lag)} s{why}")

    def _unseen_changes(self) -> LeaderProblem | None:
        """A watch of pods that is reopened again and again, but does not show what this replica itself has changed.

        Only cycles find out that a pod is shown, so a replica that does not lead may assume pods for ever.
        """
        watched = self._scheduler.watched
        number, received_at = len(watched.assumed_pods), watched.health[PODS].received_at
        if not self._own_changes.is_stuck(self._scheduler.leadership.leading and number > 0, received_at):
            return None
        return LeaderProblem(
            "WatchDead",
            f"the watch of pods is dead: it has shown nothing for {self._silent_seconds:g} s, although {number} pods "
            "were bound or evicted",
        )

    def _stuck_cycle(self) -> LeaderProblem | None:
        if not self._cycle.is_stuck(self._scheduler.began is not None, self._scheduler.results):
            return None
        return LeaderProblem(
            "CycleStuck", f"the cycle makes no progress: it has had no result for {self._progress_seconds:g} s"
        )

    def _unanswered_writes(self) -> LeaderProblem | None:
        write_pool = self._scheduler.applier.write_pool
        if not self._writes.is_stuck(not write_pool.at_rest, self._scheduler.settled_writes):
            return None
        return LeaderProblem(
            "WritesUnanswered",
            f"the API server answers no writes: bindings or evictions of {len(write_pool.unsettled)} gangs have waited "
            f"for {self._write_seconds:g} s",
        )
