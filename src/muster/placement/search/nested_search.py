"""Nested exact search (X1-X4). Rule 1: whatever decides *where* is here. Rule 2: nothing here knows queues or priority.

In tiers, each as cheap as its question allows. *Bounds* prove "no" by totals. The *constructive* search takes the first
children that fit by themselves (M3), a domain for every group that requires one, most constrained first, tight domains
before big ones (X4), and seats pods; whatever fails is remembered, domains and siblings that are alike are tried once.
What it leaves open within a small budget is decided by an *integer program* (`exact`). Rules between the gang's own
pods are beyond that program: with them the constructive search goes on to the end, and pods are seated by `inter_pod`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Ledger, Supposed
from muster.placement.domains import Regions
from muster.placement.exact import integer_program
from muster.placement.inter_pod.bounds import Distances
from muster.placement.inter_pod.constructive import construct_beside
from muster.placement.inter_pod.seating import settle, settle_quickly
from muster.placement.packing.packing import Demand, Region, Seats, greedily, pack, tightly
from muster.placement.requirements import (
    Goal,
    Kinds,
    Spot,
    every,
    leaves,
    merged,
    pods_by_class,
    settled,
    shapes,
    sizes,
)
from muster.placement.search.choices import choices, choose
from muster.placement.search.first_fit import FirstFit, Order, is_within_reach
from muster.placement.search.symmetry import Looks

Ints = NDArray[np.int64]


class Seat(Struct, frozen=True):
    """Pods of one class of one leaf on one node."""

    leaf: str
    shape: int
    node: int
    pods: int


QUICK, QUICK_PER_GROUP = 4_000, 40  # steps of the constructive search before the exact one takes over
STATE = 10  # steps of one state: it costs about ten times as much as one node of a packing
FEW = 8  # choices of children that a constructive try is made for
NODES, ROWS = 32, 16  # nodes that cost as much as one changed node, and changed nodes that cost a step
BOUND = 250  # nodes that a bound looks at for one step
BETTER = 4  # the part of the budget that a better choice of children is worth, once there is some choice
MANY = 300  # groups beyond which choices of children are not enumerated

Rank = tuple[bool, int, int, int]


class Open(Struct, frozen=True, eq=False):
    """A group that still needs a region inside of another; most constrained first."""

    rank: Rank
    goal: Goal
    region: Region


class State(Struct, frozen=True, eq=False):
    """Decisions so far: groups that still need a region, demands that have one, and a packing that proves them."""

    agenda: tuple[Open, ...]
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
        self.budget = self._spending = budget
        self.regions = Regions(ledger, topologies, budget)
        self.leaves: list[str] = []
        self._leaf_indices: dict[str, int] = {}
        self._sizes: dict[int, int] = {}  # by kind: pods
        self._asked_by: dict[int, dict[int, int]] = {}  # by kind: pods by class
        self._is_quick = False  # rules between pods by a first try alone
        self._groups = 0
        self._opened = 0

    # who ------------------------------------------------------------------------------------------------------------

    def fits(self, goal: Goal) -> bool:
        """Whether there is a placement, whatever is preferred. OutOfSteps: unknown."""
        return self.first(goal) is not None

    def first(self, goal: Goal) -> State | None:
        """A placement of the first children that fit (M3); None: there is none. OutOfSteps: unknown."""
        self._begin(goal)
        before = self.regions.bounds.answered
        pruned = self.regions.bounds.prune(goal, self.kinds)
        answered = self.regions.bounds.answered - before
        self.budget.spend(answered * (BOUND // 8 + len(self.base.free)) // BOUND)
        if pruned is None:
            return None
        self.budget.spend((self._groups // 4 + sum(len(leaf.pods) for leaf in leaves(pruned))) // 2)
        if self.between:
            return self._any_choice(pruned)
        state, is_final = self._constructed(pruned)
        if is_final:
            return state
        if state is None:
            return integer_program.solve(self, pruned)
        return self._better_choice(pruned, state)

    def first_within(self, budget: Budget, goal: Goal) -> State | None:
        """The same, paid from another budget."""
        return self._paid_from(budget, partial(self.first, goal))

    def _paid_from(self, budget: Budget, work: Callable[[], State | None]) -> State | None:
        before = self.budget
        self.budget = self._spending = self.regions.budget = budget
        try:
            return work()
        finally:
            self.budget = self._spending = self.regions.budget = before

    def _better_choice(self, goal: Goal, state: State) -> State:
        """Earlier children than first fit took, if there are any that fit (M3): worth a part of the budget."""
        try:
            part = self.budget.part(self.budget.left // BETTER)
            exactly = self._paid_from(part, partial(integer_program.solve, self, goal))
        except OutOfSteps:
            return state
        return state if exactly is None else min(state, exactly, key=partial(self._passed_over, goal))

    def _passed_over(self, goal: Goal, state: State) -> list[bool]:
        """For every leaf in the order of choice whether it has no pods."""
        there = {self.leaves[demand.leaf] for demand in state.demands}
        return [leaf.name not in there for leaf in leaves(goal)]

    def _begin(self, goal: Goal) -> None:
        self._groups = sum(1 for _ in every(goal))
        if not self.shapes:
            self.shapes = shapes(goal)
            among = self.base.company.among(self.shapes)
            self.between = tuple(rule for rule in among if rule not in self.ignoring)
            if any(self.base.company.rules[number].kind == "away" for number in self.between):
                self.regions.bounds.distances = Distances(self.base, self.between)
            self.looks = Looks(self.regions, self.shapes, identity=bool(self.between))

    def _constructed(self, goal: Goal) -> tuple[State | None, bool]:
        """The constructive search for the first choice of children, and whether its answer is the last word.

        A "no" is where the gang left no choice, a placement is where it has the first choice (M3).
        """
        chosen = settled(goal, self.kinds)
        if chosen is None:
            return None, False
        steps = min(QUICK + QUICK_PER_GROUP * self._groups, self.budget.left // 4)
        try:
            state = self._within(self.budget.part(steps), chosen)
            if state is not None or chosen is goal:
                return state, True
        except OutOfSteps:
            if not self.budget.left:
                raise
        state = self._first_fit(chosen)
        if state is not None:
            return state, True
        return self._first_fit(goal) if chosen is not goal else None, False

    def _first_fit(self, goal: Goal) -> State | None:
        """A placement without any way back; None says nothing."""
        if not is_within_reach(goal):
            return None
        for order in (Order(), Order(by_size=True)):
            fitting = FirstFit(self, goal, order)
            if fitting.place(goal, self.regions.everywhere):
                return self.fitted(fitting)
        return None

    def fit_first(self, budget: Budget, goal: Goal, order: Order, whole: Goal) -> State | None:
        """First fit in one order, paid from another budget; `whole` has the extras to leave room for."""

        def work() -> State | None:
            fitting = FirstFit(self, goal, order, whole)
            return self.fitted(fitting) if fitting.place(goal, self.regions.everywhere) else None

        try:
            return self._paid_from(budget, work)
        except OutOfSteps:
            return None

    def fitted(self, fitting: FirstFit) -> State:
        """What first fit has placed, as a complete state."""
        demands, seats = fitting.placed()
        state = self.seated(State((), (), Supposed(self.base), ()), demands, seats)
        assert state is not None
        return state

    def regions_of(
        self,
        goal: Goal,
        demands: Sequence[Demand],
        seats: Sequence[Sequence[tuple[int, int]]],
        around: Region | None = None,
    ) -> dict[str, Region]:
        """By name the regions of groups that have pods; without those that are held to a number of domains."""
        nodes = {self.leaves[demand.leaf]: places[0][0] for demand, places in zip(demands, seats, strict=True)}
        for one in reversed(list(every(goal))):
            inside = [nodes[child.name] for child in one.children if child.name in nodes]
            if inside:
                nodes[one.name] = inside[0]
        found: dict[str, Region] = {}
        ahead = [(goal, around or self.regions.everywhere)]
        while ahead:
            one, region = ahead.pop()
            if one.name not in nodes or one.at_most:
                continue
            for spot in (one.required, one.tight):
                if spot is not None:
                    region = self.regions.narrow(region, spot, int(self.regions.level(spot).domain[nodes[one.name]]))
            found[one.name] = region
            ahead += [(child, region) for child in one.children]
        return found

    def spend(self, steps: int = 1) -> None:
        """Steps of the part of the search that is under way."""
        self._spending.spend(steps)

    @cached_property
    def free_in_all(self) -> Ints:
        """By column what is free on all nodes."""
        total: Ints = np.maximum(self.base.free, 0).sum(axis=0)
        return total

    def _within(self, budget: Budget, goal: Goal) -> State | None:
        """The constructive search within a budget of its own."""
        self._spending = self.regions.budget = budget
        try:
            return self._where(goal)
        finally:
            self._spending = self.regions.budget = self.budget

    def _any_choice(self, goal: Goal) -> State | None:
        """Every choice of children in turn, first choice first."""
        chosen = settled(goal, self.kinds)
        if chosen is goal:
            return self._where(goal)
        if self._groups > MANY or any(one.total for one in every(goal)):
            state = None if chosen is None else self._where(chosen)
            if state is None:
                raise OutOfSteps
            return state
        at, quick = self._quick_choice(goal)
        if quick is None:
            return self._first_of(choices(goal, self.kinds))
        try:  # the choices before it may only have been harder to find
            self._spending = self.regions.budget = self.budget.part(self.budget.left // 2)
            return self._first_of(islice(choices(goal, self.kinds), at)) or quick
        except OutOfSteps:
            return quick
        finally:
            self._spending = self.regions.budget = self.budget

    def _first_of(self, choices: Iterator[Goal]) -> State | None:
        """The first choice that has a placement."""
        for one in choices:
            self._spending.spend(STATE)
            state = self._where(one)
            if state is not None:
                return state
        return None

    def _quick_choice(self, goal: Goal) -> tuple[int, State | None]:
        """Of the first few choices the first that a constructive try places, and its number; None: no proof."""
        self._is_quick = True
        try:
            for at, one in enumerate(islice(choices(goal, self.kinds), FEW)):
                state = self._quickly(one)
                if state is not None:
                    return at, state
        finally:
            self._is_quick = False
        return 0, None

    def _quickly(self, goal: Goal) -> State | None:
        try:
            return self._within(self.budget.part(self.budget.left // (2 * FEW)), goal)
        except OutOfSteps:
            if not self.budget.left:
                raise
            return None

    # where ----------------------------------------------------------------------------------------------------------

    def _where(self, goal: Goal) -> State | None:
        """Depth first over domains; every state that failed is remembered by what it looks like."""
        self._sizes |= sizes(goal)
        self._asked_by |= pods_by_class(goal)
        begun = self._open((), (goal,), self.regions.everywhere)
        if begun is None:
            return None
        failed: set[object] = set()
        ahead: list[tuple[State, Iterator[State]]] = []
        state: State | None = State(begun, (), Supposed(self.base), ())
        while True:
            if state is not None and not state.agenda:
                return state
            if state is not None and (not failed or self.looks.of(_pairs(state), state.demands) not in failed):
                ahead.append((state, self._steps(state)))
            state = None
            while state is None:
                if not ahead:
                    return None
                state = next(ahead[-1][1], None)
                if state is None:
                    gone, _ = ahead.pop()
                    failed.add(self.looks.of(_pairs(gone), gone.demands))
            self._spending.spend(STATE)

    def _open(self, agenda: tuple[Open, ...], goals: Sequence[Goal], region: Region) -> tuple[Open, ...] | None:
        """The agenda with more groups, the one with the fewest domains first; None: one has none.

        So pods are seated as soon as the region of their group is chosen, but for those that may be anywhere. How many
        domains a group could use does not depend on what is seated, so the order stands.
        """
        more: list[Open] = []
        for goal in goals:
            spot = goal.tight or goal.required
            choices = 1 if spot is None else len(self.regions.domains(goal, spot, region))
            if not choices:
                return None
            self._opened += 1
            flexible = goal.is_leaf and spot is None and region is self.regions.everywhere
            rank = (flexible, choices, -self._sizes[goal.kind], self._opened)
            more.append(Open(rank, goal, region))
        return tuple(sorted((*agenda, *more), key=_by_rank)) if more else agenda

    def _steps(self, state: State) -> Iterator[State]:
        """Every way to settle the most constrained group on the agenda."""
        goal, rest = state.agenda[0].goal, state.agenda[1:]
        for region in self._roomy_first(goal, state.agenda[0].region, state.ledger):
            if goal.children:
                agenda = self._open(rest, goal.children, region)
                if agenda is not None:
                    yield State(agenda, state.demands, state.ledger, state.seats)
            else:
                yield from self._seat(goal, region, State(rest, state.demands, state.ledger, state.seats))

    def _roomy_first(self, goal: Goal, around: Region, ledger: Supposed) -> Iterator[Region]:
        """Regions that could hold the goal beside what is seated; then those where others would have to give way."""
        asked = self._asked_by[goal.kind].items() if ledger.rows else ()
        everywhere = self.regions.everywhere.nodes
        self._spending.spend(len(asked) * (len(ledger.rows) + len(everywhere) // NODES) // ROWS)
        spot = goal.required or goal.tight
        if not asked or spot is None:
            yield from self.regions.of(goal, around)
        elif goal.at_most or (goal.required and goal.tight):
            free = {shape: ledger.fits_in(shape, everywhere) for shape, _ in asked}
            yield from self._split(asked, free, self.regions.of(goal, around))
        else:
            yield from self._split_domains(goal, spot, around, ledger)

    def _split(
        self, asked: Collection[tuple[int, int]], free: Mapping[int, Ints], regions: Iterator[Region]
    ) -> Iterator[Region]:
        """One region after the other, those without enough seats for some class last: a guess, not a bound."""
        full: list[Region] = []
        for region in regions:
            self._spending.spend()
            if all(int(free[shape][region.nodes].sum()) >= count for shape, count in asked):
                yield region
            else:
                full.append(region)
        yield from full

    def _split_domains(self, goal: Goal, spot: Spot, around: Region, ledger: Supposed) -> Iterator[Region]:
        """The same for the domains of one level, all of them at once."""
        domains = self.regions.domains(goal, spot, around)
        roomy = np.ones(len(domains), dtype=bool)
        for shape, count in self._asked_by[goal.kind].items():
            roomy &= self.regions.seats_left(spot, shape, ledger)[domains] >= count
        for domain in (*domains[roomy].tolist(), *domains[~roomy].tolist()):
            yield self.regions.narrow(around, spot, domain)

    def _seat(self, leaf: Goal, region: Region, state: State) -> Iterator[State]:
        """The pods of a leaf in a region: beside what is seated, or with everything packed anew."""
        kinds = merged(leaf.pods)
        for counts in choose(leaf.pods, leaf.need):
            self._spending.spend(STATE)
            asked: dict[int, int] = {}
            for (shape, _), count in zip(leaf.pods, counts, strict=False):
                if count:
                    asked[shape] = asked.get(shape, 0) + count
            added = tuple(Demand(self.leaf_index(leaf.name), shape, count, region) for shape, count in asked.items())
            seated = self._extend(state, added)
            if seated is not None:
                yield seated
            elif len(kinds) == 1:
                return

    def leaf_index(self, name: str) -> int:
        """The number of a leaf in demands."""
        if name not in self._leaf_indices:
            self._leaf_indices[name] = len(self.leaves)
            self.leaves.append(name)
        return self._leaf_indices[name]

    def _extend(self, state: State, added: tuple[Demand, ...]) -> State | None:
        """Beside what is seated, if that works; otherwise everything anew; None: there is no packing."""
        if self.allowance is not None and (self._asked((*state.demands, *added)) > self.allowance).any():
            return None
        if rules := self._rules(state):
            return self._settle(state, added, rules)
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
        return self.seated(state, demands, pack(self.base, demands, self._spending))

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

    def _settle(self, state: State, added: tuple[Demand, ...], rules: tuple[int, ...]) -> State | None:
        """Under rules between pods: beside what is seated, if that works; otherwise everything again."""
        demands = (*state.demands, *added)
        if state.demands and all(self.base.company.rules[number].kind == "away" for number in self.between):
            seated = list(zip(state.demands, state.seats, strict=True))
            found = construct_beside(state.ledger, seated, added, rules, self._spending)
            if found is not None:
                return self._beside(state, added, [found[i] for i in range(len(added))])
        settled = (settle_quickly if self._is_quick else settle)(self.base, demands, rules, self._spending)
        return self.seated(state, demands, settled)

    def _beside(self, state: State, added: tuple[Demand, ...], seats: Sequence[Sequence[tuple[int, int]]]) -> State:
        """The state with more demands that are seated."""
        ledger = state.ledger.copy()
        for demand, some in zip(added, seats, strict=True):
            for node, count in some:
                ledger.put(node, demand.shape, count)
        return State(state.agenda, (*state.demands, *added), ledger, (*state.seats, *map(tuple, seats)))

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

    def exactly_seated(self, demands: tuple[Demand, ...], packed: Seats) -> State:
        """A complete state; tight seats (X4) where they can be had for the same demands."""
        state = State((), (), Supposed(self.base), ())
        seated = self.seated(state, demands, greedily(self.base, demands) or packed)
        assert seated is not None
        return seated

    def seats(self, state: State) -> tuple[Seat, ...]:
        """The seats of a state, by leaf."""
        return tuple(
            Seat(self.leaves[demand.leaf], demand.shape, node, pods)
            for demand, places in zip(state.demands, state.seats, strict=True)
            for node, pods in places
        )


def _by_rank(one: Open) -> Rank:
    return one.rank


def _pairs(state: State) -> tuple[tuple[Goal, Region], ...]:
    return tuple((one.goal, one.region) for one in state.agenda)
