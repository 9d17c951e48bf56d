"""The order of placement (G1-G4): each gang in turn gets its core, on free capacity or by preemption, then extras."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.names import SEMI_PREEMPTIBLE
from muster.api.podgroup import TopologyConstraint
from muster.fairness.entitlement import why_closed
from muster.model.gang.gang import Gang
from muster.model.gang.state import Standing
from muster.model.gang.types import Leaf, walk
from muster.placement.budget import OutOfSteps
from muster.placement.requirements.builder import Requirements, find_topology_level
from muster.placement.requirements.types import Impossible, Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.allocation.elastic import further_parts
from muster.planning.allocation.free_capacity import FreeCapacity
from muster.planning.allocation.plain_extras import PlainExtras, protected
from muster.planning.allocation.plain_gangs import NOT_PLACED, EqualGangs, PlainGangs
from muster.planning.allocation.scheduling_queue import SchedulingQueue
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Binding, Failure
from muster.planning.diagnosis.refusals import GangRefusals, mark_unknown, unplaced_key
from muster.planning.gang_state import GangState
from muster.planning.memory.hints import hinted_assignment
from muster.planning.preemption.nominations import Nominations
from muster.planning.preemption.preemption import Preemption
from muster.planning.preemption.share import ByPriority
from muster.planning.refusal import SearchCutShort

Ints = NDArray[np.int64]
PODS_A_STEP = 4  # pods and groups of a gang that one step pays for while it looks for an extra
SHOWN = 3  # pods that a refusal names
Rank = tuple[int, bool, int, float, str]
OnBound = Callable[[tuple[Binding, ...]], object]  # called with the bindings of one placement


def _ignore_bindings(_bindings: tuple[Binding, ...]) -> None:
    return


class Allocation:
    """One pass over all gangs; every placement changes the cycle state."""

    def __init__(self, cycle_state: CycleState, on_bound: OnBound | None = None) -> None:
        self.cycle_state = cycle_state
        self._on_bound = on_bound or _ignore_bindings
        self.scheduling_queue = SchedulingQueue(lambda: cycle_state.usage)
        self.nominations = Nominations(cycle_state)
        self.preemption = Preemption(cycle_state, self.scheduling_queue)
        self.by_priority = ByPriority()
        self.plain = PlainGangs(cycle_state)
        self.extras = PlainExtras(cycle_state)
        self._grants: dict[str, int] = defaultdict(int)  # by gang: how often it was popped from the queue
        self.free_capacity = FreeCapacity(cycle_state)
        self.refusals = GangRefusals(cycle_state, self.preemption, self.free_capacity.full)
        self.ranks: dict[str, Rank] = {}  # of plain gangs, when they were enqueued
        self._closed_queues: dict[str, bool] = {}  # queues from which nothing is scheduled
        self._validated: set[str] = set()  # gangs whose specs were checked
        self._sizes: dict[str, int] = {}  # by gang
        self._known_levels: dict[TopologyConstraint, bool] = {}  # whether what it names exists

    def run(self) -> None:
        """After each placement a gang is requeued, so gangs take turns with their extras (G4)."""
        self._bind_nominees()
        for gang in self.cycle_state.snapshot.gangs:
            if not gang.is_settled or (gang.constraints and not self._do_levels_exist(gang)):
                gang_state = self.cycle_state.gang_states[gang.key]
                if not self._enqueue_plain(gang_state.gang):
                    self.cycle_state.gang_states[gang.key] = self._attempt(gang_state, self._enqueue)
        while (first := self.by_priority.next(self.scheduling_queue)) is not None:
            self.cycle_state.budget.check()
            if not self._place_plain(first):
                self._schedule(first)
        self.extras.write_all()

    def _schedule(self, key: str) -> None:
        before = self.cycle_state.gang_states[key]
        if before.evictions:  # it has just lost pods: it is planned again when they are gone
            self.cycle_state.gang_states[key] = self._attempt(before, self.nominations.renominate_victim)
            return
        if self._place_plain_extra(before):
            return
        self.extras.write(key)
        before = self.cycle_state.gang_states[key]
        after = self._attempt(before, self._place)
        if key in self.by_priority.postponed:
            return
        self.cycle_state.gang_states[key] = after
        is_bound = len(after.bindings) > len(before.bindings)
        if is_bound:
            self._on_bound(after.bindings[len(before.bindings) :])
        self._requeue(after, is_bound or after.unplaceable != before.unplaceable)

    def _requeue(self, gang_state: GangState, is_granted: bool) -> None:
        """Enqueue a gang again while it has extras that wait."""
        gang = gang_state.gang
        self._grants[gang.key] += 1
        if is_granted and gang_state.verdict == "Scheduled" and gang.standing.pending:
            self.scheduling_queue.add(gang.queue, rank(gang, gang.standing, self._grants[gang.key]), gang.key)

    # plain gangs: what is below, for many at once ---------------------------------------------------------------------

    def _enqueue_plain(self, gang: Gang) -> bool:
        """Enqueue a plain gang; False: it is not plain, or its queue is closed."""
        if gang.queue not in self._closed_queues:
            self._closed_queues[gang.queue] = bool(why_closed(self.cycle_state.usage.tree, gang.queue))
        if self._closed_queues[gang.queue] or not self.plain.add(gang):
            return False
        self.ranks[gang.key] = rank(gang, NOT_PLACED, 0)
        self.scheduling_queue.add(gang.queue, self.ranks[gang.key], gang.key)
        self.by_priority.expect(gang, NOT_PLACED)
        return True

    def _place_plain(self, first: str) -> bool:
        """Place or refuse a plain gang and the equal gangs that follow it; False: nothing was decided."""
        equals = self.plain.equals.get(first)
        if equals is None or self.nominations.has_reserved(first):
            return False
        gang_state = self.cycle_state.gang_states[first]
        requirement = self.plain.requirement(gang_state.gang, equals)
        if requirement is None:
            return False
        most = self.plain.most(equals) if requirement.kind not in self.free_capacity.full else 0
        if not most:
            if is_refused := self._refuse_plain(gang_state, equals, requirement):
                self._refuse_next(gang_state.gang.queue)
            return is_refused
        bound = self.plain.bind([first, *self._next_equals(equals, most - 1)], equals)
        if len(bound) > 1:
            self.scheduling_queue.drop(gang_state.gang.queue, len(bound) - 1)
            self.by_priority.pass_over(bound)
        for after in bound.values():
            self._on_bound(after.bindings)
            self._requeue(after, is_granted=True)
        return bool(bound)

    def _next_equals(self, equals: EqualGangs, most: int) -> Iterator[str]:
        """The equal gangs that come next, whatever is on_bound to each of them (G4)."""
        is_alone = self.plain.equals.get(self.scheduling_queue.first_of(equals.terms.queue)) is not equals
        if not most or is_alone or self.by_priority.is_holding_back:
            return
        for key in islice(self.scheduling_queue.following(equals.terms.queue), most):
            if self.plain.equals.get(key) is not equals or self.nominations.has_reserved(key):
                return
            yield key

    def _place_plain_extra(self, gang_state: GangState) -> bool:
        """Bind one more pod of a gang that is one leaf of one class; False: nothing was decided."""
        gang = gang_state.gang
        requirement = None if self.nominations.has_reserved(gang.key) else self.extras.requirement(gang_state)
        if requirement is None:
            return False
        self.cycle_state.charge_to(gang.key)
        assignment = self.cycle_state.attempt(gang.key, partial(self.free_capacity.find_extra, gang, requirement))
        if assignment is None or isinstance(assignment, Failure):
            return False
        requests = self.cycle_state.requested(assignment)
        if self.cycle_state.usage.excess(gang.queue, requests, protected(gang, requests)) is not None:
            return False
        binding, is_waiting = self.extras.bind(gang, assignment)
        self._on_bound((binding,))
        self._grants[gang.key] += 1
        if is_waiting:
            self.scheduling_queue.add(gang.queue, rank(gang, gang.standing, self._grants[gang.key]), gang.key)
        return True

    def _refuse_plain(self, gang_state: GangState, equals: EqualGangs, requirement: Requirement) -> bool:
        """Refuse a gang as an equal one was, where nothing has changed since; False: that is not known."""
        gang = gang_state.gang
        if not equals.refusals and not self._is_refused(gang, requirement):
            return False
        if requirement.required is not None and requirement.kind not in self.free_capacity.full:
            return False
        self.cycle_state.charge_to(gang.key)
        if self.preemption.share.could_run_out and self.by_priority.postpone(gang):
            return True
        if not equals.refusals:
            equals.refusals = self.refusals.infeasible(
                gang_state, requirement, self.refusals.known[unplaced_key(requirement)]
            ).refusals
        equals.refused_at = self.cycle_state.version
        self.cycle_state.gang_states[gang.key] = GangState(gang, "Infeasible", equals.refusals)
        self._grants[gang.key] += 1
        return True

    def _refuse_next(self, queue: str) -> None:
        """The gangs of a queue that come next and are known to be refused, on whatever terms: nothing has changed."""
        refused: list[str] = []
        for key in self.scheduling_queue.following(queue):
            equals = self.plain.equals.get(key)
            if equals is None or equals.requirement is None or equals.refused_at != self.cycle_state.version:
                break
            if self.by_priority.is_holding_back or self.nominations.has_reserved(key):
                break
            if not self._refuse_plain(self.cycle_state.gang_states[key], equals, equals.requirement):
                break
            refused.append(key)
        self.by_priority.pass_over(refused)
        self.scheduling_queue.drop(queue, len(refused))

    def _is_refused(self, gang: Gang, requirement: Requirement) -> bool:
        """Whether an equal gang was refused, its queue has no limits, and preemption is known to fail."""
        if unplaced_key(requirement) not in self.refusals.known or self.cycle_state.allowance(gang) is not None:
            return False
        return self.preemption.is_known_to_fail(gang, requirement)

    def _bind_nominees(self) -> None:
        """Bind the gangs whose nominated places have become free, before any other decision (P7)."""
        for key, assignment in self.nominations.free_now():
            self.cycle_state.gang_states[key] = self.cycle_state.bind(
                replace(self.cycle_state.gang_states[key], verdict="Scheduled"), assignment, "core"
            )
            self._on_bound(self.cycle_state.gang_states[key].bindings)

    def _attempt(self, gang_state: GangState, work: Callable[[GangState], GangState]) -> GangState:
        """Work for one gang; a failure inside becomes the verdict of that gang only (X2, X7)."""
        try:
            after = self.cycle_state.attempt(gang_state.gang.key, partial(work, gang_state))
        except OutOfSteps:
            return mark_unknown(gang_state, SearchCutShort())
        return mark_unknown(gang_state, after.refusal) if isinstance(after, Failure) else after

    def _enqueue(self, gang_state: GangState) -> GangState:
        """Enqueue a gang, unless it is complete or refused early."""
        if _is_complete(gang_state.gang) and self._do_levels_exist(gang_state.gang):
            return replace(gang_state, verdict="Scheduled")
        now = gang_state.gang.standing
        if refusal := self.refusals.refuse_early(gang_state.gang):
            return replace(gang_state, verdict="Scheduled" if now.satisfied else "Waiting", refusals=(refusal,))
        self.scheduling_queue.add(gang_state.gang.queue, rank(gang_state.gang, now, 0), gang_state.gang.key)
        self.by_priority.expect(gang_state.gang, now)
        return gang_state

    def _do_levels_exist(self, gang: Gang) -> bool:
        """Every level that it names exists (T6)."""
        for constraint in gang.constraints:
            if constraint not in self._known_levels:
                named = (constraint.required_topology_level, constraint.preferred_topology_level)
                self._known_levels[constraint] = not any(
                    isinstance(find_topology_level(self.cycle_state.snapshot, constraint.topology, level), str)
                    for level in named
                    if level
                )
            if not self._known_levels[constraint]:
                return False
        return True

    def _place(self, gang_state: GangState) -> GangState:
        """Place a gang; meanwhile the places reserved for its own moving pods are free to it (P7)."""
        self.cycle_state.charge_to(gang_state.gang.key)
        if not self.nominations.release_moves(gang_state.gang):
            return self._decide(gang_state)
        self.free_capacity.full.clear()
        after = self._decide(gang_state)
        self._hold_moves_again(after.gang)
        self.scheduling_queue.usage_fell(gang_state.gang.queue)  # it may hold less than before
        return after

    def _hold_moves_again(self, gang: Gang) -> None:
        """Reserve the places of its moving pods again, even where the gang itself waits for them (P7)."""
        awaited = self.preemption.fitting_soon.get(gang.key, ())
        self.cycle_state.expect_later(awaited, -1)
        self.nominations.hold_moves(gang)
        if not self.nominations.has_reserved(gang.key):
            self.cycle_state.expect_later(awaited)

    def _decide(self, gang_state: GangState) -> GangState:
        requirements = self.cycle_state.requirements(gang_state.gang)
        if gang_state.gang.key not in self._validated:
            if invalid := requirements.invalid():
                return self.refusals.impossible(gang_state, invalid)
            self._validated.add(gang_state.gang.key)
        if not requirements.standings[gang_state.gang.root.name].satisfied:
            return self._place_core(gang_state, requirements)
        return self._place_extra(replace(gang_state, verdict="Scheduled"), requirements)

    # the core ---------------------------------------------------------------------------------------------------------

    def _place_core(self, gang_state: GangState, requirements: Requirements) -> GangState:
        """The whole core, or nothing and the reason (G1)."""
        held = self.nominations.release(gang_state.gang.key)
        if held:
            self.free_capacity.full.clear()  # its nominated places are free to it now
        first: Requirement | Impossible | None = None
        try:
            for requirement in requirements.core_requirements():
                if first is not None:
                    self.cycle_state.gang_budget.spend()  # there may be many choices of pods (M5)
                first = first or requirement
                assignment = (
                    self.free_capacity.find_core(gang_state.gang, requirement)
                    if isinstance(requirement, Requirement)
                    else None
                )
                if assignment is not None:
                    return self.cycle_state.bind(replace(gang_state, verdict="Scheduled"), assignment, "core")
            if held:
                return self.nominations.renominate(gang_state, held)
            if self.preemption.share.could_run_out and self.by_priority.postpone(gang_state.gang):
                return gang_state
            if isinstance(first, Requirement) and (made := self.preemption.evict_for(gang_state, first)):
                return made
        except OutOfSteps:
            return self._cut_short(gang_state, held)
        return self.refusals.refuse(gang_state, requirements, first)

    def _cut_short(self, gang_state: GangState, held: tuple[PodsOnNode, ...]) -> GangState:
        """The steps ran out: use the hint of a longer search, or the nominated places."""
        if (assignment := hinted_assignment(self.cycle_state, gang_state.gang)) is not None:
            return self.cycle_state.bind(replace(gang_state, verdict="Scheduled"), assignment, "core")
        if held:
            return self.nominations.renominate(gang_state, held)
        return mark_unknown(gang_state, SearchCutShort())

    # extras -----------------------------------------------------------------------------------------------------------

    def _place_extra(self, gang_state: GangState, requirements: Requirements) -> GangState:
        """Place the next further part that fits; those that do not are not tried again in this cycle (G3)."""
        if gang_state.gang.key not in self._sizes:
            self._sizes[gang_state.gang.key] = _size(gang_state.gang)
        self.cycle_state.gang_budget.spend(self._sizes[gang_state.gang.key] // PODS_A_STEP)
        unplaceable = set(gang_state.unplaceable)
        for name, part, pods in further_parts(gang_state.gang.root, requirements.standings):
            if name in unplaceable:
                continue
            requirement = requirements.further_requirement(part, pods)
            assignment = (
                self._find_allowed_extra(gang_state.gang, requirement) if isinstance(requirement, Requirement) else None
            )
            if assignment is not None:
                return self.cycle_state.bind(
                    replace(gang_state, unplaceable=frozenset(unplaceable)), assignment, "extra"
                )
            unplaceable.add(name)
        return gang_state  # `diagnosis.waiting` says why these wait, once every gang was tried

    def _find_allowed_extra(self, gang: Gang, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
        """An assignment for an extra that its queue allows (Q4)."""
        assignment = self.free_capacity.find_extra(gang, requirement)
        if assignment is None:
            return None
        requests = self.cycle_state.requested(assignment)
        is_semi = gang.preemptibility == SEMI_PREEMPTIBLE  # of which new pods can be core
        more = self.cycle_state.protected_increase(
            gang, self.cycle_state.with_placed(gang, assignment) if is_semi else gang, requests
        )
        return assignment if self.cycle_state.usage.excess(gang.queue, requests, more) is None else None


def rank(gang: Gang, now: Standing, grants: int) -> Rank:
    """Inside a queue (G4): priority, gangs below their minimum first, fewest grants, age, name."""
    return (-gang.priority, now.satisfied, grants, gang.created, gang.key)


def _size(gang: Gang) -> int:
    """Groups and pods of a gang."""
    return sum(1 + len(group.members) if isinstance(group, Leaf) else 1 for group in walk(gang.root))


def _is_complete(gang: Gang) -> bool:
    """It has its core, and nothing that could be placed."""
    if gang.broken or gang.strays:
        return False
    now = gang.standing
    return now.satisfied and not now.pending and now.placed > 0
