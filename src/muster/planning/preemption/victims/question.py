"""One question about victims: does the gang fit without these units? Answers are cached, searches cost steps (X7)."""

from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.placement.budget import OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.requirements.tree import pod_classes, size
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.disturbance import Proof
from muster.planning.preemption.candidates import Candidates, Mask, Units
from muster.planning.preemption.rules import EvictionRules
from muster.planning.preemption.victims.eviction_cost import fewest_pods

Ints = NDArray[np.int64]
QUESTION_STEPS = 8  # that a search on another capacity costs before its first step


class Selection(Struct, frozen=True, eq=False):
    """The victims, the assignment that this allows, and what is proved of the set."""

    units: Units
    assignment: tuple[PodsOnNode, ...]
    proof: Proof


class Question:
    """The requirement of one gang and one kind of eviction. Answers are cached; every search costs steps."""

    def __init__(self, cycle_state: CycleState, requirement: Requirement, rules: EvictionRules, mask: Mask) -> None:
        self.cycle_state, self.requirement, self.rules = cycle_state, requirement, rules
        self.candidates: Candidates = rules.candidates
        self.mask = mask
        useful = self._useful(mask)
        self.numbers: list[int] = np.flatnonzero(useful).tolist()
        self.all = self.candidates.all_of(useful)
        self._answers: dict[tuple[Units, bytes], tuple[PodsOnNode, ...] | None] = {}
        self._settled: dict[Units, bool] = {}

    @cached_property
    def fewest(self) -> int:
        """A lower bound on the pods to evict: for pods of one class they can be counted."""
        classes, later = pod_classes(self.requirement), self.cycle_state.later
        if len(classes) > 1 or classes[0] in later.inter_pod.touched:
            return 1
        assignment = self.vacated.fits(classes[0])
        return fewest_pods(later, self.candidates, self.all, classes[0], assignment, size(self.requirement))

    def _useful(self, mask: Mask) -> Mask:
        """Units with pods on nodes that the gang could use; all of them where a limit stops the gang."""
        if self.rules.max_allowance(frozenset()) is not None:
            return mask
        allowed = np.any(
            [self.cycle_state.pod_classes.allowed(pod_class) for pod_class in pod_classes(self.requirement)], axis=0
        )
        return mask & self.candidates.on_nodes(allowed)

    def capacity_without(self, units: Units) -> Capacity:
        """The capacity without these units."""
        return self.vacated if units is self.all else self.candidates.capacity_without(self.cycle_state.later, units)

    @cached_property
    def vacated(self) -> Capacity:
        """The capacity without all candidates."""
        return self.candidates.capacity_without(self.cycle_state.later, self.all)

    def could_fit(self, units: Units) -> bool:
        """Whether the gang could fit without these units or a subset of them: an upper bound."""
        return self._ask(units, self.rules.max_allowance(units)) is not None

    def assignment(self, units: Units) -> tuple[PodsOnNode, ...] | None:
        """An assignment without these units, preferences aside."""
        return self._ask(units, self.rules.allowance(units))

    def _ask(self, units: Units, allowance: Ints | None) -> tuple[PodsOnNode, ...] | None:
        key = (units, b"" if allowance is None else allowance.tobytes())
        if key not in self._answers:
            self.cycle_state.gang_budget.spend(QUESTION_STEPS)
            search = self.cycle_state.search(self.capacity_without(units), allowance=allowance)
            state = search.first(self.requirement)
            self._answers[key] = None if state is None else search.pods_on_nodes(state)
        return self._answers[key]

    def is_enough(self, units: Units) -> bool:
        """Whether the gang fits without these units and every rule allows their eviction."""
        if units not in self._settled:
            assignment = self.assignment(units)
            allowed = assignment is not None and self.rules.allows(units, self.cycle_state.requested(assignment))
            self._settled[units] = (
                allowed and assignment is not None and self.rules.confirm(units, assignment) is not None
            )
        return self._settled[units]

    def selection(self, units: Units, proof: Proof) -> Selection | None:
        """The set with an assignment that the gang prefers (T2), where there is one."""
        for assignment in self._preferred(units), self.assignment(units):
            if assignment is not None and self.rules.allows(units, self.cycle_state.requested(assignment)):
                settled = self.rules.confirm(units, assignment)
                if settled is not None:
                    return Selection(units, settled, proof)
        return None

    def _preferred(self, units: Units) -> tuple[PodsOnNode, ...] | None:
        try:
            return self.cycle_state.find(self.capacity_without(units), self.requirement, self.rules.allowance(units))
        except OutOfSteps:
            return None
