"""Which placed pods are core and which are surplus (P2), and in which order pods are evicted (P4, N4).

The core is unit 0. Every further SubGroup is a unit of its own: placed whole, evicted whole. Pods of a leaf above its
minimum belong to no unit and are evicted one by one. The order of eviction is that of placement (G3) in reverse.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush

from msgspec import Struct

from muster.api import names
from muster.api.quantity import Resources
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import Standing, standings, sum_resources
from muster.model.gang.types import Branch, Group, Leaf, Member, walk

CORE = 0


class Roles(Struct, frozen=True):
    """The placed pods of a gang: the core, and the surplus in the order of eviction."""

    core: tuple[Member, ...]
    surplus: tuple[tuple[Member, ...], ...]  # units: one pod of a leaf, or all pods of a SubGroup


def roles(root: Group) -> Roles:
    """The roles of all placed pods: each is in the core or in the surplus."""
    assignment = _UnitAssignment(root)
    single = [(pod,) for pod in assignment.eviction_order()]
    whole = [unit for unit in reversed(assignment.by_arrival()) if unit]
    return Roles(core=tuple(assignment.units[CORE]), surplus=(*single, *whole))


def roles_of(gang: Gang) -> Roles:
    """The same for a gang; computed once for every gang."""
    known: Roles | None = gang.__dict__.get("roles")
    if known is None:
        known = gang.__dict__["roles"] = roles(gang.root)
    return known


class Unit(Struct, frozen=True):
    """Pods that are evicted together (P3, P4), and the units inside it that must be evicted with it."""

    pods: tuple[tuple[str, Member], ...]  # its own, each with its leaf
    inside: tuple[int, ...] = ()  # every unit inside it, at any depth
    core: bool = False
    leftover: bool = False  # its SubGroup is gone (N4): it is evicted first, whatever the gang is, and cannot move


def units_of(gang: Gang) -> tuple[Unit, ...]:
    """The placed pods of a gang in units, in the order of eviction: leftovers (N4), then the units of its tree.

    A leftover is a unit by itself, with the SubGroup that its pod names; the core has leftovers inside, too. Computed
    once for every gang.
    """
    known: tuple[Unit, ...] | None = gang.__dict__.get("units")
    if known is None:
        known = gang.__dict__["units"] = _units_of(gang)
    return known


def _units_of(gang: Gang) -> tuple[Unit, ...]:
    named = {stray.pod.rpartition("/")[2]: stray.named for stray in gang.strays}
    first = [Unit(((named.get(pod.name, ""), pod),), leftover=True) for pod in leftovers(gang)]
    shift = len(first)
    rest = (
        Unit(unit.pods, (*(range(shift) if unit.core else ()), *(shift + i for i in unit.inside)), core=unit.core)
        for unit in units(gang.root)
    )
    return (*first, *rest)


def leftovers(gang: Gang) -> tuple[Member, ...]:
    """Placed pods in no leaf, in the order of eviction: the order of M4 in reverse."""
    return tuple(member for member in reversed(gang.leftovers) if member.state is PodState.PLACED)


def units(root: Group) -> tuple[Unit, ...]:
    """The placed pods in units, in the order of eviction; the core comes last and has all others inside."""
    assignment = _UnitAssignment(root)
    leaf_of = {id(pod): leaf.name for leaf in walk(root) if isinstance(leaf, Leaf) for pod in leaf.placed}
    parts: list[tuple[int, tuple[Member, ...]]] = []  # the enclosing unit, and the pods
    homes = {id(pod): assignment.counted_in[name][0] for name, pods in assignment.spare.items() for pod in pods}
    parts += [(homes[id(pod)], (pod,)) for pod in assignment.eviction_order()]
    place: dict[int, int] = {}
    for number in sorted(
        (n for n in range(1, len(assignment.units)) if assignment.units[n]), key=lambda n: assignment.arrivals[n]
    )[::-1]:
        place[number] = len(parts)
        parts.append((assignment.enclosing[number], tuple(assignment.units[number])))
    place[CORE] = len(parts)
    parts.append((-1, tuple(assignment.units[CORE])))
    inside: dict[int, list[int]] = {i: [] for i in range(len(parts))}
    for i, (enclosing, _) in enumerate(parts):
        while enclosing >= CORE:
            inside[place.get(enclosing, place[CORE])].append(i)
            enclosing = assignment.enclosing[enclosing]
    return tuple(
        Unit(tuple((leaf_of[id(pod)], pod) for pod in pods), tuple(sorted(inside[i])), core=i == place[CORE])
        for i, (_, pods) in enumerate(parts)
    )


def core(root: Group) -> tuple[Member, ...]:
    """P2: the smallest set of placed pods that meets every minimum from the root down."""
    return roles(root).core


def surplus(root: Group) -> tuple[tuple[Member, ...], ...]:
    """P4: the pods that may be evicted, in the order of eviction."""
    return roles(root).surplus


def non_preemptible(gang: Gang) -> tuple[Member, ...]:
    """The placed pods that must not be preempted (P3, E2)."""
    match gang.preemptibility:
        case names.SEMI_PREEMPTIBLE:
            return core(gang.root)
        case names.NON_PREEMPTIBLE:
            return tuple(pod for leaf in walk(gang.root) if isinstance(leaf, Leaf) for pod in leaf.placed)
        case _:
            return ()


def resources(pods: Iterable[Member]) -> Resources:
    """The sum of the requests of pods."""
    return sum_resources(pod.requests for pod in pods)


class _UnitAssignment:
    """Assigns every placed pod to a unit, or to the spare pods of its leaf."""

    def __init__(self, root: Group) -> None:
        self.standings: Mapping[str, Standing] = standings(root)
        self.units: list[list[Member]] = [[]]
        self.arrivals: list[tuple[int, int]] = [(-1, 0)]  # spec order, at least that of the enclosing unit; then depth
        self.enclosing: list[int] = [-1]  # the unit around each; -1: none
        self.spare: dict[str, list[Member]] = {}
        self.counted_in: dict[str, tuple[int, int]] = {}  # leaf -> its unit, and how many of its pods count there
        self.leaves: dict[str, Leaf] = {}
        self.tops: dict[str, int] = {}  # SubGroup -> its own unit
        self.taken_in: dict[str, tuple[int, int]] = {}  # unsatisfied SubGroup -> the unit it is merged into, its pods
        totals: list[tuple[Branch, int]] = []
        home: dict[str, int] = {}
        ahead: list[tuple[Group, int]] = [(root, CORE)]
        while ahead:
            group, unit = ahead.pop()
            home[group.name] = unit
            if isinstance(group, Leaf):
                self._seat(group, unit)
                continue
            ahead += reversed(list(self._stay(group, unit)))
            if group.need_pods:
                totals.append((group, unit))
        have = self._counts(root, home) if totals else {}
        for branch, unit in reversed(totals):
            if have[branch.name] < branch.need_pods:
                self._top_up(branch, unit)

    def _counts(self, root: Group, home: Mapping[str, int]) -> dict[str, int]:
        """The number of pods below each group that count for the unit of the group."""
        counts: dict[str, int] = {}
        for group in reversed(list(walk(root))):
            if isinstance(group, Leaf):
                counts[group.name] = self.counted_in.get(group.name, (CORE, 0))[1]
            else:
                same = (child for child in group.children if home.get(child.name) == home.get(group.name))
                counts[group.name] = sum(counts[child.name] for child in same)
        return counts

    def _stay(self, branch: Branch, unit: int) -> Iterator[tuple[Group, int]]:
        """Satisfied children with their unit: the first ones, as many as the branch needs, are part of its own.

        A child that is not satisfied is a unit without a core: its placed pods are evicted together.
        """
        taken = 0
        for child in branch.children:
            if self.standings[child.name].satisfied:
                taken += 1
                yield child, unit if taken <= branch.need else self._open(child, unit)
            elif self.standings[child.name].placed:
                broken = self._open(child, unit)
                self.units[broken] += (pod for leaf in walk(child) if isinstance(leaf, Leaf) for pod in leaf.placed)

    def _open(self, group: Group, enclosing: int) -> int:
        order, depth = self.arrivals[enclosing]
        self.units.append([])
        self.arrivals.append((max(order, group.order), depth + 1))
        self.enclosing.append(enclosing)
        self.tops[group.name] = len(self.units) - 1
        return len(self.units) - 1

    def _seat(self, leaf: Leaf, unit: int) -> None:
        placed, done = leaf.placed, len(leaf.members_in(PodState.SUCCEEDED))
        stay = max(leaf.need - done, 0)
        self.units[unit] += placed[:stay]
        self.spare[leaf.name] = list(placed[stay:])
        self.counted_in[leaf.name] = (unit, done + min(stay, len(placed)))
        self.leaves[leaf.name] = leaf

    def _top_up(self, branch: Branch, unit: int) -> None:
        """M5: add pods below the branch to the unit until it has the total it needs: spare pods, then SubGroups."""
        below = list(walk(branch))
        inner = sorted((self.arrivals[self.tops[g.name]], g.name) for g in below[1:] if g.name in self.tops)
        while self._short(branch, below, unit) > 0:
            self._take_spare(branch, below, unit)
            if not inner or self._short(branch, below, unit) <= 0:
                return
            self._merge(inner.pop(0)[1], unit)

    def _short(self, branch: Branch, below: list[Group], unit: int) -> int:
        counted = (self.counted_in.get(group.name, (CORE, 0)) for group in below)
        return branch.need_pods - sum(count for home, count in counted if home == unit) - self._broken_in(below, unit)

    def _broken_in(self, below: list[Group], unit: int) -> int:
        """Pods of groups that are not satisfied: they count for the total if they were merged into the unit."""
        taken_in = (self.taken_in.get(group.name, (CORE, 0)) for group in below)
        return sum(count for home, count in taken_in if home == unit)

    def _take_spare(self, branch: Branch, below: list[Group], unit: int) -> None:
        """Add spare pods of the unit's leaves to it, from the emptiest leaf first."""
        short = self._short(branch, below, unit)
        in_unit = [leaf for leaf in below if leaf.name in self.counted_in and self.counted_in[leaf.name][0] == unit]
        emptiest = [(self._fill(leaf.name), leaf.order, leaf.name) for leaf in in_unit if self.spare[leaf.name]]
        heapify(emptiest)
        while short > 0 and emptiest:
            _, order, name = heappop(emptiest)
            self.units[unit].append(self.spare[name].pop(0))
            self.counted_in[name] = (unit, self.counted_in[name][1] + 1)
            short -= 1
            if self.spare[name]:
                heappush(emptiest, (self._fill(name), order, name))

    def _merge(self, name: str, unit: int) -> None:
        """Merge the unit of a further SubGroup, with its leaves, into a unit."""
        merged = self.tops.pop(name)
        self.units[unit] += self.units[merged]
        broken = len(self.units[merged]) if not any(home == merged for home, _ in self.counted_in.values()) else 0
        self.units[merged] = []
        self.enclosing = [unit if enclosing == merged else enclosing for enclosing in self.enclosing]
        self.counted_in = {
            leaf: (unit if home == merged else home, count) for leaf, (home, count) in self.counted_in.items()
        }
        if broken:
            self.taken_in[name] = (unit, broken)

    def _fill(self, name: str, more: int = 0) -> Fraction:
        return Fraction(self.counted_in[name][1] + more, self.leaves[name].need)

    def eviction_order(self) -> list[Member]:
        """Spare pods, always the last one of the fullest leaf; ties in reverse spec order."""
        order = {name: i for i, name in enumerate(sorted(self.spare, key=lambda name: self.leaves[name].order))}
        fullest = [(-self._fill(name, len(pods)), -order[name], name) for name, pods in self.spare.items() if pods]
        heapify(fullest)
        order_of_eviction: list[Member] = []
        while fullest:
            _, place, name = heappop(fullest)
            order_of_eviction.append(self.spare[name].pop())
            if self.spare[name]:
                heappush(fullest, (-self._fill(name, len(self.spare[name])), place, name))
        return order_of_eviction

    def by_arrival(self) -> list[tuple[Member, ...]]:
        """Further SubGroups in the order of placement: spec order, each after the unit around it."""
        order = sorted(range(1, len(self.units)), key=lambda unit: self.arrivals[unit])
        return [tuple(self.units[unit]) for unit in order]
