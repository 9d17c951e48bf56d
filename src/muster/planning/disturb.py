"""Room for a gang that does not fit: what is being freed, then consolidate, reclaim, preempt (P5, decision 0008)."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from muster.api import names
from muster.api.duration import nanoseconds
from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.model.gang import Gang, Member
from muster.model.queues import QueueNode
from muster.placement.goal import Goal
from muster.placement.ledger import Ledger
from muster.placement.packing import OutOfSteps
from muster.placement.search import Seat
from muster.planning.accounts import NO_END
from muster.planning.board import Board, Turn
from muster.planning.bounds import least
from muster.planning.budgets import Budgets
from muster.planning.crowd import Crowd
from muster.planning.decision import EvictionReason
from muster.planning.line import Line
from muster.planning.moves import Moves, rehomed
from muster.planning.victims import Choice, Selection, Set

Ints = NDArray[np.int64]


class Disturbance:
    """Whoever may be disturbed in this cycle, and for whom."""

    def __init__(self, board: Board, line: Line) -> None:
        self.board, self.line = board, line
        self.moves = Moves(board)
        self._crowd: Crowd | None = None
        self._budgets: Budgets | None = None
        self._hopeless: set[tuple[int, str, int]] = set()

    @property
    def crowd(self) -> Crowd:
        """Gathered when somebody first asks."""
        if self._crowd is None:
            self._crowd = Crowd(self.board)
        return self._crowd

    @property
    def budgets(self) -> Budgets:
        """Read when somebody first asks."""
        if self._budgets is None:
            self._budgets = Budgets(self.board.snapshot)
        return self._budgets

    def make_room(self, turn: Turn, goal: Goal) -> Turn | None:
        """The gang with places that are being freed for it.

        None: nobody's leaving would help, it is not allowed, or there will be room without: pods are leaving already.
        """
        twin = (goal.kind, turn.gang.queue, turn.gang.priority)
        if twin in self._hopeless:
            return None
        if self.soon(turn.gang, goal):
            return None
        for rules in (
            Consolidate(self, turn.gang, goal),
            Reclaim(self, turn.gang, goal),
            Preempt(self, turn.gang, goal),
        ):
            numbers = rules.numbers() if rules.worthwhile() else []
            found = Selection(self.board, self.crowd, goal, numbers, rules).best() if numbers else None
            if found is not None:
                return self._carry_out(turn, rules, found)
        self._hopeless.add(twin)
        return None

    def soon(self, gang: Gang, goal: Goal) -> bool:
        """Whether it fits once those who are leaving already have left."""
        if self.board.later is self.board.now:
            return False
        try:
            allowance = self.board.accounts.allowance(gang.queue, protected=_protected(gang))
            return self.board.search(self.board.later, allowance=allowance).fits(goal)
        except OutOfSteps:
            return False

    def _carry_out(self, turn: Turn, rules: "_Rules", choice: Choice) -> Turn:
        by_gang: dict[str, list[tuple[str, Member]]] = {}
        for one, leaf, member, _ in self.crowd.members(choice.gone):
            by_gang.setdefault(one.gang.key, []).append((leaf, member))
        for victim, members in sorted(by_gang.items()):
            self.board.evict(victim, members, rules.reason, turn.gang.key)
            if (queue := self.board.before[victim].queue) in self.board.accounts.tree.nodes:
                self.line.moved(queue)
        self.budgets.spend(
            f"{one.gang.namespace}/{member.name}" for one, _, member, _ in self.crowd.members(choice.gone)
        )
        self.crowd.leave(choice.gone)
        made = self.board.nominate(turn, choice.seats)
        if isinstance(rules, Consolidate):
            for victim in sorted(by_gang):
                self.moves.write(victim, rules.homes[victim])
        return made


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

    def numbers(self) -> list[int]:
        """Units that may leave for the gang, each by itself."""
        crowd = self.crowd
        if not crowd.all:
            return []
        mask = crowd.staying & self.eligible()
        mask &= np.array([one.gang.key != self.gang.key for one in crowd.all], dtype=bool)
        busy = {key for key, turn in self.board.turns.items() if turn.bindings or turn.nominations}
        if busy:
            mask &= np.array([one.gang.key not in busy for one in crowd.all], dtype=bool)
        found = np.flatnonzero(mask).tolist()
        return [number for number in found if not crowd.core[number] or self.old_enough(crowd.all[number].gang)]

    def eligible(self) -> NDArray[np.bool_]:
        """Units that this way may disturb, whatever else holds."""
        raise NotImplementedError

    def old_enough(self, victim: Gang) -> bool:
        """Whether a gang has run as long as its queue promises it."""
        started = victim.source.metadata.annotations.get(names.LAST_START)
        if not started or self.board.snapshot.now is None:
            return True
        try:
            since = datetime.fromisoformat(started)
        except ValueError:
            return True
        ran = (self.board.snapshot.now - since).total_seconds() if since.tzinfo else 0.0
        return ran * 10**9 >= max((self.promised(victim, field) for field in self.promises()), default=0)

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

    def allow(self, gone: Set, asked: Resources) -> bool:  # noqa: ARG002 (some ways ask what it is for)
        """Budgets (P6)."""
        return self.disturbance.budgets.allow(
            f"{one.gang.namespace}/{member.name}" for one, _, member, _ in self.crowd.members(gone)
        )

    def look(self, pod: str) -> object:
        """Budgets and rules between pods tell pods apart."""
        marks = self.board.snapshot.neighbours.running.get(pod)
        return repr((self.disturbance.budgets.of.get(pod, ()), marks))

    def accept(self, gone: Set, seats: tuple[Seat, ...]) -> bool:  # noqa: ARG002 (only moves ask for more)
        """Nothing else."""
        return True


class Preempt(_Rules):
    """Higher priority, same queue (P5)."""

    reason: EvictionReason = "Preempt"

    def eligible(self) -> NDArray[np.bool_]:
        """Lower priority in the same queue."""
        crowd = self.crowd
        found: NDArray[np.bool_] = crowd.queue == crowd.queues.get(self.gang.queue, -1)
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
        """And within the fair share of its own queue."""
        base = super().allowance(gone)
        entitled = self._entitled()
        return entitled if base is None else np.minimum(base, entitled)

    def promises(self) -> Sequence[str]:
        """The queue's promise to its own."""
        return ("reclaim_min_runtime",)

    def eligible(self) -> NDArray[np.bool_]:
        """Units of other leaf queues that hold more than their share, all the way below the common ancestor."""
        good = [
            number
            for queue, number in self.crowd.queues.items()
            if queue != self.gang.queue
            and queue in self.accounts.tree.nodes
            and all(self._above(node, {}, {}) for node in self._below(queue)[1])
        ]
        return np.isin(self.crowd.queue, good)

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
        """Entitled, from those above their share, and never below a quota for a queue above its own."""
        if not super().allow(gone, asked):
            return False
        taken = _Taken(self, gone)
        for victim in taken.queues:
            mine, theirs = self._below(victim)
            if not all(self._within(node, taken, asked) for node in mine):
                return False
            if not all(self._above(node, taken.gone(node), taken.largest(node)) for node in theirs):
                return False
            beyond = [name for name in self.asked if self._beyond_quota(mine[0], taken, asked, name)]
            if not all(self._keeps_quota(node, taken, name) for node in theirs for name in beyond):
                return False
        return True

    def _within(self, node: QueueNode, taken: "_Taken", asked: Resources) -> bool:
        held, share, gone = self.accounts.allocated[node.name], self.accounts.shares[node.name], taken.gone(node)
        return all(
            held.get(name, 0) - gone.get(name, 0) + asked.get(name, 0) <= share.get(name, 0)
            for name in self.accounts.shared
            if asked.get(name, 0)
        )

    def _beyond_quota(self, node: QueueNode, taken: "_Taken", asked: Resources, name: str) -> bool:
        quota = node.share(name).quota
        held = self.accounts.allocated[node.name].get(name, 0) - taken.gone(node).get(name, 0)
        return quota != UNLIMITED and held + asked.get(name, 0) > quota

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
        return ("preempt_min_runtime", "reclaim_min_runtime")

    def eligible(self) -> NDArray[np.bool_]:
        """Whoever can be moved at all."""
        return np.array([all(self._movable(n) for n in (i, *one.inside)) for i, one in enumerate(self.crowd.all)])

    def _movable(self, number: int) -> bool:
        """Pods that rules between pods are about stay where they are: what cannot be proved is not moved."""
        one, running = self.crowd.all[number], self.board.snapshot.neighbours.running
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

    def accept(self, gone: Set, seats: tuple[Seat, ...]) -> bool:
        """Every one of them has a new place beside the gang's own."""
        ledger = _without(self.board, self.crowd, gone)
        for seat in seats:
            ledger.put(seat.node, seat.shape, seat.pods)
        leaving: dict[str, set[tuple[str, str]]] = {}
        for one, leaf, member, _ in self.crowd.members(gone):
            leaving.setdefault(one.gang.key, set()).add((leaf, member.name))
        self.homes = {}
        for victim in sorted(leaving):
            homes = rehomed(self.board, ledger, self.board.turns[victim].gang, leaving[victim])
            if len(homes) < len(leaving[victim]):
                return False
            self.homes[victim] = homes
        return True


def _without(board: Board, crowd: Crowd, gone: Set) -> Ledger:
    """What is free once some units have left."""
    found = Ledger(board.later.shapes, board.later.free.copy(), board.later.company.copy())
    for one, _, member, _ in crowd.members(gone):
        board.free(found, one.gang, member)
    return found
