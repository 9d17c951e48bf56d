"""Assigns pods to nodes under inter-pod rules: by construction first, then by exact search."""

from collections.abc import Sequence

from msgspec.structs import replace

from muster.model.inter_pod_rules import Rule
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.inter_pod.constrained_packing import ConstrainedPacking
from muster.placement.inter_pod.constructive import construct
from muster.placement.packing.packing import Assignments, Demand, is_possible

SHARE = 2  # construction may spend 1/SHARE of the steps that are left


def assign_nodes(
    capacity: Capacity, demands: Sequence[Demand], numbers: Sequence[int], budget: Budget, slack: int = 1
) -> Assignments | None:
    """An assignment of all demands that keeps these rules; None: none exists. OutOfSteps: unknown.

    `slack`: a factor for the skew of soft spreads.
    """
    try:
        assignments = construct(capacity, demands, _rules(capacity, numbers, slack), budget.part(budget.left // SHARE))
    except OutOfSteps:
        if not budget.left:
            raise
        assignments = None
    if assignments is not None:
        return assignments
    if not is_possible(capacity, demands, budget):
        return None
    return ConstrainedPacking(capacity, demands, _rules(capacity, numbers, slack), budget).assign_nodes()


def assign_nodes_quickly(
    capacity: Capacity, demands: Sequence[Demand], numbers: Sequence[int], budget: Budget
) -> Assignments | None:
    """An assignment by construction alone; None: not found."""
    return construct(capacity, demands, _rules(capacity, numbers), budget)


def _rules(capacity: Capacity, numbers: Sequence[int], slack: int = 1) -> dict[int, Rule]:
    rules = {number: capacity.inter_pod.rules[number] for number in numbers}
    return rules | {n: replace(rule, skew=rule.skew * slack) for n, rule in rules.items() if not rule.firm}
