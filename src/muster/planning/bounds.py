"""Bounds that are checked before any search."""

from muster.placement.capacity import Capacity
from muster.placement.requirements.tree import count_by_class
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat


def could_fit_by_counts(requirement: Requirement, capacity: Capacity, known: dict[int, bool] | None = None) -> bool:
    """Whether every group by itself fits by counts of pods per node: an upper bound.

    `known` caches the answers by kind, as long as `capacity` does not change.
    """
    if requirement.required is None and flat.applies(capacity, requirement):
        flattened = flat.flatten(requirement)
        return capacity.fit_index(flattened.pods[0][0]).total >= flattened.need
    known = {} if known is None else known
    ahead, unknown = [requirement], []
    while ahead:
        part = ahead.pop()
        if part.kind not in known:
            unknown.append(part)
            ahead += part.children
    totals: dict[int, int] = {}  # by class
    for part in reversed(unknown):
        if part.is_leaf:
            offered = count_by_class(part.pods)
            for pod_class in offered.keys() - totals.keys():
                totals[pod_class] = int(capacity.fits(pod_class).sum())
            known[part.kind] = sum(min(totals[pod_class], most) for pod_class, most in offered.items()) >= part.need
        else:
            known[part.kind] = sum(known[child.kind] for child in part.children) >= part.need
    return known[requirement.kind]
