"""Applies plans: bindings gang by gang while the plan is made, then evictions and nominations (G5).

Rule 1: a write that fails is left to the next cycle, whose plan is made from what is there then: nothing is replayed or
undone. Rule 2: a cycle does not wait for writes that are not answered; a binding that was sent counts as done until it
is rejected, so the next plan builds on it. Rule 3: no pod is evicted for a gang before all of its victims passed a dry
run (I6). Rule 4: nothing is sent in another term than the one in which it was decided (I9).
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

from muster.api.core import Pod
from muster.planning.decision import Binding, CyclePlan, Eviction
from muster.scheduler.apply.apply_result import ApplyResult, ApplyTally, applied_plan
from muster.scheduler.apply.binder import Binder, BindingWrite
from muster.scheduler.apply.evictor import EvictionProbe, EvictionWrite, Evictor
from muster.scheduler.apply.nominator import NominationWrite, Nominator, changed_nominations, is_nominated
from muster.scheduler.apply.write_pool import PendingWrite, WritePool

QUIET_SECONDS = 1.0  # without a single answer, before a cycle ends without those that are missing


class PlanApplier:
    """Applies plans, one cycle after the other."""

    def __init__(self, write_pool: WritePool, binder: Binder, evictor: Evictor, nominator: Nominator) -> None:
        self.write_pool, self.binder, self.evictor, self.nominator = write_pool, binder, evictor, nominator

    @asynccontextmanager
    async def applying(self, pods: Mapping[str, Pod], term: int) -> AsyncIterator["PlanExecution"]:
        """A plan is applied while it is made; `pods` and `term` are those of its snapshot, taken in this cycle.

        On leaving, every write is answered but those that are late: see `WritePool.at_rest`.
        """
        execution = PlanExecution(self, pods, term)
        try:
            yield execution
            unsent = await self.write_pool.end_cycle(QUIET_SECONDS)
            execution.close(unsent - self.write_pool.unsettled)
        except BaseException:
            await self.write_pool.stop()
            raise
        finally:
            execution.is_open = False

    async def apply(self, plan: CyclePlan, pods: Mapping[str, Pod], term: int) -> ApplyResult:
        """Applies a plan that is complete."""
        self.write_pool.begin_cycle()
        async with self.applying(pods, term) as execution:
            execution.finish(plan, pods)
        return execution.result


class PlanExecution:
    """One plan being applied. Bindings come gang by gang as they are decided: each is final in its plan."""

    def __init__(self, applier: PlanApplier, pods: Mapping[str, Pod], term: int) -> None:
        self._applier, self._pods, self._term = applier, pods, term
        self._tally = ApplyTally()
        self._submitted: set[Binding] = set()
        self.is_open = True
        self.result = ApplyResult()  # once it is over
        self.plan = CyclePlan()  # without the bindings that failed, once it is over

    def bind(self, bindings: Sequence[Binding]) -> None:
        """Submits bindings that are decided."""
        if self.is_open:
            self._submitted.update(bindings)
            binder, pool = self._applier.binder, self._applier.write_pool
            pool.add(
                [BindingWrite(binder, binding, self._uid(binding.key), self._term, self._tally) for binding in bindings]
            )

    def finish(self, plan: CyclePlan, pods: Mapping[str, Pod]) -> None:
        """The plan is complete: submits evictions, nominations, and bindings that were not submitted before.

        `pods` are those that the plan is about.
        """
        self.plan = plan
        if not self._applier.binder.api.leads_in(self._term):
            return
        write_pool = self._applier.write_pool
        write_pool.add(self._without_late(self._evictions(plan.evictions)), urgent=True)  # pods take time to terminate
        self.bind([binding for binding in plan.bindings if binding not in self._submitted])
        write_pool.add(self._without_late(self._nominations(plan, pods)))

    def close(self, unsent: Iterable[str]) -> None:
        """The cycle is over; `unsent` are owners of which some writes were not sent."""
        cores = {binding.gang for binding in self.plan.bindings if binding.role == "core"}
        for owner in sorted(unsent):
            self._tally.add_unsent(owner, is_core=owner in cores)
        self.result = self._tally.result()
        self.plan = applied_plan(self.plan, self._tally)

    def _without_late(self, writes: Iterable[PendingWrite]) -> list[PendingWrite]:
        """Without those whose owner has unsettled writes of an earlier cycle."""
        return [write for write in writes if write.owner not in self._applier.write_pool]

    def _evictions(self, evictions: Iterable[Eviction]) -> Iterator[PendingWrite]:
        """For one gang all or none (I6); those of a stale gang leave one by one."""
        evictor, groups = self._applier.evictor, dict[str, list[Eviction]]()
        for eviction in evictions:
            groups.setdefault(eviction.key if eviction.reason == "Stale" else f"for {eviction.preemptor}", []).append(
                eviction
            )
        for name, victims in groups.items():
            owner, several = f"evict {name}", len(victims) > 1
            for victim in victims if several else ():
                yield EvictionProbe(evictor, victim, self._uid(victim.key), self._term, self._tally, owner)
            for victim in victims:
                uid = self._uid(victim.key)
                yield EvictionWrite(evictor, victim, uid, self._term, self._tally, owner, is_first=not several)

    def _nominations(self, plan: CyclePlan, pods: Mapping[str, Pod]) -> Iterator[PendingWrite]:
        nominator = self._applier.nominator
        for nomination in changed_nominations(plan, pods):
            yield NominationWrite(nominator, nomination, self._uid(nomination.pod), self._term, self._tally)

    def _uid(self, pod: str) -> str:
        """The uid in the snapshot; empty: the pod is not there."""
        known = self._pods.get(pod)
        return known.metadata.uid if known else ""


def concerned_pods(plan: CyclePlan, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    """The pods that a plan does something to, and those that wait with a nominated node, by `namespace/name`."""
    named = {decision.key for decision in (*plan.nominations, *plan.bindings, *plan.evictions)}
    nominated = {name: pod for name, pod in pods.items() if is_nominated(pod)}
    return nominated | {name: pods[name] for name in named if name in pods}
