"""One question about victims: are these units enough? Answers are remembered, and every search is paid for (X7)."""

from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import OutOfSteps
from muster.placement.capacity import Ledger
from muster.placement.requirements import Goal, shapes, size
from muster.placement.search.nested_search import Seat
from muster.planning.cycle_state import Board
from muster.planning.decision import Proof
from muster.planning.preemption.candidates import Candidates, Mask, Units
from muster.planning.preemption.rules import Rules
from muster.planning.preemption.victims.eviction_cost import fewest_pods

Ints = NDArray[np.int64]
QUESTION_STEPS = 8  # that a search on a changed ledger costs before its first step


class Selection(Struct, frozen=True, eq=False):
    """The units that leave, the seats that this makes room for, and what is proved of it."""

    units: Units
    seats: tuple[Seat, ...]
    proof: Proof


class Question:
    """One gang's goal and one way to make room for it. Answers are remembered; every search is paid for."""

    def __init__(self, board: Board, goal: Goal, rules: Rules, mask: Mask) -> None:
        self.board, self.goal, self.rules = board, goal, rules
        self.candidates: Candidates = rules.candidates
        self.mask = mask
        useful = self._useful(mask)
        self.numbers: list[int] = np.flatnonzero(useful).tolist()
        self.all = self.candidates.all_of(useful)
        self._answers: dict[tuple[Units, bytes], tuple[Seat, ...] | None] = {}
        self._settled: dict[Units, bool] = {}

    @cached_property
    def fewest(self) -> int:
        """So many pods have to leave at least, by a bound: for pods of one class they can be counted."""
        classes, later = shapes(self.goal), self.board.later
        if len(classes) > 1 or classes[0] in later.company.touched:
            return 1
        seats = self.vacated.fits(classes[0])
        return fewest_pods(later, self.candidates, self.all, classes[0], seats, size(self.goal))

    def _useful(self, mask: Mask) -> Mask:
        """Units with pods on nodes that the gang could use; all of them where a limit is in the way."""
        if self.rules.most(frozenset()) is not None:
            return mask
        allowed = np.any([self.board.shapes.allowed(shape) for shape in shapes(self.goal)], axis=0)
        return mask & self.candidates.on_nodes(allowed)

    def ledger_without(self, units: Units) -> Ledger:
        """What is free once these have left."""
        return self.vacated if units is self.all else self.candidates.ledger_without(self.board.later, units)

    @cached_property
    def vacated(self) -> Ledger:
        """What is free once all candidates have left."""
        return self.candidates.ledger_without(self.board.later, self.all)

    def could_fit(self, units: Units) -> bool:
        """Whether there are seats with these, or only some of them, gone: a bound."""
        return self._ask(units, self.rules.most(units)) is not None

    def seats(self, units: Units) -> tuple[Seat, ...] | None:
        """Seats with these gone, whatever is preferred."""
        return self._ask(units, self.rules.allowance(units))

    def _ask(self, units: Units, allowance: Ints | None) -> tuple[Seat, ...] | None:
        key = (units, b"" if allowance is None else allowance.tobytes())
        if key not in self._answers:
            self.board.spending.spend(QUESTION_STEPS)
            search = self.board.search(self.ledger_without(units), allowance=allowance)
            state = search.first(self.goal)
            self._answers[key] = None if state is None else search.seats(state)
        return self._answers[key]

    def is_enough(self, units: Units) -> bool:
        """There are seats, these units may leave, and nothing else stands against it."""
        if units not in self._settled:
            seats = self.seats(units)
            allowed = seats is not None and self.rules.allows(units, self.board.asked(seats))
            self._settled[units] = allowed and seats is not None and self.rules.settle(units, seats) is not None
        return self._settled[units]

    def selection(self, units: Units, proof: Proof) -> Selection | None:
        """The set with seats that the gang prefers (T2), where there are such."""
        for seats in self._preferred(units), self.seats(units):
            if seats is not None and self.rules.allows(units, self.board.asked(seats)):
                settled = self.rules.settle(units, seats)
                if settled is not None:
                    return Selection(units, settled, proof)
        return None

    def _preferred(self, units: Units) -> tuple[Seat, ...] | None:
        try:
            return self.board.find(self.ledger_without(units), self.goal, self.rules.allowance(units))
        except OutOfSteps:
            return None
