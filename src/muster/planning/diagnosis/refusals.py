"""Why a gang is not placed in this cycle: refused early, or after search and preemption failed (E1-E3)."""

from collections.abc import Mapping

from msgspec.structs import replace

from muster.api.names import PREEMPTIBLE
from muster.fairness.entitlement import why_closed
from muster.model.gang.gang import Gang
from muster.model.gang.state import is_satisfied
from muster.placement.bounds import least_requests
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.tree import pod_classes, subtree
from muster.placement.requirements.types import Impossible, Requirement
from muster.planning.backoff import backed_off
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Verdict
from muster.planning.diagnosis.diagnose import Diagnosis
from muster.planning.diagnosis.waiting import over_quota, refusal_of
from muster.planning.gang_state import GangState
from muster.planning.preemption.preemption import Preemption
from muster.planning.refusal import (
    ClosedQueueRefusal,
    DoesNotFit,
    FitRefusal,
    NonPreemptibleOverQuota,
    OtherScheduler,
    PriorityClassDoesNotExist,
    QueueDoesNotExist,
    QueueNotALeaf,
    QueueNotInTree,
    QuotaRefusal,
    Refusal,
    SearchCutShort,
    UnevictablePods,
)

SHOWN = 3  # pods that a refusal names
QUEUE_REFUSALS: Mapping[str, type[ClosedQueueRefusal]] = {
    "QueueDoesNotExist": QueueDoesNotExist,
    "QueueNotInTree": QueueNotInTree,
    "QueueNotALeaf": QueueNotALeaf,
}


class GangRefusals:
    """The refusals of the waiting gangs of one cycle."""

    def __init__(self, cycle_state: CycleState, preemption: Preemption, full: set[int]) -> None:
        self.cycle_state, self.preemption = cycle_state, preemption
        self._full = full  # kinds of requirements that do not fit on free capacity
        self.known: dict[object, FitRefusal] = {}  # by what equal gangs have in common: see `refuse`

    def refuse_early(self, gang: Gang) -> Refusal | None:
        """A refusal without a search: another scheduler (N6), a closed queue (Q1, Q2), or a failed attempt (S4)."""
        if gang.broken:
            return None
        if gang.is_foreign:
            return _other_scheduler(gang)
        if gang.unknown_class:
            return PriorityClassDoesNotExist(gang.unknown_class)
        if reason := why_closed(self.cycle_state.usage.tree, gang.queue):
            return QUEUE_REFUSALS[reason](gang.queue)
        return backed_off(gang, self.cycle_state.snapshot)

    def withdraw_hints(self) -> None:
        """Withdraw the hint to wait for terminating pods where a later gang took their place (E1, P8)."""
        for key, assignment in self.preemption.fitting_soon.items():
            if not self.cycle_state.will_be_free(assignment):
                gang_state = self.cycle_state.gang_states[key]
                self.cycle_state.gang_states[key] = replace(
                    gang_state, refusals=tuple(map(_without_soon, gang_state.refusals))
                )

    def refuse(
        self, gang_state: GangState, requirements: Requirements, requirement: Requirement | Impossible | None
    ) -> GangState:
        """Why a core was not placed: it cannot be, its queue is over a limit, or it does not fit."""
        assert requirement is not None
        if isinstance(requirement, Impossible):
            return self.impossible(gang_state, requirement)
        over = self._over(gang_state.gang, requirement)
        if over is not None:
            return replace(
                gang_state,
                verdict="Waiting",
                refusals=(self._with_changes(over, gang_state.gang, requirements, requirement),),
            )
        equal_to = (
            requirement.kind,
            tuple(part.name for part in subtree(requirement)),
            tuple(requirements.done().items()),
        )
        if equal_to not in self.known:
            diagnose = Diagnosis(self.cycle_state.now, requirements, requirement, self.cycle_state.gang_budget).refusal
            self.known[equal_to] = self.cycle_state.recall.diagnosis(
                self.cycle_state.now, requirements, requirement, diagnose
            )
        refusal = self.known[equal_to]
        if gang_state.gang.key in self.preemption.fitting_soon:
            refusal = replace(refusal, fits_soon=True)
        return self.infeasible(gang_state, requirement, refusal)

    def infeasible(self, gang_state: GangState, requirement: Requirement, refusal: FitRefusal) -> GangState:
        """The gang does not fit; the refusal gets what is known of victims and moves."""
        if pods := self.preemption.unevictable_pods(gang_state.gang, requirement):
            refusal = replace(refusal, unevictable=UnevictablePods(len(pods), pods[:SHOWN]))
        if gang_state.gang.key in self.preemption.limited:
            return replace(
                gang_state, verdict="Waiting", refusals=(self.preemption.limited[gang_state.gang.key], refusal)
            )
        if gang_state.gang.key in self.preemption.undecided:
            return mark_unknown(gang_state, SearchCutShort(moves=True), refusal)
        return replace(gang_state, verdict="Infeasible", refusals=(refusal,))

    def impossible(self, gang_state: GangState, impossible: Impossible) -> GangState:
        """Refuse without a search: pods are missing, or the spec names what does not exist."""
        verdict: Verdict = "Invalid" if impossible.reason == "InvalidSpec" else "Waiting"
        refusals: tuple[Refusal, ...] = (refusal_of(impossible, gang_state.gang.root),)
        if impossible.reason == "NotEnoughPods" and gang_state.gang.other_schedulers:
            refusals = (_other_scheduler(gang_state.gang), *refusals)
        return replace(gang_state, verdict=verdict, refusals=refusals)

    def _over(self, gang: Gang, requirement: Requirement) -> QuotaRefusal | None:
        """The limit or quota that stops the gang (Q4), where it would fit without it or always exceeds it."""
        allowance = self.cycle_state.allowance(gang)
        if allowance is None:
            return None
        requests: Mapping[str, int]
        if (least_requests(requirement, self.cycle_state.pod_classes.requests) > allowance).any():
            total = least_requests(requirement, self.cycle_state.pod_classes.requests)
            requests = {name: int(total[i]) for i, name in enumerate(self.cycle_state.snapshot.columns) if total[i]}
        elif (
            requirement.kind in self._full
            or (assignment := self.cycle_state.find(self.cycle_state.now, requirement)) is None
        ):
            return None
        else:
            requests = self.cycle_state.requested(assignment)
            if (over := self.cycle_state.quota_excess(gang, assignment)) is not None:
                return NonPreemptibleOverQuota(over)
        excess = self.cycle_state.usage.excess(
            gang.queue, requests, {} if gang.preemptibility == PREEMPTIBLE else requests
        )
        return None if excess is None else over_quota(*excess)

    def _with_changes(
        self, over: QuotaRefusal, gang: Gang, requirements: Requirements, requirement: Requirement
    ) -> QuotaRefusal:
        """The refusal with the changes that would fit on free capacity within what the queue allows (E1)."""
        allowance, asks = self.cycle_state.allowance(gang), self.cycle_state.pod_classes.requests
        if allowance is not None and all((asks[pod_class] > allowance).any() for pod_class in pod_classes(requirement)):
            return over  # not even one pod is allowed

        def work() -> QuotaRefusal:
            diagnosis = Diagnosis(
                self.cycle_state.now, requirements, requirement, self.cycle_state.gang_budget, allowance
            )
            return replace(over, changes=diagnosis.changes(tuple(subtree(requirement))))

        within = () if allowance is None else tuple(allowance.tolist())
        return self.cycle_state.recall.diagnosis(self.cycle_state.now, requirements, requirement, work, over, within)


def unplaced_key(requirement: Requirement) -> object:
    """What equal gangs of one leaf without placed pods have in common: see `refuse`."""
    return (requirement.kind, (requirement.name,), ((requirement.name, 0),))


def mark_unknown(gang_state: GangState, *refusals: Refusal) -> GangState:
    """The gang with verdict Unknown; where its core is placed, it stays Scheduled."""
    verdict: Verdict = (
        "Scheduled" if gang_state.verdict == "Scheduled" or is_satisfied(gang_state.gang.root) else "Unknown"
    )
    return replace(gang_state, verdict=verdict, refusals=(*gang_state.refusals, *refusals))


def _without_soon(refusal: Refusal) -> Refusal:
    return replace(refusal, fits_soon=False) if isinstance(refusal, DoesNotFit) else refusal


def _other_scheduler(gang: Gang) -> OtherScheduler:
    """Some or all of its pods name other schedulers (N6)."""
    return OtherScheduler(tuple(gang.other_schedulers), gang.is_foreign)
