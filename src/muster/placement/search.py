"""Nested exact search (X1-X4). Rule 1: whatever decides *where* is here. Rule 2: nothing here knows queues or priority.

First *who*: which children of every branch (M3, first choice first). Then *where*: a domain for every group that
requires one, most constrained first, tight domains before big ones (X4). At last *which pods on which nodes*, decided
exactly for all groups together, so that nothing that was seated earlier stands in the way. Whatever fails is
remembered; domains and siblings that are alike are tried once.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.topology import NOWHERE, Level, TopologyTree
from muster.placement.goal import Goal, Kinds, Spot, choose
from muster.placement.ledger import Ledger, Supposed
from muster.placement.packing import Budget, Demand, OutOfSteps, Region, Seats, pack, possible, tightly
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
    ) -> None:
        self.base = ledger
        self.kinds = kinds
        self.shapes: list[int] = []
        self.ignoring = ignoring
        self.between: tuple[int, ...] = ()  # rules between its own pods
        self.trees = list(topologies.values())
        self.tree_index = {name: i for i, name in enumerate(topologies)}
        self.budget = budget
        self.everywhere = Region((), np.arange(len(ledger.free)))
        self._able: dict[tuple[int, int, int], NDArray[np.bool_]] = {}
        self._regions: dict[tuple[int, ...], Region] = {(): self.everywhere}
        self._looks: dict[tuple[int, int], dict[int, bytes]] = {}
        self._overlaps: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        self._candidates: dict[tuple[int, int, tuple[int, ...]], Ints] = {}
        self.leaves: list[str] = []

    # who ------------------------------------------------------------------------------------------------------------

    def find(self, goal: Goal) -> tuple[Seat, ...] | None:
        """A placement; None: there is none. OutOfSteps: nobody knows.

        Of those that there are: preferred levels as tight as can be (T2), then the first children that fit (M3).
        """
        state = self._first(goal)
        return None if state is None else self._seats(self._spread(self._prefer(goal, state)))

    def fits(self, goal: Goal) -> bool:
        """Whether there is a placement, whatever is preferred. OutOfSteps: nobody knows."""
        return self._first(goal) is not None

    def _first(self, goal: Goal) -> State | None:
        """The first children that fit (M3)."""
        if not self.shapes:
            self.shapes = sorted({shape for leaf in leaves(goal) for shape, _ in leaf.pods})
            among = self.base.company.among(self.shapes)
            self.between = tuple(rule for rule in among if rule not in self.ignoring)
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
        start = State(((goal, self.everywhere),), (), Supposed(self.base), ())
        failed: set[object] = set()
        ahead: list[tuple[State, Iterator[State]]] = []
        state: State | None = start
        while True:
            if state is not None and not state.agenda:
                return state
            if state is not None and (not failed or self._look(state) not in failed):
                ahead.append((state, self._steps(state)))
            state = None
            while state is None:
                if not ahead:
                    return None
                state = next(ahead[-1][1], None)
                if state is None:
                    failed.add(self._look(ahead.pop()[0]))
            self.budget.spend()

    def _steps(self, state: State) -> Iterator[State]:
        """Every way to settle the most constrained group on the agenda."""
        chosen = self._next(state)
        if chosen is None:
            return
        goal, around = state.agenda[chosen]
        rest = state.agenda[:chosen] + state.agenda[chosen + 1 :]
        for region in self._regions_for(goal, around):
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
            choices = 1 if spot is None else len(self._domains_for(goal, spot, region))
            if not choices:
                return None
            ranks.append((goal.is_leaf and spot is None, choices, -size(goal), i))
        return min(ranks)[-1]

    def _regions_for(self, goal: Goal, region: Region) -> Iterator[Region]:
        """Regions for a group: domains that it requires, and inside them those that it is held to in addition."""
        for outer in self._narrowed(goal, goal.required, region):
            for inner in self._narrowed(goal, goal.tight, outer):
                yield from self._few(goal, inner)

    def _few(self, goal: Goal, region: Region) -> Iterator[Region]:
        """Parts of a region with no more domains of the preferred level than the goal may use, roomy ones first.

        Nodes outside of any domain count as one more (NOWHERE).
        """
        if not goal.at_most:
            yield region
            return
        assert goal.preferred is not None
        domain = self.trees[self.tree_index[goal.preferred.topology]].levels[goal.preferred.level].domain[region.nodes]
        known, at = np.unique(domain, return_inverse=True)
        room = np.bincount(at, weights=self._room(goal)[region.nodes]).astype(np.int64) if len(known) else known
        rooms = dict(zip(known.tolist(), room.tolist(), strict=True))
        held = goal.preferred.placed
        others = sorted((d for d in rooms if rooms[d] and d not in held), key=lambda d: (-rooms[d], d))
        number = goal.at_most - len(held)
        if len(others) <= number:
            yield region
            return
        need = size(goal) - sum(rooms.get(d, 0) for d in held)
        if sum(rooms[d] for d in others[:number]) < need:
            return
        seen = tuple(d for d in goal.first if d not in held)
        for chosen in chain([seen] if seen else [], (c for c in combinations(others, number) if c != seen)):
            self.budget.spend()
            if sum(rooms.get(d, 0) for d in chosen) >= need:
                self.budget.spend(len(domain))  # each is a search of its own over all nodes
                yield self._only(region, goal.preferred, (*held, *chosen))

    def _narrowed(self, goal: Goal, spot: Spot | None, region: Region) -> Iterator[Region]:
        if spot is None:
            yield region
            return
        for domain in self._domains_for(goal, spot, region).tolist():
            yield self._narrow(region, spot, domain)

    def _seat(self, leaf: Goal, region: Region, state: State) -> Iterator[State]:
        """The pods of a leaf in a region: beside what is seated, or with everything packed anew."""
        kinds = _merged(leaf.pods)
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
        return self._seated(state, demands, pack(self.base, demands, self.budget))

    def _rules(self, state: State) -> tuple[int, ...]:
        """Rules between the gang's pods to settle now: once nobody is missing all, before that only those for good."""
        if not self.between or not state.agenda:
            return self.between
        rules = self.base.company.rules
        return tuple(number for number in self.between if rules[number].kind == "away")

    def _settle(self, state: State, demands: tuple[Demand, ...], rules: tuple[int, ...]) -> State | None:
        if not possible(self.base, demands):
            return None
        return self._seated(state, demands, Settling(self.base, demands, rules, self.budget).seats())

    def _seated(self, state: State, demands: tuple[Demand, ...], packed: Seats | None) -> State | None:
        if packed is None:
            return None
        ledger = Supposed(self.base)
        for i, demand in enumerate(demands):
            for node, count in packed[i]:
                ledger.put(node, demand.shape, count)
        seats_of = tuple(tuple(packed[i]) for i in range(len(demands)))
        return State(state.agenda, demands, ledger, seats_of)

    def _spread(self, state: State) -> State:
        """The same regions, spread as evenly as pods wish (`ScheduleAnyway`); as it was where that leads nowhere."""
        wishes = self.base.company.among(self.shapes, wishes=True)
        slack = 1
        while len(wishes) > len(self.between) and slack <= sum(demand.count for demand in state.demands):
            try:
                settling = Settling(self.base, state.demands, wishes, Budget(self.budget.left // 10), slack)
                found = self._seated(state, state.demands, settling.seats())
            except OutOfSteps:
                found = None
            if found is not None:
                return found
            slack *= 2
        return state

    # regions --------------------------------------------------------------------------------------------------------

    def _domains_for(self, goal: Goal, spot: Spot, region: Region) -> Ints:
        """Domains in which a group could be, by bounds; tight ones first, then by name (X4)."""
        key = (goal.kind, spot.level, region.key)
        if key not in self._candidates:
            self._candidates[key] = self._rank_domains(goal, spot, region)
        return self._candidates[key]

    def _rank_domains(self, goal: Goal, spot: Spot, region: Region) -> Ints:
        tree = self.tree_index[spot.topology]
        level = self.trees[tree].levels[spot.level]
        domains = self._domains_in(tree, spot.level, region)
        if spot.pinned is not None:
            domains = domains[domains == spot.pinned]
        domains = domains[self._able_in(goal, tree, spot.level)[domains]]
        if len(domains) <= 1:
            return domains
        room = level.sums(self._room(goal))[domains]
        order: Ints = np.lexsort((domains, room, -self._granted(goal, level, domains)))
        return domains[order]

    def _granted(self, goal: Goal, level: Level, domains: Ints) -> Ints:
        """For every domain: how much of what the goal's pods wish for is there for as many pods as it needs."""
        found = np.zeros(len(domains), dtype=np.int64)
        need = size(goal)
        for shape in sorted({shape for leaf in leaves(goal) for shape, _ in leaf.pods}):
            wished = self.base.shapes.wished(shape)
            for i, domain in enumerate(domains if wished is not None and wished.any() else ()):
                nodes = level.nodes(int(domain))
                order = nodes[np.argsort(-wished[nodes], kind="stable")]  # type: ignore[index]
                fits = self.base.fits(shape)[order]
                taken = np.minimum(fits, np.maximum(need - (np.cumsum(fits) - fits), 0))
                found[i] += int((taken * wished[order]).sum())  # type: ignore[index]
        return found

    def _domains_in(self, tree: int, level: int, region: Region) -> Ints:
        """Domains of a level that have nodes in a region."""
        known = self.trees[tree].levels[level]
        if region is self.everywhere:
            return np.arange(len(known.paths), dtype=np.int64)
        if len(region.key) == 3 and region.key[0] == tree and region.key[1] < level:
            above = self.trees[tree].levels[region.key[1]].domain[known.order[known.start[:-1]]]
            return np.flatnonzero(above == region.key[2])
        domains: Ints = np.unique(known.domain[region.nodes])
        return domains[int(np.searchsorted(domains, 0)) :]  # NOWHERE sorts first

    def _only(self, region: Region, spot: Spot, within: tuple[int, ...]) -> Region:
        """The part of a region that is in some domains of a level."""
        tree = self.tree_index[spot.topology]
        key = (*region.key, tree, spot.level, *sorted(within), NOWHERE)
        if key not in self._regions:
            inside = np.isin(self.trees[tree].levels[spot.level].domain[region.nodes], within)
            self._regions[key] = Region(key, region.nodes[inside])
        return self._regions[key]

    def _room(self, goal: Goal) -> Ints:
        """How much room every node has, in pods that the goal has."""
        shapes = sorted({shape for leaf in leaves(goal) for shape, _ in leaf.pods})
        total = np.zeros(len(self.base.free), dtype=np.int64)
        for shape in shapes:
            total += self.base.fits(shape)
        return total

    def _narrow(self, region: Region, spot: Spot, domain: int) -> Region:
        tree = self.tree_index[spot.topology]
        nodes = self.trees[tree].levels[spot.level].nodes(domain)
        if region is self.everywhere:
            key: tuple[int, ...] = (tree, spot.level, domain)
            if key not in self._regions:
                self._regions[key] = Region(key, nodes)
            return self._regions[key]
        shared = np.intersect1d(region.nodes, nodes, assume_unique=True)
        if len(shared) == len(region.nodes):
            return region
        key = (tree, spot.level, domain) if len(shared) == len(nodes) else (*region.key, tree, spot.level, domain)
        if key not in self._regions:
            self._regions[key] = Region(key, np.sort(shared))
        return self._regions[key]

    def _able_in(self, goal: Goal, tree: int, level: int) -> NDArray[np.bool_]:
        """For every domain of a level: whether the goal could be inside it, by counts alone: a bound, not a proof."""
        key = (goal.kind, tree, level)
        if key not in self._able:
            self._able[key] = self._count_able(goal, tree, level)
        return self._able[key]

    def _count_able(self, goal: Goal, tree: int, level: int) -> NDArray[np.bool_]:
        known = self.trees[tree].levels[level]
        if goal.is_leaf:
            total = np.zeros(len(known.paths), dtype=np.int64)
            for shape, most in _merged(goal.pods).items():
                total += np.minimum(known.sums(self.base.fits(shape)), most)
            return total >= goal.need
        count = np.zeros(len(known.paths), dtype=np.int64)
        for child in goal.children:
            count += self._child_able(child, tree, level)
        return count >= goal.need

    def _child_able(self, child: Goal, tree: int, level: int) -> NDArray[np.bool_]:
        spot = child.required
        if spot is None or self.tree_index[spot.topology] != tree or spot.level <= level:
            return self._able_in(child, tree, level)
        fine, coarse = self.trees[tree].levels[spot.level], self.trees[tree].levels[level]
        able = self._able_in(child, tree, spot.level)
        found = np.zeros(len(coarse.paths), dtype=bool)
        found[coarse.domain[fine.order[fine.start[:-1]]][able]] = True
        return found

    # what a state looks like ----------------------------------------------------------------------------------------

    def _look(self, state: State) -> object:
        """States that look alike fail alike: domains that are equal inside and bear equal loads may be swapped."""
        loads: dict[tuple[int, ...], list[tuple[object, ...]]] = {}
        for goal, region in state.agenda:
            loads.setdefault(region.key, []).append((0, goal.kind, 0))
        for demand in state.demands:
            loads.setdefault(demand.region.key, []).append((1, demand.shape, demand.count))
        return tuple(
            sorted((self._appearance(key, loads), tuple(sorted(map(repr, load)))) for key, load in loads.items())
        )

    def _appearance(self, key: tuple[int, ...], loads: dict[tuple[int, ...], list[tuple[object, ...]]]) -> bytes:
        """A domain by its looks, if it may be swapped for another that looks the same; otherwise by its identity.

        Rules between pods see more of a node than looks: with them, nothing is swapped.
        """
        if self.between or len(key) != 3 or any(other != key and other for other in loads if self._overlap(key, other)):
            return repr(key).encode()
        tree, level, domain = key
        looks = self._looks.setdefault((tree, level), {})
        if domain not in looks:
            looks[domain] = self._looks_of(tree, level, domain)
        return looks[domain]

    def _overlap(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        if one == other or not other:
            return False
        if (one, other) not in self._overlaps:
            first, second = self._regions[one].nodes, self._regions[other].nodes
            self._overlaps[one, other] = bool(np.isin(first, second, assume_unique=True).any())
        return self._overlaps[one, other]

    def _looks_of(self, tree: int, level: int, domain: int) -> bytes:
        """All about the nodes that placement can see: room, filters, and the domains of every level and Topology."""
        nodes = self.trees[tree].levels[level].nodes(domain)
        rows = np.column_stack(
            [self.base.free[nodes]]
            + [self.base.allowed(shape)[nodes].astype(np.int64) for shape in self.shapes]
            + [
                known.domain[nodes]
                for i, other in enumerate(self.trees)
                for j, known in enumerate(other.levels)
                if i != tree or j < level
            ]
        )
        finer = [
            np.unique(known.domain[nodes], return_inverse=True)[1] for known in self.trees[tree].levels[level + 1 :]
        ]
        groups: dict[tuple[int, ...], list[bytes]] = {}
        for i in range(len(nodes)):
            groups.setdefault(tuple(int(fine[i]) for fine in finer), []).append(rows[i].tobytes())
        return repr((level, sorted((len(where), sorted(inside)) for where, inside in groups.items()))).encode()

    # preferred levels -----------------------------------------------------------------------------------------------

    def _prefer(self, goal: Goal, state: State) -> State:
        """T2: every preferred level in turn, nearer to the root first, as tight as it can be.

        What is preferred is never worth an `unknown`: where the budget ends, what was found so far stands.
        """
        best = [state]
        try:
            for name in [one.name for one in every(goal) if one.preferred is not None]:
                goal = self._tighten(goal, name, best)
        except OutOfSteps:
            pass
        return best[-1]

    def _tighten(self, goal: Goal, name: str, best: list[State]) -> Goal:
        """The preferred level, else the tightest coarser one that works, and there the fewest preferred domains."""
        group = next(one for one in every(goal) if one.name == name)
        preferred, required = group.preferred, group.required
        assert preferred is not None
        floor = required.level if required is not None and required.topology == preferred.topology else -1
        for level in range(preferred.level, floor, -1):
            if preferred.placed and len(preferred.path) <= level:
                continue  # the pods that are placed are apart already
            spot = Spot(preferred.topology, level, preferred.path[level] if preferred.placed else None)
            tighter = self._replaced(goal, name, tight=spot)
            better = self._first(tighter)
            if better is not None:
                best.append(better)
                goal = tighter
                break
        return self._fewest(goal, name, best)

    def _fewest(self, goal: Goal, name: str, best: list[State]) -> Goal:
        """As few domains of the preferred level as possible, where one is not enough; those of placed pods count.

        The number stays with the goal, so that no group further down undoes it; which domains they are is left open.
        """
        group = next(one for one in every(goal) if one.name == name)
        assert group.preferred is not None
        level = self.trees[self.tree_index[group.preferred.topology]].levels[group.preferred.level]
        held = set(group.preferred.placed)
        used = self._used(group, best[-1], level.domain) | held
        for number in range(max(len(held), 1), len(used)):
            fewer = self._replaced(goal, name, at_most=number)
            better = self._first(fewer)
            if better is not None:
                best.append(better)
                used = self._used(group, better, level.domain) | held
                break
        return self._replaced(goal, name, at_most=len(used), first=tuple(sorted(used)))

    def _used(self, group: Goal, state: State, domain: Ints) -> set[int]:
        """The domains that the pods of a group are in; nodes outside of any count as one more."""
        mine = {leaf.name for leaf in leaves(group)}
        return {
            int(domain[node])
            for demand, places in zip(state.demands, state.seats, strict=True)
            if self.leaves[demand.leaf] in mine
            for node, _ in places
        }

    def _with_children(self, goal: Goal, children: tuple[Goal, ...]) -> Goal:
        return self.kinds.made(goal, children=children)

    def _replaced(self, goal: Goal, name: str, **changes: Any) -> Goal:
        """The goal with one group held more tightly."""
        if goal.name == name:
            return self.kinds.made(goal, **changes)
        if not any(one.name == name for one in every(goal)):
            return goal
        return self._with_children(goal, tuple(self._replaced(child, name, **changes) for child in goal.children))

    def _seats(self, state: State) -> tuple[Seat, ...]:
        return tuple(
            Seat(self.leaves[demand.leaf], demand.shape, node, pods)
            for demand, places in zip(state.demands, state.seats, strict=True)
            for node, pods in places
        )


# goals --------------------------------------------------------------------------------------------------------------


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + 1)
        else:
            found.append((kind, 1))
    return found


def _merged(runs: Sequence[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for kind, length in runs:
        found[kind] = found.get(kind, 0) + length
    return found


def every(goal: Goal) -> Iterator[Goal]:
    """A goal and all below it, nearer to the root first."""
    ahead = [goal]
    while ahead:
        one = ahead.pop(0)
        yield one
        ahead += one.children


def leaves(goal: Goal) -> Iterator[Goal]:
    """The goals that have pods."""
    return (one for one in every(goal) if one.is_leaf)


def size(goal: Goal) -> int:
    """The fewest pods that meet it."""
    found: dict[int, int] = {}
    for one in reversed(list(every(goal))):
        below = sorted(found[id(child)] for child in one.children)
        found[id(one)] = sum(below[: one.need]) if below else one.need
    return found[id(goal)]


def _has_choice(goal: Goal) -> bool:
    return any(not one.is_leaf and one.need < len(one.children) for one in every(goal))
