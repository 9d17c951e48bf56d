"""One cycle: a snapshot, a plan, its writes, its statuses. All of it belongs to the term of the snapshot (I9)."""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.config.settings import Scheduling
from muster.kube.leadership import Leadership, leads_in
from muster.model.snapshot import Snapshot
from muster.observability.cycle_trace import CyclePhases, CycleTrace
from muster.placement.budget import Cancelled
from muster.planning.allocation.allocate import OnBound
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.apply.binder import UnconfirmedBinding
from muster.scheduler.apply.binding_handover import BindingHandover
from muster.scheduler.apply.plan_applier import PlanApplier, PlanExecution, concerned_pods
from muster.scheduler.cycle_trigger import CycleTimer, CycleTrigger, RetryTimer
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.longer_searches import LongerSearches
from muster.scheduler.observer import Observer
from muster.scheduler.promises import UnseenPromises
from muster.scheduler.status.decision_log import DecisionLog
from muster.scheduler.status.status_updates import CycleOutcome
from muster.scheduler.status.status_writer import StatusWriter
from muster.scheduler.watched_cluster import WatchedCluster

log = structlog.get_logger()
REPORT_SECONDS = 10.0  # a binding that is unconfirmed for longer is reported


class Decision(Struct, frozen=True, eq=False):
    """A plan that was made."""

    plan: CyclePlan
    pods: dict[str, Pod]  # that it is about
    seconds: float  # that it took, with the snapshot


class FinishedCycle(Struct, frozen=True, eq=False):
    """A cycle that was applied, or planned only in a dry run."""

    number: int
    now: datetime
    seconds: float
    snapshot: Snapshot
    plan: CyclePlan  # without the bindings that failed
    result: ApplyResult


class CycleRunner:
    """Runs cycles, one after the other."""

    def __init__(
        self,
        watched: WatchedCluster,
        applier: PlanApplier,
        status_writer: StatusWriter,
        longer: LongerSearches,
        memory: AnswerCache,
        leadership: Leadership,
        trigger: CycleTrigger,
        clock: Callable[[], float],
        observer: Observer,
        settings: Scheduling,
        policy: Policy,
    ) -> None:
        self._watched, self._applier, self._status_writer, self._longer = watched, applier, status_writer, longer
        self._memory, self._leadership, self._trigger, self._clock = memory, leadership, trigger, clock
        self._observer, self._is_dry_run, self._policy = observer, settings.dry_run, policy
        self._bind_concurrency = settings.bind_concurrency
        self._decision_log = DecisionLog(settings.dry_run)
        self._promises = UnseenPromises()
        self._cancelled = threading.Event()  # of the plan that is being made
        self.tracers: list[Callable[[CycleTrace], object]] = [observer.traced]  # called with every cycle that ended
        self.listeners: list[Callable[[FinishedCycle], object]] = []  # called with every cycle that was not given up
        self._failed_writes, self._refused_evictions = RetryTimer(trigger), CycleTimer(trigger)
        self.last: tuple[Snapshot, CyclePlan, ApplyResult] | None = None
        self.applied_cycles = 0
        self.ended_cycles = 0  # whatever came of them
        self.began_at: float | None = None  # the cycle that runs now

    def cancel_plan(self) -> None:
        """Gives up the plan that is being made: bindings that were submitted stand, the rest is not done."""
        self._cancelled.set()

    async def run(self, now: datetime) -> ApplyResult:
        """One cycle on what is known now."""
        self.began_at, self._cancelled = self._clock(), threading.Event()
        try:
            with self._longer.paused():
                return await self._run(now, self.began_at)
        finally:
            self._cancelled.set()  # where the loop ends, the planning thread ends by itself
            self.began_at = None
            self.ended_cycles += 1

    async def _run(self, now: datetime, began_at: float) -> ApplyResult:
        changed_at, self._trigger.changed_at = self._trigger.changed_at, None
        term, phases = self._leadership.term, CyclePhases(now, self._clock)
        self._applier.write_pool.begin_cycle()
        phases.begin("snapshot")
        snapshot = await self._watched.snapshot(now)
        policy = self._current_policy()
        async with self._applier.applying(snapshot.pods, term) as execution:
            try:
                decision = await self._decide_in_thread(snapshot, policy, execution, began_at, phases)
            except Cancelled:
                self._trigger.changed_at = changed_at  # no plan answers it yet
                self._trace(phases.finish(cancelled=True))
                return self._give_up(self._clock() - began_at)
            phases.begin("apply")
            if changed_at is not None:
                self._observer.decided(self._clock() - changed_at)
            if not self._is_dry_run:
                self._submit(snapshot, decision, execution, now, term)
        self._trace(phases.finish(**_attributes(snapshot, decision.plan, execution.result)))
        self.last = (snapshot, decision.plan, execution.result)
        self.applied_cycles += 1
        if not self._is_dry_run:
            self._report(snapshot, execution, now, term)
        self._notify(snapshot, decision.plan if self._is_dry_run else execution.plan, execution.result, now, began_at)
        self._longer.offer(snapshot, policy, decision.plan)
        self._log(decision, execution.result)
        self._schedule_retries(execution.result)
        return execution.result

    def _notify(self, snapshot: Snapshot, plan: CyclePlan, result: ApplyResult, now: datetime, began_at: float) -> None:
        done = FinishedCycle(self.applied_cycles, now, self._clock() - began_at, snapshot, plan, result)
        for listener in self.listeners:
            listener(done)

    def _trace(self, trace: CycleTrace) -> None:
        for tracer in self.tracers:
            tracer(trace)

    def _current_policy(self) -> Policy:
        cache = self._watched.cache
        return replace(
            self._policy,
            untouchable=self._applier.evictor.backoff.untouchable(cache.pod),
            moved=self._promises.unseen(cache.pod_group),
        )

    async def _decide_in_thread(
        self, snapshot: Snapshot, policy: Policy, execution: PlanExecution, began_at: float, phases: CyclePhases
    ) -> Decision:
        """The plan is made in a thread of its own: the loop renews a lease and answers probes meanwhile."""
        on_bound = None if self._is_dry_run else BindingHandover(execution.bind, self._bind_concurrency)
        decide = partial(self._decide, snapshot, policy, on_bound, began_at, self._cancelled.is_set, phases)
        return await in_daemon_thread("plan", decide)

    def _decide(
        self,
        snapshot: Snapshot,
        policy: Policy,
        on_bound: OnBound | None,
        began_at: float,
        is_cancelled: Callable[[], bool],
        phases: CyclePhases,
    ) -> Decision:
        """Makes the plan, with all work that grows with the cluster; submits bindings as they are decided."""
        plan = make_plan(snapshot, policy, on_bound, is_cancelled, self._memory, phases.begin)
        seconds = self._clock() - began_at
        phases.begin("report")
        self._decision_log.write(plan)
        self._observer.cycle(plan, seconds)
        for failure in plan.failures:
            self._observer.failed(failure.error)
        return Decision(plan, concerned_pods(plan, snapshot.pods), seconds)

    def _give_up(self, seconds: float) -> ApplyResult:
        self._observer.cancelled()
        log.warning("cycle is given up", seconds=round(seconds, 4))
        return ApplyResult()

    def _submit(
        self, snapshot: Snapshot, decision: Decision, execution: PlanExecution, now: datetime, term: int
    ) -> None:
        execution.finish(decision.plan, decision.pods)
        if leads_in(self._leadership, term):
            self._promises.note(snapshot, decision.plan, now)

    def _report(self, snapshot: Snapshot, execution: PlanExecution, now: datetime, term: int) -> None:
        outcome = CycleOutcome(self.applied_cycles, snapshot, execution.plan, now, term, self._unsettled())
        self._status_writer.submit(outcome)

    def _unsettled(self) -> dict[str, str]:
        """Gangs with writes that are not settled; where one is unconfirmed for long, with a sentence about it."""
        now, unconfirmed = self._clock(), self._applier.binder.unconfirmed
        return {gang: _message(unconfirmed.get(gang), now) for gang in self._applier.write_pool.unsettled}

    def _log(self, decision: Decision, result: ApplyResult) -> None:
        if decision.plan.bindings or decision.plan.evictions or result.failures:
            numbers = {"bound": result.bound, "evicted": result.evicted, "failures": len(result.failures)}
            log.info("cycle", **numbers, seconds=round(decision.seconds, 4))

    def _schedule_retries(self, result: ApplyResult) -> None:
        self._failed_writes.report(failed=bool(result.failures))
        seconds = self._applier.evictor.backoff.next_seconds()
        if seconds is not None:
            self._refused_evictions.start(seconds)


def _attributes(snapshot: Snapshot, plan: CyclePlan, result: ApplyResult) -> dict[str, int | bool | str]:
    """The size of a cycle and what came of it."""
    return {
        "nodes": len(snapshot.nodes),
        "gangs": len(plan.gangs),
        "searches": len(plan.searches),
        "steps": sum(plan.searches),
        "bindings": len(plan.bindings),
        "evictions": len(plan.evictions),
        "bound": result.bound,
        "failures": len(result.failures),
    }


def _message(oldest: UnconfirmedBinding | None, now: float) -> str:
    return oldest.message if oldest is not None and now - oldest.since >= REPORT_SECONDS else ""
