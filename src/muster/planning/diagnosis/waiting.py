"""Why extras wait (E1, G3): a reason for the first few further parts of a gang that runs, and a count of the others.

Rule: extras cost little. Reasons come from counts, never from another search; equal parts on equal terms share one; the
steps are paid by the gang (X7).
"""

import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE
from muster.model.gang import Branch, Gang, Group
from muster.model.shortage import NOT_COUNTED, Shortage, shortages
from muster.placement.budget import OutOfSteps
from muster.placement.requirements import Goal, Goals, Impossible
from muster.planning.bounds import least
from muster.planning.cycle_state import Board
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

    def __init__(self, board: Board) -> None:
        self.board = board
        self._known: dict[object, Refusal] = {}  # by what the answer depends on

    def explain(self) -> None:
        """Reasons for the gangs that run, have none yet, and have parts that wait."""
        for key, turn in self.board.turns.items():
            if turn.verdict == "Scheduled" and not turn.refusals and _waits(turn.gang):
                self.board.charge_to(key)
                self.board.turns[key] = replace(turn, refusals=self._reasons(turn.gang))

    def _reasons(self, gang: Gang) -> tuple[Refusal, ...]:
        """Distinct ones, each with the parts that it holds for; parts of which pods exist come first."""
        goals = self.board.goals(gang)
        now = goals.standings
        parts = [(part, pods) for _, part, pods in further(gang.root, now)]
        parts.sort(key=lambda one: not (now[one[0].name].pending or now[one[0].name].gated))
        found: dict[object, list[Refusal]] = {}
        try:
            for part, pods in parts[:ASKED]:
                said = self._reason(gang, goals, part, pods)
                found.setdefault(_alike(said), []).append(said)
        except OutOfSteps:
            found.setdefault(CUT_SHORT, []).append(Refusal(CUT_SHORT, details={"role": "extra"}))
        shown = tuple(map(_merged, list(found.values())[:SHOWN]))
        more = len(parts) - sum(1 + len(one.details.get("alike", ())) for one in shown)
        return (*shown, Refusal(MORE, details={"role": "extra", "parts": more})) if more > 0 else shown

    def _reason(self, gang: Gang, goals: Goals, part: Group, pods: int) -> Refusal:
        """Why a SubGroup that is not satisfied waits, or further pods of a leaf that is."""
        goal = goals.further(part, pods)
        extra = {
            "role": "extra",
            "part": part.name,
            **({"further": goals.standings[part.name].pending} if pods else {}),
        }
        if isinstance(goal, Goal):
            said = replace(self._refused(gang, goals, goal, part.name), sub_group=part.name)
        elif isinstance(goal, Impossible):
            said = refusal_of(goal, part)
        else:
            said = Refusal(CUT_SHORT, part.name)
        return replace(said, details=said.details | extra)

    def _refused(self, gang: Gang, goals: Goals, goal: Goal, part: str) -> Refusal:
        """The queue or the room; equal parts on equal terms have one answer."""
        allowance = self.board.allowance(gang, extra=True)
        known = goal.kind, None if allowance is None else (gang.queue, gang.preemptibility)
        if known not in self._known:
            self.board.spending.spend()
            self._known[known] = self._diagnosed(gang, goals, goal, part, allowance)
        return self._known[known]

    def _diagnosed(self, gang: Gang, goals: Goals, goal: Goal, part: str, allowance: Ints | None) -> Refusal:
        asked = least(goal, self.board.shapes.asks)
        if allowance is not None and (asked > allowance).any():
            amounts = {name: int(asked[i]) for i, name in enumerate(self.board.snapshot.columns) if asked[i]}
            protected = amounts if gang.preemptibility == NON_PREEMPTIBLE else {}
            if (over := self.board.usage.excess(gang.queue, amounts, protected)) is not None:
                return Refusal(over[0], details=asdict(over[1]))
        return Diagnosis(self.board.now, goals, goal, self.board.spending).brief(part)


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
