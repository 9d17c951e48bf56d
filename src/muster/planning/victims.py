"""The smallest set of units whose leaving makes room for a gang (P6, decision 0008).

First the answer with everybody gone: if that is no, nobody is disturbed. Then a cheap set, from a search that takes
seats by price. Then the proof: a bound that it meets, or a search over sets that finds a smaller one or none. Where
the cluster is too large for that, a set from which nobody can be left out.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.placement.budget import OutOfSteps
from muster.placement.goal import Goal, shapes, size
from muster.placement.ledger import Ledger
from muster.placement.search import Seat
from muster.planning.board import Board
from muster.planning.crowd import Crowd, Mask
from muster.planning.decision import EvictionReason
from muster.planning.prices import Yielding, fewest

Ints = NDArray[np.int64]
Set = frozenset[int]
QUESTIONS = 200_000  # node visits that a proof of the smallest set may cost
SOME = 256  # units that are looked at together
FEW = 64  # units that a search over sets can go through


class Rules(Protocol):
    """Who may be disturbed by one gang in one way."""

    reason: EvictionReason

    def allowance(self, gone: Set) -> Ints | None:
        """What the gang's new pods may take, by column, with these units gone."""

    def at_most(self, gone: Set) -> Ints | None:
        """What they could take if only some of these were gone: a bound."""

    def allow(self, gone: Set, asked: Resources) -> bool:
        """Whether these may leave for a gang that asks for so much."""

    def look(self, pod: str) -> object:
        """What tells pods apart in the eyes of these rules, beyond class, node and queue."""

    def settle(self, gone: Set, seats: tuple[Seat, ...]) -> tuple[Seat, ...] | None:
        """The seats that will do, once they are known; None: something else stands against them."""


class Choice(Struct, frozen=True):
    """Who leaves, and the seats that this makes room for."""

    gone: Set
    seats: tuple[Seat, ...]


class Selection:
    """One gang's goal, those who could leave for it, and the rules of one way to disturb them."""

    def __init__(self, board: Board, crowd: Crowd, goal: Goal, mask: Mask, rules: Rules) -> None:
        self.board, self.crowd, self.goal, self.rules = board, crowd, goal, rules
        self.mask = mask
        self.numbers: list[int] = []
        self.questions = max(QUESTIONS // max(len(board.snapshot.nodes), 100), 20)
        self._answers: dict[tuple[Set, bytes], tuple[Seat, ...] | None] = {}

    def _useful(self, numbers: Sequence[int]) -> list[int]:
        """Units with pods on nodes that the gang could use; all of them where a limit is in the way."""
        if self.rules.at_most(frozenset()) is not None:
            return list(numbers)
        allowed = np.any([self.board.shapes.allowed(shape) for shape in shapes(self.goal)], axis=0)
        whole = ((number, (number, *self.crowd.all[number].inside)) for number in numbers)
        return [n for n, parts in whole if any(allowed[node] for part in parts for node in self.crowd.all[part].nodes)]

    def best(self) -> Choice | None:
        """The choice; None: nobody's leaving would be enough, or it is not allowed."""
        if not self.mask.any():
            return None
        if (single := self._single()) is not None:
            return single
        self.numbers = self._useful(np.flatnonzero(self.mask).tolist())
        everybody = self.crowd.whole(self.numbers)
        if not everybody or not self._fits(everybody):
            return None
        found = self._cheap(everybody)
        if found is None or not self._proved(found):
            found = self._smaller(found, everybody)
        return None if found is None else self._choice(found)

    # one pod ----------------------------------------------------------------------------------------------------------

    def _single(self) -> Choice | None:
        """For a goal of one pod that can be anywhere: one pod in the way, if one is enough."""
        goal, crowd = self.goal, self.crowd
        if not goal.is_leaf or goal.need > 1 or len(goal.pods) > 1 or goal.required or goal.preferred:
            return None
        shape = goal.pods[0][0]
        ledger = self.board.later
        if shape in ledger.company.touched:
            return None
        mine = self.mask & (crowd.node >= 0) & (crowd.total == 1) & crowd.staying
        order = crowd.willing[mine[crowd.willing]]
        for start in range(0, len(order), SOME):
            for number in self._enough(shape, order[start : start + SOME]):
                gone = crowd.whole([number])
                seats = (Seat(goal.name, shape, int(crowd.node[number]), 1),)
                allowed = self.rules.allow(gone, self.board.asked(seats)) and self._within(gone, seats)
                settled = self.rules.settle(gone, seats) if allowed else None
                if settled is not None:
                    return Choice(gone, settled)
        return None

    def _enough(self, shape: int, numbers: Ints) -> list[int]:
        """Units each of which makes room for a pod of a class on its node."""
        crowd, ledger = self.crowd, self.board.later
        columns, nodes = self.board.shapes.columns[shape], crowd.node[numbers]
        room = ledger.free[np.ix_(nodes, columns)] + crowd.freed[np.ix_(numbers, columns)]
        good = (room >= self.board.shapes.asks[shape][columns]).all(axis=1) & ledger.allowed(shape)[nodes]
        found: list[int] = numbers[good].tolist()
        return found

    def _within(self, gone: Set, seats: tuple[Seat, ...]) -> bool:
        allowance = self.rules.allowance(gone)
        if allowance is None:
            return True
        total = np.sum([self.board.shapes.asks[seat.shape] * seat.pods for seat in seats], axis=0)
        return bool((total <= allowance).all())

    # asking ---------------------------------------------------------------------------------------------------------

    def without(self, gone: Set) -> Ledger:
        """What is free once these have left."""
        return self.crowd.without(self.board.later, gone)

    def _fits(self, gone: Set) -> bool:
        """Whether there are seats with these, or only some of them, gone: a bound."""
        return self._asked(gone, self.rules.at_most(gone)) is not None

    def _seats(self, gone: Set) -> tuple[Seat, ...] | None:
        """Seats with these gone, whatever is preferred."""
        return self._asked(gone, self.rules.allowance(gone))

    def _asked(self, gone: Set, allowance: Ints | None) -> tuple[Seat, ...] | None:
        """Where nobody knows, it counts as no."""
        key = (gone, b"" if allowance is None else allowance.tobytes())
        if key not in self._answers:
            self.questions -= 1
            try:
                search = self.board.search(self.without(gone), allowance=allowance)
                state = search.first(self.goal)
                self._answers[key] = None if state is None else search.seats(state)
            except OutOfSteps:
                self._answers[key] = None
        return self._answers[key]

    def _good(self, gone: Set) -> bool:
        """Enough, and allowed."""
        seats = self._seats(gone)
        if seats is None or not self.rules.allow(gone, self.board.asked(seats)):
            return False
        return self.rules.settle(gone, seats) is not None

    def _choice(self, gone: Set) -> Choice | None:
        """With what the gang prefers (T2)."""
        for seats in (self.board.find(self.without(gone), self.goal, self.rules.allowance(gone)), self._seats(gone)):
            if seats is not None and self.rules.allow(gone, self.board.asked(seats)):
                settled = self.rules.settle(gone, seats)
                if settled is not None:
                    return Choice(gone, settled)
        return None

    # a cheap set ------------------------------------------------------------------------------------------------------

    def _cheap(self, everybody: Set) -> Set | None:
        """Those in the way of seats that were taken by price; nobody of them could be left out for these seats."""
        ledger = Yielding(self.board.later, self.crowd, sorted(everybody))
        try:
            search = self.board.search(ledger, allowance=self.rules.at_most(everybody))
            state = search.first(self.goal)
        except OutOfSteps:
            return None
        if state is None:
            return None
        gone = self._in_the_way(search.seats(state), everybody)
        return gone if gone is not None and self._good(gone) else None

    def _in_the_way(self, seats: Iterable[Seat], everybody: Set) -> Set | None:
        """Units on the nodes of the seats, until all of these fit; then whoever turned out not to be needed stays."""
        short: dict[int, Ints] = {}
        for seat in seats:
            row = short.setdefault(seat.node, -self.board.later.free[seat.node])
            short[seat.node] = row + self.board.shapes.asks[seat.shape] * seat.pods
        on: dict[int, dict[int, None]] = {}
        rows = np.flatnonzero(self.crowd.rows(everybody) & np.isin(self.crowd.piece_node, list(short)))
        for number, node in zip(self.crowd.piece[rows].tolist(), self.crowd.piece_node[rows].tolist(), strict=True):
            on.setdefault(node, {})[number] = None
        gone: set[int] = set()
        for node in sorted(short):
            for number in self._sorted(list(on.get(node, ())), short[node], node):
                if (short[node] <= 0).all():
                    break
                if number not in gone:
                    self._take(number, gone, short)
            if (short[node] > 0).any():
                return None
        return frozenset(self._spared(gone, short))

    def _sorted(self, numbers: list[int], short: Ints, node: int) -> list[int]:
        """Who frees most of what is short there first, for the fewest pods; then the most willing."""
        lacking = np.flatnonzero(short > 0)
        if not len(lacking):
            return []

        def key(number: int) -> tuple[float, int, int]:
            freed = sum(self._row(one, node) for one in self.crowd.whole([number]))
            part = float(np.minimum(np.asarray(freed)[lacking] / short[lacking], 1).sum())
            pods = int(self.crowd.total[number])
            return (-part / max(pods, 1), pods, int(self.crowd.place[number]))

        return sorted(numbers, key=key)

    def _row(self, number: int, node: int) -> Ints:
        """What a unit by itself frees on a node."""
        one = self.crowd.all[number]
        row = np.zeros(len(self.board.snapshot.columns), dtype=np.int64)
        for (_, member), where in zip(one.pods, one.nodes, strict=True):
            if where == node:
                row += self.board.shapes.asks[self.board.shape(one.gang, member.name)]
        return row

    def _take(self, number: int, gone: set[int], short: dict[int, Ints], sign: int = 1) -> None:
        for part in self.crowd.whole([number]) - gone if sign > 0 else (number,):
            gone.add(part) if sign > 0 else gone.discard(part)
            for node in dict.fromkeys(self.crowd.all[part].nodes):
                if node in short:
                    short[node] = short[node] - sign * self._row(part, node)

    def _spared(self, gone: set[int], short: dict[int, Ints]) -> set[int]:
        """Without whoever is not needed, the most reluctant first."""
        reluctant = {int(number): i for i, number in enumerate(self.crowd.reluctant)}
        for number in sorted(gone, key=lambda number: reluctant[number]):
            if any(outer in gone for outer in self.crowd.all[number].around):
                continue
            self._take(number, gone, short, -1)
            if any((short[node] > 0).any() for node in dict.fromkeys(self.crowd.all[number].nodes) if node in short):
                gone.add(number)
                for node in dict.fromkeys(self.crowd.all[number].nodes):
                    if node in short:
                        short[node] = short[node] - self._row(number, node)
        return gone

    # the proof --------------------------------------------------------------------------------------------------------

    def _proved(self, found: Set) -> bool:
        """No smaller set can do, by a bound: one pod is the least, and a single class can be counted."""
        pods = self.crowd.count(found)
        classes = shapes(self.goal)
        if len(self.numbers) <= FEW:
            return False  # the search over sets also finds whom it is better to disturb
        if pods == 1 or len(classes) > 1:
            return pods == 1
        everybody = sorted(self.crowd.whole(self.numbers))
        return pods <= fewest(self.board.later, self.crowd, everybody, classes[0], size(self.goal))

    def _smaller(self, found: Set | None, everybody: Set) -> Set | None:
        """A smallest set where units are few; else one from which nobody can be left out."""
        if len(self.numbers) <= FEW:
            best = _Sets(self, found).best(everybody)
            return found if best is None else best
        start = found if found is not None else (everybody if self._good(everybody) else None)
        return None if start is None else self._thinned(start)

    def _thinned(self, gone: Set) -> Set:
        """One after the other stays if the rest is enough, as long as there are questions left."""
        for number in self.crowd.reluctant.tolist():
            if self.questions <= 0:
                break
            if number in gone and not any(outer in gone for outer in self.crowd.all[number].around):
                fewer = gone - {number}
                if self._good(fewer):
                    gone = fewer
        return gone


class _Sets:
    """Depth first over sets of units: who is reluctant stays if the rest could still be enough."""

    def __init__(self, selection: Selection, found: Set | None) -> None:
        self.selection, self.crowd = selection, selection.crowd
        self.found: Set | None = None
        self.least = self.crowd.count(found) + 1 if found is not None else 10**9
        mine = set(selection.numbers)
        self.order = [n for n in self.crowd.reluctant.tolist() if n in mine]
        self.looks = {n: self._look(n) for n in selection.crowd.whole(mine)}

    def best(self, everybody: Set) -> Set | None:
        """The first of the smallest sets in the order of who stays; None: nothing better than what was there."""
        self._go(frozenset(), everybody)
        return self.found

    def _go(self, gone: Set, open_: Set) -> None:
        if self.crowd.count(gone) >= self.least or self.selection.questions <= 0:
            return
        if not self.selection._fits(gone | open_):
            return
        if self.selection._good(gone):
            self.found, self.least = gone, self.crowd.count(gone)
            return
        number = next((n for n in self.order if n in open_), None)
        if number is None:
            return
        around = [outer for outer in self.crowd.all[number].around if outer in open_]
        self._go(gone, open_ - {number, *around})
        twins = [n for n in open_ if self.looks[n] == self.looks[number]]  # more willing, and as good
        taken = self.crowd.whole([number, *twins])
        self._go(gone | taken, open_ - taken)

    def _look(self, number: int) -> object:
        """Units that look alike can take each other's place."""
        one, board = self.crowd.all[number], self.selection.board
        if one.inside:
            return number
        pods = sorted(
            (node, board.shape(one.gang, member.name), self.selection.rules.look(f"{one.gang.namespace}/{member.name}"))
            for (_, member), node in zip(one.pods, one.nodes, strict=True)
        )
        return (one.gang.queue, one.around, tuple(pods))
