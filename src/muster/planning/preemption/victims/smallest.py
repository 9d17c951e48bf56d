"""The smallest set of units as one integer program (decision 0018): the exact tier for victims.

A 0/1 variable for every unit, pods of the gang by class, region and node, and capacity rows for every node with what
the chosen units free. Each kind of eviction adds rows: budgets, limits, fair shares, new places of pods that move. What
the program leaves out (levels of moved gangs, quotas of semi-preemptible cores) is checked on its solution; solutions
that fail are cut off.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from muster.placement.budget import OutOfSteps
from muster.placement.exact.integer_program import Groups
from muster.placement.exact.solver import BEGIN, Solution, Term
from muster.placement.requirements.tree import pod_classes
from muster.placement.requirements.types import Requirement
from muster.placement.search.nested_search import Search
from muster.planning.disturbance import Proof
from muster.planning.preemption.candidates import Units
from muster.planning.preemption.victims.question import Question

Ints = NDArray[np.int64]
Terms = list[Term]
LARGEST_PROGRAM = 20_000  # coefficients; half as many have taken seconds


def smallest(question: Question, known: Units | None) -> tuple[Units | None, Proof]:
    """The smallest set; None: there is none. `known`: a set that is enough. OutOfSteps: unknown."""
    if any(
        pod_class in question.cycle_state.later.inter_pod.touched for pod_class in pod_classes(question.requirement)
    ):
        raise OutOfSteps  # inter-pod rules are not part of the program
    search = question.cycle_state.search(question.capacity_without(question.all))
    requirement = search.domains.bounds.prune(question.requirement, search.kinds)
    if requirement is None:
        return None, "exact"
    program = VictimProgram(question, search, requirement)
    if known is not None:
        program.add_row(
            [(program.leaves[n], len(question.candidates.units[n].pods)) for n in question.all],
            most=question.candidates.count(known),
        )
    while True:  # every round costs steps
        solution = program.model.solve(question.cycle_state.gang_budget)
        if solution is None:
            return known, "exact"
        units = program.chosen(solution)
        if question.is_enough(units):
            return units, "exact" if solution.is_proven else "irreducible"
        program.cut_off(units, needs_more=question.could_fit(units) is False)


class VictimProgram(Groups):
    """One question as a program."""

    def __init__(self, question: Question, search: Search, requirement: Requirement) -> None:
        super().__init__(search, requirement)
        self.question, self.candidates = question, question.candidates
        self.rules = question.rules
        self._check_size()
        self.leaves = {number: self.model.add_variable(1, cost) for number, cost in self._costs()}
        self._under = self._units_by_queue()
        self._gone: dict[tuple[str, str], Terms] = {}
        self.on_node: dict[
            int, list[tuple[int, int]]
        ] = {}  # by node: class and variable of pods that may be placed there
        self._evict_together()
        self._assign_nodes()
        self.rules.add_rows(self)
        self._fit()

    def _check_size(self) -> None:
        """Raise OutOfSteps for a program that is too large to build and solve in time."""
        nodes = [self.node_sets[key].nodes for _, key in self.demands]
        fits = [self.search.base.fits(pod_class) for pod_class, _ in self.demands]
        assignment = sum(int(np.count_nonzero(row[inside])) for row, inside in zip(fits, nodes, strict=True))
        least = assignment * (1 + BEGIN) + self.candidates.count(self.question.all)
        if assignment > LARGEST_PROGRAM or least > self.question.cycle_state.gang_budget.left:
            raise OutOfSteps

    def _costs(self) -> Iterator[tuple[int, int]]:
        """Fewest pods, then lower priorities."""
        numbers = sorted(self.question.all)
        levels, priority = np.unique(self.candidates.priority[numbers], return_inverse=True)
        one_pod = len(numbers) * len(levels) + 1
        for number, level in zip(numbers, priority.tolist(), strict=True):
            yield number, len(self.candidates.units[number].pods) * one_pod + level

    def chosen(self, solution: Solution) -> Units:
        """The units that the solution evicts."""
        return frozenset(number for number, variable in self.leaves.items() if solution.values[variable])

    def cut_off(self, units: Units, needs_more: bool) -> None:
        """Exclude this set; `needs_more`: and every subset of it."""
        others = [(variable, 1) for number, variable in self.leaves.items() if number not in units]
        chosen = [] if needs_more else [(self.leaves[number], -1) for number in units]
        self.model.add_row([*others, *chosen], least=1 - len(chosen))

    def add_row(self, terms: Iterable[Term], most: int) -> None:
        """A sum within a bound; divided by the common divisor of its coefficients."""
        summed = _summed(terms)
        self._pay(len(summed))
        unit = gcd(*(value for _, value in summed)) or 1
        self.model.add_row([(variable, value // unit) for variable, value in summed], most=most // unit)

    def add_equation(self, left: Terms, right: Terms) -> None:
        """Two equal sums."""
        self._pay(len(left) + len(right))
        self.model.add_row(_summed([*left, *((variable, -value) for variable, value in right)]), 0, 0)

    def add_link(self, terms: Terms, most: int) -> None:
        """A sum of a few variables that stays within a bound."""
        self._pay(len(terms))
        self.model.add_row(terms, most=most)

    def _pay(self, terms: int) -> None:
        """Charge the steps of building the program; OutOfSteps where it grows too large."""
        self.question.cycle_state.gang_budget.spend(1 + terms)
        if self.model.size > LARGEST_PROGRAM:
            raise OutOfSteps

    # sums -------------------------------------------------------------------------------------------------------------

    def requested(self, column: int) -> Terms:
        """What the gang's new pods take of a column."""
        asks = self.search.base.pod_classes.requests
        return [
            (variable, value * int(asks[pod_class][column]))
            for (pod_class, _), terms in self.demands.items()
            for variable, value in terms
        ]

    def max_requested(self, column: int) -> int:
        """An upper bound on what any solution takes of a column."""
        return sum(max(value, 0) * self.model.upper[variable] for variable, value in self.requested(column))

    def gone(self, resource: str, queue: str) -> Terms:
        """What evicted units free of a resource, in one queue and those below it."""
        if (resource, queue) not in self._gone:
            held = ((number, self.candidates.held_by(number).get(resource, 0)) for number in self.under(queue))
            self._gone[resource, queue] = [(self.leaves[number], amount) for number, amount in held if amount]
        return self._gone[resource, queue]

    def under(self, queue: str) -> Sequence[int]:
        """Units of gangs in a queue or below it."""
        return self._under.get(queue, ())

    def _units_by_queue(self) -> dict[str, list[int]]:
        by_queue: dict[str, list[int]] = {}
        tree = self.rules.usage.tree
        for number in self.leaves:
            own = self.candidates.units[number].gang.queue
            for node in tree.path(own) if own in tree.nodes else ():
                by_queue.setdefault(node.name, []).append(number)
        return by_queue

    # rows -------------------------------------------------------------------------------------------------------------

    def _evict_together(self) -> None:
        for number, variable in self.leaves.items():
            for inner in self.candidates.units[number].inside:
                if inner in self.leaves:
                    self.add_link([(variable, 1), (self.leaves[inner], -1)], most=0)

    def _assign_nodes(self) -> None:
        """As many pods of a class on nodes of a region as the groups there need."""
        for (pod_class, key), wanted in self.demands.items():
            fits = self.search.base.fits(pod_class)
            taken: Terms = []
            for node in self.node_sets[key].nodes[fits[self.node_sets[key].nodes] > 0].tolist():
                taken.append((self.add_pods(node, pod_class, int(fits[node])), 1))
            self.add_equation(taken, wanted)

    def add_pods(self, node: int, pod_class: int, most: int) -> int:
        """A variable: how many pods of a class are placed on a node."""
        variable = self.model.add_variable(most)
        self.on_node.setdefault(node, []).append((pod_class, variable))
        return variable

    def _fit(self) -> None:
        """On every node, no more than is free without the chosen units."""
        later, pod_classes_ = self.question.cycle_state.later, self.search.base.pod_classes
        freed = self._freed_by_node()
        for node, pods in self.on_node.items():
            asks = np.array([pod_classes_.requests[pod_class] for pod_class, _ in pods])
            most = np.array([self.model.upper[variable] for _, variable in pods])
            for column in np.flatnonzero((asks * most[:, None]).sum(axis=0) > later.free[node]).tolist():
                terms = [(variable, int(ask)) for (_, variable), ask in zip(pods, asks[:, column], strict=True)]
                terms += [(self.leaves[number], -int(row[column])) for number, row in freed.get(node, {}).items()]
                self.add_row(terms, int(later.free[node, column]))

    def _freed_by_node(self) -> dict[int, dict[int, Ints]]:
        candidates = self.candidates
        by_node: dict[int, dict[int, Ints]] = {}
        self._pay(candidates.count(self.question.all))
        for row in np.flatnonzero(candidates.rows(self.question.all)).tolist():
            here = by_node.setdefault(int(candidates.pod_node[row]), {})
            number, amounts = int(candidates.pod_unit[row]), candidates.asks[candidates.pod_class[row]]
            here[number] = here[number] + amounts if number in here else amounts
        return by_node


def _summed(terms: Iterable[Term]) -> Terms:
    """Every variable once."""
    summed: Counter[int] = Counter()
    for variable, value in terms:
        summed[variable] += value
    return list(summed.items())
