"""Room for a gang that does not fit: what is being freed, then consolidate, reclaim, preempt (P5, decision 0008)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from muster.api import names
from muster.api.duration import nanoseconds
from muster.api.moment import moment
from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.model.gang import Gang, Member
from muster.model.queues import QueueNode
from muster.placement.budget import OutOfSteps
from muster.placement.goal import Goal
from muster.placement.search import Seat
from muster.planning.accounts import NO_END
from muster.planning.board import Board, Turn
from muster.planning.bounds import hopeful, least
from muster.planning.budgets import Budgets
from muster.planning.crowd import Crowd, Mask
from muster.planning.decision import EvictionReason
from muster.planning.line import Line
from muster.planning.moves import Moves, together
from muster.planning.victims import Choice, Selection, Set

Ints = NDArray[np.int64]
Twin = tuple[int, str, int, str]  # what gangs have in common for which the same pods may leave
PROMISES = ("preempt_min_runtime", "reclaim_min_runtime")


class Disturbance:
    """Whoever may be disturbed in this cycle, and for whom."""

    def __init__(self, board: Board, line: Line) -> None:
        self.board, self.line = board, line
        self.moves = Moves(board)
        self._crowd: Crowd | None = None
        self._budgets: Budgets | None = None
        self._hopeless: dict[Twin, tuple[str, ...]] = {}  # for whom nobody can leave, and who is kept from it
        self._busy: Mask | None = None
        self._seen = 0
        self.waiting: set[str] = set()  # gangs that fit once those who are leaving have left
        self._lowest: dict[str, int] | None = None
        self._old: dict[EvictionReason, Mask] = {}
        self._let_go: Mask | None = None

    @property
    def crowd(self) -> Crowd:
        """Gathered when somebody first asks."""
        if self._crowd is None:
            self._crowd = Crowd(self.board)
        return self._crowd

    def lowest(self) -> Mapping[str, int]:
        """By queue the lowest priority of a gang that could be asked to leave."""
        if self._lowest is None:
            self._lowest = {}
            for gang in self.board.snapshot.gangs:
                if gang.preemptibility != names.NON_PREEMPTIBLE:
                    self._lowest[gang.queue] = min(gang.priority, self._lowest.get(gang.queue, gang.priority))
        return self._lowest

    def busy(self) -> Mask:
        """Units of gangs that got something in this cycle: they are nobody's victims in it."""
        if self._busy is None:
            self._busy = np.zeros(len(self.crowd.all), dtype=bool)
        for gang in self.board.busy[self._seen :]:
            if gang in self.crowd.gangs:
                self._busy |= self.crowd.of(gang)
        self._seen = len(self.board.busy)
        return self._busy

    def old_enough(self, rules: "_Rules") -> Mask:
        """Units that have run as long as their queues promise, and all extras."""
        if rules.reason not in self._old:
            promised = any(
                getattr(queue.spec, name) for queue in self.board.snapshot.objects.queues for name in PROMISES
            )
            old = [not one.core or rules.old_enough(one.gang) for one in self.crowd.all] if promised else True
            self._old[rules.reason] = np.array(old) & np.ones(len(self.crowd.all), dtype=bool)
        return self._old[rules.reason]

    @property
    def budgets(self) -> Budgets:
        """Read when somebody first asks."""
        if self._budgets is None:
            self._budgets = Budgets(self.board.snapshot, self.board.policy.untouchable)
        return self._budgets

    def let_go(self) -> Mask:
        """Units that can be evicted at all, with those inside them; what a cycle spends of a budget comes on top."""
        if self._let_go is None:
            found = np.ones(len(self.crowd.all), dtype=bool)
            for number in range(0 if self.budgets.idle else len(found)):
                found[number] = self.budgets.allow(self.crowd.names(self.crowd.whole([number])))
            self._let_go = found
        return self._let_go

    def make_room(self, turn: Turn, goal: Goal) -> Turn | None:
        """The gang with places that are being freed for it.

        None: nobody's leaving would help, it is not allowed, or there will be room without: pods are leaving already.
        """
        if (twin := _twin(turn.gang, goal)) in self._hopeless:
            return None
        if (seats := self._soon(turn.gang, goal)) is not None:
            self.waiting.add(turn.gang.key)
            self.board.put((seat.node, seat.shape, seat.pods) for seat in seats)
            return None
        ways = (Consolidate(self, turn.gang, goal), Reclaim(self, turn.gang, goal), Preempt(self, turn.gang, goal))
        worthwhile = [rules for rules in ways if rules.worthwhile() and self.crowd.all]
        for rules in worthwhile:
            select = Selection(self.board, self.crowd, goal, rules.candidates(), rules).best
            found = self.board.recall.victims(turn.gang, goal, rules.reason, self.budgets, select)
            if found is not None:
                return self._carry_out(turn, rules, found)
        self._hopeless[twin] = self._immovable(worthwhile)
        return None

    def kept(self, gang: Gang, goal: Goal) -> tuple[str, ...]:
        """Pods that might have made room for a gang that nobody could make room for, but cannot be evicted (P6)."""
        return self._hopeless.get(_twin(gang, goal), ())

    def _immovable(self, ways: "Sequence[_Rules]") -> tuple[str, ...]:
        if self.budgets.idle:
            return ()
        stuck = [np.flatnonzero(rules.willing() & ~self.let_go()) for rules in ways if rules.reason != "Consolidate"]
        return tuple(sorted({pod for units in stuck for pod in self.crowd.names(units.tolist())}))

    def _soon(self, gang: Gang, goal: Goal) -> tuple[Seat, ...] | None:
        """Seats on what is free once those who are leaving already have left; kept from those who come later."""
        if self.board.later is self.board.now or not hopeful(goal, self.board.later):
            return None
        try:
            allowance = self.board.accounts.allowance(gang.queue, protected=_protected(gang))
            return self.board.find(self.board.later, goal, allowance)
        except OutOfSteps:
            return None

    def _carry_out(self, turn: Turn, rules: "_Rules", choice: Choice) -> Turn:
        by_gang: dict[str, list[tuple[str, Member]]] = {}
        for one, leaf, member, _ in self.crowd.members(choice.gone):
            by_gang.setdefault(one.gang.key, []).append((leaf, member))
        for victim, members in sorted(by_gang.items()):
            self.board.evict(victim, members, rules.reason, turn.gang.key)
            if (queue := self.board.before[victim].queue) in self.board.accounts.tree.nodes:
                self.line.moved(queue)
        self.budgets.spend(self.crowd.names(choice.gone))
        self.crowd.leave(choice.gone)
        made = self.board.nominate(turn, choice.seats)
        if isinstance(rules, Consolidate):
            for victim in sorted(by_gang):
                self.moves.write(victim, rules.homes[victim])
        return made


def _twin(gang: Gang, goal: Goal) -> Twin:
    return (goal.kind, gang.queue, gang.priority, gang.preemptibility)


def _protected(gang: Gang) -> bool:
    return gang.preemptibility != names.PREEMPTIBLE


class _Rules:
    """What all ways to disturb somebody have in common."""

    reason: EvictionReason

    def __init__(self, disturbance: Disturbance, gang: Gang, goal: Goal) -> None:
        self.disturbance, self.board = disturbance, disturbance.board
        self.gang, self.goal = gang, goal
        self.accounts = self.board.accounts
        self.limited = self.accounts.allowance(gang.queue, _protected(gang)) is not None
        self.asks = least(goal, self.board.shapes.asks)

    @property
    def crowd(self) -> Crowd:
        """Everybody who could leave."""
        return self.disturbance.crowd

    def worthwhile(self) -> bool:
        """Whether it could help at all."""
        return True

    def candidates(self) -> Mask:
        """Units that may leave for the gang, each by itself."""
        return self.willing() & self.disturbance.let_go()

    def willing(self) -> Mask:
        """The same, whether or not they can be evicted."""
        crowd = self.crowd
        mask = crowd.staying & self.eligible() & ~crowd.of(self.gang.key) & ~self.disturbance.busy()
        return mask & self.disturbance.old_enough(self)

    def eligible(self) -> Mask:
        """Units that this way may disturb, whatever else holds."""
        raise NotImplementedError

    def old_enough(self, victim: Gang) -> bool:
        """Whether a gang has run as long as its queue promises it."""
        since, now = moment(victim.source.metadata.annotations.get(names.LAST_START, "")), self.board.snapshot.now
        if since is None or now is None:
            return True
        ran = (now - since) // timedelta(microseconds=1) * 1000
        return ran >= max((self.promised(victim, field) for field in self.promises()), default=0)

    def promises(self) -> Sequence[str]:
        """Fields of queues that promise a minimum run time."""
        return ()

    def promised(self, victim: Gang, field: str) -> int:
        """The minimum run time in nanoseconds, of the nearest queue that states one."""
        if victim.queue not in self.accounts.tree.nodes:
            return 0
        queues = {queue.metadata.name: queue for queue in self.board.snapshot.objects.queues}
        for node in reversed(self.accounts.tree.path(victim.queue)):
            stated = getattr(queues[node.name].spec, field, "") if node.name in queues else ""
            try:
                if stated:
                    return nanoseconds(stated)
            except ValueError:
                continue
        return 0

    def allowance(self, gone: Set) -> Ints | None:
        """Limits and quotas with some units gone."""
        if not self.limited:
            return None
        held = self.crowd.held(gone)
        for queue, amount in held.items():
            if queue in self.accounts.tree.nodes:
                self.accounts.charge(queue, amount, -1)
        found = self.accounts.allowance(self.gang.queue, _protected(self.gang))
        for queue, amount in held.items():
            if queue in self.accounts.tree.nodes:
                self.accounts.charge(queue, amount)
        return found

    def at_most(self, gone: Set) -> Ints | None:
        """A bound on the allowance with only some of these gone: the more leave, the more room there is."""
        return self.allowance(gone)

    def allow(self, gone: Set, asked: Resources) -> bool:  # noqa: ARG002 (some ways ask what it is for)
        """Budgets (P6)."""
        return self.disturbance.budgets.allow(self.crowd.names(gone))

    def look(self, pod: str) -> object:
        """Budgets and rules between pods tell pods apart."""
        marks = self.board.snapshot.neighbours.running.get(pod)
        return repr((self.disturbance.budgets.of.get(pod, ()), marks))

    def settle(self, gone: Set, seats: tuple[Seat, ...]) -> tuple[Seat, ...] | None:  # noqa: ARG002 (moves ask)
        """The seats, if what nobody may disturb stays within quota (Q4)."""
        return seats if self.board.too_protected(self.gang, seats) is None else None


class Preempt(_Rules):
    """Higher priority, same queue (P5)."""

    reason: EvictionReason = "Preempt"

    def worthwhile(self) -> bool:
        """Somebody there must have a lower priority."""
        return self.disturbance.lowest().get(self.gang.queue, self.gang.priority) < self.gang.priority

    def eligible(self) -> Mask:
        """Lower priority in the same queue."""
        crowd = self.crowd
        found: Mask = crowd.queue == crowd.queues.get(self.gang.queue, -1)
        return found & (crowd.priority < self.gang.priority)

    def promises(self) -> Sequence[str]:
        """The queue's promise to its own."""
        return ("preempt_min_runtime",)


class Reclaim(_Rules):
    """A queue below its fair share from queues above theirs (P5)."""

    reason: EvictionReason = "Reclaim"

    def __init__(self, disturbance: Disturbance, gang: Gang, goal: Goal) -> None:
        super().__init__(disturbance, gang, goal)
        self.path = self.accounts.tree.path(gang.queue)
        columns = self.board.snapshot.columns
        self.asked = [name for i, name in enumerate(columns) if self.asks[i] and name in self.accounts.shared]

    def worthwhile(self) -> bool:
        """Its own queue must stay within its fair share; queues above are judged with the victims gone."""
        entitled = self._entitled()
        return bool(self.asked) and bool((self.asks <= entitled).all())

    def _entitled(self) -> Ints:
        found = np.full(len(self.board.snapshot.columns), NO_END, dtype=np.int64)
        for name in self.accounts.shared:
            share = self.accounts.shares[self.gang.queue].get(name, 0)
            found[self.accounts.column[name]] = share - self.accounts.allocated[self.gang.queue].get(name, 0)
        return found

    def allowance(self, gone: Set) -> Ints | None:
        """And within the fair share of every queue on its way below the victims', and its quota where it has to be."""
        found = self.at_most(gone).copy()
        taken = _Taken(self, gone)
        for victim in taken.queues:
            mine, theirs = self._below(victim)
            for node in mine:
                self._cap(found, node, taken, self.accounts.shares[node.name])
            short = {name for name in self.asked for node in theirs if not self._keeps_quota(node, taken, name)}
            quotas = {name: mine[0].share(name).quota for name in short}
            self._cap(found, mine[0], taken, {n: quota for n, quota in quotas.items() if quota != UNLIMITED})
        return found

    def at_most(self, gone: Set) -> Ints:
        """Whom it is taken from can only make it less."""
        base = super().allowance(gone)
        return self._entitled() if base is None else np.minimum(base, self._entitled())

    def _cap(self, found: Ints, node: QueueNode, taken: "_Taken", most: Mapping[str, int]) -> None:
        """No more than what a queue holds leaves of some amounts, with the victims gone."""
        held, gone = self.accounts.allocated[node.name], taken.gone(node)
        for name in self.accounts.shared:
            if name in most:
                column = self.accounts.column[name]
                found[column] = min(found[column], most[name] - held.get(name, 0) + gone.get(name, 0))

    def promises(self) -> Sequence[str]:
        """The queue's promise to its own."""
        return ("reclaim_min_runtime",)

    def eligible(self) -> Mask:
        """Units of other leaf queues that hold more than their share, all the way below the common ancestor."""
        good = [
            queue != self.gang.queue
            and queue in self.accounts.tree.nodes
            and all(self._above(node, {}, {}) for node in self._below(queue)[1])
            for queue in self.crowd.queues
        ]
        found: Mask = np.array(good, dtype=bool)[self.crowd.queue]
        return found

    def _below(self, victim: str) -> tuple[Sequence[QueueNode], Sequence[QueueNode]]:
        """The ways down from the lowest common ancestor, to the gang's queue and to the victim's."""
        theirs = self.accounts.tree.path(victim)
        shared = 0
        while shared < min(len(self.path), len(theirs)) and self.path[shared].name == theirs[shared].name:
            shared += 1
        return self.path[shared:], theirs[shared:]

    def _above(self, node: QueueNode, gone: Mapping[str, int], largest: Mapping[str, int]) -> bool:
        """Whether a queue holds more than its share of something that is asked for, with all but the largest gone."""
        held, share = self.accounts.allocated[node.name], self.accounts.shares[node.name]
        return any(
            held.get(name, 0) - gone.get(name, 0) + largest.get(name, 0) > share.get(name, 0) for name in self.asked
        )

    def allow(self, gone: Set, asked: Resources) -> bool:
        """From those above their share; what the gang may take is in its allowance."""
        if not super().allow(gone, asked):
            return False
        taken = _Taken(self, gone)
        return all(
            self._above(node, taken.gone(node), taken.largest(node))
            for victim in taken.queues
            for node in self._below(victim)[1]
        )

    def _keeps_quota(self, node: QueueNode, taken: "_Taken", name: str) -> bool:
        quota, held = node.share(name).quota, self.accounts.allocated[node.name].get(name, 0)
        floor = held if quota == UNLIMITED else min(quota, held)
        return held - taken.gone(node).get(name, 0) >= floor


class _Taken:
    """What a set of units takes from queues."""

    def __init__(self, rules: Reclaim, gone: Set) -> None:
        self.rules = rules
        crowd = rules.crowd
        self.by_queue = crowd.held(gone)
        self.queues = sorted(self.by_queue)
        tops = [n for n in gone if not any(outer in gone for outer in crowd.all[n].around)]
        self.units = [next(iter(crowd.held(crowd.whole([n])).items())) for n in tops]

    def _under(self, node: QueueNode) -> set[str]:
        tree = self.rules.accounts.tree
        return {queue for queue in self.queues if node in tree.path(queue)}

    def gone(self, node: QueueNode) -> Mapping[str, int]:
        """What leaves from a queue and those below it."""
        total = Resources()
        for queue in self._under(node):
            for name, amount in self.by_queue[queue].items():
                total[name] = total.get(name, 0) + amount
        return total

    def largest(self, node: QueueNode) -> Mapping[str, int]:
        """By resource the largest unit that leaves from there."""
        under, found = self._under(node), Resources()
        for queue, amount in self.units:
            for name, number in amount.items() if queue in under else ():
                found[name] = max(found.get(name, 0), number)
        return found


class Consolidate(_Rules):
    """Everybody who leaves has a proven new place in the same plan (P5)."""

    reason: EvictionReason = "Consolidate"

    def __init__(self, disturbance: Disturbance, gang: Gang, goal: Goal) -> None:
        super().__init__(disturbance, gang, goal)
        self.homes: dict[str, dict[tuple[str, str], str]] = {}

    def worthwhile(self) -> bool:
        """Moving pods frees nothing in all: there must be enough already."""
        free = np.maximum(self.board.later.free, 0).sum(axis=0)
        return bool((self.asks <= free).all())

    def promises(self) -> Sequence[str]:
        """The longer of both."""
        return PROMISES

    def eligible(self) -> Mask:
        """Whoever can be moved at all."""
        return np.array([all(self._movable(n) for n in (i, *one.inside)) for i, one in enumerate(self.crowd.all)])

    def _movable(self, number: int) -> bool:
        """Pods that rules between pods are about stay where they are: what cannot be proved is not moved.

        So do pods of groups that are short: there is no whole that they could be part of again.
        """
        one, running = self.crowd.all[number], self.board.snapshot.neighbours.running
        if any(leaf not in self.moves.whole(one.gang) for leaf, _ in one.pods):
            return False
        return not any(
            f"{one.gang.namespace}/{member.name}" in running
            or self.board.shape(one.gang, member.name) in self.board.now.company.touched
            or self.moves.bound_by_rules(one.gang, member)
            for _, member in one.pods
        )

    def allowance(self, gone: Set) -> Ints | None:  # noqa: ARG002 (whoever moves is held by its queue as before)
        """Limits and quotas as they are."""
        return super().allowance(frozenset())

    @property
    def moves(self) -> Moves:
        """Where new places are written."""
        return self.disturbance.moves

    def settle(self, gone: Set, seats: tuple[Seat, ...]) -> tuple[Seat, ...] | None:
        """Seats for the gang and, at the same time, for every pod that leaves: one search for all of them."""
        if super().settle(gone, seats) is None:
            return None
        leaving: dict[str, set[tuple[str, str]]] = {}
        for one, leaf, member, _ in self.crowd.members(gone):
            leaving.setdefault(one.gang.key, set()).add((leaf, member.name))
        gangs = {victim: self.board.turns[victim].gang for victim in sorted(leaving)}
        found = together(self.board, self.crowd.without(self.board.later, gone), self.goal, gangs, leaving)
        if found is None or super().settle(gone, found[0]) is None:
            return None
        self.homes = found[1]
        return found[0]
