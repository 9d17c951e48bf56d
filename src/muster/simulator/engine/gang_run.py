"""One gang over time: when it waits, when it works, and what interruptions cost. No I/O, no clock.

A gang *waits* while its root is not satisfied by bound pods, and *works* while it is satisfied by running ones.
"""

from typing import Literal

from msgspec import Struct

from muster.simulator.scenario.gang_template import GangArrival

Cause = Literal["eviction", "failure"]


class GangRun(Struct, gc=False):
    """The state of one gang; times are milliseconds of virtual time."""

    key: str  # namespace/name
    name: str
    queue: str
    class_name: str
    size: int  # pods
    gpus: int  # that all of its pods request
    arrived_ms: int
    arrival: GangArrival | None = None  # None: it was there from the start, and runs for ever
    remaining_ms: int | None = None  # of its work, with all of its pods; None: it never ends
    stretch: int = 0  # how often its finish was scheduled
    works_since_ms: int | None = None  # None: it does not work
    waits_since_ms: int | None = None  # None: it does not wait
    waited_ms: int = 0  # in all, without the current wait
    pods_now: int = 0  # that work
    gpus_now: int = 0  # that its working pods hold
    counted_ms: int = 0  # until when its work is counted
    gpu_ms: int = 0  # GPU time of the current stretch of work
    first_wait_ms: int | None = None  # from arrival to its first start; None: it never started
    full_ms: int | None = None  # when all of its pods were bound for the first time
    finished_ms: int | None = None
    starts: int = 0
    evicted_pods: int = 0
    moved_pods: int = 0
    failed_pods: int = 0
    lost_to_evictions: int = 0  # GPU milliseconds
    lost_to_failures: int = 0
    cause: Cause = "eviction"  # of the last loss of pods
    verdict: str = ""  # of the last cycle that judged it
    reason: str = ""  # why it waited, then
    wanted: tuple[int, ...] = ()  # pods of each template at this time of day; empty: all, always
    grows_since_ms: int | None = None  # when more pods were wanted that are not all bound; None: all are
    domains: int = 0  # of the finest level, that its pods were in at its first start
    least_domains: int = 0  # that could have held them

    @property
    def wanted_pods(self) -> int:
        """How many pods it has now, placed or not."""
        return sum(self.wanted) if self.wanted else self.size

    def work(self, now_ms: int, pods: int, gpus: int) -> int | None:
        """Its core runs, with so many pods in all; returns when it will finish, if that is not known yet."""
        is_begun = self.works_since_ms is None
        if is_begun:
            self.works_since_ms = self.counted_ms = now_ms
            self.gpu_ms = 0
        self._count_work(now_ms)
        is_as_fast = not is_begun and (pods == self.pods_now or not self._is_linear)
        self.pods_now, self.gpus_now = pods, gpus
        if self.remaining_ms is None or is_as_fast:
            return None
        self.stretch += 1
        return now_ms + (-(-self.remaining_ms * self.size // pods) if self._is_linear else self.remaining_ms)

    def interrupt(self, now_ms: int) -> None:
        """Its core runs no longer: what it did is lost, or kept where it resumes."""
        self._count_work(now_ms)
        self.works_since_ms, self.pods_now, self.gpus_now = None, 0, 0
        if self.arrival is None or self.arrival.is_resumed:
            return
        self.remaining_ms = self.arrival.duration_ms
        if self.cause == "eviction":
            self.lost_to_evictions += self.gpu_ms
        else:
            self.lost_to_failures += self.gpu_ms

    def finish(self, now_ms: int) -> None:
        """Its work is done."""
        self._count_work(now_ms)
        self.works_since_ms, self.finished_ms = None, now_ms

    @property
    def _is_linear(self) -> bool:
        return self.arrival is not None and self.arrival.is_linear

    def _count_work(self, now_ms: int) -> None:
        """What was done since it was counted last; half of the pods do half of the work, where that is linear."""
        passed_ms, self.counted_ms = now_ms - self.counted_ms, now_ms
        self.gpu_ms += self.gpus_now * passed_ms
        if self.remaining_ms is not None:
            done_ms = passed_ms * self.pods_now // self.size if self._is_linear else passed_ms
            self.remaining_ms = max(self.remaining_ms - done_ms, 0)

    def begin_wait(self, now_ms: int) -> None:
        """Its root is not satisfied by bound pods any more."""
        if self.waits_since_ms is None:
            self.waits_since_ms = now_ms

    def end_wait(self, now_ms: int) -> None:
        """Its root is satisfied by bound pods."""
        if self.waits_since_ms is not None:
            self.waited_ms += now_ms - self.waits_since_ms
            self.waits_since_ms = None
        if self.first_wait_ms is None:
            self.first_wait_ms = now_ms - self.arrived_ms
        self.starts += 1
