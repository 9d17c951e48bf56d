"""The search on free capacity, with the kinds of requirements known not to fit and the places foreseen for extras."""

import numpy as np
from numpy.typing import NDArray

from muster.model.gang.gang import Gang
from muster.placement.bounds import least_requests
from muster.placement.budget import OutOfSteps
from muster.placement.requirements.tree import pod_classes
from muster.placement.requirements.types import Requirement
from muster.placement.search import growth
from muster.placement.search.growth import Placement
from muster.placement.search.nested_search import Search
from muster.placement.search.preferences import find_with_growth
from muster.placement.search.search_state import PodsOnNode
from muster.planning.allocation.followers import with_followers, without_followers
from muster.planning.bounds import could_fit_by_counts
from muster.planning.cycle_state import CycleState

Ints = NDArray[np.int64]
PART = 4  # of the steps that are left, gangs that follow another one may cost this part (a quarter)


class FreeCapacity:
    """Searches free capacity within what queues allow (Q4)."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self.full: set[int] = set()  # kinds of requirements that nothing that is free could hold
        self._growth: dict[str, tuple[PodsOnNode, ...]] = {}  # by gang: places that its extras could take (X4)

    def find_core(self, gang: Gang, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
        """Nodes for a core, within what its queue allows; a kind of requirement that failed once always fails."""
        allowance = self.cycle_state.allowance(gang)
        if requirement.kind in self.full or not could_fit_by_counts(requirement, self.cycle_state.now):
            return None
        if (
            allowance is not None
            and (least_requests(requirement, self.cycle_state.pod_classes.requests) > allowance).any()
        ):
            return None
        placement = self.cycle_state.find_core(self.cycle_state.now, requirement, allowance)
        if placement is None:
            if allowance is None and not self._depends_on_others(requirement):
                self.full.add(requirement.kind)
            return None
        beside = self._beside_followers(gang, requirement, allowance)
        if beside is not None and self._domain(requirement, beside) != self._domain(requirement, placement):
            placement = beside
        self._growth[gang.key] = placement.extras
        return placement.core if self.cycle_state.quota_excess(gang, placement.core) is None else None

    def _beside_followers(self, gang: Gang, core: Requirement, allowance: Ints | None) -> Placement | None:
        """Nodes for a core in a domain in which most of the gangs that follow it fit, too; None: any will do."""
        state = self.cycle_state
        around = with_followers(gang, core, state.kinds)
        if around is None:
            return None
        budget = state.gang_budget.part(state.gang_budget.left // PART)
        search = Search(state.now, state.snapshot.topologies, state.kinds, budget, allowance=allowance)
        try:
            return without_followers(find_with_growth(search, around), core)
        except OutOfSteps:
            return None

    def _domain(self, core: Requirement, placement: Placement) -> int:
        """The domain of a core whose level is required: in the same one, it sits as if none followed it."""
        assert core.required is not None
        level = self.cycle_state.snapshot.topologies[core.required.topology].levels[core.required.level]
        return int(level.domain[placement.core[0].node])

    def _depends_on_others(self, requirement: Requirement) -> bool:
        """Whether pods that come later could let it in: those that it must be near to."""
        inter_pod = self.cycle_state.now.inter_pod
        return any(pod_class in inter_pod.touched for pod_class in pod_classes(requirement))

    def find_extra(self, gang: Gang, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
        """An extra is never worth an `unknown`: it waits for the next cycle."""
        if requirement.kind in self.full:
            return None
        try:
            allowance = self.cycle_state.allowance(gang, extra=True)
            assignment = self._foreseen(gang, requirement) or self.cycle_state.find(
                self.cycle_state.now, requirement, allowance
            )
        except OutOfSteps:
            return None
        if assignment is None:
            if allowance is None and not self._depends_on_others(requirement):
                self.full.add(requirement.kind)
            return None
        return assignment

    def _foreseen(self, gang: Gang, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
        """Nodes that the search for the core foresaw for this extra, while they are free."""
        assignment = self._growth.get(gang.key)
        placement = growth.take(requirement, assignment, self.cycle_state.snapshot.topologies) if assignment else None
        if placement is None or not self.cycle_state.are_free(placement.core):
            return None
        self._growth[gang.key] = placement.extras
        return placement.core
