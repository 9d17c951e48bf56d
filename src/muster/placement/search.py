"""Nested exact search (X1-X4). Rule 1: whatever decides *where* is here. Rule 2: nothing here knows queues or priority.

First *who*: which children of every branch (M3, first choice first). Then *where*: a domain for every group that
requires one, most constrained first, tight domains before big ones (X4). At last *which pods on which nodes*, decided
exactly for all groups together, so that nothing that was seated earlier stands in the way. Whatever fails is
remembered; domains and siblings that are alike are tried once.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.budget import Budget
from muster.placement.goal import Goal, Kinds, choose, every, merged, shapes, size
from muster.placement.ledger import Ledger, Supposed
from muster.placement.looks import Looks
from muster.placement.packing import Demand, Region, Seats, pack, possible, tightly
from muster.placement.regions import Regions
from muster.placement.settling import Settling

Ints = NDArray[np.int64]


class Seat(Struct, frozen=True):
    """Pods of one class of one leaf on one node."""

    leaf: str
    shape: int
    node: int
    pods: int


class State(Struct, frozen=True, eq=False):
    """Decisions so far: groups that still need a region, demands that have one, and a packing that proves them."""

    agenda: tuple[tuple[Goal, Region], ...]
    demands: tuple[Demand, ...]
    ledger: Supposed  # with the packing of the demands taken out
    seats: tuple[tuple[tuple[int, int], ...], ...]  # of every demand


class Search:
    """One gang on one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        topologies: dict[str, TopologyTree],
        kinds: Kinds,
        budget: Budget,
        ignoring: frozenset[int] = frozenset(),  # rules between pods, to see what would be without them
        allowance: Ints | None = None,  # by column, what all pods together may take (Q4)
    ) -> None:
        self.base = ledger
        self.kinds = kinds
        self.shapes: list[int] = []
        self.ignoring = ignoring
        self.allowance = allowance
        self.between: tuple[int, ...] = ()  # rules between its own pods
        self.budget = budget
        self.regions = Regions(ledger, topologies, budget)
        self.leaves: list[str] = []

    # who ------------------------------------------------------------------------------------------------------------

    def fits(self, goal: Goal) -> bool:
        """Whether there is a placement, whatever is preferred. OutOfSteps: nobody knows."""
        return self.first(goal) is not None

    def first(self, goal: Goal) -> State | None:
        """A placement of the first children that fit (M3); None: there is none. OutOfSteps: nobody knows."""
        if not self.shapes:
            self.shapes = shapes(goal)
            among = self.base.company.among(self.shapes)
            self.between = tuple(rule for rule in among if rule not in self.ignoring)
            self.looks = Looks(self.regions, self.shapes, identity=bool(self.between))
        for chosen in self._choices(goal):
            self.budget.spend()
            state = self._where(chosen)
            if state is not None:
                return state
        return None

    def _choices(self, goal: Goal) -> Iterator[Goal]:
        """The goal with exactly as many children at every branch as it needs, first choice first."""
        if goal.is_leaf:
            yield goal
            return
        runs = _runs([child.kind for child in goal.children])
        for counts in choose(runs, goal.need):
            taken: list[Goal] = []
            at = 0
            for (_, length), count in zip(runs, counts, strict=True):
                taken += goal.children[at : at + count]
                at += length
            yield from self._nested(goal, taken)

    def _nested(self, goal: Goal, children: list[Goal]) -> Iterator[Goal]:
        """Every combination of the children's own choices; equal children choose in order."""
        if all(child.is_leaf or child.need == len(child.children) for child in children) and not any(
            _has_choice(child) for child in children
        ):
            yield self._with_children(goal, tuple(children))
            return

        def combine(at: int) -> Iterator[tuple[Goal, ...]]:
            if at == len(children):
                yield ()
                return
            for child in self._choices(children[at]):
                for rest in combine(at + 1):
                    yield (child, *rest)

        for combination in combine(0):
            yield self._with_children(goal, combination)

    # where ----------------------------------------------------------------------------------------------------------

    def _where(self, goal: Goal) -> State | None:
        """Depth first over domains; every state that failed is remembered by what it looks like."""
        start = State(((goal, self.regions.everywhere),), (), Supposed(self.base), ())
        failed: set[object] = set()
        ahead: list[tuple[State, Iterator[State]]] = []
        state: State | None = start
        while True:
            if state is not None and not state.agenda:
                return state
            if state is not None and (not failed or self.looks.of(state.agenda, state.demands) not in failed):
                ahead.append((state, self._steps(state)))
            state = None
            while state is None:
                if not ahead:
                    return None
                state = next(ahead[-1][1], None)
                if state is None:
                    gone, _ = ahead.pop()
                    failed.add(self.looks.of(gone.agenda, gone.demands))
            self.budget.spend()

    def _steps(self, state: State) -> Iterator[State]:
        """Every way to settle the most constrained group on the agenda."""
        chosen = self._next(state)
        if chosen is None:
            return
        goal, around = state.agenda[chosen]
        rest = state.agenda[:chosen] + state.agenda[chosen + 1 :]
        for region in self.regions.of(goal, around):
            if goal.children:
                inside = tuple((child, region) for child in goal.children)
                yield State(rest + inside, state.demands, state.ledger, state.seats)
            else:
                yield from self._seat(goal, region, State(rest, state.demands, state.ledger, state.seats))

    def _next(self, state: State) -> int | None:
        """The group with the fewest domains to choose from, flexible leaves last; None where one has none left."""
        if len(state.agenda) == 1:
            return 0
        ranks = []
        for i, (goal, region) in enumerate(state.agenda):
            spot = goal.tight or goal.required
            choices = 1 if spot is None else len(self.regions.domains(goal, spot, region))
            if not choices:
                return None
            ranks.append((goal.is_leaf and spot is None, choices, -size(goal), i))
        return min(ranks)[-1]

    def _seat(self, leaf: Goal, region: Region, state: State) -> Iterator[State]:
        """The pods of a leaf in a region: beside what is seated, or with everything packed anew."""
        kinds = merged(leaf.pods)
        for counts in choose(leaf.pods, leaf.need):
            self.budget.spend()
            asked: dict[int, int] = {}
            for (shape, _), count in zip(leaf.pods, counts, strict=True):
                if count:
                    asked[shape] = asked.get(shape, 0) + count
            added = tuple(Demand(self._leaf_index(leaf.name), shape, count, region) for shape, count in asked.items())
            seated = self._extend(state, added)
            if seated is not None:
                yield seated
            elif len(kinds) == 1:
                return

    def _leaf_index(self, name: str) -> int:
        if name not in self.leaves:
            self.leaves.append(name)
        return self.leaves.index(name)

    def _extend(self, state: State, added: tuple[Demand, ...]) -> State | None:
        """Beside what is seated, if that works; otherwise everything anew; None: there is no packing."""
        if self.allowance is not None and (self._asked((*state.demands, *added)) > self.allowance).any():
            return None
        if rules := self._rules(state):
            return self._settle(state, (*state.demands, *added), rules)
        ledger = state.ledger.copy()
        found = []
        for demand in added:
            seats = tightly(ledger, demand)
            if seats is None:
                break
            for node, count in seats:
                ledger.put(node, demand.shape, count)
            found.append(tuple(seats))
        demands = (*state.demands, *added)
        if len(found) == len(added):
            return State(state.agenda, demands, ledger, (*state.seats, *found))
        return self.seated(state, demands, pack(self.base, demands, self.budget))

    def _asked(self, demands: tuple[Demand, ...]) -> Ints:
        """What pods ask for in all, by column."""
        total = np.zeros(self.base.free.shape[1], dtype=np.int64)
        for demand in demands:
            total += self.base.shapes.asks[demand.shape] * demand.count
        return total

    def _rules(self, state: State) -> tuple[int, ...]:
        """Rules between the gang's pods to settle now: once nobody is missing all, before that only those for good."""
        if not self.between or not state.agenda:
            return self.between
        rules = self.base.company.rules
        return tuple(number for number in self.between if rules[number].kind == "away")

    def _settle(self, state: State, demands: tuple[Demand, ...], rules: tuple[int, ...]) -> State | None:
        if not possible(self.base, demands):
            return None
        return self.seated(state, demands, Settling(self.base, demands, rules, self.budget).seats())

    def seated(self, state: State, demands: tuple[Demand, ...], packed: Seats | None) -> State | None:
        """The state with these seats; None without."""
        if packed is None:
            return None
        ledger = Supposed(self.base)
        for i, demand in enumerate(demands):
            for node, count in packed[i]:
                ledger.put(node, demand.shape, count)
        seats_of = tuple(tuple(packed[i]) for i in range(len(demands)))
        return State(state.agenda, demands, ledger, seats_of)

    def _with_children(self, goal: Goal, children: tuple[Goal, ...]) -> Goal:
        return self.kinds.made(goal, children=children)

    def seats(self, state: State) -> tuple[Seat, ...]:
        """The seats of a state, by leaf."""
        return tuple(
            Seat(self.leaves[demand.leaf], demand.shape, node, pods)
            for demand, places in zip(state.demands, state.seats, strict=True)
            for node, pods in places
        )


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + 1)
        else:
            found.append((kind, 1))
    return found


def _has_choice(goal: Goal) -> bool:
    return any(not one.is_leaf and one.need < len(one.children) for one in every(goal))
