"""A greedy set of victims by eviction cost, and its reduction until no unit can be left out (P6)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from muster.placement.budget import OutOfSteps
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.preemption.candidates import Candidates, Units
from muster.planning.preemption.victims.eviction_cost import CostCapacity
from muster.planning.preemption.victims.question import QUESTION_STEPS, Question

Ints = NDArray[np.int64]
Short = dict[int, Ints]  # by node and column: what the assignment still lacks there


def greedy_set(question: Question, among: Units) -> Units | None:
    """The units that occupy the cheapest places, if they are enough and allowed."""
    assignment = cheapest_assignment(question, among)
    units = None if assignment is None else units_in_the_way(question, assignment, among)
    return units if units is not None and question.is_enough(units) else None


def cheapest_assignment(question: Question, among: Units) -> tuple[PodsOnNode, ...] | None:
    """The assignment of lowest eviction cost without some units; None: there is none."""
    question.cycle_state.gang_budget.spend(QUESTION_STEPS + question.candidates.pass_steps)
    capacity = CostCapacity(question.cycle_state.later, question.capacity_without(among), question.candidates, among)
    search = question.cycle_state.search(capacity, allowance=question.rules.max_allowance(among))
    state = search.first(question.requirement)
    return None if state is None else search.pods_on_nodes(state)


def units_in_the_way(question: Question, assignment: Iterable[PodsOnNode], among: Units) -> Units | None:
    """Units on the nodes of an assignment, until it fits; for this assignment none of them can be left out."""
    candidates = question.candidates
    short = _lacking(question.cycle_state, assignment)
    rows = np.flatnonzero(candidates.rows(among) & np.isin(candidates.pod_node, list(short)))
    there: dict[int, dict[int, None]] = {}
    for number, node in zip(candidates.pod_unit[rows].tolist(), candidates.pod_node[rows].tolist(), strict=True):
        there.setdefault(node, {})[number] = None
    gone: set[int] = set()
    for node in sorted(short):
        for number in _most_useful_first(candidates, list(there.get(node, ())), short[node], node):
            if (short[node] <= 0).all():
                break
            if number not in gone:
                for part in candidates.whole([number]) - gone:
                    _count(candidates, part, short, 1)
                    gone.add(part)
        if (short[node] > 0).any():
            return None
    return _without_needless(candidates, gone, short)


def _lacking(cycle_state: CycleState, assignment: Iterable[PodsOnNode]) -> Short:
    short: Short = {}
    for assigned in assignment:
        row = short.setdefault(assigned.node, -cycle_state.later.free[assigned.node])
        short[assigned.node] = row + cycle_state.pod_classes.requests[assigned.pod_class] * assigned.pods
    return short


def _most_useful_first(candidates: Candidates, numbers: list[int], short: Ints, node: int) -> list[int]:
    """Units that free most of what is short there, for the fewest pods; then in eviction order."""
    lacking = np.flatnonzero(short > 0)
    if not len(lacking):
        return []

    def key(number: int) -> tuple[float, int, int]:
        freed = sum(candidates.freed_on(unit, node) for unit in candidates.whole([number]))
        part = float(np.minimum(np.asarray(freed)[lacking] / short[lacking], 1).sum())
        pods = int(candidates.total_pods[number])
        return (-part / max(pods, 1), pods, int(candidates.rank[number]))

    return sorted(numbers, key=key)


def _count(candidates: Candidates, number: int, short: Short, sign: int) -> None:
    """Count a unit as evicted, or with `sign=-1` as staying, in what is short on its nodes."""
    for node in dict.fromkeys(candidates.units[number].nodes):
        if node in short:
            short[node] = short[node] - sign * candidates.freed_on(number, node)


def _without_needless(candidates: Candidates, gone: set[int], short: Short) -> Units:
    """Without units that the assignment does not need, the last to be evicted first."""
    for number in candidates.by_retention(gone):
        if any(outer in gone for outer in candidates.units[number].around):
            continue
        _count(candidates, number, short, -1)
        nodes = (node for node in dict.fromkeys(candidates.units[number].nodes) if node in short)
        if any((short[node] > 0).any() for node in nodes):
            _count(candidates, number, short, 1)
        else:
            gone.discard(number)
    return frozenset(gone)


def reduced(question: Question, units: Units) -> Units:
    """Drop one unit after the other while the rest is enough, the last to be evicted first, as far as steps allow."""
    candidates = question.candidates
    try:
        for number in candidates.by_retention(units):
            if not any(outer in units for outer in candidates.units[number].around):
                fewer = units - {number}
                units = fewer if question.is_enough(fewer) else units
    except OutOfSteps:
        pass
    return units
