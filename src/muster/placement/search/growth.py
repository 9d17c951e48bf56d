"""Growth (X4): of the placements of a core, the one after which most of the gang's own pending extras still fit.

First fit places the core in domains that can hold its extras and adds these one by one, whatever the size of the gang.
Then the search tries more extras in the order of G3, within a small budget: what fits with more extras fits with fewer,
and an extra that one group cannot have, no equal group can. The children and pods of the core do not change (M3, M4),
only their nodes. The assignments of the extras are remembered: while their nodes stay free, each extra uses them in its
order (G4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import lcm

from msgspec import Struct

from muster.model.topology import TopologyTree
from muster.placement.budget import OutOfSteps
from muster.placement.packing.packing import NodeSet
from muster.placement.requirements.tree import count_by_class, first_choice, subtree, with_needs
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search.first_fit import FirstFit, TrialOrder
from muster.placement.search.nested_search import Search
from muster.placement.search.search_state import PodsOnNode, SearchState

STEPS, STEPS_PER_GROUP = 20_000, 50  # limit of growth: it only chooses among valid placements
GROUPS = 32  # whose needs are counted per step
ASK = 3  # one try may cost this part (a third) of the steps left


class Placement(Struct, frozen=True):
    """The assignments of a core, and those that its extras could have afterwards."""

    core: tuple[PodsOnNode, ...]
    extras: tuple[PodsOnNode, ...] = ()


def grow(search: Search, requirement: Requirement, state: SearchState) -> Placement:
    """Place the core of a requirement where most extras still fit; unchanged where its nodes do not matter."""
    placed = search.pods_on_nodes(state)
    if not _has_extras(requirement) or not _matters(search, requirement):
        return Placement(placed)
    core = _chosen(requirement, pods_of(placed))
    growing = _Growing(search, requirement, core, state)
    growing.add_most(list(_more_children(requirement)))
    growing.hold_to_children()
    growing.add_most(list(_more_pods(growing.requirement)))
    growing.tidy()
    return _apart(search.pods_on_nodes(growing.filled()), core)


def _has_extras(requirement: Requirement) -> bool:
    return any(
        part.need < (len(part.children) or sum(length for _, length in part.pods)) for part in subtree(requirement)
    )


def _matters(search: Search, requirement: Requirement) -> bool:
    """Whether the nodes of the core affect extras: it chooses domains, or its pods differ in class."""
    if search.between or any(part.total for part in subtree(requirement)):
        return False
    constraints = [
        constraint
        for part in subtree(requirement)
        for constraint in (part.required, part.preferred, part.tight)
        if constraint is not None
    ]
    return any(constraint.pinned is None for constraint in constraints) or len(search.pod_classes) > 1


def _more_children(requirement: Requirement) -> Iterator[str]:
    """Groups that could have one more child: first in the order of G3."""
    for part in subtree(requirement):
        yield from (part.name for _ in range(len(part.children) - part.need))


def _more_pods(requirement: Requirement) -> Iterator[str]:
    """Leaves that could have one more pod, the least filled first: second in the order of G3."""
    leaves = [part for part in subtree(requirement) if part.is_leaf and part.need]
    unit = lcm(*(leaf.need for leaf in leaves))
    order = [(unit, i, leaf.need) for i, leaf in enumerate(leaves)]
    there = [sum(length for _, length in leaf.pods) for leaf in leaves]
    while order:
        _, i, have = heappop(order)
        if have < there[i]:
            yield leaves[i].name
            heappush(order, ((have + 1) * (unit // leaves[i].need), i, have + 1))


def _only(requirement: Requirement, pods: Mapping[str, Counter[int]], kinds: RequirementKinds) -> Requirement:
    """The requirement with only the children that have pods, all of them needed."""
    by_id: dict[int, Requirement | None] = {}
    for part in reversed(list(subtree(requirement))):
        below = tuple(chosen for child in part.children if (chosen := by_id[id(child)]) is not None)
        if part.is_leaf:
            by_id[id(part)] = part if part.name in pods else None
        elif len(below) == part.need and all(a is b for a, b in zip(below, part.children, strict=False)):
            by_id[id(part)] = part if len(below) == len(part.children) else kinds.derive(part, children=below)
        else:
            by_id[id(part)] = kinds.derive(part, children=below, need=len(below)) if below else None
    return by_id[id(requirement)] or requirement


class _Growing:
    """One requirement with more and more extras, within a budget of its own."""

    def __init__(
        self, search: Search, requirement: Requirement, core: dict[str, Counter[int]], state: SearchState
    ) -> None:
        self.search, self.requirement, self.whole = search, requirement, requirement
        self.required_pods = core  # that every further placement must contain
        steps = STEPS + STEPS_PER_GROUP * sum(1 for _ in subtree(requirement))
        self.budget = search.budget.part(min(steps, search.budget.left // 4))
        self.best = self.known = state
        self.pods = pods_of(search.pods_on_nodes(state))
        self.is_begun = False
        self.needs: dict[str, int] = {}
        self.granted: Counter[str] = Counter()

    def _use_first_fit(self) -> None:
        """Place the core by first fit in domains that can hold its extras, and add those that fit."""
        self.is_begun = True
        core = _only(self.requirement, self.required_pods, self.search.kinds)
        state = self.search.fit_first(self.budget, core, TrialOrder(growing=True), self.requirement)
        state = self._fill(state if state is not None and self._keeps_core(state) else self.best)
        self.known = max(self.known, state, key=_size)
        before = self.best
        if _size(state) > _size(before) and self._keeps_core(state):
            self._take(state)
            if not self._covers(()):
                self._take(before)

    def tidy(self) -> None:
        """Place what first fit achieved by the search instead: tight domains first (X4)."""
        if self.best is self.known and self.granted:
            self._try(())

    def filled(self) -> SearchState:
        """The placement with most pods, with all extras that fit without moving others."""
        return max(self._fill(self.best), self.known, key=_size)

    def _take(self, state: SearchState) -> None:
        self.best, self.pods = state, pods_of(self.search.pods_on_nodes(state))

    def _fill(self, state: SearchState) -> SearchState:
        """Add all extras that fit; linear, so it does not depend on what is left of growth's budget."""
        try:
            return self.search.fitted(_Filling(self.search, self.whole, state).add_all())
        except OutOfSteps:
            return state

    def hold_to_children(self) -> None:
        """Require all children granted so far from here on."""
        grown = self._with(self.granted)
        self.required_pods = _chosen(grown, self.pods)
        self.requirement = _only(grown, self.required_pods, self.search.kinds)

    def add_most(self, wishes: Sequence[str]) -> None:
        """Grant as many extras as fit, the first first: one more child or pod for each group named."""
        self.needs = {part.name: part.need for part in subtree(self.requirement)}
        self.granted = Counter()
        while wishes:
            met = self._longest(wishes)
            self.granted.update(wishes[:met])
            if met == len(wishes) or not self.budget.left:
                return
            refused = self._alike(wishes[met])
            wishes = [name for name in wishes[met + 1 :] if name not in refused]

    def _longest(self, wishes: Sequence[str]) -> int:
        """How many of the first extras fit together: all, else at least those of first fit, by doubling and halving."""
        if self._try(wishes):
            return len(wishes)
        if not self.is_begun:
            self._use_first_fit()
        low, high, stride = self._covered(wishes), len(wishes) - 1, 1
        while low < high:
            ask = min(low + stride, high)
            if self._try(wishes[:ask]):
                low, stride = ask, stride * 2
            else:
                high, stride = ask - 1, max((ask - low) // 2, 1)
        return low

    def _covered(self, wishes: Sequence[str]) -> int:
        """How many of the first extras the best placement has already, with the first children everywhere (M3)."""
        low, high = 0, len(wishes)
        while low < high:
            middle = (low + high + 1) // 2
            if self._covers(wishes[:middle]):
                low = middle
            else:
                high = middle - 1
        return low

    def _covers(self, wishes: Sequence[str]) -> bool:
        counts = {leaf: pods.total() for leaf, pods in self.pods.items()}
        self.budget.charge(1 + len(self.needs) // GROUPS)
        first = first_choice(self._with(self.granted + Counter(wishes)), self.search.kinds)
        return first is not None and _is_met(first, counts)

    def _with(self, more: Mapping[str, int]) -> Requirement:
        return with_needs(self.requirement, {name: self.needs[name] + n for name, n in more.items()}, self.search.kinds)

    def _try(self, wishes: Sequence[str]) -> bool:
        requirement = self._with(self.granted + Counter(wishes))
        try:
            self.budget.spend(1 + len(self.needs) // GROUPS)
            state = self.search.first_within(self.budget.part(self.budget.left // ASK), requirement)
        except OutOfSteps:
            return False
        if state is None or not self._keeps_core(state):
            return False
        self._take(state)
        return True

    def _keeps_core(self, state: SearchState) -> bool:
        there = pods_of(self.search.pods_on_nodes(state))
        return all(counts <= there.get(leaf, Counter()) for leaf, counts in self.required_pods.items())

    def _alike(self, name: str) -> set[str]:
        """A group and all that are interchangeable with it in the tree, given what is granted to each."""
        grown = self._with(self.granted)
        numbers: dict[object, int] = {}
        below: dict[int, int] = {}
        for part in reversed(list(subtree(grown))):
            signature = (part.kind, *(below[id(child)] for child in part.children))
            below[id(part)] = numbers.setdefault(signature, len(numbers))
        paths: dict[int, int] = {id(grown): 0}
        places: dict[str, int] = {}
        for part in subtree(grown):
            places[part.name] = paths[id(part)]
            for child in part.children:
                step = (paths[id(part)], below[id(child)], "path")
                paths[id(child)] = numbers.setdefault(step, len(numbers))
        return {group for group, place in places.items() if place == places[name]}


class _Filling:
    """Adds extras to a placement without moving its pods: further children, then further pods (G3)."""

    def __init__(self, search: Search, requirement: Requirement, state: SearchState) -> None:
        self.search, self.requirement = search, requirement
        self.fitting = FirstFit(search, requirement, TrialOrder())
        for demand, placed in zip(state.demands, state.assignments, strict=True):
            self.fitting.put(demand, placed)

    def add_all(self) -> FirstFit:
        """Add all extras that fit."""
        self._add_children()
        self._add_pods()
        return self.fitting

    def _add_children(self) -> None:
        node_sets = self.search.node_sets_of(self.requirement, self.fitting.demands, self.fitting.assignments)
        for part in subtree(self.requirement):
            if part.name not in node_sets or part.need == len(part.children):
                continue
            hopeless: set[int] = set()
            for child in part.children:
                if child.name in node_sets or child.kind in hopeless:
                    continue
                start = len(self.fitting.demands)
                if self.fitting.place(child, node_sets[part.name]):
                    demands, placed = self.fitting.demands[start:], self.fitting.assignments[start:]
                    node_sets |= self.search.node_sets_of(child, demands, placed, node_sets[part.name])
                else:
                    hopeless.add(child.kind)

    def _add_pods(self) -> None:
        leaves = {part.name: part for part in subtree(self.requirement) if part.is_leaf}
        node_sets: dict[str, NodeSet] = {}
        have: dict[str, Counter[int]] = {}
        for demand in self.fitting.demands:
            name = self.search.leaves[demand.leaf]
            node_sets[name] = demand.node_set
            have.setdefault(name, Counter())[demand.pod_class] += demand.count
        offered = {name: count_by_class(leaves[name].pods) for name in have}
        spare = {name: pods.total() - leaves[name].need for name, pods in have.items()}
        for name in _more_pods(self.requirement):
            if name not in have:
                continue
            spare[name] -= 1
            if spare[name] < 0 and not self._add_pod(leaves[name], offered[name], have[name], node_sets[name]):
                del have[name]

    def _add_pod(self, leaf: Requirement, offered: Mapping[int, int], have: Counter[int], node_set: NodeSet) -> bool:
        for pod_class, there in offered.items():
            if have[pod_class] < there and self.fitting.add(leaf, pod_class, 1, node_set):
                have[pod_class] += 1
                return True
        return False


def _size(state: SearchState) -> int:
    return sum(demand.count for demand in state.demands)


def pods_of(placed: Sequence[PodsOnNode]) -> dict[str, Counter[int]]:
    """By leaf: how many pods of each class are assigned."""
    pods: dict[str, Counter[int]] = {}
    for entry in placed:
        pods.setdefault(entry.leaf, Counter())[entry.pod_class] += entry.pods
    return pods


def _apart(placed: Sequence[PodsOnNode], core_pods: Mapping[str, Counter[int]]) -> Placement:
    """The assignments, split into those of the core and those of extras."""
    chosen = {leaf: Counter(counts) for leaf, counts in core_pods.items()}
    core: list[PodsOnNode] = []
    extras: Counter[tuple[str, int, int]] = Counter()
    for entry in placed:
        in_core = min(chosen.get(entry.leaf, Counter())[entry.pod_class], entry.pods)
        if in_core:
            chosen[entry.leaf][entry.pod_class] -= in_core
            core.append(PodsOnNode(entry.leaf, entry.pod_class, entry.node, in_core))
        if in_core < entry.pods:
            extras[entry.leaf, entry.pod_class, entry.node] += entry.pods - in_core
    return Placement(tuple(core), tuple(PodsOnNode(*place, pods) for place, pods in extras.items()))


def _chosen(requirement: Requirement, pods: Mapping[str, Counter[int]]) -> dict[str, Counter[int]]:
    """By leaf: the pods of each class that belong to the core; all of them below a total of pods (M5)."""
    met: dict[int, bool] = {}
    for part in reversed(list(subtree(requirement))):
        if part.is_leaf:
            met[id(part)] = pods.get(part.name, Counter()).total() >= part.need
        else:
            met[id(part)] = sum(met[id(child)] for child in part.children) >= part.need
    core: dict[str, Counter[int]] = {}
    ahead = [requirement]
    while ahead:
        part = ahead.pop()
        if part.within or part.total:
            core |= {leaf.name: Counter(pods.get(leaf.name, Counter())) for leaf in subtree(part) if leaf.is_leaf}
        elif part.is_leaf:
            core[part.name] = _first_pods(part, pods.get(part.name, Counter()))
        else:
            ahead += [child for child in part.children if met[id(child)]][: part.need]
    return core


def _first_pods(leaf: Requirement, there: Mapping[int, int]) -> Counter[int]:
    """As many pods as the leaf needs, of its first classes (M4)."""
    first: Counter[int] = Counter()
    left = leaf.need
    for pod_class, length in leaf.pods:
        more = max(min(length, there[pod_class] - first[pod_class], left), 0)
        first[pod_class] += more
        left -= more
    return first


def take(requirement: Requirement, placed: Sequence[PodsOnNode], trees: Mapping[str, TopologyTree]) -> Placement | None:
    """Assignments for a requirement from remembered ones; None where they do not meet it or its levels (T1, T3)."""
    names = {leaf.name for leaf in subtree(requirement) if leaf.is_leaf}
    offered = [entry for entry in placed if entry.leaf in names]
    placement = _apart(offered, _chosen(requirement, pods_of(offered)))
    taken: dict[str, int] = Counter()
    for entry in placement.core:
        taken[entry.leaf] += entry.pods
    counts = {
        pod_class: n
        for leaf in subtree(requirement)
        if leaf.is_leaf
        for pod_class, n in count_by_class(leaf.pods).items()
    }
    if any(entry.pod_class not in counts for entry in placement.core) or not _is_met(requirement, taken):
        return None
    if not _are_together(requirement, placement.core, trees):
        return None
    others = tuple(entry for entry in placed if entry.leaf not in names)
    return Placement(placement.core, (*placement.extras, *others))


def _are_together(requirement: Requirement, placed: Sequence[PodsOnNode], trees: Mapping[str, TopologyTree]) -> bool:
    """Whether the pods of every group with a required level share one domain, pods placed already included.

    Those may be in another domain than the remembered assignments.
    """
    for part in subtree(requirement):
        if (constraint := part.required) is not None:
            names = {leaf.name for leaf in subtree(part) if leaf.is_leaf}
            domain = trees[constraint.topology].levels[constraint.level].domain
            domains = {int(domain[entry.node]) for entry in placed if entry.leaf in names}
            domains |= set() if constraint.pinned is None else {constraint.pinned}
            if len(domains) > 1 or any(number < 0 for number in domains):
                return False
    return True


def _is_met(requirement: Requirement, pods: Mapping[str, int]) -> bool:
    met: dict[int, bool] = {}
    for part in reversed(list(subtree(requirement))):
        below = sum(met[id(child)] for child in part.children)
        met[id(part)] = (pods.get(part.name, 0) if part.is_leaf else below) >= part.need
    return met[id(requirement)]
