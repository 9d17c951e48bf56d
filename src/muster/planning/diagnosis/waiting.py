"""Why extras wait (E1, G3): a reason for the first few further parts of a running gang, and a count of the others.

Rule: extras cost little. Reasons come from counts, never from another search; equal parts share one; the gang's budget
pays the steps (X7).
"""

from typing import assert_never

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE
from muster.fairness.entitlement import Excess
from muster.model.gang.gang import Gang
from muster.model.gang.types import Branch, Group
from muster.model.shortage import shortages
from muster.placement.bounds import least_requests
from muster.placement.budget import OutOfSteps
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Impossible, Requirement
from muster.planning.allocation.elastic import further_parts
from muster.planning.cycle_state import CycleState
from muster.planning.diagnosis.diagnose import Diagnosis
from muster.planning.refusal import (
    ExtraPart,
    InvalidSpec,
    MoreExtrasWait,
    NodeUnknown,
    NonPreemptibleOverQuota,
    NotEnoughPods,
    NotTried,
    OverLimit,
    QuotaRefusal,
    Refusal,
    SearchCutShort,
    Unsupported,
)

SHOWN = 3  # distinct reasons that a gang reports
MOST_PARTS = 32  # of a gang that get a reason
Ints = NDArray[np.int64]


def refusal_of(impossible: Impossible, part: Group) -> NotTried:
    """Why no cluster could hold a part as things are."""
    match impossible.reason:
        case "NotEnoughPods":
            return _not_enough_pods(impossible, part)
        case "InvalidSpec":
            return InvalidSpec(impossible.detail, sub_group=impossible.group)
        case "Unsupported":
            return Unsupported(impossible.detail, sub_group=impossible.group)
        case "NodeUnknown":
            lost = impossible.lost
            return NodeUnknown(lost.pod, lost.node, lost.level, sub_group=impossible.group)
        case _:
            assert_never(impossible.reason)


def _not_enough_pods(impossible: Impossible, part: Group) -> NotEnoughPods:
    """Both numbers of the first group that lacks pods, and of a few others."""
    lacking = shortages(part)
    if not lacking:
        return NotEnoughPods(detail=impossible.detail, sub_group=impossible.group)
    return NotEnoughPods(lacking[: 1 + SHOWN], sub_group=lacking[0].group)


def over_quota(reason: str, excess: Excess) -> QuotaRefusal:
    """The limit or quota of a queue that stands in the way (Q4)."""
    return OverLimit(excess) if reason == "OverLimit" else NonPreemptibleOverQuota(excess)


class WaitingExtras:
    """Runs once every gang was tried: what is free then stays free in this cycle."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self._known: dict[object, Refusal] = {}  # by kind of requirement and queue

    def explain(self) -> None:
        """Add reasons to running gangs that have none yet and have parts that wait."""
        for key, gang_state in self.cycle_state.gang_states.items():
            if gang_state.verdict == "Scheduled" and not gang_state.refusals and _waits(gang_state.gang):
                self.cycle_state.charge_to(key)
                self.cycle_state.gang_states[key] = replace(gang_state, refusals=self._reasons(gang_state.gang))

    def _reasons(self, gang: Gang) -> tuple[Refusal, ...]:
        """Distinct reasons, each with the parts that share it; parts with existing pods come first."""
        requirements = self.cycle_state.requirements(gang)
        now = requirements.standings
        parts = [(part, pods) for _, part, pods in further_parts(gang.root, now)]
        parts.sort(
            key=lambda part_and_pods: not (now[part_and_pods[0].name].pending or now[part_and_pods[0].name].gated)
        )
        by_reason: dict[object, list[Refusal]] = {}
        try:
            for part, pods in parts[:MOST_PARTS]:
                refusal = self._reason(gang, requirements, part, pods)
                by_reason.setdefault(_alike(refusal), []).append(refusal)
        except OutOfSteps:
            by_reason.setdefault(SearchCutShort, []).append(SearchCutShort(extra=ExtraPart()))
        shown = tuple(map(_merged, list(by_reason.values())[:SHOWN]))
        more = len(parts) - sum(1 + len(refusal.extra.alike if refusal.extra else ()) for refusal in shown)
        return (*shown, MoreExtrasWait(more, extra=ExtraPart())) if more > 0 else shown

    def _reason(self, gang: Gang, requirements: Requirements, part: Group, pods: int) -> Refusal:
        """Why an unsatisfied SubGroup waits, or further pods of a satisfied leaf."""
        requirement = requirements.further_requirement(part, pods)
        extra = ExtraPart(part.name, requirements.standings[part.name].pending if pods else None)
        if isinstance(requirement, Requirement):
            refusal = self._refused(gang, requirements, requirement, part.name)
            return replace(refusal, sub_group=part.name, extra=extra)
        if isinstance(requirement, Impossible):
            return replace(refusal_of(requirement, part), extra=extra)
        return SearchCutShort(sub_group=part.name, extra=extra)

    def _refused(self, gang: Gang, requirements: Requirements, requirement: Requirement, part: str) -> Refusal:
        """The limit of the queue, or why it does not fit; computed once for equal parts."""
        allowance = self.cycle_state.allowance(gang, extra=True)
        known = requirement.kind, None if allowance is None else (gang.queue, gang.preemptibility)
        if known not in self._known:
            self.cycle_state.gang_budget.spend()
            self._known[known] = self._diagnosed(gang, requirements, requirement, part, allowance)
        return self._known[known]

    def _diagnosed(
        self, gang: Gang, requirements: Requirements, requirement: Requirement, part: str, allowance: Ints | None
    ) -> Refusal:
        requests = least_requests(requirement, self.cycle_state.pod_classes.requests)
        if allowance is not None and (requests > allowance).any():
            amounts = {
                name: int(requests[i]) for i, name in enumerate(self.cycle_state.snapshot.columns) if requests[i]
            }
            protected = amounts if gang.preemptibility == NON_PREEMPTIBLE else {}
            if (over := self.cycle_state.usage.excess(gang.queue, amounts, protected)) is not None:
                return over_quota(*over)
        return Diagnosis(
            self.cycle_state.now, requirements, requirement, self.cycle_state.gang_budget
        ).refusal_by_counts(part)


def _waits(gang: Gang) -> bool:
    """Whether a part of it waits. Most gangs of a busy cluster are complete."""
    if gang.broken or gang.is_settled:
        return False
    now = gang.standing
    if now.pending:
        return True
    return isinstance(gang.root, Branch) and any(not standing.satisfied for standing in gang.standings.values())


def _alike(refusal: Refusal) -> object:
    """Refusals have this in common that differ in nothing but the part that they are about."""
    if isinstance(refusal, NotEnoughPods):
        return NotEnoughPods, tuple(replace(shortage, group="") for shortage in refusal.shortages[:1])
    is_further = refusal.extra is not None and refusal.extra.further_pods is not None
    return is_further, replace(refusal, sub_group="", extra=None)


def _merged(refusals: list[Refusal]) -> Refusal:
    first, *rest = refusals
    alike = tuple(refusal.extra.name for refusal in rest if refusal.extra and refusal.extra.name is not None)
    return replace(first, extra=replace(first.extra, alike=alike)) if alike and first.extra else first
