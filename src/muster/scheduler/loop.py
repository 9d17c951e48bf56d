"""The scheduler: watches the cluster, and runs a cycle whenever something changed and this replica leads.

Data flows one way: watched cluster, cycle, write pool, binder and evictor, events and statuses. What happens later,
a change or a failure, only wakes the trigger of the next cycle.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from muster.api.core import Pod
from muster.config.settings import Scheduling
from muster.kube.cluster import Cluster
from muster.kube.leadership import AlwaysLeading, Leadership
from muster.kube.write_bursts import WriteBurst
from muster.model.snapshot import Snapshot
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.apply.binder import Binder, member_in, wanted_in
from muster.scheduler.apply.eviction_backoff import EvictionBackoff
from muster.scheduler.apply.evictor import Evictor
from muster.scheduler.apply.nominator import Nominator
from muster.scheduler.apply.plan_applier import PlanApplier
from muster.scheduler.apply.pod_api import PodApi
from muster.scheduler.apply.volume_binder import VolumeBinder
from muster.scheduler.apply.write_pool import WritePool
from muster.scheduler.cycle_runner import CycleRunner
from muster.scheduler.cycle_trigger import CycleTimer, CycleTrigger, RetryTimer
from muster.scheduler.longer_searches import LongerSearches
from muster.scheduler.marked_bindings import MarkedBindings
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.status.event_queue import EventQueue
from muster.scheduler.status.status_writer import StatusWriter
from muster.scheduler.watched_cluster import WatchedCluster

CATCH_UP_SECONDS, CATCH_UP_RETRY_SECONDS = 3.0, 0.05


class Scheduler:
    """One scheduler on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Scheduling | None = None,
        leadership: Leadership | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        observer: Observer | None = None,
        policy: Policy | None = None,
        reports_orphan: Callable[[Pod], bool] = lambda _: True,
    ) -> None:
        """`reports_orphan`: whether a pod without a gang is reported here; False: the pod grouper does."""
        self.cluster, self.settings, self.clock, self.wall = cluster, settings or Scheduling(), clock, wall
        self.leadership: Leadership = leadership or AlwaysLeading()
        self.observer: Observer = observer or NoObserver()
        self.observer.leads(lambda: self.leadership.leading and not self.settings.dry_run)
        self._trigger = CycleTrigger(self.settings, clock)
        self.watched = WatchedCluster(cluster, self.settings, clock, self.observer, self._trigger)
        self.memory = AnswerCache()  # of earlier cycles (X7)
        self.longer = LongerSearches(self.memory, self.settings.long_search_steps, self.observer, self._trigger.wake)
        self._settled_late = 0  # writes that were settled after their cycle
        write_pool = WritePool(self.settings.bind_concurrency, self._count_late)
        self._writers: list[Callable[[], bool]] = [lambda: write_pool.is_sending]
        self.status_writer = self._make_status_writer(reports_orphan)
        self.events = self._make_events(write_pool)
        self.applier = self._make_applier(write_pool)
        self.marked_bindings = MarkedBindings(cluster, self.watched, lambda: write_pool.is_sending)
        self.runner = self._make_runner(policy)
        self._observe_backlogs()
        self._is_stopped = False
        self._expecting: asyncio.Task[None] | None = None  # connections that are opened for the first bindings
        self._expecting_term = 0  # of leadership, for which they were
        self._relisted_term = 0  # of leadership: pods were listed since it began
        self._has_grouped: Callable[[], bool] = lambda: True
        self._catching_up = CycleTimer(self._trigger)
        self._caught_up_by: float | None = None  # when the first cycle of a term begins at the latest

    def _observe_backlogs(self) -> None:
        self.observer.backlog("writes_in_flight", lambda: self.applier.write_pool.in_flight)
        self.observer.backlog("unconfirmed_bindings", lambda: self.applier.binder.unconfirmed_number)
        self.observer.backlog("assumed_pods", lambda: len(self.watched.assumed_pods))
        self.observer.backlog("events_queued", lambda: len(self.events))

    def _make_status_writer(self, reports_orphan: Callable[[Pod], bool]) -> StatusWriter:
        retries, seconds = RetryTimer(self._trigger), float(self.settings.bind_timeout_seconds)
        return StatusWriter(
            self.cluster,
            self.leadership,
            self.clock,
            seconds,
            self.observer,
            retries.report,
            reports_orphan,
            WriteBurst(self._is_writing),
            CycleTimer(self._trigger).start,
        )

    def _make_events(self, write_pool: WritePool) -> EventQueue:
        """Events wait while bindings and evictions are in flight."""
        return EventQueue(
            self.cluster,
            self.leadership,
            self.clock,
            self.wall,
            self.watched.cache.pod_group,
            WriteBurst(lambda: not write_pool.at_rest or self._is_writing()),
            self.observer,
            float(self.settings.bind_timeout_seconds),
        )

    def _make_applier(self, write_pool: WritePool) -> PlanApplier:
        seconds = float(self.settings.bind_timeout_seconds)
        settling = asyncio.Semaphore(self.settings.bind_concurrency)
        api = PodApi(self.cluster, self.leadership, self.clock, seconds, self.observer, settling)
        cache, assumed_pods = self.watched.cache, self.watched.assumed_pods
        volume_binder = VolumeBinder(self.cluster, cache, self.clock)
        preparations = self.status_writer.yield_to_binding, volume_binder.select_node
        is_wanted = wanted_in(cache, assumed_pods)
        binder = Binder(
            api, assumed_pods, preparations, is_wanted, self.events.add, cache.missing_mark, member_in(cache)
        )
        evictor = Evictor(api, assumed_pods, EvictionBackoff(self.clock), self.events.add)
        return PlanApplier(write_pool, binder, evictor, Nominator(api))

    def _make_runner(self, policy: Policy | None) -> CycleRunner:
        return CycleRunner(
            self.watched,
            self.applier,
            self.status_writer,
            self.longer,
            self.memory,
            self.leadership,
            self._trigger,
            self.clock,
            self.observer,
            self.settings,
            policy or Policy(steps=self.settings.search_steps, cycle_steps=self.settings.cycle_steps),
        )

    @property
    def synced(self) -> bool:
        """Whether every kind was listed once."""
        return self.watched.has_synced

    @property
    def ready(self) -> bool:
        """Whether every watch is alive."""
        return self.watched.is_ready

    @property
    def last(self) -> tuple[Snapshot, CyclePlan, ApplyResult] | None:
        """The last cycle that was applied; None: there was none."""
        return self.runner.last

    @property
    def cycles(self) -> int:
        """How many cycles were applied."""
        return self.runner.applied_cycles

    @property
    def began(self) -> float | None:
        """When the cycle began that runs now; None: none does."""
        return self.runner.began_at

    @property
    def reported_cycle(self) -> int:
        """The last cycle whose statuses are written, as far as a later one does not replace them."""
        return self.cycles if self.settings.dry_run else self.status_writer.reported_cycle

    @property
    def at_rest(self) -> bool:
        """No cycle runs, and no write is in flight or unconfirmed."""
        return self.began is None and self.applier.write_pool.at_rest

    @property
    def results(self) -> tuple[int, int]:
        """Differs after every result: a cycle that ended, a write that was answered. Steps of a plan are no result."""
        return self.runner.ended_cycles, self.applier.write_pool.answers

    @property
    def settled_writes(self) -> tuple[int, int]:
        """Differs after every write that was answered, or settled after its cycle."""
        return self.applier.write_pool.answers, self._settled_late

    def _count_late(self, is_confirmed: bool) -> None:
        self._settled_late += 1
        self._trigger.settled_late(is_confirmed)

    def yield_to(self, is_writing: Callable[[], bool]) -> None:
        """Statuses and events wait while another part of the control plane writes what pods wait for."""
        self._writers.append(is_writing)

    def wait_for(self, has_grouped: Callable[[], bool]) -> None:
        """The first cycle of a term waits, for a while, until pods without a mark are members of their gangs (G5)."""
        self._has_grouped = has_grouped

    def _is_writing(self) -> bool:
        return any(is_writing() for is_writing in self._writers)

    def wake(self) -> None:
        """Something changed: plan soon."""
        self._trigger.wake()

    def cancel_plan(self) -> None:
        """Gives up the plan that is being made, if there is one."""
        self.runner.cancel_plan()

    def stop(self) -> None:
        """Starts no more cycles, and gives up the one that runs; writes in flight are still awaited."""
        self._is_stopped = True
        self.cancel_plan()
        self._trigger.retry()

    async def run(self) -> None:
        """Schedules without end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self.watched.start(tasks)
                tasks.create_task(self._run_cycles(), name="cycles")
                tasks.create_task(self.status_writer.run(), name="statuses")
                tasks.create_task(self.events.run(), name="events")
                tasks.create_task(self.longer.run(), name="longer searches")
        finally:
            if self._expecting is not None:
                self._expecting.cancel()
            await self.applier.write_pool.stop()

    async def _run_cycles(self) -> None:
        while not self._is_stopped:
            await self._trigger.wait(self.watched.fold_backlog)
            if not self._may_begin():
                self._stand_by()
            elif self._has_caught_up():
                await self.cycle()

    def _may_begin(self) -> bool:
        return self.synced and self.leadership.leading and not self._is_stopped

    async def cycle(self) -> ApplyResult:
        """One cycle on what is known now."""
        return await self.runner.run(self.wall())

    def _has_caught_up(self) -> bool:
        """Whether all is known that another leader did."""
        term = self.leadership.term
        self._expect_bindings(term)
        if term != self._relisted_term and self.watched.is_relisted(term) and self._are_members_known():
            self._relisted_term, self._caught_up_by = term, None
        return term == self._relisted_term

    def _expect_bindings(self, term: int) -> None:
        """Once a term, while pods are listed again: the first cycle may bind a long backlog."""
        if term == self._expecting_term or self.settings.dry_run:
            return
        self._expecting_term = term
        if number := self.watched.cache.waiting_number(self.settings.bind_concurrency):
            self._expecting = asyncio.create_task(self.cluster.expect_bindings(number))

    def _are_members_known(self) -> bool:
        """A gang that was bound in part by another process, and whose other pods are not marked, is not stale."""
        if self._caught_up_by is None:
            self._caught_up_by = self.clock() + CATCH_UP_SECONDS
        if self._has_grouped() or self.clock() >= self._caught_up_by:
            return True
        self._catching_up.start(CATCH_UP_RETRY_SECONDS)
        return False

    def _stand_by(self) -> None:
        """Another replica leads, or not all is known yet: forgets what only a leader needs."""
        self._trigger.changed_at = None
        self.status_writer.forget()
        self.events.forget()
        self.longer.forget()
        self.observer.leadership_lost()
