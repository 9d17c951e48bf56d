"""The questions of one cycle, answered from the cache where it knows the answer (X7)."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from muster.model.gang.gang import Gang
from muster.placement.budget import OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement
from muster.planning.disturbance import EvictionReason
from muster.planning.memory.answer_cache import AnswerCache, RememberedAnswer
from muster.planning.memory.digests import Disruptions, QuestionDigests, joined_digest
from muster.planning.refusal import BaseRefusal

if TYPE_CHECKING:
    from muster.planning.cycle_state import CycleState

Ints = NDArray[np.int64]
T = TypeVar("T")
R = TypeVar("R", bound=BaseRefusal)


class Recall:
    """Looks every question of one cycle up in the cache first; without a cache, every question is worked out."""

    def __init__(self, memory: AnswerCache | None, cycle_state: "CycleState") -> None:
        self.memory = memory
        self._cycle_state: CycleState = proxy(cycle_state)  # which owns it: the snapshot is freed with the plan
        self._is_working = False  # questions inside a question are part of its answer

    @cached_property
    def _digests(self) -> QuestionDigests:
        return QuestionDigests(self._cycle_state)

    def digest(self, capacity: Capacity, requirement: Requirement, allowance: Ints | None) -> bytes:
        """A digest of all that the search for a requirement on a capacity depends on."""
        return self._digests.free_capacity(capacity, requirement, allowance)

    def find(
        self, capacity: Capacity, requirement: Requirement, allowance: Ints | None, work: Callable[[], T | None]
    ) -> T | None:
        """Nodes for a requirement on a capacity."""
        assignment: T | None = self._recall_or_work(
            requirement, lambda: self._digests.free_capacity(capacity, requirement, allowance), work
        )
        return assignment

    def victims(
        self,
        gang: Gang,
        requirement: Requirement,
        reason: EvictionReason,
        disruptions: Disruptions,
        most_pods: int,
        work: Callable[[], T],
    ) -> T:
        """Victims for a requirement of a gang by one kind of eviction, and at most so many pods (P8)."""
        digest = partial(self._digests.victims, gang, requirement, reason, disruptions, most_pods)
        selection: T = self._recall_or_work(requirement, digest, work)
        return selection

    def diagnosis(
        self,
        capacity: Capacity,
        requirements: Requirements,
        requirement: Requirement,
        work: Callable[[], R],
        *within: object,
    ) -> R:
        """Why a requirement does not fit; `within`: what else the answer depends on, such as a limit of its queue."""
        refusal: R = self._recall_or_work(
            requirement, lambda: self._digests.diagnosis(capacity, requirements, requirement, within), work
        )
        return refusal

    def _recall_or_work(self, requirement: Requirement, digest_of: Callable[[], bytes], work: Callable[[], Any]) -> Any:
        if self.memory is None or self._is_working:
            return work()
        budget, structure = self._cycle_state.gang_budget, self._digests.structure(requirement)
        left, before = budget.left, budget.spent
        digest = joined_digest(left.to_bytes(8), digest_of()) if self.memory.could_know(structure) else b""
        if digest and (known := self.memory.get(digest)) is not None:
            budget.forgo(known.steps)
            return _value_of(known)
        value, is_known = None, True
        self._is_working = True
        try:
            value = work()
        except OutOfSteps:
            is_known = False
        finally:
            self._is_working = False
        if budget.spent > before and (value is None or isinstance(value, BaseRefusal)):
            digest = digest or joined_digest(left.to_bytes(8), digest_of())
            self.memory.put(digest, RememberedAnswer(structure, budget.spent - before, is_known, value))
        if not is_known:
            raise OutOfSteps
        return value


def _value_of(answer: RememberedAnswer) -> Any:
    if not answer.is_known:
        raise OutOfSteps
    return answer.value
