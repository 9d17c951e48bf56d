"""Grant after grant, most deserving first (G1-G4): a core on what is free, else on what can be freed; then extras."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.names import SEMI_PREEMPTIBLE
from muster.api.podgroup import TopologyConstraint
from muster.fairness.entitlement import closed
from muster.model.gang import Gang, Leaf, Standing, walk
from muster.placement.budget import OutOfSteps
from muster.placement.requirements import Goal, Goals, Impossible, located, shapes
from muster.placement.search import growth
from muster.placement.search.nested_search import Seat
from muster.planning.bounds import hopeful, least
from muster.planning.cycle_state import Board, Turn
from muster.planning.decision import Binding, Failure, Refusal
from muster.planning.diagnosis.refusals import Refusals, unknown, unplaced
from muster.planning.elastic import further
from muster.planning.memory.hints import hinted
from muster.planning.plain import NOT_PLACED, EqualGangs, PlainGangs
from muster.planning.plain_elastic import PlainExtras, protected
from muster.planning.preemption.make_room import Preemption
from muster.planning.preemption.nominations import Nominations
from muster.planning.preemption.share import ByPriority
from muster.planning.scheduling_queue import Line

Ints = NDArray[np.int64]
PODS_A_STEP = 4  # pods and groups of a gang that are looked at for an extra, in the time of one step
SHOWN = 3  # pods that a refusal names
Rank = tuple[int, bool, int, float, str]
Granted = Callable[[tuple[Binding, ...]], object]  # is told of the bindings of one grant


def _nobody(_bindings: tuple[Binding, ...]) -> None:
    return


class Allocation:
    """One pass over all gangs; the board moves with every grant."""

    def __init__(self, board: Board, granted: Granted | None = None) -> None:
        self.board = board
        self._tell = granted or _nobody
        self.line = Line(lambda: board.usage)
        self.nominations = Nominations(board)
        self.preemption = Preemption(board, self.line)
        self.turns_to_come = ByPriority()
        self._growth: dict[str, tuple[Seat, ...]] = {}  # by gang: seats that its extras could take (X4)
        self.plain = PlainGangs(board)
        self.extras = PlainExtras(board)
        self._grants: dict[str, int] = defaultdict(int)  # by gang: turns that it has had
        self._full: set[int] = set()  # kinds of goals that nothing that is free could hold
        self.refusals = Refusals(board, self.preemption, self._full)
        self.ranks: dict[str, Rank] = {}  # of plain gangs, as they joined the line
        self._closed: dict[str, bool] = {}  # queues from which nothing is scheduled
        self._valid: set[str] = set()  # gangs whose specs were looked at
        self._sizes: dict[str, int] = {}  # by gang
        self._levels: dict[TopologyConstraint, bool] = {}  # whether what it names exists

    def run(self) -> None:
        """After each grant a gang goes back into the order, so extras take turns (G4)."""
        self._bind_nominees()
        for gang in self.board.snapshot.gangs:
            if not gang.is_settled or (gang.constraints and not self._sound(gang)):
                turn = self.board.turns[gang.key]
                if not self._enter_plain(turn.gang):
                    self.board.turns[gang.key] = self._attempt(turn, self._enter)
        while (first := self.turns_to_come.next(self.line)) is not None:
            self.board.budget.check()
            if not self._grant_plain(first):
                self._take_turn(first)
        self.extras.write_all()

    def _take_turn(self, key: str) -> None:
        before = self.board.turns[key]
        if before.evictions:  # it has just lost pods: it is planned again when they are gone
            self.board.turns[key] = self._attempt(before, self.nominations.keep_for_victim)
            return
        if self._grant_plain_extra(before):
            return
        self.extras.write(key)
        before = self.board.turns[key]
        after = self._attempt(before, self._grant)
        if key in self.turns_to_come.postponed:
            return
        self.board.turns[key] = after
        is_bound = len(after.bindings) > len(before.bindings)
        if is_bound:
            self._tell(after.bindings[len(before.bindings) :])
        self._go_back(after, is_bound or after.hopeless != before.hopeless)

    def _go_back(self, turn: Turn, is_granted: bool) -> None:
        """Into the line again, where extras wait."""
        gang = turn.gang
        self._grants[gang.key] += 1
        if is_granted and turn.verdict == "Scheduled" and gang.standing.pending:
            self.line.add(gang.queue, rank(gang, gang.standing, self._grants[gang.key]), gang.key)

    # plain gangs: what is below, for many at once ---------------------------------------------------------------------

    def _enter_plain(self, gang: Gang) -> bool:
        """A plain gang into the line; False: it is not one, or may not be there."""
        if gang.queue not in self._closed:
            self._closed[gang.queue] = bool(closed(self.board.usage.tree, gang.queue))
        if self._closed[gang.queue] or not self.plain.add(gang):
            return False
        self.ranks[gang.key] = rank(gang, NOT_PLACED, 0)
        self.line.add(gang.queue, self.ranks[gang.key], gang.key)
        self.turns_to_come.expect(gang, NOT_PLACED)
        return True

    def _grant_plain(self, first: str) -> bool:
        """The turn of a plain gang, and of those equal to it that come next; False: it has still to come."""
        equals = self.plain.equals.get(first)
        if equals is None or self.nominations.are_kept_for(first):
            return False
        turn = self.board.turns[first]
        goal = self.plain.goal(turn.gang, equals)
        if goal is None:
            return False
        most = self.plain.most(equals) if goal.kind not in self._full else 0
        if not most:
            if is_refused := self._refuse_plain(turn, equals, goal):
                self._refuse_next(turn.gang.queue)
            return is_refused
        bound = self.plain.bind([first, *self._next_equals(equals, most - 1)], equals)
        if len(bound) > 1:
            self.line.drop(turn.gang.queue, len(bound) - 1)
            self.turns_to_come.pass_over(bound)
        for after in bound.values():
            self._tell(after.bindings)
            self._go_back(after, is_granted=True)
        return bool(bound)

    def _next_equals(self, equals: EqualGangs, most: int) -> Iterator[str]:
        """The equal gangs that come next, whatever is granted to each of them (G4)."""
        is_alone = self.plain.equals.get(self.line.first_of(equals.terms.queue)) is not equals
        if not most or is_alone or self.turns_to_come.is_holding_back:
            return
        for key in islice(self.line.behind(equals.terms.queue), most):
            if self.plain.equals.get(key) is not equals or self.nominations.are_kept_for(key):
                return
            yield key

    def _grant_plain_extra(self, turn: Turn) -> bool:
        """One more pod of a gang that is one leaf of one class; False: its turn has still to come."""
        gang = turn.gang
        goal = None if self.nominations.are_kept_for(gang.key) else self.extras.goal(turn)
        if goal is None:
            return False
        self.board.charge_to(gang.key)
        seats = self.board.attempt(gang.key, partial(self._find_extra, gang, goal))
        if seats is None or isinstance(seats, Failure):
            return False
        asked = self.board.asked(seats)
        if self.board.usage.excess(gang.queue, asked, protected(gang, asked)) is not None:
            return False
        binding, is_waiting = self.extras.bind(gang, seats)
        self._tell((binding,))
        self._grants[gang.key] += 1
        if is_waiting:
            self.line.add(gang.queue, rank(gang, gang.standing, self._grants[gang.key]), gang.key)
        return True

    def _refuse_plain(self, turn: Turn, equals: EqualGangs, goal: Goal) -> bool:
        """What was said of an equal gang, where nothing has changed since; False: that is not known."""
        gang = turn.gang
        if not equals.refusals and not self._is_refused(gang, goal):
            return False
        if goal.required is not None and goal.kind not in self._full:
            return False
        self.board.charge_to(gang.key)
        if self.preemption.share.could_run_out and self.turns_to_come.postpone(gang):
            return True
        if not equals.refusals:
            equals.refusals = self.refusals.infeasible(turn, goal, self.refusals.known[unplaced(goal)]).refusals
        equals.refused_at = self.board.version
        self.board.turns[gang.key] = Turn(gang, "Infeasible", equals.refusals)
        self._grants[gang.key] += 1
        return True

    def _refuse_next(self, queue: str) -> None:
        """The gangs of a queue that come next and are known to be refused, on whatever terms: nothing has changed."""
        refused: list[str] = []
        for key in self.line.behind(queue):
            equals = self.plain.equals.get(key)
            if equals is None or equals.goal is None or equals.refused_at != self.board.version:
                break
            if self.turns_to_come.is_holding_back or self.nominations.are_kept_for(key):
                break
            if not self._refuse_plain(self.board.turns[key], equals, equals.goal):
                break
            refused.append(key)
        self.turns_to_come.pass_over(refused)
        self.line.drop(queue, len(refused))

    def _is_refused(self, gang: Gang, goal: Goal) -> bool:
        """Whether an equal gang was refused, in a queue without limits, and no set may leave for it: that stands."""
        if unplaced(goal) not in self.refusals.known or self.board.allowance(gang) is not None:
            return False
        return self.preemption.is_known_hopeless(gang, goal)

    def _bind_nominees(self) -> None:
        """Gangs whose promised places have become free have them before anything else is decided (P7)."""
        for key, seats in self.nominations.free_now():
            self.board.turns[key] = self.board.bind(replace(self.board.turns[key], verdict="Scheduled"), seats, "core")
            self._tell(self.board.turns[key].bindings)

    def _attempt(self, turn: Turn, work: Callable[[Turn], Turn]) -> Turn:
        """What comes of a turn; a failure inside is the verdict of its gang, and of no other (X2, X7)."""
        try:
            after = self.board.attempt(turn.gang.key, partial(work, turn))
        except OutOfSteps:
            return unknown(turn, Refusal("SearchCutShort"))
        return unknown(turn, after.refusal) if isinstance(after, Failure) else after

    def _enter(self, turn: Turn) -> Turn:
        """Into the line, unless there is nothing to do, or nothing that may be done."""
        if _nothing_to_do(turn.gang) and self._sound(turn.gang):
            return replace(turn, verdict="Scheduled")
        now = turn.gang.standing
        if refusal := self.refusals.shut(turn.gang):
            return replace(turn, verdict="Scheduled" if now.satisfied else "Waiting", refusals=(refusal,))
        self.line.add(turn.gang.queue, rank(turn.gang, now, 0), turn.gang.key)
        self.turns_to_come.expect(turn.gang, now)
        return turn

    def _sound(self, gang: Gang) -> bool:
        """Every level that it names exists (T6)."""
        for constraint in gang.constraints:
            if constraint not in self._levels:
                named = (constraint.required_topology_level, constraint.preferred_topology_level)
                self._levels[constraint] = not any(
                    isinstance(located(self.board.snapshot, constraint.topology, level), str)
                    for level in named
                    if level
                )
            if not self._levels[constraint]:
                return False
        return True

    def _grant(self, turn: Turn) -> Turn:
        """A gang's turn; room that is kept for its own pods that move is free to it meanwhile (P7)."""
        self.board.charge_to(turn.gang.key)
        if not self.nominations.release_moves(turn.gang):
            return self._decide(turn)
        self._full.clear()
        after = self._decide(turn)
        self._keep_moves(after.gang)
        self.line.moved(turn.gang.queue)  # it may hold less than before
        return after

    def _keep_moves(self, gang: Gang) -> None:
        """What is promised to its pods that move is kept again, though it may itself wait for that room (P7)."""
        awaited = self.preemption.waiting.get(gang.key, ())
        self.board.await_room(awaited, -1)
        self.nominations.hold_moves(gang)
        if not self.nominations.are_kept_for(gang.key):
            self.board.await_room(awaited)

    def _decide(self, turn: Turn) -> Turn:
        goals = self.board.goals(turn.gang)
        if turn.gang.key not in self._valid:
            if invalid := goals.invalid():
                return self.refusals.impossible(turn, invalid)
            self._valid.add(turn.gang.key)
        if not goals.standings[turn.gang.root.name].satisfied:
            return self._core(turn, goals)
        return self._extra(replace(turn, verdict="Scheduled"), goals)

    # the core ---------------------------------------------------------------------------------------------------------

    def _core(self, turn: Turn, goals: Goals) -> Turn:
        """The whole core, or nothing and the reason (G1)."""
        held = self.nominations.release(turn.gang.key)
        if held:
            self._full.clear()  # what was withheld while gangs ahead were tried is free to this one
        first: Goal | Impossible | None = None
        try:
            for goal in goals.cores():
                if first is not None:
                    self.board.spending.spend()  # ways to share pods out (M5) are many, and each may be cheap
                first = first or goal
                found = self._seats(turn.gang, goal) if isinstance(goal, Goal) else None
                if found is not None:
                    return self.board.bind(replace(turn, verdict="Scheduled"), found, "core")
            if held:
                return self.nominations.keep(turn, held)
            if self.preemption.share.could_run_out and self.turns_to_come.postpone(turn.gang):
                return turn
            if isinstance(first, Goal) and (made := self.preemption.make_room(turn, first)):
                return made
        except OutOfSteps:
            return self._cut_short(turn, held)
        return self.refusals.refuse(turn, goals, first)

    def _cut_short(self, turn: Turn, held: tuple[Seat, ...]) -> Turn:
        """The steps ran out: what a longer search found, or was promised before, still holds."""
        if (seats := hinted(self.board, turn.gang)) is not None:
            return self.board.bind(replace(turn, verdict="Scheduled"), seats, "core")
        if held:
            return self.nominations.keep(turn, held)
        return unknown(turn, Refusal("SearchCutShort"))

    def _seats(self, gang: Gang, goal: Goal) -> tuple[Seat, ...] | None:
        """Seats on what is free, within what the queue allows; what failed once fails for every twin."""
        allowance = self.board.allowance(gang)
        if goal.kind in self._full or not hopeful(goal, self.board.now):
            return None
        if allowance is not None and (least(goal, self.board.shapes.asks) > allowance).any():
            return None
        found = self.board.find_core(self.board.now, goal, allowance)
        if found is None:
            if allowance is None and not self._depends_on_others(goal):
                self._full.add(goal.kind)
            return None
        self._growth[gang.key] = found.extras
        return found.core if self.board.too_protected(gang, found.core) is None else None

    def _depends_on_others(self, goal: Goal) -> bool:
        """Whether pods that come later could let it in: those that it must be near to."""
        company = self.board.now.company
        return any(shape in company.touched for shape in shapes(goal))

    # extras -----------------------------------------------------------------------------------------------------------

    def _extra(self, turn: Turn, goals: Goals) -> Turn:
        """The next further part that fits; those that do not are not asked again in this cycle (G3)."""
        if turn.gang.key not in self._sizes:
            self._sizes[turn.gang.key] = _size(turn.gang)
        self.board.spending.spend(self._sizes[turn.gang.key] // PODS_A_STEP)
        hopeless = set(turn.hopeless)
        for name, part, pods in further(turn.gang.root, goals.standings):
            if name in hopeless:
                continue
            goal = goals.further(part, pods)
            found = self._try(turn.gang, goal) if isinstance(goal, Goal) else None
            if found is not None:
                return self.board.bind(replace(turn, hopeless=frozenset(hopeless)), found, "extra")
            hopeless.add(name)
        return turn  # why these wait is said once all gangs have had their turns: planning.waiting

    def _try(self, gang: Gang, goal: Goal) -> tuple[Seat, ...] | None:
        """Seats for an extra that its queue allows (Q4)."""
        found = self._find_extra(gang, goal)
        if found is None:
            return None
        asked = self.board.asked(found)
        is_semi = gang.preemptibility == SEMI_PREEMPTIBLE  # of which new pods can be core
        more = self.board.more_protected(gang, self.board.seated(gang, found) if is_semi else gang, asked)
        return found if self.board.usage.excess(gang.queue, asked, more) is None else None

    def _find_extra(self, gang: Gang, goal: Goal) -> tuple[Seat, ...] | None:
        """An extra is never worth an `unknown`: it waits for the next cycle."""
        if goal.kind in self._full:
            return None
        try:
            allowance = self.board.allowance(gang, extra=True)
            found = self._kept(gang, goal) or self.board.find(self.board.now, goal, allowance)
        except OutOfSteps:
            return None
        if found is None:
            if allowance is None and not self._depends_on_others(goal):
                self._full.add(goal.kind)
            return None
        return found

    def _kept(self, gang: Gang, goal: Goal) -> tuple[Seat, ...] | None:
        """Seats that were found for an extra together with the core, while they are free."""
        kept = self._growth.get(gang.key)
        placement = growth.take(goal, kept, self.board.snapshot.topologies) if kept else None
        if placement is None or not self.board.has_room(placement.core):
            return None
        self._growth[gang.key] = placement.extras
        return placement.core


def rank(gang: Gang, now: Standing, grants: int) -> Rank:
    """Inside a queue (G4): priority, gangs below their minimum first, fewest grants, age, name."""
    return (-gang.priority, now.satisfied, grants, gang.created, gang.key)


def _size(gang: Gang) -> int:
    """Groups and pods of a gang."""
    return sum(1 + len(group.members) if isinstance(group, Leaf) else 1 for group in walk(gang.root))


def _nothing_to_do(gang: Gang) -> bool:
    """It has its core, and nothing that could be placed."""
    if gang.broken or gang.strays:
        return False
    now = gang.standing
    return now.satisfied and not now.pending and now.placed > 0
