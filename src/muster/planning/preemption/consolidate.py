"""Consolidate: preemptible pods move aside, each to a proven new place, and few of them (P5, P8).

At most `max_moved_pods` pods move for a gang, and of every resource that queues share no more than the gang requests.
Of cpu and memory this holds where the gang requests them: gangs without requests could otherwise move nothing.
"""

from typing import TYPE_CHECKING

import numpy as np

from muster.api.quantity import Resources
from muster.fairness.entitlement import why_closed
from muster.model.gang.gang import Gang
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.disturbance import EvictionReason
from muster.planning.preemption.candidates import Mask, Units
from muster.planning.preemption.relocation.move_bounds import MoveBounds
from muster.planning.preemption.relocation.relocation import NewPlaces, place_beside, place_together
from muster.planning.preemption.rules import EvictionRules, Ints

if TYPE_CHECKING:
    from muster.planning.preemption.preemption import Preemption
    from muster.planning.preemption.victims.question import Question
    from muster.planning.preemption.victims.smallest import VictimProgram

OFTEN_UNSTATED = ("cpu", "memory")


class Consolidate(EvictionRules):
    """Every victim has a proven new place in the same plan."""

    reason: EvictionReason = "Consolidate"
    run_times = ("preempt_min_runtime", "reclaim_min_runtime")

    def __init__(self, preemption: "Preemption", gang: Gang, requirement: Requirement) -> None:
        super().__init__(preemption, gang, requirement)
        self.new_places: dict[str, NewPlaces] = {}

    @property
    def most_pods(self) -> int:
        """How many pods may move for the gang (P8)."""
        return min(super().most_pods, self.cycle_state.policy.max_moved_pods)

    def could_need_more(self, units: Units) -> bool:
        """Whether a larger set, within what may move for one gang, might do (P8)."""
        return self.preemption.share.left < self.cycle_state.policy.max_moved_pods and super().could_need_more(units)

    def is_worthwhile(self) -> bool:
        """Whether enough is free in total: moving pods frees nothing."""
        if self.most_pods < 1:
            return False
        free = np.maximum(self.cycle_state.later.free, 0).sum(axis=0)
        return bool((self.asks <= free).all())

    def reachable(self) -> Mask:
        """Units that can be moved at all, and are small enough by themselves."""
        candidates = self.candidates
        small = candidates.total_pods <= self.most_pods
        for column, most in self._most_moved(self._max_requests()):
            small &= candidates.freed[:, column] <= most
        return small & self.preemption.relocation.movable(candidates) & self._in_open_queues()

    def _in_open_queues(self) -> Mask:
        """Units that could be scheduled again: their queues are open and within their limits (Q2, Q4)."""
        are_open = [
            not why_closed(self.usage.tree, queue) and self._is_within(queue) for queue in self.candidates.queues
        ]
        mask: Mask = np.array(are_open, dtype=bool)[self.candidates.queue]
        return mask

    def _is_within(self, queue: str) -> bool:
        """Whether a queue and those above it are within their limits, which an administrator may have lowered."""
        allowance = self.usage.allowance(queue, protected=False, later=True)
        return allowance is None or bool((allowance >= 0).all())

    def could_help(self, question: "Question") -> bool:
        """Whether moving some of the candidates might help, by totals alone: an upper bound."""
        most = dict(self._most_moved(self._max_requests()))
        return MoveBounds(question, most).could_help(self.requirement)

    def is_cheap(self, units: Units) -> bool:
        """Whether no more than half of what the gang requests moves: larger moves rarely help."""
        freed = self.candidates.freed_by(units)
        shared = [self.usage.bounds.column[name] for name in self.usage.bounds.shared]
        return all(2 * freed[column] <= self.asks[column] for column in shared if self.asks[column])

    def movable_single_pods(self, units: Mask) -> Mask:
        """Units of one pod each that fit on free capacity: their old place goes to the gang."""
        candidates = self.candidates
        rows = units[candidates.pod_unit]
        classes = np.unique(candidates.pod_class[rows]).tolist()
        unmovable = [pod_class for pod_class in classes if not self.cycle_state.later.fits(pod_class).any()]
        movable = units.copy()
        movable[candidates.pod_unit[rows & np.isin(candidates.pod_class, unmovable)]] = False
        return movable

    def movable_now(self, units: Units) -> Units:
        """Units whose pods fit on free capacity, each class by itself: most others cannot move."""
        candidates = self.candidates
        rows = candidates.rows(units)
        number = len(candidates.asks)
        pairs, counts = np.unique(
            candidates.pod_unit[rows] * number + candidates.pod_class[rows], return_counts=True
        )  # of unit and class
        classes = pairs % number
        fits = np.zeros(number, dtype=np.int64)
        for pod_class in np.unique(classes).tolist():
            fits[pod_class] = self.cycle_state.later.fits(pod_class).sum()
        unmovable = set((pairs // number)[counts > fits[classes]].tolist())
        around = {outer for unit in unmovable for outer in candidates.units[unit].around}
        return units - unmovable - around

    def _max_requests(self) -> Resources:
        """An upper bound on the requests of any choice of children and pods."""
        total = np.zeros(len(self.cycle_state.snapshot.columns), dtype=np.int64)
        ahead = [self.requirement]
        for requirement in ahead:
            ahead += requirement.children
            for pod_class, pods in requirement.pods:
                total += self.cycle_state.pod_classes.requests[pod_class] * min(pods, requirement.need)
        return Resources({name: int(total[i]) for i, name in enumerate(self.cycle_state.snapshot.columns)})

    def _most_moved(self, requests: Resources) -> list[tuple[int, int]]:
        """Columns of which no more may move than the gang requests, each with that amount."""
        bounds = self.usage.bounds
        return [
            (bounds.column[name], requests.get(name, 0))
            for name in bounds.shared
            if requests.get(name, 0) or name not in OFTEN_UNSTATED
        ]

    def allows(self, units: Units, requests: Resources) -> bool:
        """Whether few enough pods move, with no more resources than the gang requests."""
        freed = self.candidates.freed_by(units)
        if any(freed[column] > most for column, most in self._most_moved(requests)):
            return False
        return super().allows(units, requests)

    def add_queue_rows(self, program: "VictimProgram", moves: bool = True) -> None:
        """Every pod that moves gets a new node; no more moves than the gang requests."""
        super().add_queue_rows(program, moves=moves)
        for column, _ in self._most_moved(self._max_requests()):
            freed = [
                (variable, int(self.candidates.freed_by([number])[column]))
                for number, variable in program.leaves.items()
            ]
            requested = [(variable, -value) for variable, value in program.requested(column)]
            program.add_row([*freed, *requested], 0)
        by_class: dict[int, list[tuple[int, int]]] = {}
        for row in np.flatnonzero(self.candidates.rows(program.leaves)).tolist():
            moved = (program.leaves[int(self.candidates.pod_unit[row])], 1)
            by_class.setdefault(int(self.candidates.pod_class[row]), []).append(moved)
        for pod_class, leave in by_class.items():
            fits = np.minimum(program.search.base.fits(pod_class), len(leave))
            come = [(program.add_pods(node, pod_class, int(fits[node])), 1) for node in np.flatnonzero(fits).tolist()]
            program.add_equation(come, leave)

    def allowance(self, units: Units) -> Ints | None:  # noqa: ARG002 (pods that move still count in their queue)
        """Limits and quotas without any change."""
        return super().allowance(frozenset())

    def confirm(self, units: Units, assignment: tuple[PodsOnNode, ...]) -> tuple[PodsOnNode, ...] | None:
        """Nodes for the gang and for every pod that moves: these after the gang, else all in one search."""
        if super().confirm(units, assignment) is None:
            return None
        victims: dict[str, set[tuple[str, str]]] = {}
        for unit, leaf, member in self.candidates.members(units):
            victims.setdefault(unit.gang.key, set()).add((leaf, member.name))
        gangs = {victim: self.cycle_state.gang_states[victim].gang for victim in sorted(victims)}
        capacity = self.candidates.capacity_without(self.cycle_state.later, units)
        new_places = place_beside(self.cycle_state, capacity, assignment, gangs, victims)
        if new_places is None:
            both = place_together(self.cycle_state, capacity, self.requirement, gangs, victims)
            if both is None or super().confirm(units, both[0]) is None or not self.is_within(units, both[0]):
                return None
            assignment, new_places = both
            if not self.allows(units, self.cycle_state.requested(assignment)):
                return None
        self.new_places = new_places
        return assignment
