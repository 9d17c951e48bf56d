"""The exact tier: a requirement as one integer program over counts, solved by `solver`.

Equal things are counted, not named: groups of one kind in one node set, pods of one class, nodes of one type. The
solution is split over the groups of a kind afterwards, because each of them needs the same. Nodes of one type have the
same patterns: the maximal mixes of pods that fit on one of them, computed in whole numbers (X6). So all coefficients
are small, and the size of the program does not depend on the number of equal nodes.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from muster.placement.budget import OutOfSteps
from muster.placement.exact.solver import Model, Solution, Term
from muster.placement.packing.node_types import NodeType, find_types
from muster.placement.packing.packing import Assignments, Demand, NodeSet, share_out
from muster.placement.requirements.tree import count_by_class, subtree
from muster.placement.requirements.types import Requirement

if TYPE_CHECKING:
    from muster.placement.search.nested_search import Search
    from muster.placement.search.search_state import SearchState

Terms = list[Term]
COEFFICIENTS = 8  # added to a program per step
EXACT_ENOUGH = 2**20  # largest request, in units of their common divisor: beyond it the solver is not exact
Key = tuple[int, tuple[int, ...]]  # a kind of requirements, or a class of pods, and a node set


class GroupDomain(Struct, frozen=True, eq=False):
    """Requirements of one kind in one of their candidate node sets."""

    node_set: NodeSet
    met: int  # variable: how many requirements are met here
    uses: dict[int, Terms]  # by kind of children, or by class of pods: how many


def solve(search: "Search", requirement: Requirement) -> "SearchState | None":
    """A placement of a requirement; None: there is none. OutOfSteps: unknown."""
    if any(part.at_most for part in subtree(requirement)):
        raise OutOfSteps  # the program cannot express a limit on domains
    return _Program(search, requirement).state()


class Groups:
    """The part of a program about groups: how many are met in which node sets, and the pods that takes."""

    def __init__(self, search: "Search", requirement: Requirement) -> None:
        self.search, self.requirement = search, requirement
        self.model = Model()
        self.kinds = {part.kind: part for part in subtree(requirement)}
        self.many = Counter(part.kind for part in subtree(requirement))
        self.group_domains: dict[Key, list[GroupDomain]] = {}
        self.node_sets: dict[tuple[int, ...], NodeSet] = {}
        self.demands: dict[Key, Terms] = {}  # number of pods of a class in a node set
        self.totals: dict[str, Terms] = {}  # number of pods below a branch with a total (M5)
        self._groups()

    def _groups(self) -> None:
        """Add variables and rows for how many requirements of every kind are met in every node set."""
        everywhere = self.search.domains.everywhere
        wanted: dict[Key, Terms] = {(self.requirement.kind, everywhere.key): []}
        ahead = deque([(self.requirement, everywhere)])
        while ahead:
            requirement, enclosing = ahead.popleft()
            self.search.budget.spend()
            choices = [
                self._add_group_domain(requirement, node_set) for node_set in self._node_sets_of(requirement, enclosing)
            ]
            self.group_domains[requirement.kind, enclosing.key] = choices
            for group_domain in choices if requirement.children else ():
                for kind, terms in group_domain.uses.items():
                    key = (kind, group_domain.node_set.key)
                    if key not in wanted:
                        wanted[key] = []
                        ahead.append((self.kinds[kind], group_domain.node_set))
                    wanted[key] += terms
        for key, terms in wanted.items():
            met = [(group_domain.met, 1) for group_domain in self.group_domains[key]]
            needed = int(key == (self.requirement.kind, everywhere.key))
            self.model.add_row([*met, *((variable, -value) for variable, value in terms)], needed, needed)
        for branch in (group for group in subtree(self.requirement) if group.total):
            self.model.add_row(self.totals.get(branch.name, []), least=branch.total)

    def _node_sets_of(self, requirement: Requirement, enclosing: NodeSet) -> Iterator[NodeSet]:
        """Candidate domains of its required level, and inside them of its tight level."""
        node_sets = self.search.domains
        for outer in node_sets.narrowed(requirement, requirement.required, enclosing):
            yield from node_sets.narrowed(requirement, requirement.tight, outer)

    def _add_group_domain(self, requirement: Requirement, node_set: NodeSet) -> GroupDomain:
        self.node_sets[node_set.key] = node_set
        met = self.model.add_variable(self.many[requirement.kind])
        if requirement.children:
            uses = self._children(requirement, met)
        else:
            uses = self._pods(requirement, met)
            for pod_class, terms in uses.items():
                self.demands.setdefault((pod_class, node_set.key), []).extend(terms)
                for name in requirement.within:
                    self.totals.setdefault(name, []).extend(terms)
        return GroupDomain(node_set, met, uses)

    def _children(self, requirement: Requirement, met: int) -> dict[int, Terms]:
        counts = Counter(child.kind for child in requirement.children)
        if requirement.need == len(requirement.children):
            return {kind: [(met, count)] for kind, count in counts.items()}
        exactly = not (requirement.total or requirement.within)
        return self._chosen(requirement, met, counts, requirement.need, None if exactly else len(requirement.children))

    def _pods(self, requirement: Requirement, met: int) -> dict[int, Terms]:
        counts, there = Counter(count_by_class(requirement.pods)), sum(length for _, length in requirement.pods)
        if len(counts) == 1 and not requirement.within:
            return {next(iter(counts)): [(met, requirement.need)]}
        return self._chosen(requirement, met, counts, requirement.need, there if requirement.within else None)

    def _chosen(
        self, requirement: Requirement, met: int, counts: Counter[int], need: int, most: int | None
    ) -> dict[int, Terms]:
        """Variables for how many of each item the met requirements use: `need` for each; with `most`, at least."""
        copies = self.many[requirement.kind]
        variables = {item: self.model.add_variable(count * copies) for item, count in counts.items()}
        for item, count in counts.items():
            self.model.add_row([(variables[item], 1), (met, -count)], most=0)
        together = [(variable, 1) for variable in variables.values()]
        self.model.add_row([*together, (met, -need)], 0, 0 if most is None else None)
        return {item: [(variable, 1)] for item, variable in variables.items()}


class _Program(Groups):
    """One requirement on one capacity."""

    def __init__(self, search: "Search", requirement: Requirement) -> None:
        super().__init__(search, requirement)
        self.taken: dict[tuple[int, int], list[tuple[tuple[int, ...], int]]] = {}  # (type, class): node set, variable
        self.filled: list[list[tuple[tuple[int, ...], int]]] = []  # by type: pattern, variable
        self.singly: dict[int, list[list[int]]] = {}  # by type without patterns: for every node a variable by class
        self.types = self._types()
        self._packing()
        self._limits()

    # pods on nodes ----------------------------------------------------------------------------------------------------

    def _types(self) -> list[NodeType]:
        most: Counter[int] = Counter()
        for leaf in subtree(self.requirement):
            for pod_class, length in leaf.pods:
                most[pod_class] += length
        node_sets = {
            pod_class: [self.node_sets[key] for kind, key in self.demands if kind == pod_class] for pod_class in most
        }
        return find_types(self.search.base, most, node_sets, self.search.budget)

    def _packing(self) -> None:
        """Add rows for pods on nodes: by class, node set and node type, within the chosen patterns."""
        here: dict[Key, Terms] = {key: [] for key in self.demands}
        self.search.budget.begin(sum(map(self._cost, self.types)) // COEFFICIENTS)
        for number, node_type in enumerate(self.types):
            held = self._by_pattern(node_type) if node_type.patterns else self._by_node(number, node_type)
            for i, pod_class in enumerate(node_type.pod_classes):
                available = sum(int(fits) for fits in self.search.base.fits(pod_class)[list(node_type.nodes)])
                taken = [
                    (key, self.model.add_variable(available))
                    for key in node_type.node_sets
                    if (pod_class, key) in self.demands
                ]
                self.taken[number, pod_class] = taken
                for key, variable in taken:
                    here[pod_class, key].append((variable, 1))
                self.model.add_row([*((variable, 1) for _, variable in taken), *held[i]], most=0)
        for wanted, terms in here.items():
            self.model.add_row([*terms, *((variable, -value) for variable, value in self.demands[wanted])], 0, 0)

    def _cost(self, node_type: NodeType) -> int:
        """About how many coefficients a node type adds to the program."""
        return (len(node_type.patterns) or 3 * len(node_type.nodes)) * (len(node_type.pod_classes) + 1)

    def _by_pattern(self, node_type: NodeType) -> list[Terms]:
        """Add variables for how many nodes have which pattern; returns, by class, the negated terms of their pods."""
        patterns = [(pattern, self.model.add_variable(len(node_type.nodes))) for pattern in node_type.patterns]
        self.filled.append(patterns)
        self.model.add_row([(variable, 1) for _, variable in patterns], most=len(node_type.nodes))
        return [[(variable, -pattern[i]) for pattern, variable in patterns] for i in range(len(node_type.pod_classes))]

    def _by_node(self, number: int, node_type: NodeType) -> list[Terms]:
        """Add variables for how many pods of a class are on every node, limited by its free capacity."""
        base = self.search.base
        self.filled.append([])
        fits = [base.fits(pod_class)[list(node_type.nodes)].tolist() for pod_class in node_type.pod_classes]
        requests = np.array([base.pod_classes.requests[pod_class] for pod_class in node_type.pod_classes])
        columns = np.flatnonzero(requests.any(axis=0)).tolist()
        units = {column: int(np.gcd.reduce(requests[:, column])) for column in columns}
        self.singly[number] = []
        for at, node in enumerate(node_type.nodes):
            variables = [self.model.add_variable(fits[i][at]) for i in range(len(node_type.pod_classes))]
            self.singly[number].append(variables)
            for column in columns:
                terms = [(v, int(ask) // units[column]) for v, ask in zip(variables, requests[:, column], strict=True)]
                if max(value for _, value in terms) > EXACT_ENOUGH:
                    raise OutOfSteps
                self.model.add_row(terms, most=int(base.free[node, column]) // units[column])
        return [[(variables[i], -1) for variables in self.singly[number]] for i in range(len(node_type.pod_classes))]

    def _limits(self) -> None:
        """Limit the requests of all pods together (Q4)."""
        allowance = self.search.allowance
        if allowance is None:
            return
        requests = self.search.base.pod_classes.requests
        for column in np.flatnonzero(
            np.any([requests[pod_class] for pod_class in self.search.pod_classes], axis=0)
        ).tolist():
            unit = int(np.gcd.reduce([int(requests[pod_class][column]) for pod_class in self.search.pod_classes]))
            terms = [
                (variable, value * int(requests[pod_class][column]) // unit)
                for (pod_class, _), demand_terms in self.demands.items()
                for variable, value in demand_terms
            ]
            self.model.add_row(terms, most=int(allowance[column]) // unit)

    # the solution -----------------------------------------------------------------------------------------------------

    def state(self) -> "SearchState | None":
        """The placement as a state of the search."""
        solution = self.model.solve(self.search.budget)
        if solution is None:
            return None
        solution = self._preferred(solution)
        demands = self._name_groups(solution)
        packed = self._assign_nodes(solution, demands)
        return self.search.with_exact_assignments(demands, packed)

    def _preferred(self, solution: Solution) -> Solution:
        """Move to the first choice in the order of M3 and M4, within the budget: each preference becomes a row."""
        try:
            for requirement in subtree(self.requirement):
                offered = len(requirement.children) or sum(length for _, length in requirement.pods)
                if self.many[requirement.kind] == 1 and 0 < requirement.need < offered:
                    solution = self._first_choice(requirement, solution)
        except OutOfSteps:
            pass
        return solution

    def _first_choice(self, requirement: Requirement, solution: Solution) -> Solution:
        """Use as many as possible of the first children, or pods, then of the next."""
        group_domains = [
            group_domain
            for (kind, _), choices in self.group_domains.items()
            if kind == requirement.kind
            for group_domain in choices
        ]
        included: Counter[int] = Counter()
        closed: set[int] = set()
        for item, length in [(child.kind, 1) for child in requirement.children] or list(requirement.pods):
            wanted = min(length, requirement.need - included.total())
            if item in closed or not wanted:
                continue
            terms = [term for group_domain in group_domains for term in group_domain.uses[item]]
            least, solution = self._most(terms, included[item], included[item] + wanted, solution)
            if least < included[item] + wanted:
                closed.add(item)
            included[item] = least
        return solution

    def _most(self, terms: Terms, low: int, high: int, solution: Solution) -> tuple[int, Solution]:
        """The largest value of a sum up to a bound, and a solution with it; a row requires it from here on."""
        low = max(low, min(_value(terms, solution), high))
        while low < high:
            middle = high if high - low == 1 or low == 0 else (low + high + 1) // 2
            wished = self.model.copy()
            wished.add_row(terms, least=middle)
            better = wished.solve(self.search.budget)
            if better is None:
                high = middle - 1
            else:
                solution = better
                low = min(_value(terms, solution), high)
        self.model.add_row(terms, least=low)
        return low, solution

    def _name_groups(self, solution: Solution) -> tuple[Demand, ...]:
        """Turn counts into demands of groups by name, from the root down."""
        arrived: dict[int, dict[tuple[int, ...], list[Requirement]]] = {kind: {} for kind in self.kinds}
        arrived[self.requirement.kind][self.search.domains.everywhere.key] = [self.requirement]
        demands: list[Demand] = []
        for kind in self._parents_first():
            for enclosing, requirements in arrived[kind].items():
                for group_domain in self.group_domains[kind, enclosing]:
                    here, requirements = (
                        requirements[: solution.values[group_domain.met]],
                        requirements[solution.values[group_domain.met] :],
                    )
                    for child in self._inside(here, group_domain, solution, demands) if here else ():
                        arrived[child.kind].setdefault(group_domain.node_set.key, []).append(child)
        return tuple(demands)

    def _parents_first(self) -> list[int]:
        """Kinds in an order where parents come before their children."""
        height: dict[int, int] = {}
        for part in reversed(list(subtree(self.requirement))):
            height[part.kind] = max((height[child.kind] + 1 for child in part.children), default=0)
        return sorted(height, key=lambda kind: -height[kind])

    def _inside(
        self, requirements: list[Requirement], group_domain: GroupDomain, solution: Solution, demands: list[Demand]
    ) -> Iterator[Requirement]:
        """The chosen children of requirements that are met in one node set; pods of leaves become demands."""
        used = {item: _value(terms, solution) for item, terms in group_domain.uses.items()}
        offered = Counter(child.kind for child in requirements[0].children) or Counter(
            count_by_class(requirements[0].pods)
        )
        for requirement, counts in zip(
            requirements, _shared_out(used, offered, len(requirements), requirements[0].need), strict=True
        ):
            if requirement.is_leaf:
                leaf = self.search.leaf_index(requirement.name)
                demands += [
                    Demand(leaf, pod_class, count, group_domain.node_set)
                    for pod_class, count in counts.items()
                    if count
                ]
            for child in requirement.children:
                if counts[child.kind] > 0:
                    counts[child.kind] -= 1
                    yield child

    def _assign_nodes(self, solution: Solution, demands: Sequence[Demand]) -> Assignments:
        """Assign patterns to the nodes of their type in order, then the pods of each pattern to demands."""
        kinds: dict[Key, list[int]] = {}
        for i, demand in enumerate(demands):
            kinds.setdefault((demand.pod_class, demand.node_set.key), []).append(i)
        number = {key: i for i, key in enumerate(kinds)}
        placed: list[tuple[int, int, int]] = []
        for at, node_type in enumerate(self.types):
            chosen = [p for p, variable in self.filled[at] for _ in range(solution.values[variable])]
            chosen += [tuple(solution.values[v] for v in variables) for variables in self.singly.get(at, ())]
            for i, pod_class in enumerate(node_type.pod_classes):
                left = {key: solution.values[variable] for key, variable in self.taken[at, pod_class]}
                for node, pattern in zip(node_type.nodes, chosen, strict=False):
                    available = pattern[i]
                    for key in left:
                        taken = min(available, left[key])
                        if taken:
                            placed.append((node, number[pod_class, key], taken))
                        available, left[key] = available - taken, left[key] - taken
        return share_out(placed, list(kinds.values()), demands)


def _value(terms: Terms, solution: Solution) -> int:
    return sum(value * solution.values[variable] for variable, value in terms)


def _shared_out(used: dict[int, int], offered: Counter[int], requirements: int, need: int) -> Iterator[Counter[int]]:
    """Split what equal requirements use in all: to each no more than it is offered, and at least what it needs.

    An equal fractional split exists, so an integer one does, too. Each requirement in order takes what the rest cannot
    use, then fills up to its need.
    """
    left = dict(used)
    for rest in range(requirements - 1, -1, -1):
        portion = Counter({item: max(count - offered[item] * rest, 0) for item, count in left.items()})
        short = max(need, sum(left.values()) - sum(offered.values()) * rest) - portion.total()
        for item, count in left.items():
            more = max(min(offered[item] - portion[item], count - portion[item], short), 0)
            portion[item] += more
            short -= more
        for item, count in portion.items():
            left[item] -= count
        yield portion
