"""Why a gang gets nothing in this cycle: before its turn, and once neither free nor freed room was found (E1-E3)."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict, replace

from muster.api.names import PREEMPTIBLE
from muster.fairness.entitlement import Excess, closed
from muster.model.gang import Gang, satisfied
from muster.placement.requirements import Goal, Goals, Impossible, every, shapes
from muster.planning.backoff import backed_off
from muster.planning.bounds import least
from muster.planning.cycle_state import Board, Turn
from muster.planning.decision import Refusal, Verdict
from muster.planning.diagnosis.diagnose import Diagnosis
from muster.planning.diagnosis.waiting import refusal_of
from muster.planning.preemption.make_room import Preemption

SHOWN = 3  # pods that a refusal names


class Refusals:
    """What is said of the gangs of one cycle that wait."""

    def __init__(self, board: Board, preemption: Preemption, full: set[int]) -> None:
        self.board, self.preemption = board, preemption
        self._full = full  # kinds of goals that nothing that is free could hold
        self.known: dict[object, Refusal] = {}  # what was said of a gang's twins

    def shut(self, gang: Gang) -> Refusal | None:
        """Its pods are another scheduler's (N6), its queue is closed (Q1, Q2), or its one attempt has failed (S4)."""
        if gang.broken:
            return None
        if gang.is_foreign:
            return _other_scheduler(gang)
        if gang.unknown_class:
            return Refusal("PriorityClassDoesNotExist", details={"priorityClass": gang.unknown_class})
        if reason := closed(self.board.usage.tree, gang.queue):
            return Refusal(reason, details={"queue": gang.queue})
        if (failed := backed_off(gang, self.board.snapshot)) is not None:
            return Refusal("BackedOff", details=failed)
        return None

    def withdraw_hints(self) -> None:
        """A gang is not advised to wait for room that a later one has taken in this cycle (E1, P8)."""
        for key, seats in self.preemption.waiting.items():
            if not self.board.will_have_room(seats):
                turn = self.board.turns[key]
                self.board.turns[key] = replace(turn, refusals=tuple(map(_without_soon, turn.refusals)))

    def refuse(self, turn: Turn, goals: Goals, goal: Goal | Impossible | None) -> Turn:
        """Why a core was placed nowhere: it cannot be, its queue says no, or there is no room."""
        assert goal is not None
        if isinstance(goal, Impossible):
            return self.impossible(turn, goal)
        over = self._over(turn.gang, goal)
        if over is not None:
            return replace(turn, verdict="Waiting", refusals=(self._with_changes(over, turn.gang, goals, goal),))
        twin = (goal.kind, tuple(one.name for one in every(goal)), tuple(goals.done().items()))
        if twin not in self.known:
            diagnose = Diagnosis(self.board.now, goals, goal, self.board.spending).refusal
            self.known[twin] = self.board.recall.diagnosis(self.board.now, goals, goal, diagnose)
        said = self.known[twin]
        if turn.gang.key in self.preemption.waiting:
            said = replace(said, details=said.details | {"soon": True})
        return self.infeasible(turn, goal, said)

    def infeasible(self, turn: Turn, goal: Goal, said: Refusal) -> Turn:
        """There is no room, with what is known of victims and moves beside it."""
        if kept := self.preemption.kept(turn.gang, goal):
            said = replace(said, details=said.details | {"kept": {"pods": len(kept), "some": list(kept[:SHOWN])}})
        if turn.gang.key in self.preemption.limited:
            return replace(turn, verdict="Waiting", refusals=(self.preemption.limited[turn.gang.key], said))
        if turn.gang.key in self.preemption.undecided:
            return unknown(turn, Refusal("SearchCutShort", details={"moves": True}), said)
        return replace(turn, verdict="Infeasible", refusals=(said,))

    def impossible(self, turn: Turn, found: Impossible) -> Turn:
        """Nothing was searched: pods are missing, or the spec names what does not exist."""
        verdict: Verdict = "Invalid" if found.reason == "InvalidSpec" else "Waiting"
        refusals: tuple[Refusal, ...] = (refusal_of(found, turn.gang.root),)
        if found.reason == "NotEnoughPods" and turn.gang.other_schedulers:
            refusals = (_other_scheduler(turn.gang), *refusals)
        return replace(turn, verdict=verdict, refusals=refusals)

    def _over(self, gang: Gang, goal: Goal) -> Refusal | None:
        """The limit or quota that stands in the way (Q4), if there is room but for it, or no way around it."""
        allowance = self.board.allowance(gang)
        if allowance is None:
            return None
        asked: Mapping[str, int]
        if (least(goal, self.board.shapes.asks) > allowance).any():
            total = least(goal, self.board.shapes.asks)
            asked = {name: int(total[i]) for i, name in enumerate(self.board.snapshot.columns) if total[i]}
        elif goal.kind in self._full or (seats := self.board.find(self.board.now, goal)) is None:
            return None
        else:
            asked = self.board.asked(seats)
            if (over := self.board.too_protected(gang, seats)) is not None:
                return _too_much("NonPreemptibleOverQuota", over)
        found = self.board.usage.excess(gang.queue, asked, {} if gang.preemptibility == PREEMPTIBLE else asked)
        return None if found is None else _too_much(*found)

    def _with_changes(self, over: Refusal, gang: Gang, goals: Goals, goal: Goal) -> Refusal:
        """The same with what would fit on free room within what the queue allows (E1)."""
        allowance, asks = self.board.allowance(gang), self.board.shapes.asks
        if allowance is not None and all((asks[shape] > allowance).any() for shape in shapes(goal)):
            return over  # not even one pod

        def work() -> Refusal:
            diagnosis = Diagnosis(self.board.now, goals, goal, self.board.spending, allowance)
            return replace(over, details=over.details | {"changes": diagnosis.changes(tuple(every(goal)))})

        within = () if allowance is None else tuple(allowance.tolist())
        return self.board.recall.diagnosis(self.board.now, goals, goal, work, over.reason, over.details, within)


def unplaced(goal: Goal) -> object:
    """What twins have in common that are one leaf and of which nothing is placed: see `refuse`."""
    return (goal.kind, (goal.name,), ((goal.name, 0),))


def unknown(turn: Turn, *refusals: Refusal) -> Turn:
    """Nothing more is known of a gang; where its core is placed, that stands."""
    verdict: Verdict = "Scheduled" if turn.verdict == "Scheduled" or satisfied(turn.gang.root) else "Unknown"
    return replace(turn, verdict=verdict, refusals=(*turn.refusals, *refusals))


def _without_soon(refusal: Refusal) -> Refusal:
    return replace(refusal, details={name: fact for name, fact in refusal.details.items() if name != "soon"})


def _other_scheduler(gang: Gang) -> Refusal:
    """Some or all of its pods ask for schedulers that are not ours (N6)."""
    return Refusal("OtherScheduler", details={"schedulers": list(gang.other_schedulers), "all": gang.is_foreign})


def _too_much(reason: str, found: Excess) -> Refusal:
    details: dict[str, Any] = asdict(found)
    return Refusal(reason, details=details)
