"""Preferred levels (T2): repeats the search, each time with one more preference as a requirement.

Groups nearer to the root come first. A preference never makes the result `unknown`: where the budget ends, the best
placement so far stands.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import Level
from muster.placement.budget import OutOfSteps
from muster.placement.inter_pod.node_assignment import assign_nodes
from muster.placement.requirements.tree import leaves, size, subtree
from muster.placement.requirements.types import RequiredLevel, Requirement
from muster.placement.search.growth import Placement, grow
from muster.placement.search.nested_search import Search
from muster.placement.search.search_state import PodsOnNode, SearchState

Ints = NDArray[np.int64]


def find(search: Search, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
    """A placement; None: there is none. OutOfSteps: unknown.

    The best by preference: preferred levels as tight as possible (T2), then the first children that fit (M3).
    """
    state = search.first(requirement)
    if state is None:
        return None
    preferring = _Preferring(search)
    return search.pods_on_nodes(preferring.spread(preferring.best(requirement, state)[1]))


def find_with_growth(search: Search, requirement: Requirement) -> Placement | None:
    """The same, and of these one after which most of the gang's own extras still fit (X4)."""
    state = search.first(requirement)
    if state is None:
        return None
    preferring = _Preferring(search)
    held, state = preferring.best(requirement, state)
    if search.base.inter_pod.among(search.pod_classes, wishes=True):
        return Placement(search.pods_on_nodes(preferring.spread(state)))
    return grow(search, held, state)


class _Preferring:
    """Applies preferences to one search."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def best(self, requirement: Requirement, state: SearchState) -> tuple[Requirement, SearchState]:
        """Tighten every preferred level, nearest to the root first; returns the tightened requirement and its state."""
        best = [state]
        try:
            for name in [part.name for part in subtree(requirement) if part.preferred is not None]:
                requirement = self._tighten(requirement, name, best)
        except OutOfSteps:
            pass
        return requirement, best[-1]

    def _tighten(self, requirement: Requirement, name: str, best: list[SearchState]) -> Requirement:
        """Require the preferred level, else the tightest feasible coarser one, in the fewest preferred domains."""
        group = next(part for part in subtree(requirement) if part.name == name)
        preferred, required = group.preferred, group.required
        assert preferred is not None
        floor = required.level if required is not None and required.topology == preferred.topology else -1
        for level in range(preferred.level, floor, -1):
            if preferred.placed and len(preferred.path) <= level:
                continue  # the placed pods share no domain of this level
            constraint = RequiredLevel(preferred.topology, level, preferred.path[level] if preferred.placed else None)
            tighter = self._replaced(requirement, name, tight=constraint)
            better = self.search.first(tighter)
            if better is not None:
                best.append(better)
                requirement = tighter
                break
        return self._fewest(requirement, name, best)

    def _fewest(self, requirement: Requirement, name: str, best: list[SearchState]) -> Requirement:
        """Limit the group to as few domains of the preferred level as possible; those of placed pods count.

        The limit stays in the requirement, so that no group further down undoes it; the domains may still change.
        """
        group = next(part for part in subtree(requirement) if part.name == name)
        assert group.preferred is not None
        level = self.search.domains.level(group.preferred)
        held = set(group.preferred.placed)
        used = self._used(group, best[-1], level.domain) | held
        for number in range(self._fewest_by_fits(group, level, held), len(used)):
            fewer = self._replaced(requirement, name, at_most=number)
            better = self.search.first(fewer)
            if better is not None:
                best.append(better)
                used = self._used(group, better, level.domain) | held
                break
        return self._replaced(requirement, name, at_most=len(used), first=tuple(sorted(used)))

    def _fewest_by_fits(self, group: Requirement, level: Level, held: set[int]) -> int:
        """The fewest domains in which enough pods fit by count, those of placed pods included: a lower bound."""
        fits = np.bincount(level.domain + 1, weights=self.search.domains.fits(group), minlength=len(level.paths) + 1)
        held_at = [domain + 1 for domain in held]
        others = -np.sort(-np.delete(fits, held_at))
        enough = np.searchsorted(np.cumsum(others), size(group) - fits[held_at].sum())
        return max(len(held) + int(enough) + int(fits[held_at].sum() < size(group)), 1)

    def _used(self, group: Requirement, state: SearchState, domain: Ints) -> set[int]:
        """The domains of a group's pods; nodes outside any domain count as one more."""
        names = {leaf.name for leaf in leaves(group)}
        return {
            int(domain[node])
            for demand, places in zip(state.demands, state.assignments, strict=True)
            if self.search.leaves[demand.leaf] in names
            for node, _ in places
        }

    def spread(self, state: SearchState) -> SearchState:
        """The same node sets, spread as evenly as `ScheduleAnyway` rules prefer; unchanged where infeasible."""
        wishes = self.search.base.inter_pod.among(self.search.pod_classes, wishes=True)
        slack = 1
        while len(wishes) > len(self.search.between) and slack <= sum(demand.count for demand in state.demands):
            part = self.search.budget.part(self.search.budget.left // 10)
            try:
                assignments = assign_nodes(self.search.base, state.demands, wishes, part, slack)
                spread = self.search.with_assignments(state, state.demands, assignments)
            except OutOfSteps:
                spread = None
            if spread is not None:
                return spread
            slack *= 2
        return state

    def _replaced(self, requirement: Requirement, name: str, **changes: Any) -> Requirement:
        """The requirement with changes to one group."""
        if requirement.name == name:
            return self.search.kinds.derive(requirement, **changes)
        if not any(part.name == name for part in subtree(requirement)):
            return requirement
        children = tuple(self._replaced(child, name, **changes) for child in requirement.children)
        return self.search.kinds.derive(requirement, children=children)
