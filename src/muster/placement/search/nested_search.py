"""Nested exact search (X1-X4). Rule 1: whatever decides *where* is here. Rule 2: nothing here knows queues or priority.

It works in tiers, the cheapest first. *Bounds* prove infeasibility by totals. The *constructive* search chooses the
first children that fit by themselves (M3), a domain for every group that requires one, most constrained group first,
tight domains first (X4), and assigns pods to nodes. It tries failed states and equal domains and siblings only once.
What it leaves undecided within a small budget, an *integer program* decides (`exact`). That program cannot express
rules between the gang's own pods: with them the constructive search runs to the end, and `inter_pod` assigns nodes.

Long because: the tiers share the budget, the failed states and the state of one search.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity, SupposedCapacity
from muster.placement.domains import Domains
from muster.placement.exact import integer_program
from muster.placement.inter_pod.bounds import Distances
from muster.placement.inter_pod.constructive import construct_beside
from muster.placement.inter_pod.node_assignment import assign_nodes, assign_nodes_quickly
from muster.placement.packing.packing import Assignments, Demand, NodeSet, assign_tightly, pack, pack_greedily
from muster.placement.requirements.tree import (
    count_by_class,
    first_choice,
    leaves,
    pod_classes,
    pods_by_class,
    sizes,
    subtree,
)
from muster.placement.requirements.types import RequiredLevel, Requirement, RequirementKinds
from muster.placement.search.choices import choices, choose
from muster.placement.search.first_fit import FirstFit, TrialOrder, is_supported
from muster.placement.search.search_state import Open, PodsOnNode, Rank, SearchState
from muster.placement.search.symmetry import Symmetry

Ints = NDArray[np.int64]


QUICK, QUICK_PER_GROUP = 4_000, 40  # steps of the constructive search before the integer program
STATE = 10  # steps per state: it costs about as much as ten nodes of a packing
FEW = 8  # choices of children that a quick constructive search tries
NODES, ROWS = 32, 16  # nodes that cost as much as one changed node; changed nodes per step
BOUND = 250  # nodes of a bound per step
BETTER = 4  # a better choice of children may cost this part (a quarter) of the steps left
MANY = 300  # groups beyond which the search does not enumerate choices of children


class Search:
    """One gang on one capacity."""

    def __init__(
        self,
        capacity: Capacity,
        topologies: dict[str, TopologyTree],
        kinds: RequirementKinds,
        budget: Budget,
        ignoring: frozenset[int] = frozenset(),  # inter-pod rules to leave out, to see their effect
        allowance: Ints | None = None,  # by column: the most that all pods together may request (Q4)
    ) -> None:
        self.base = capacity
        self.kinds = kinds
        self.pod_classes: list[int] = []
        self.ignoring = ignoring
        self.allowance = allowance
        self.between: tuple[int, ...] = ()  # rules between the gang's own pods
        self.budget = self._spending = budget
        self.domains = Domains(capacity, topologies, budget)
        self.leaves: list[str] = []
        self._leaf_indices: dict[str, int] = {}
        self._sizes: dict[int, int] = {}  # by kind: pods
        self._requested_by: dict[int, dict[int, int]] = {}  # by kind: pods by class
        self._is_quick = False  # inter-pod rules by one quick try
        self._groups = 0
        self._opened = 0

    # choices of children ----------------------------------------------------------------------------------------------

    def fits(self, requirement: Requirement) -> bool:
        """Whether there is a placement, preferences aside. OutOfSteps: unknown."""
        return self.first(requirement) is not None

    def first(self, requirement: Requirement) -> SearchState | None:
        """A placement of the first children that fit (M3); None: there is none. OutOfSteps: unknown."""
        self._begin(requirement)
        before = self.domains.bounds.answered
        pruned = self.domains.bounds.prune(requirement, self.kinds)
        answered = self.domains.bounds.answered - before
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

    def first_within(self, budget: Budget, requirement: Requirement) -> SearchState | None:
        """The same, within another budget."""
        return self._paid_from(budget, partial(self.first, requirement))

    def _paid_from(self, budget: Budget, work: Callable[[], SearchState | None]) -> SearchState | None:
        before = self.budget
        self.budget = self._spending = self.domains.budget = budget
        try:
            return work()
        finally:
            self.budget = self._spending = self.domains.budget = before

    def _better_choice(self, requirement: Requirement, state: SearchState) -> SearchState:
        """A placement with earlier children than first fit chose, if one is found (M3) within a part of the budget."""
        try:
            part = self.budget.part(self.budget.left // BETTER)
            exactly = self._paid_from(part, partial(integer_program.solve, self, requirement))
        except OutOfSteps:
            return state
        return state if exactly is None else min(state, exactly, key=partial(self._passed_over, requirement))

    def _passed_over(self, requirement: Requirement, state: SearchState) -> list[bool]:
        """For every leaf, in the order of choice: whether it has no pods."""
        there = {self.leaves[demand.leaf] for demand in state.demands}
        return [leaf.name not in there for leaf in leaves(requirement)]

    def _begin(self, requirement: Requirement) -> None:
        self._groups = sum(1 for _ in subtree(requirement))
        if not self.pod_classes:
            self.pod_classes = pod_classes(requirement)
            among = self.base.inter_pod.among(self.pod_classes)
            self.between = tuple(rule for rule in among if rule not in self.ignoring)
            if any(self.base.inter_pod.rules[number].kind == "anti_affinity" for number in self.between):
                self.domains.bounds.distances = Distances(self.base, self.between)
            self.symmetry = Symmetry(self.domains, self.pod_classes, identity=bool(self.between))

    def _constructed(self, requirement: Requirement) -> tuple[SearchState | None, bool]:
        """The result of the constructive search for the first choice of children, and whether it is final.

        None is final where the gang leaves no choice; a placement is final where it has the first choice (M3).
        """
        chosen = first_choice(requirement, self.kinds)
        if chosen is None:
            return None, False
        steps = min(QUICK + QUICK_PER_GROUP * self._groups, self.budget.left // 4)
        try:
            state = self._within(self.budget.part(steps), chosen)
            if state is not None or chosen is requirement:
                return state, True
        except OutOfSteps:
            if not self.budget.left:
                raise
        state = self._first_fit(chosen)
        if state is not None:
            return state, True
        return self._first_fit(requirement) if chosen is not requirement else None, False

    def _first_fit(self, requirement: Requirement) -> SearchState | None:
        """A placement by first fit; None proves nothing."""
        if not is_supported(requirement):
            return None
        for order in (TrialOrder(), TrialOrder(by_size=True)):
            fitting = FirstFit(self, requirement, order)
            if fitting.place(requirement, self.domains.everywhere):
                return self.fitted(fitting)
        return None

    def fit_first(
        self, budget: Budget, requirement: Requirement, order: TrialOrder, whole: Requirement
    ) -> SearchState | None:
        """First fit in one order, within another budget; `whole` has the extras to leave capacity for."""

        def work() -> SearchState | None:
            fitting = FirstFit(self, requirement, order, whole)
            return self.fitted(fitting) if fitting.place(requirement, self.domains.everywhere) else None

        try:
            return self._paid_from(budget, work)
        except OutOfSteps:
            return None

    def fitted(self, fitting: FirstFit) -> SearchState:
        """The placement of first fit as a complete state."""
        demands, assignments = fitting.placed()
        state = self.with_assignments(SearchState((), (), SupposedCapacity(self.base), ()), demands, assignments)
        assert state is not None
        return state

    def node_sets_of(
        self,
        requirement: Requirement,
        demands: Sequence[Demand],
        assignments: Sequence[Sequence[tuple[int, int]]],
        enclosing: NodeSet | None = None,
    ) -> dict[str, NodeSet]:
        """By name: the node sets of groups that have pods; none at or below a group with a limit on domains."""
        nodes = {self.leaves[demand.leaf]: places[0][0] for demand, places in zip(demands, assignments, strict=True)}
        for part in reversed(list(subtree(requirement))):
            inside = [nodes[child.name] for child in part.children if child.name in nodes]
            if inside:
                nodes[part.name] = inside[0]
        node_sets: dict[str, NodeSet] = {}
        ahead = [(requirement, enclosing or self.domains.everywhere)]
        while ahead:
            part, node_set = ahead.pop()
            if part.name not in nodes or part.at_most:
                continue
            for constraint in (part.required, part.tight):
                if constraint is not None:
                    node_set = self.domains.narrow(
                        node_set, constraint, int(self.domains.level(constraint).domain[nodes[part.name]])
                    )
            node_sets[part.name] = node_set
            ahead += [(child, node_set) for child in part.children]
        return node_sets

    def spend(self, steps: int = 1) -> None:
        """Spend steps of the current part of the search."""
        self._spending.spend(steps)

    @cached_property
    def free_in_all(self) -> Ints:
        """By column: free capacity of all nodes."""
        total: Ints = np.maximum(self.base.free, 0).sum(axis=0)
        return total

    def _within(self, budget: Budget, requirement: Requirement) -> SearchState | None:
        """The constructive search within a budget of its own."""
        self._spending = self.domains.budget = budget
        try:
            return self._where(requirement)
        finally:
            self._spending = self.domains.budget = self.budget

    def _any_choice(self, requirement: Requirement) -> SearchState | None:
        """The first choice of children that has a placement; None: none has."""
        chosen = first_choice(requirement, self.kinds)
        if chosen is requirement:
            return self._where(requirement)
        if self._groups > MANY or any(part.total for part in subtree(requirement)):
            state = None if chosen is None else self._where(chosen)
            if state is None:
                raise OutOfSteps
            return state
        at, quick = self._quick_choice(requirement)
        if quick is None:
            return self._first_of(choices(requirement, self.kinds))
        try:  # an earlier choice may have a placement that the quick search missed
            self._spending = self.domains.budget = self.budget.part(self.budget.left // 2)
            return self._first_of(islice(choices(requirement, self.kinds), at)) or quick
        except OutOfSteps:
            return quick
        finally:
            self._spending = self.domains.budget = self.budget

    def _first_of(self, choices: Iterator[Requirement]) -> SearchState | None:
        """The first choice that has a placement."""
        for choice in choices:
            self._spending.spend(STATE)
            state = self._where(choice)
            if state is not None:
                return state
        return None

    def _quick_choice(self, requirement: Requirement) -> tuple[int, SearchState | None]:
        """The first of a few choices that a quick search places, with its index; None proves nothing."""
        self._is_quick = True
        try:
            for at, choice in enumerate(islice(choices(requirement, self.kinds), FEW)):
                state = self._quickly(choice)
                if state is not None:
                    return at, state
        finally:
            self._is_quick = False
        return 0, None

    def _quickly(self, requirement: Requirement) -> SearchState | None:
        try:
            return self._within(self.budget.part(self.budget.left // (2 * FEW)), requirement)
        except OutOfSteps:
            if not self.budget.left:
                raise
            return None

    # domains and nodes ------------------------------------------------------------------------------------------------

    def _where(self, requirement: Requirement) -> SearchState | None:
        """Search domains depth first; skip states that are symmetric to a failed one."""
        self._sizes |= sizes(requirement)
        self._requested_by |= pods_by_class(requirement)
        begun = self._open((), (requirement,), self.domains.everywhere)
        if begun is None:
            return None
        failed: set[object] = set()
        ahead: list[tuple[SearchState, Iterator[SearchState]]] = []
        state: SearchState | None = SearchState(begun, (), SupposedCapacity(self.base), ())
        while True:
            if state is not None and not state.agenda:
                return state
            if state is not None and (not failed or self.symmetry.of(_pairs(state), state.demands) not in failed):
                ahead.append((state, self._steps(state)))
            state = None
            while state is None:
                if not ahead:
                    return None
                state = next(ahead[-1][1], None)
                if state is None:
                    gone, _ = ahead.pop()
                    failed.add(self.symmetry.of(_pairs(gone), gone.demands))
            self._spending.spend(STATE)

    def _open(
        self, agenda: tuple[Open, ...], requirements: Sequence[Requirement], node_set: NodeSet
    ) -> tuple[Open, ...] | None:
        """The agenda with more groups, those with the fewest candidate domains first; None: a group has none.

        So pods are assigned as soon as their group has a node set, except those that may be anywhere. The number of
        candidates does not depend on the pods assigned, so the order stays valid.
        """
        more: list[Open] = []
        for requirement in requirements:
            constraint = requirement.tight or requirement.required
            choices = 1 if constraint is None else len(self.domains.candidates(requirement, constraint, node_set))
            if not choices:
                return None
            self._opened += 1
            flexible = requirement.is_leaf and constraint is None and node_set is self.domains.everywhere
            rank = (flexible, choices, -self._sizes[requirement.kind], self._opened)
            more.append(Open(rank, requirement, node_set))
        return tuple(sorted((*agenda, *more), key=_by_rank)) if more else agenda

    def _steps(self, state: SearchState) -> Iterator[SearchState]:
        """Every next state: the most constrained group of the agenda in each of its node sets."""
        requirement, rest = state.agenda[0].requirement, state.agenda[1:]
        for node_set in self._with_capacity_first(requirement, state.agenda[0].node_set, state.capacity):
            if requirement.children:
                agenda = self._open(rest, requirement.children, node_set)
                if agenda is not None:
                    yield SearchState(agenda, state.demands, state.capacity, state.assignments)
            else:
                yield from self._assign_leaf(
                    requirement, node_set, SearchState(rest, state.demands, state.capacity, state.assignments)
                )

    def _with_capacity_first(
        self, requirement: Requirement, enclosing: NodeSet, capacity: SupposedCapacity
    ) -> Iterator[NodeSet]:
        """Node sets that could hold the requirement beside the pods assigned; then those where pods must move."""
        requested = self._requested_by[requirement.kind].items() if capacity.rows else ()
        everywhere = self.domains.everywhere.nodes
        self._spending.spend(len(requested) * (len(capacity.rows) + len(everywhere) // NODES) // ROWS)
        constraint = requirement.required or requirement.tight
        if not requested or constraint is None:
            yield from self.domains.of(requirement, enclosing)
        elif requirement.at_most or (requirement.required and requirement.tight):
            free = {pod_class: capacity.fits_in(pod_class, everywhere) for pod_class, _ in requested}
            yield from self._split(requested, free, self.domains.of(requirement, enclosing))
        else:
            yield from self._split_domains(requirement, constraint, enclosing, capacity)

    def _split(
        self, requested: Collection[tuple[int, int]], free: Mapping[int, Ints], domains: Iterator[NodeSet]
    ) -> Iterator[NodeSet]:
        """The node sets, those where too few pods of some class fit last: a heuristic, not a bound."""
        full: list[NodeSet] = []
        for node_set in domains:
            self._spending.spend()
            if all(int(free[pod_class][node_set.nodes].sum()) >= count for pod_class, count in requested):
                yield node_set
            else:
                full.append(node_set)
        yield from full

    def _split_domains(
        self, requirement: Requirement, constraint: RequiredLevel, enclosing: NodeSet, capacity: SupposedCapacity
    ) -> Iterator[NodeSet]:
        """The same, for all domains of one level at once."""
        domains = self.domains.candidates(requirement, constraint, enclosing)
        has_capacity = np.ones(len(domains), dtype=bool)
        for pod_class, count in self._requested_by[requirement.kind].items():
            has_capacity &= self.domains.fits_left(constraint, pod_class, capacity)[domains] >= count
        for domain in (*domains[has_capacity].tolist(), *domains[~has_capacity].tolist()):
            yield self.domains.narrow(enclosing, constraint, domain)

    def _assign_leaf(self, leaf: Requirement, node_set: NodeSet, state: SearchState) -> Iterator[SearchState]:
        """The states with the pods of a leaf in a node set: beside the pods assigned, or with all pods packed again."""
        kinds = count_by_class(leaf.pods)
        for counts in choose(leaf.pods, leaf.need):
            self._spending.spend(STATE)
            requested: dict[int, int] = {}
            for (pod_class, _), count in zip(leaf.pods, counts, strict=False):
                if count:
                    requested[pod_class] = requested.get(pod_class, 0) + count
            added = tuple(
                Demand(self.leaf_index(leaf.name), pod_class, count, node_set) for pod_class, count in requested.items()
            )
            with_assignments = self._extend(state, added)
            if with_assignments is not None:
                yield with_assignments
            elif len(kinds) == 1:
                return

    def leaf_index(self, name: str) -> int:
        """The index of a leaf in demands."""
        if name not in self._leaf_indices:
            self._leaf_indices[name] = len(self.leaves)
            self.leaves.append(name)
        return self._leaf_indices[name]

    def _extend(self, state: SearchState, added: tuple[Demand, ...]) -> SearchState | None:
        """Add demands beside the pods assigned if they fit, else pack all pods again; None: there is no packing."""
        if self.allowance is not None and (self._total_requests((*state.demands, *added)) > self.allowance).any():
            return None
        if rules := self._rules(state):
            return self._settle(state, added, rules)
        capacity = state.capacity.copy()
        added_assignments = []
        for demand in added:
            assignments = assign_tightly(capacity, demand)
            if assignments is None:
                break
            for node, count in assignments:
                capacity.put(node, demand.pod_class, count)
            added_assignments.append(tuple(assignments))
        demands = (*state.demands, *added)
        if len(added_assignments) == len(added):
            return SearchState(state.agenda, demands, capacity, (*state.assignments, *added_assignments))
        return self.with_assignments(state, demands, pack(self.base, demands, self._spending))

    def _total_requests(self, demands: tuple[Demand, ...]) -> Ints:
        """Total requests by column."""
        total = np.zeros(self.base.free.shape[1], dtype=np.int64)
        for demand in demands:
            total += self.base.pod_classes.requests[demand.pod_class] * demand.count
        return total

    def _rules(self, state: SearchState) -> tuple[int, ...]:
        """Rules between the gang's own pods to apply now: all with an empty agenda, else only anti-affinity."""
        if not self.between or not state.agenda:
            return self.between
        rules = self.base.inter_pod.rules
        return tuple(number for number in self.between if rules[number].kind == "anti_affinity")

    def _settle(self, state: SearchState, added: tuple[Demand, ...], rules: tuple[int, ...]) -> SearchState | None:
        """Add demands under inter-pod rules: beside the pods assigned if possible, else assign all pods again."""
        demands = (*state.demands, *added)
        if state.demands and all(self.base.inter_pod.rules[number].kind == "anti_affinity" for number in self.between):
            with_assignments = list(zip(state.demands, state.assignments, strict=True))
            packed = construct_beside(state.capacity, with_assignments, added, rules, self._spending)
            if packed is not None:
                return self._beside(state, added, [packed[i] for i in range(len(added))])
        settled = (assign_nodes_quickly if self._is_quick else assign_nodes)(self.base, demands, rules, self._spending)
        return self.with_assignments(state, demands, settled)

    def _beside(
        self, state: SearchState, added: tuple[Demand, ...], assignments: Sequence[Sequence[tuple[int, int]]]
    ) -> SearchState:
        """The state with further demands and their assignments."""
        capacity = state.capacity.copy()
        for demand, some in zip(added, assignments, strict=True):
            for node, count in some:
                capacity.put(node, demand.pod_class, count)
        return SearchState(
            state.agenda, (*state.demands, *added), capacity, (*state.assignments, *map(tuple, assignments))
        )

    def with_assignments(
        self, state: SearchState, demands: tuple[Demand, ...], packed: Assignments | None
    ) -> SearchState | None:
        """The state with these demands and assignments; None where there are none."""
        if packed is None:
            return None
        capacity = SupposedCapacity(self.base)
        for i, demand in enumerate(demands):
            for node, count in packed[i]:
                capacity.put(node, demand.pod_class, count)
        seats_of = tuple(tuple(packed[i]) for i in range(len(demands)))
        return SearchState(state.agenda, demands, capacity, seats_of)

    def with_exact_assignments(self, demands: tuple[Demand, ...], packed: Assignments) -> SearchState:
        """A complete state; with tight assignments (X4) where greedy packing finds them for the same demands."""
        state = SearchState((), (), SupposedCapacity(self.base), ())
        with_assignments = self.with_assignments(state, demands, pack_greedily(self.base, demands) or packed)
        assert with_assignments is not None
        return with_assignments

    def pods_on_nodes(self, state: SearchState) -> tuple[PodsOnNode, ...]:
        """The assignments of a state, by leaf."""
        return tuple(
            PodsOnNode(self.leaves[demand.leaf], demand.pod_class, node, pods)
            for demand, places in zip(state.demands, state.assignments, strict=True)
            for node, pods in places
        )


def _by_rank(entry: Open) -> Rank:
    return entry.rank


def _pairs(state: SearchState) -> tuple[tuple[Requirement, NodeSet], ...]:
    return tuple((entry.requirement, entry.node_set) for entry in state.agenda)
