"""Bounds for moves: totals that prove that no moves of pods could help a gang (P5, P8).

A pod that moves takes as much as it frees, so moves free nothing in total: what a gang requests must be free already,
on nodes that it or the moved pods can use; and where a group is held to a domain, free there or held there by pods that
may move. What these bounds exclude is impossible; what they do not exclude is open.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import Level
from muster.placement.bounds import least_requests_by_kind
from muster.placement.requirements.tree import pod_classes, subtree
from muster.placement.requirements.types import RequiredLevel, Requirement
from muster.planning.preemption.candidates import Mask
from muster.planning.preemption.victims.question import Question

Ints = NDArray[np.int64]


class MoveBounds:
    """The totals of one gang and of all units that may move for it."""

    def __init__(self, question: Question, most_moved: Mapping[int, int]) -> None:
        """`most_moved`: by column the most that may move, where there is such a bound (P8)."""
        self.cycle_state, self.most_moved = question.cycle_state, most_moved
        cycle_state, candidates, self.vacated = question.cycle_state, question.candidates, question.vacated
        self.free = np.maximum(cycle_state.later.free, 0)
        self.held = self.vacated.free - cycle_state.later.free  # by node: what pods that may move hold there
        self.moved = np.unique(candidates.pod_class[candidates.rows(question.all)]).tolist()

    def could_help(self, requirement: Requirement) -> bool:
        """Whether moves might let a requirement fit."""
        asks = least_requests_by_kind(requirement, self.cycle_state.pod_classes.requests)
        classes = {*self.moved, *pod_classes(requirement)}
        return self._has_total(classes, asks[requirement.kind]) and self._has_domains(requirement, asks)

    def _has_total(self, classes: Collection[int], asks: Ints) -> bool:
        """Whether enough is free on nodes that these classes can use."""
        columns = np.flatnonzero(asks).tolist()
        return all(self.free[self._usable(classes, column), column].sum() >= asks[column] for column in columns)

    def _usable(self, classes: Iterable[int], column: int) -> Mask:
        """Nodes where a pod of a class that requests a resource fits, or would without all pods that may move.

        Elsewhere that resource is of no use to any of them.
        """
        usable = np.zeros(len(self.free), dtype=bool)
        for pod_class in classes:
            if self.cycle_state.pod_classes.requests[pod_class][column]:
                usable |= self.vacated.fits(pod_class) > 0
        return usable

    def _has_domains(self, requirement: Requirement, asks: Mapping[int, Ints]) -> bool:
        """Whether as many groups as every branch needs have a domain each that could be cleared for it."""
        made: dict[int, bool] = {}
        for group in reversed(list(subtree(requirement))):
            if group.kind not in made:
                below = sum(made[child.kind] for child in group.children)
                made[group.kind] = (group.is_leaf or below >= group.need) and self._has_domain(group, asks[group.kind])
        return made[requirement.kind]

    def _has_domain(self, requirement: Requirement, asks: Ints) -> bool:
        if requirement.required is None:
            return True
        level = self.cycle_state.snapshot.topologies[requirement.required.topology].levels[requirement.required.level]
        enough = np.ones(len(level.paths), dtype=bool)
        for column in np.flatnonzero(asks).tolist():
            enough &= (
                self._free_or_movable(level, self._usable(pod_classes(requirement), column), column) >= asks[column]
            )
        return _some(enough, requirement.required)

    def _free_or_movable(self, level: Level, usable: Mask, column: int) -> Ints:
        """By domain, what is free on some nodes, and what moves could free."""
        free = level.sums(np.where(usable, self.free[:, column], 0))
        held = level.sums(np.where(usable, self.held[:, column], 0))
        most = self.most_moved.get(column)
        return free + (held if most is None else np.minimum(held, most))


def _some(domains: Mask, spot: RequiredLevel) -> bool:
    """Whether there is such a domain; where placed pods pin one, that one (T3)."""
    if spot.pinned is None:
        return bool(domains.any())
    return spot.pinned >= 0 and bool(domains[spot.pinned])
