"""A scheduler in virtual time: the real planner, and what binder, evictor, nominator and status writer leave behind.

Rule: a plan is carried out at once and without failures. What it remembers stands on the objects alone: nominated nodes
on pods, annotations on PodGroups.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.model.snapshot import Snapshot
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import CyclePlan, GangPlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.reporting.annotations import stale_annotations
from muster.reporting.outcome import outcomes
from muster.scheduler.apply.nominator import changed_nominations
from muster.scheduler.apply.plan_applier import concerned_pods
from muster.simulator.engine.simulated_cluster import SimulatedCluster

Planner = Callable[[Snapshot], CyclePlan]


class AppliedCycle(Struct, frozen=True, eq=False):
    """A cycle that was carried out."""

    snapshot: Snapshot
    plan: CyclePlan
    is_changed: bool  # something was written
    annotated: tuple[str, ...]  # gangs whose annotations changed, by namespace/name
    cpu_seconds: float  # that snapshot and plan took


class SimulatedScheduler:
    """Plans cycle after cycle, with the same memory of answers as the live loop."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        policy: Policy,
        cpu_clock: Callable[[], float],
        is_cancelled: Callable[[], bool],
        planner: Planner | None = None,
    ) -> None:
        """`planner`: another one to compare with; None: the real one."""
        self._cluster, self._policy, self._clock, self._is_cancelled = cluster, policy, cpu_clock, is_cancelled
        self.memory = AnswerCache()
        self._plan: Planner = planner or self._make_plan

    def run_cycle(self, now: datetime) -> AppliedCycle:
        """One cycle on what is there now; raises Cancelled, with nothing changed, where the caller gave up."""
        begin = self._clock()
        snapshot = self._cluster.snapshot(now)
        plan = self._plan(snapshot)
        cpu_seconds = self._clock() - begin
        is_changed = self._apply(snapshot, plan, now)
        annotated = tuple(self._write_annotations(snapshot, plan, now))
        return AppliedCycle(snapshot, plan, is_changed or bool(annotated), annotated, cpu_seconds)

    def _make_plan(self, snapshot: Snapshot) -> CyclePlan:
        return make_plan(snapshot, self._policy, is_cancelled=self._is_cancelled, memory=self.memory)

    def _apply(self, snapshot: Snapshot, plan: CyclePlan, now: datetime) -> bool:
        """Nominations, bindings and evictions; returns whether there were any."""
        cluster = self._cluster
        nominations = []
        if plan.nominations or cluster.nominated:
            nominations = list(changed_nominations(plan, concerned_pods(plan, snapshot.pods)))
        for nomination in nominations:
            cluster.nominate(nomination.pod, nomination.node)
        for binding in plan.bindings:
            cluster.bind(binding.key, binding.node)
        for eviction in plan.evictions:
            cluster.evict(eviction.key, now.replace(microsecond=0))
        return bool(nominations or plan.bindings or plan.evictions)

    def _write_annotations(self, snapshot: Snapshot, plan: CyclePlan, now: datetime) -> Iterator[str]:
        """The annotations of PodGroups, as the status writer stores them; yields the gangs for which they changed."""
        busy = {decision.gang for decision in (*plan.bindings, *plan.evictions)}
        at_rest = frozenset(
            gang_plan.gang.key for gang_plan in plan.gangs if gang_plan.gang.key not in busy and _is_at_rest(gang_plan)
        )
        if len(at_rest) == len(plan.gangs):
            return
        for gang, outcome in outcomes(snapshot, plan, at_rest).items():
            group = self._cluster.groups[gang]
            if notes := stale_annotations(outcome, group, now):
                merged = {**group.metadata.annotations, **notes}
                kept = {name: note for name, note in merged.items() if note is not None}
                self._cluster.put_group(replace(group, metadata=replace(group.metadata, annotations=kept)))
                yield gang


def _is_at_rest(gang_plan: GangPlan) -> bool:
    """Whether the annotations of a gang stay as they are: it runs as before, or waits without a pod on a node."""
    annotations = gang_plan.gang.source.metadata.annotations
    if gang_plan.verdict == "Scheduled" and not gang_plan.refusals:
        return annotations.keys() == {names.LAST_START}
    is_started = bool(gang_plan.gang.broken) or gang_plan.gang.standing.placed > 0
    return not annotations and not is_started and gang_plan.gang.source.spec.scheduling_backoff != 1
