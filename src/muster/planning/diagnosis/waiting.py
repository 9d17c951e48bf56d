"""Why extras wait (E1, G3): a reason for the first few further parts of a gang that runs, and a count of the others.

Rule: extras cost little. Reasons come from counts, never from another search; equal parts on equal terms share one; the
steps are paid by the gang (X7).
"""

import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE
from muster.model.gang.gang import Gang
from muster.model.gang.types import Branch, Group
from muster.model.shortage import NOT_COUNTED, Shortage, shortages
from muster.placement.budget import OutOfSteps
from muster.placement.requirements import Impossible, Requirement, Requirements
from muster.planning.bounds import least
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Refusal
from muster.planning.diagnosis.diagnose import Diagnosis
from muster.planning.elastic import further

NOT_ENOUGH_PODS, MORE, CUT_SHORT = "NotEnoughPods", "MoreExtrasWait", "SearchCutShort"
SHOWN = 3  # distinct reasons of a gang
ASKED = 32  # parts of a gang that are asked for a reason
Ints = NDArray[np.int64]


def not_enough_pods(lacking: tuple[Shortage, ...]) -> Refusal:
    """Pods that do not exist, with both numbers; the first group that lacks some, and the others."""
    first, *rest = lacking
    details = {name: number for name, number in asdict(first).items() if name != "group"}
    others = [{"subGroup": one.group, "need": one.need, "exist": one.exist} for one in rest[:SHOWN]]
    return Refusal(NOT_ENOUGH_PODS, first.group, details | ({"others": others} if others else {}))


def refusal_of(found: Impossible, part: Group) -> Refusal:
    """Why no cluster could hold a part as things are."""
    if found.reason == NOT_ENOUGH_PODS and (lacking := shortages(part)):
        return not_enough_pods(lacking)
    return Refusal(found.reason, found.group, {"detail": found.detail, **found.facts})


class WaitingExtras:
    """Asked once every gang has had its turns: what is free then stays free in this cycle."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self._known: dict[object, Refusal] = {}  # by what the answer depends on

    def explain(self) -> None:
        """Reasons for the gangs that run, have none yet, and have parts that wait."""
        for key, gang_state in self.cycle_state.gang_states.items():
            if gang_state.verdict == "Scheduled" and not gang_state.refusals and _waits(gang_state.gang):
                self.cycle_state.charge_to(key)
                self.cycle_state.gang_states[key] = replace(gang_state, refusals=self._reasons(gang_state.gang))

    def _reasons(self, gang: Gang) -> tuple[Refusal, ...]:
        """Distinct ones, each with the parts that it holds for; parts of which pods exist come first."""
        requirements = self.cycle_state.requirements(gang)
        now = requirements.standings
        parts = [(part, pods) for _, part, pods in further(gang.root, now)]
        parts.sort(key=lambda one: not (now[one[0].name].pending or now[one[0].name].gated))
        found: dict[object, list[Refusal]] = {}
        try:
            for part, pods in parts[:ASKED]:
                said = self._reason(gang, requirements, part, pods)
                found.setdefault(_alike(said), []).append(said)
        except OutOfSteps:
            found.setdefault(CUT_SHORT, []).append(Refusal(CUT_SHORT, details={"role": "extra"}))
        shown = tuple(map(_merged, list(found.values())[:SHOWN]))
        more = len(parts) - sum(1 + len(one.details.get("alike", ())) for one in shown)
        return (*shown, Refusal(MORE, details={"role": "extra", "parts": more})) if more > 0 else shown

    def _reason(self, gang: Gang, requirements: Requirements, part: Group, pods: int) -> Refusal:
        """Why a SubGroup that is not satisfied waits, or further pods of a leaf that is."""
        requirement = requirements.further(part, pods)
        extra = {
            "role": "extra",
            "part": part.name,
            **({"further": requirements.standings[part.name].pending} if pods else {}),
        }
        if isinstance(requirement, Requirement):
            said = replace(self._refused(gang, requirements, requirement, part.name), sub_group=part.name)
        elif isinstance(requirement, Impossible):
            said = refusal_of(requirement, part)
        else:
            said = Refusal(CUT_SHORT, part.name)
        return replace(said, details=said.details | extra)

    def _refused(self, gang: Gang, requirements: Requirements, requirement: Requirement, part: str) -> Refusal:
        """The queue or the room; equal parts on equal terms have one answer."""
        allowance = self.cycle_state.allowance(gang, extra=True)
        known = requirement.kind, None if allowance is None else (gang.queue, gang.preemptibility)
        if known not in self._known:
            self.cycle_state.spending.spend()
            self._known[known] = self._diagnosed(gang, requirements, requirement, part, allowance)
        return self._known[known]

    def _diagnosed(
        self, gang: Gang, requirements: Requirements, requirement: Requirement, part: str, allowance: Ints | None
    ) -> Refusal:
        asked = least(requirement, self.cycle_state.pod_classes.asks)
        if allowance is not None and (asked > allowance).any():
            amounts = {name: int(asked[i]) for i, name in enumerate(self.cycle_state.snapshot.columns) if asked[i]}
            protected = amounts if gang.preemptibility == NON_PREEMPTIBLE else {}
            if (over := self.cycle_state.usage.excess(gang.queue, amounts, protected)) is not None:
                return Refusal(over[0], details=asdict(over[1]))
        return Diagnosis(self.cycle_state.now, requirements, requirement, self.cycle_state.spending).brief(part)


def _waits(gang: Gang) -> bool:
    """Whether a part of it is not placed. Most gangs of a busy cluster run and wait for nothing."""
    if gang.broken or gang.is_settled:
        return False
    now = gang.standing
    if now.pending:
        return True
    return isinstance(gang.root, Branch) and any(not one.satisfied for one in gang.standings.values())


def _alike(said: Refusal) -> object:
    """Reasons that differ in nothing but the part that they are about."""
    if said.reason == NOT_ENOUGH_PODS:
        return said.reason, tuple(said.details.get(name) for name in ("need", "exist", *NOT_COUNTED))
    return said.reason, "further" in said.details, repr({**said.details, "part": "", "further": 0})


def _merged(same: list[Refusal]) -> Refusal:
    first, *rest = same
    return replace(first, details=first.details | {"alike": [one.details["part"] for one in rest]}) if rest else first
