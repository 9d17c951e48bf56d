"""The choice of victims, in tiers, each paid from the budget of the gang (P6, X7, decision 0018).

(a) Bounds and one search without any candidate: if that fails, nothing helps. (b) A greedy set by eviction cost,
reduced until no unit can be left out. (c) The smallest set: a bound that the greedy set meets, a search over sets where
units are few, or an integer program.
"""

from collections.abc import Iterator
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from muster.placement.budget import Budget, OutOfSteps
from muster.placement.search.search_state import PodsOnNode
from muster.planning.disturbance import Proof
from muster.planning.preemption.candidates import Units
from muster.planning.preemption.victims.greedy import cheapest_assignment, greedy_set, reduced, units_in_the_way
from muster.planning.preemption.victims.question import Question, Selection
from muster.planning.preemption.victims.smallest import smallest

Ints = NDArray[np.int64]
SOME = 256  # units that are checked at once
SETS_STEPS = 600  # that a search over sets may take before the integer program takes over
BETTER_STEPS = 5_000  # for a smaller set than the greedy one where units are many
MANY = 256  # units above which the search for a smaller set is limited to BETTER_STEPS
FEW = 64  # units that a search over sets can go through
NEIGHBOURHOODS = 4  # sets of units whose moving is tried for one gang on a large cluster
NEIGHBOURHOOD_STEPS = 1_000  # that one of them may cost


def select(question: Question, exact_steps: int, better: Budget) -> Selection | None:
    """The set of victims; None: no set is enough, or none is allowed. OutOfSteps: unknown.

    `better`: the steps that the cycle has left for smaller sets than known ones (X7).
    """
    if (single := _single_pod(question)) is not None:
        return single
    if not question.all or question.fewest > question.rules.most_pods or not question.could_fit(question.all):
        return None
    greedy = greedy_set(question, question.all)
    if greedy is not None:
        exact_steps = min(exact_steps, better.left, BETTER_STEPS if len(question.numbers) > MANY else exact_steps)
    whole = question.cycle_state.gang_budget
    question.cycle_state.gang_budget = part = whole.part(exact_steps)
    try:
        units, proof = _smallest(question, greedy)
    finally:
        question.cycle_state.gang_budget = whole
        better.charge(0 if greedy is None else part.spent)
    if units is not None and proof == "irreducible":
        units = reduced(question, units)
    return None if units is None else question.selection(units, proof)


def _smallest(question: Question, greedy: Units | None) -> tuple[Units | None, Proof]:
    """The smallest set by the cheapest method that proves it; else the greedy one. OutOfSteps: there is none."""
    if len(question.numbers) <= FEW and not (greedy is None and question.rules.reason == "Consolidate"):
        units, proof = _by_search(question, greedy)
        if proof == "exact":
            return units, proof
        greedy = units
    elif greedy is not None and question.candidates.count(greedy) <= question.fewest:
        return greedy, "exact"
    try:
        return smallest(question, greedy)
    except OutOfSteps:
        if greedy is None:
            raise
        return greedy, "irreducible"


def _by_search(question: Question, greedy: Units | None) -> tuple[Units | None, Proof]:
    """A search over sets within a small part of the steps: it respects the whole eviction order."""
    whole = question.cycle_state.gang_budget
    try:
        question.cycle_state.gang_budget = whole.part(SETS_STEPS)
        return smallest_set(question, greedy)
    except OutOfSteps:
        return None, "irreducible"
    finally:
        question.cycle_state.gang_budget = whole


def select_nearby(question: Question, exact_steps: int, better: Budget, nearby: Budget) -> Selection | None:
    """The same for moves (P8): all sets where units are few, else a few neighbourhoods, cheapest first.

    None: no moves within P8 would do. OutOfSteps: unknown, as after neighbourhoods of which none would do.
    `nearby`: what the cycle has left for neighbourhoods (X7).
    """
    if not question.all or not question.rules.could_help(question):
        return None
    if len(question.numbers) <= FEW:
        return select(question, exact_steps, better)
    if not nearby.left:
        raise OutOfSteps
    whole = question.cycle_state.gang_budget
    question.cycle_state.gang_budget = part = whole.part(nearby.left)
    try:
        return _nearby(question)
    finally:
        question.cycle_state.gang_budget = whole
        nearby.charge(part.spent)


def _nearby(question: Question) -> Selection | None:
    if (single := _single_pod(question)) is not None:
        return single
    if question.fewest > question.rules.most_pods or not question.could_fit(question.all):
        return None
    for units in takewhile(question.rules.is_cheap, _neighbourhoods(question)):
        if (selection := _move(question, units)) is not None:
            return selection
    raise OutOfSteps


def _neighbourhoods(question: Question) -> Iterator[Units]:
    """The units that occupy the cheapest places, then those of the cheapest places without them, and so on."""
    among = question.rules.movable_now(question.all)
    for _ in range(NEIGHBOURHOODS):
        assignment = cheapest_assignment(question, among) if among else None
        units = None if assignment is None else units_in_the_way(question, assignment, among)
        if not units:
            return
        yield units
        among -= units


def _move(question: Question, units: Units) -> Selection | None:
    """Move these units, or some of them, if few steps find how. OutOfSteps: the gang has none left."""
    whole = question.cycle_state.gang_budget
    try:
        question.cycle_state.gang_budget = whole.part(NEIGHBOURHOOD_STEPS)
        return question.selection(reduced(question, units), "irreducible") if question.is_enough(units) else None
    except OutOfSteps:
        whole.spend(0)  # raises where the gang's own budget ran out
        return None
    finally:
        question.cycle_state.gang_budget = whole


# a single pod ---------------------------------------------------------------------------------------------------------


def _single_pod(question: Question) -> Selection | None:
    """For a requirement of one pod without levels: a single victim, if one is enough."""
    requirement, candidates = question.requirement, question.candidates
    if (
        not requirement.is_leaf
        or requirement.need > 1
        or len(requirement.pods) > 1
        or requirement.required
        or requirement.preferred
    ):
        return None
    pod_class = requirement.pods[0][0]
    if pod_class in question.cycle_state.later.inter_pod.touched:
        return None
    mask = question.mask & (candidates.only_node >= 0) & (candidates.total_pods == 1) & candidates.remaining
    mask &= question.rules.movable_single_pods(mask)
    order = candidates.eviction_order[mask[candidates.eviction_order]]
    for start in range(0, len(order), SOME):
        for number in _single_victims(question, pod_class, order[start : start + SOME]):
            units = candidates.whole([number])
            assignment = (PodsOnNode(requirement.name, pod_class, int(candidates.only_node[number]), 1),)
            question.cycle_state.gang_budget.spend()
            if question.rules.allows(units, question.cycle_state.requested(assignment)) and question.rules.is_within(
                units, assignment
            ):
                settled = question.rules.confirm(units, assignment)
                if settled is not None:
                    return Selection(units, settled, "exact")
    return None


def _single_victims(question: Question, pod_class: int, numbers: Ints) -> list[int]:
    """Units each of whose eviction lets a pod of a class fit on its node."""
    cycle_state, candidates, capacity = question.cycle_state, question.candidates, question.cycle_state.later
    columns, nodes = cycle_state.pod_classes.columns[pod_class], candidates.only_node[numbers]
    free = capacity.free[np.ix_(nodes, columns)] + candidates.freed[np.ix_(numbers, columns)]
    good = (free >= cycle_state.pod_classes.requests[pod_class][columns]).all(axis=1) & capacity.allowed(pod_class)[
        nodes
    ]
    fitting: list[int] = numbers[good].tolist()
    return fitting


# the smallest set -----------------------------------------------------------------------------------------------------


def smallest_set(question: Question, greedy: Units | None) -> tuple[Units | None, Proof]:
    """The first of the smallest sets, or the best that was found before the steps ran out. OutOfSteps: none was."""
    best = [greedy] if greedy is not None else []
    try:
        best.extend(_smaller_and_smaller(question, greedy))
    except OutOfSteps:
        if not best:
            raise
        return best[-1], "irreducible"
    return (best[-1] if best else None), "exact"


def _smaller_and_smaller(question: Question, greedy: Units | None) -> Iterator[Units]:
    """Depth first over sets: the last in eviction order stays if the rest could still be enough."""
    candidates = question.candidates
    least = candidates.count(greedy) + 1 if greedy is not None else question.rules.most_pods + 1
    order = candidates.by_retention(question.numbers)
    equivalence = {n: _equivalence(question, n) for n in question.all}
    ahead: list[tuple[Units, Units]] = [(frozenset(), question.all)]
    while ahead:
        gone, undecided = ahead.pop()
        if candidates.count(gone) >= least or not question.could_fit(gone | undecided):
            continue
        if question.is_enough(gone):
            least = candidates.count(gone)
            yield gone
            continue
        number = next((n for n in order if n in undecided), None)
        if number is None:
            continue
        around = [outer for outer in candidates.units[number].around if outer in undecided]
        alike = [
            n for n in undecided if equivalence[n] == equivalence[number]
        ]  # they are evicted before it, and free as much
        taken = candidates.whole([number, *alike])
        ahead.append((gone | taken, undecided - taken))
        ahead.append((gone, undecided - {number, *around}))


def _equivalence(question: Question, number: int) -> object:
    """A key that equal units share: one can be evicted instead of the other."""
    unit, cycle_state = question.candidates.units[number], question.cycle_state
    if unit.inside:
        return number
    pods = sorted(
        (
            node,
            cycle_state.pod_class(unit.gang, member.name),
            question.rules.equivalence(f"{unit.gang.namespace}/{member.name}"),
        )
        for (_, member), node in zip(unit.pods, unit.nodes, strict=True)
    )
    return (unit.gang.queue, unit.around, tuple(pods))
