"""Which units leave: in tiers, each paid from the budget of the gang (P6, X7, decision 0018).

(a) Bounds and one search with every candidate gone: if that is no, no unit leaves. (b) A greedy set by eviction cost,
reduced until no unit can be left out. (c) The smallest set: a bound that the greedy set meets, or a search over sets.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import OutOfSteps
from muster.placement.goal import Goal, shapes, size
from muster.placement.ledger import Ledger
from muster.placement.search import Seat
from muster.planning.board import Board
from muster.planning.decision import Proof
from muster.planning.preemption.candidates import Candidates, Mask, Units
from muster.planning.preemption.eviction_cost import CostLedger, fewest_pods
from muster.planning.preemption.rules import Rules

Ints = NDArray[np.int64]
Short = dict[int, Ints]  # by node and column: what seats still lack there
QUESTION_STEPS = 8  # that a search on a changed ledger costs before its first step
SOME = 256  # units that are looked at together
FEW = 64  # units that a search over sets can go through
NEIGHBOURHOODS = 4  # sets of units whose moving is tried for one gang on a large cluster
NEIGHBOURHOOD_STEPS = 1_000  # that one of them may cost


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
        self.numbers = self._useful(np.flatnonzero(mask).tolist())
        self.all = self.candidates.whole(self.numbers)
        self._answers: dict[tuple[Units, bytes], tuple[Seat, ...] | None] = {}
        self._settled: dict[Units, bool] = {}

    def _useful(self, numbers: Sequence[int]) -> list[int]:
        """Units with pods on nodes that the gang could use; all of them where a limit is in the way."""
        if self.rules.most(frozenset()) is not None:
            return list(numbers)
        allowed = np.any([self.board.shapes.allowed(shape) for shape in shapes(self.goal)], axis=0)
        candidates = self.candidates
        own = np.zeros(len(candidates.units), dtype=bool)
        own[candidates.pod_unit[allowed[candidates.pod_node]]] = True
        return [n for n in numbers if own[n] or own[list(candidates.units[n].inside)].any()]

    def ledger_without(self, units: Units) -> Ledger:
        """What is free once these have left."""
        return self.candidates.ledger_without(self.board.later, units)

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


def select(question: Question, exact_steps: int) -> Selection | None:
    """The set that leaves; None: no set is enough, or none is allowed. OutOfSteps: unknown."""
    if (single := _single_pod(question)) is not None:
        return single
    if not question.all or not question.could_fit(question.all):
        return None
    greedy = greedy_set(question, question.all)
    whole = question.board.spending
    try:
        question.board.spending = whole.part(exact_steps)
        units, proof = _smallest(question, greedy)
    finally:
        question.board.spending = whole
    return None if units is None else question.selection(units, proof)


def _smallest(question: Question, greedy: Units | None) -> tuple[Units | None, Proof]:
    """The smallest set, by a search over sets where units are few; else the greedy one, with what is proved of it."""
    if len(question.numbers) <= FEW:
        return smallest_set(question, greedy)
    if greedy is not None and _is_fewest(question, greedy):
        return greedy, "exact"
    if greedy is None:
        greedy = largest_allowed_set(question)
    return (None if greedy is None else reduced(question, greedy)), "irreducible"


def select_nearby(question: Question, exact_steps: int) -> Selection | None:
    """The same for moves (P8): all sets where units are few, else a few neighbourhoods, the cheapest seats first."""
    if len(question.numbers) <= FEW:
        return select(question, exact_steps)
    if (single := _single_pod(question)) is not None:
        return single
    among, whole = question.all, question.board.spending
    for _ in range(NEIGHBOURHOODS):
        seats = cheapest_seats(question, among) if among else None
        units = None if seats is None else in_the_way(question, seats, among)
        if units is None:
            return None
        try:
            question.board.spending = whole.part(NEIGHBOURHOOD_STEPS)
            if question.is_enough(units):
                return question.selection(reduced(question, units), "irreducible")
        except OutOfSteps:
            whole.spend(0)  # the gang's own budget is another matter
        finally:
            question.board.spending = whole
        among -= units
    return None


# a single pod ---------------------------------------------------------------------------------------------------------


def _single_pod(question: Question) -> Selection | None:
    """For a goal of one pod that can be anywhere: one pod in the way, if one is enough."""
    goal, candidates = question.goal, question.candidates
    if not goal.is_leaf or goal.need > 1 or len(goal.pods) > 1 or goal.required or goal.preferred:
        return None
    shape = goal.pods[0][0]
    if shape in question.board.later.company.touched:
        return None
    mine = question.mask & (candidates.only_node >= 0) & (candidates.total_pods == 1) & candidates.staying
    order = candidates.first_to_leave[mine[candidates.first_to_leave]]
    for start in range(0, len(order), SOME):
        for number in _making_room(question, shape, order[start : start + SOME]):
            units = candidates.whole([number])
            seats = (Seat(goal.name, shape, int(candidates.only_node[number]), 1),)
            question.board.spending.spend()
            if question.rules.allows(units, question.board.asked(seats)) and question.rules.is_within(units, seats):
                settled = question.rules.settle(units, seats)
                if settled is not None:
                    return Selection(units, settled, "exact")
    return None


def _making_room(question: Question, shape: int, numbers: Ints) -> list[int]:
    """Units each of which makes room for a pod of a class on its node."""
    board, candidates, ledger = question.board, question.candidates, question.board.later
    columns, nodes = board.shapes.columns[shape], candidates.only_node[numbers]
    room = ledger.free[np.ix_(nodes, columns)] + candidates.freed[np.ix_(numbers, columns)]
    good = (room >= board.shapes.asks[shape][columns]).all(axis=1) & ledger.allowed(shape)[nodes]
    found: list[int] = numbers[good].tolist()
    return found


# greedy ---------------------------------------------------------------------------------------------------------------


def greedy_set(question: Question, among: Units) -> Units | None:
    """Units in the way of the cheapest seats, if they are enough and allowed."""
    seats = cheapest_seats(question, among)
    units = None if seats is None else in_the_way(question, seats, among)
    return units if units is not None and question.is_enough(units) else None


def cheapest_seats(question: Question, among: Units) -> tuple[Seat, ...] | None:
    """Seats by eviction cost, with some units gone; None: there are none."""
    ledger = CostLedger(question.board.later, question.candidates, sorted(among))
    question.board.spending.spend(QUESTION_STEPS)
    search = question.board.search(ledger, allowance=question.rules.most(among))
    state = search.first(question.goal)
    return None if state is None else search.seats(state)


def in_the_way(question: Question, seats: Iterable[Seat], among: Units) -> Units | None:
    """Units on the nodes of the seats, until all of these fit; for these seats none of them can be left out."""
    candidates = question.candidates
    short = _lacking(question.board, seats)
    rows = np.flatnonzero(candidates.rows(among) & np.isin(candidates.pod_node, list(short)))
    there: dict[int, dict[int, None]] = {}
    for number, node in zip(candidates.pod_unit[rows].tolist(), candidates.pod_node[rows].tolist(), strict=True):
        there.setdefault(node, {})[number] = None
    gone: set[int] = set()
    for node in sorted(short):
        for number in _most_useful_first(candidates, list(there.get(node, ())), short[node], node):
            if (short[node] <= 0).all():
                break
            if number not in gone:
                for part in candidates.whole([number]) - gone:
                    _count(candidates, part, short, 1)
                    gone.add(part)
        if (short[node] > 0).any():
            return None
    return _without_needless(candidates, gone, short)


def _lacking(board: Board, seats: Iterable[Seat]) -> Short:
    short: Short = {}
    for seat in seats:
        row = short.setdefault(seat.node, -board.later.free[seat.node])
        short[seat.node] = row + board.shapes.asks[seat.shape] * seat.pods
    return short


def _most_useful_first(candidates: Candidates, numbers: list[int], short: Ints, node: int) -> list[int]:
    """Units that free most of what is short there, for the fewest pods; then the first to leave."""
    lacking = np.flatnonzero(short > 0)
    if not len(lacking):
        return []

    def key(number: int) -> tuple[float, int, int]:
        freed = sum(candidates.freed_on(one, node) for one in candidates.whole([number]))
        part = float(np.minimum(np.asarray(freed)[lacking] / short[lacking], 1).sum())
        pods = int(candidates.total_pods[number])
        return (-part / max(pods, 1), pods, int(candidates.rank[number]))

    return sorted(numbers, key=key)


def _count(candidates: Candidates, number: int, short: Short, sign: int) -> None:
    """A unit leaves, or stays after all: so much less, or more, is short on its nodes."""
    for node in dict.fromkeys(candidates.units[number].nodes):
        if node in short:
            short[node] = short[node] - sign * candidates.freed_on(number, node)


def _without_needless(candidates: Candidates, gone: set[int], short: Short) -> Units:
    """Without units that are not needed for the seats, the last to leave first."""
    for number in candidates.last_to_leave.tolist():
        if number not in gone or any(outer in gone for outer in candidates.units[number].around):
            continue
        _count(candidates, number, short, -1)
        nodes = (node for node in dict.fromkeys(candidates.units[number].nodes) if node in short)
        if any((short[node] > 0).any() for node in nodes):
            _count(candidates, number, short, 1)
        else:
            gone.discard(number)
    return frozenset(gone)


def largest_allowed_set(question: Question) -> Units | None:
    """Unit after unit, the first to leave first, as long as the rules allow; None: even that is not enough.

    A set that is not enough here proves nothing: another one might be. OutOfSteps says so.
    """
    candidates, nothing = question.candidates, question.board.asked(())
    mine, units = set(question.numbers), frozenset[int]()
    for number in candidates.first_to_leave.tolist():
        if number in mine:
            more = units | candidates.whole([number])
            question.board.spending.spend()
            units = more if question.rules.allows(more, nothing) else units
    if units and question.is_enough(units):
        return units
    if units == question.all:
        return None
    raise OutOfSteps


def reduced(question: Question, units: Units) -> Units:
    """One unit after the other stays if the rest is enough, the last to leave first, as long as there are steps."""
    candidates = question.candidates
    try:
        for number in candidates.last_to_leave.tolist():
            if number in units and not any(outer in units for outer in candidates.units[number].around):
                fewer = units - {number}
                units = fewer if question.is_enough(fewer) else units
    except OutOfSteps:
        pass
    return units


# the smallest set -----------------------------------------------------------------------------------------------------


def _is_fewest(question: Question, units: Units) -> bool:
    """No smaller set can do, by a bound: one pod is the least, and pods of one class can be counted."""
    pods = question.candidates.count(units)
    classes = shapes(question.goal)
    if pods == 1 or len(classes) > 1:
        return pods == 1
    numbers = sorted(question.all)
    return pods <= fewest_pods(question.board.later, question.candidates, numbers, classes[0], size(question.goal))


def smallest_set(question: Question, greedy: Units | None) -> tuple[Units | None, Proof]:
    """The first of the smallest sets, or the best that was found before the steps ran out. OutOfSteps: none was."""
    best = [greedy] if greedy is not None else []
    try:
        best.extend(_smaller_and_smaller(question, greedy))
    except OutOfSteps:
        if not best:
            raise
        return best[-1], "irreducible"
    return (best[-1] if best else None), "exact"


def _smaller_and_smaller(question: Question, greedy: Units | None) -> Iterator[Units]:
    """Depth first over sets: the last to leave stays if the rest could still be enough."""
    candidates = question.candidates
    least = candidates.count(greedy) + 1 if greedy is not None else question.rules.most_pods + 1
    mine = set(question.numbers)
    order = [n for n in candidates.last_to_leave.tolist() if n in mine]
    looks = {n: _looks(question, n) for n in question.all}
    ahead: list[tuple[Units, Units]] = [(frozenset(), question.all)]
    while ahead:
        gone, undecided = ahead.pop()
        if candidates.count(gone) >= least or not question.could_fit(gone | undecided):
            continue
        if question.is_enough(gone):
            least = candidates.count(gone)
            yield gone
            continue
        number = next((n for n in order if n in undecided), None)
        if number is None:
            continue
        around = [outer for outer in candidates.units[number].around if outer in undecided]
        alike = [n for n in undecided if looks[n] == looks[number]]  # they leave before it, and are as good
        taken = candidates.whole([number, *alike])
        ahead.append((gone | taken, undecided - taken))
        ahead.append((gone, undecided - {number, *around}))


def _looks(question: Question, number: int) -> object:
    """Units that look alike can take each other's place."""
    unit, board = question.candidates.units[number], question.board
    if unit.inside:
        return number
    pods = sorted(
        (node, board.shape(unit.gang, member.name), question.rules.looks(f"{unit.gang.namespace}/{member.name}"))
        for (_, member), node in zip(unit.pods, unit.nodes, strict=True)
    )
    return (unit.gang.queue, unit.around, tuple(pods))
