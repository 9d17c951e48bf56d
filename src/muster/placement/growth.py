"""Growth (X4): of the placements of a core, one from which most of the gang's own waiting extras can follow.

The core is placed together with extras, added in the order of G3: as many as fit, found by halving, as fitting with
more implies fitting with less. Which children and pods make the core does not change (M3, M4), only where they sit. The
seats of the extras are remembered: while they stay free, each extra takes them at its turn (G4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush

from msgspec import Struct

from muster.placement.budget import OutOfSteps
from muster.placement.goal import Goal, Kinds, every, merged, with_needs
from muster.placement.search import Search, Seat, State

STEPS = 20_000  # that growth may cost: it only chooses among good placements
QUESTIONS = 24  # searches


class Placement(Struct, frozen=True):
    """Seats of a core, and seats that its extras could take afterwards."""

    core: tuple[Seat, ...]
    extras: tuple[Seat, ...] = ()


def grow(search: Search, goal: Goal, state: State) -> Placement:
    """The core of a goal where most extras can follow; as it was found where growth does not matter."""
    seats = search.seats(state)
    if not _has_extras(goal) or not _matters(search, goal):
        return Placement(seats)
    core = _chosen(goal, pods_of(seats))
    growing = _Growing(search, goal, core)
    growing.add_most(list(_more_children(goal)))
    growing.goal = _only(goal, growing.kept, search.kinds)
    growing.add_most(list(_more_pods(growing.goal)))
    return _apart(seats if growing.best is None else search.seats(growing.best), core)


def _has_extras(goal: Goal) -> bool:
    return any(one.need < (len(one.children) or sum(length for _, length in one.pods)) for one in every(goal))


def _matters(search: Search, goal: Goal) -> bool:
    """Whether where the core sits makes a difference to extras: it chooses domains, or its pods differ."""
    if search.between or any(one.total for one in every(goal)):
        return False
    spots = [spot for one in every(goal) for spot in (one.required, one.preferred, one.tight) if spot is not None]
    return any(spot.pinned is None for spot in spots) or len(search.shapes) > 1


def _more_children(goal: Goal) -> Iterator[str]:
    """Groups that could have one more child: the first part of the order of G3."""
    for one in every(goal):
        yield from (one.name for _ in range(len(one.children) - one.need))


def _more_pods(goal: Goal) -> Iterator[str]:
    """Leaves that could have one more pod, the emptiest first: the second part of the order of G3."""
    leaves = [one for one in every(goal) if one.is_leaf and one.need]
    order = [(Fraction(1), i, leaf.need) for i, leaf in enumerate(leaves)]
    heapify(order)
    while order:
        _, i, have = heappop(order)
        if have < sum(length for _, length in leaves[i].pods):
            yield leaves[i].name
            heappush(order, (Fraction(have + 1, leaves[i].need), i, have + 1))


def _only(goal: Goal, pods: Mapping[str, Counter[int]], kinds: Kinds) -> Goal:
    """The goal with the children that have pods, all of them needed."""
    made: dict[int, Goal | None] = {}
    for one in reversed(list(every(goal))):
        below = tuple(found for child in one.children if (found := made[id(child)]) is not None)
        if one.is_leaf:
            made[id(one)] = one if one.name in pods else None
        elif len(below) == one.need and all(a is b for a, b in zip(below, one.children, strict=False)):
            made[id(one)] = one if len(below) == len(one.children) else kinds.made(one, children=below)
        else:
            made[id(one)] = kinds.made(one, children=below, need=len(below)) if below else None
    return made[id(goal)] or goal


class _Growing:
    """One goal with more and more extras, within a budget of its own."""

    def __init__(self, search: Search, goal: Goal, core: dict[str, Counter[int]]) -> None:
        self.search, self.goal = search, goal
        self.kept = core  # what every further placement has to have, too
        self.budget = search.budget.part(min(STEPS, search.budget.left // 4))
        self.questions = QUESTIONS
        self.best: State | None = None

    def add_most(self, wishes: Sequence[str]) -> None:
        """As many of the wishes as can be met, the first of them first: one more at each of these groups."""
        self.needs = {one.name: one.need for one in every(self.goal)}
        met = self._longest(wishes)
        taken = Counter(wishes[:met])
        refused = {wishes[met]} if met < len(wishes) else set()
        for name in wishes[met + 1 :]:
            if name in refused or not self.questions:
                continue
            if self._try(taken + Counter([name])):
                taken[name] += 1
            else:
                refused.add(name)

    def _longest(self, wishes: Sequence[str]) -> int:
        """How many of the first wishes can be met together."""
        low, high, ask = 0, len(wishes), len(wishes)
        while low < high:
            if self._try(Counter(wishes[:ask])):
                low = ask
            else:
                high = ask - 1
            ask = (low + high + 1) // 2
        return low

    def _try(self, more: Mapping[str, int]) -> bool:
        if not self.questions:
            return False
        self.questions -= 1
        goal = with_needs(self.goal, {name: self.needs[name] + n for name, n in more.items()}, self.search.kinds)
        try:
            state = self.search.first_within(self.budget, goal)
        except OutOfSteps:
            return False
        if state is None:
            return False
        there = pods_of(self.search.seats(state))
        if not all(counts <= there.get(leaf, Counter()) for leaf, counts in self.kept.items()):
            return False
        self.best, self.kept = state, there
        return True


def pods_of(seats: Sequence[Seat]) -> dict[str, Counter[int]]:
    """By leaf how many pods of each class have a seat."""
    pods: dict[str, Counter[int]] = {}
    for seat in seats:
        pods.setdefault(seat.leaf, Counter())[seat.shape] += seat.pods
    return pods


def _apart(seats: Sequence[Seat], core_pods: Mapping[str, Counter[int]]) -> Placement:
    """The seats of the core, and the others."""
    chosen = {leaf: Counter(counts) for leaf, counts in core_pods.items()}
    core: list[Seat] = []
    extras: list[Seat] = []
    for seat in seats:
        mine = min(chosen.get(seat.leaf, Counter())[seat.shape], seat.pods)
        if mine:
            chosen[seat.leaf][seat.shape] -= mine
            core.append(Seat(seat.leaf, seat.shape, seat.node, mine))
        if mine < seat.pods:
            extras.append(Seat(seat.leaf, seat.shape, seat.node, seat.pods - mine))
    return Placement(tuple(core), tuple(extras))


def _chosen(goal: Goal, pods: Mapping[str, Counter[int]]) -> dict[str, Counter[int]]:
    """By leaf the pods of each class that belong to the core; all of them where pods are counted in all (M5)."""
    met: dict[int, bool] = {}
    for one in reversed(list(every(goal))):
        if one.is_leaf:
            met[id(one)] = pods.get(one.name, Counter()).total() >= one.need
        else:
            met[id(one)] = sum(met[id(child)] for child in one.children) >= one.need
    found: dict[str, Counter[int]] = {}
    ahead = [goal]
    while ahead:
        one = ahead.pop()
        if one.within or one.total:
            found |= {leaf.name: Counter(pods.get(leaf.name, Counter())) for leaf in every(one) if leaf.is_leaf}
        elif one.is_leaf:
            found[one.name] = _first_pods(one, pods.get(one.name, Counter()))
        else:
            ahead += [child for child in one.children if met[id(child)]][: one.need]
    return found


def _first_pods(leaf: Goal, there: Mapping[int, int]) -> Counter[int]:
    """As many pods as the leaf needs, of the classes that come first (M4)."""
    found: Counter[int] = Counter()
    for shape, length in leaf.pods:
        found[shape] += max(min(length, there[shape] - found[shape], leaf.need - found.total()), 0)
    return found


def take(goal: Goal, seats: Sequence[Seat]) -> Placement | None:
    """Seats for a goal out of those that were kept for it; None where they do not meet it."""
    names = {leaf.name for leaf in every(goal) if leaf.is_leaf}
    offered = [seat for seat in seats if seat.leaf in names]
    found = _apart(offered, _chosen(goal, pods_of(offered)))
    taken: dict[str, int] = Counter()
    for seat in found.core:
        taken[seat.leaf] += seat.pods
    counts = {shape: n for leaf in every(goal) if leaf.is_leaf for shape, n in merged(leaf.pods).items()}
    if any(seat.shape not in counts for seat in found.core) or not _is_met(goal, taken):
        return None
    others = tuple(seat for seat in seats if seat.leaf not in names)
    return Placement(found.core, (*found.extras, *others))


def _is_met(goal: Goal, pods: Mapping[str, int]) -> bool:
    met: dict[int, bool] = {}
    for one in reversed(list(every(goal))):
        below = sum(met[id(child)] for child in one.children)
        met[id(one)] = (pods.get(one.name, 0) if one.is_leaf else below) >= one.need
    return met[id(goal)]
