"""For a gang that does not fit: wait for terminating pods, else consolidate, reclaim or preempt (P5-P8)."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from muster.api import names
from muster.model.gang.gang import Gang
from muster.model.gang.types import Member
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.allocation.scheduling_queue import SchedulingQueue
from muster.planning.bounds import could_fit_by_counts
from muster.planning.cycle_state import CycleState
from muster.planning.disturbance import EvictionReason
from muster.planning.gang_state import GangState
from muster.planning.preemption.candidates import Candidates, Mask
from muster.planning.preemption.consolidate import Consolidate
from muster.planning.preemption.disruption_budgets import DisruptionBudgets
from muster.planning.preemption.preempt import Preempt
from muster.planning.preemption.reclaim import Reclaim
from muster.planning.preemption.relocation.relocation import Relocation
from muster.planning.preemption.rules import EvictionRules
from muster.planning.preemption.share import DisturbanceShare
from muster.planning.preemption.victims.question import Question, Selection
from muster.planning.preemption.victims.selection import select, select_nearby
from muster.planning.refusal import DisturbanceLimit

EqualTo = tuple[int, str, int, str]  # what gangs have in common that have the same candidates
RUN_TIMES = ("preempt_min_runtime", "reclaim_min_runtime")
BETTER_PART = 10  # the search for smaller sets of victims may take the cycle's steps divided by this
NEARBY_PART = 50  # the search for moves among many units: the same
PASSES = 4  # over all units that a gang must have steps for before preemption starts
EXACT_PART = 2  # the search for a smallest set may take the gang's steps divided by this


class Preemption:
    """The preemption of one cycle."""

    def __init__(self, cycle_state: CycleState, scheduling_queue: SchedulingQueue) -> None:
        self.cycle_state, self.scheduling_queue = cycle_state, scheduling_queue
        self.relocation = Relocation(cycle_state)
        self.share = DisturbanceShare(cycle_state)
        self.fitting_soon: dict[
            str, tuple[PodsOnNode, ...]
        ] = {}  # gangs that fit once terminating pods are gone, and where
        self.limited: dict[str, DisturbanceLimit] = {}  # gangs whose victims would be too many for one cycle (P8)
        self.undecided: set[str] = set()  # gangs for which not all moves were tried: see `select_nearby`
        self.queues = {queue.metadata.name: queue for queue in cycle_state.snapshot.objects.queues}
        self._better = Budget(cycle_state.policy.cycle_steps // BETTER_PART)
        self._nearby = Budget(cycle_state.policy.cycle_steps // NEARBY_PART)
        self._candidates: Candidates | None = None
        self._budgets: DisruptionBudgets | None = None
        self._exhausted: dict[
            EqualTo, tuple[str, ...]
        ] = {}  # no set of victims helps; and the pods that cannot be evicted
        self._undecided: set[EqualTo] = set()  # of these, gangs for which the search for moves was cut short
        self._busy: Mask | None = None
        self._seen = 0
        self._lowest_priorities: dict[str, int] | None = None
        self._run_long_enough: dict[EvictionReason, Mask] = {}
        self._budget_mask: Mask | None = None

    # shared by the kinds of eviction, computed on first use ---------------------------------------------------------

    @property
    def candidates(self) -> Candidates:
        """Every unit that could be evicted."""
        if self._candidates is None:
            self._candidates = Candidates(self.cycle_state)
        return self._candidates

    @property
    def budgets(self) -> DisruptionBudgets:
        """PodDisruptionBudgets, with the evictions that they still allow in this cycle."""
        if self._budgets is None:
            self._budgets = DisruptionBudgets(self.cycle_state.snapshot, self.cycle_state.policy.untouchable)
        return self._budgets

    def lowest_priority(self, queue: str, otherwise: int) -> int:
        """The lowest priority of a gang of a queue that has evictable pods."""
        if self._lowest_priorities is None:
            self._lowest_priorities = {}
            for gang in self.cycle_state.snapshot.gangs:
                if gang.preemptibility != names.NON_PREEMPTIBLE or gang.leftovers:
                    lowest = self._lowest_priorities.get(gang.queue)
                    if lowest is None or gang.priority < lowest:
                        self._lowest_priorities[gang.queue] = gang.priority
        return self._lowest_priorities.get(queue, otherwise)

    def busy(self) -> Mask:
        """Units of gangs that were placed in this cycle: they are no victims in it."""
        if self._busy is None:
            self._busy = np.zeros(len(self.candidates.units), dtype=bool)
        for gang in self.cycle_state.busy[self._seen :]:
            if gang in self.candidates.gangs:
                self._busy |= self.candidates.of(gang)
        self._seen = len(self.cycle_state.busy)
        return self._busy

    def run_long_enough(self, rules: EvictionRules) -> Mask:
        """Units that have run for the minimum run time of their queues, and all extras."""
        if rules.reason not in self._run_long_enough:
            promised = any(getattr(queue.spec, name) for queue in self.queues.values() for name in RUN_TIMES)
            units = self.candidates.units
            old = [not unit.is_core or rules.has_run_long_enough(unit.gang) for unit in units] if promised else True
            self._run_long_enough[rules.reason] = np.array(old) & np.ones(len(units), dtype=bool)
        return self._run_long_enough[rules.reason]

    def allowed_by_budgets(self) -> Mask:
        """Units that budgets allow to evict with those inside; evictions of this cycle are not counted here."""
        if self._budget_mask is None:
            mask = np.ones(len(self.candidates.units), dtype=bool)
            for number in range(0 if self.budgets.is_idle else len(mask)):
                mask[number] = self.budgets.allows(self.candidates.names(self.candidates.whole([number])))
            self._budget_mask = mask
        return self._budget_mask

    # victims for a gang ---------------------------------------------------------------------------------------------

    def evict_for(self, gang_state: GangState, requirement: Requirement) -> GangState | None:
        """Evict victims for a gang and nominate it on their places. OutOfSteps: unknown.

        None: no eviction helps, none is allowed, or the gang fits once terminating pods are gone.
        """
        if (equal_to := _equal_to(gang_state.gang, requirement)) in self._exhausted:
            self.undecided |= {gang_state.gang.key} if equal_to in self._undecided else set()
            return None
        if self._await_terminating(gang_state.gang, requirement):
            return None
        if self.cycle_state.gang_budget.left < PASSES * self.candidates.pass_steps:
            raise OutOfSteps  # not every kind of eviction could be tried
        ways = (
            Consolidate(self, gang_state.gang, requirement),
            Reclaim(self, gang_state.gang, requirement),
            Preempt(self, gang_state.gang, requirement),
        )
        worthwhile = [rules for rules in ways if rules.is_worthwhile() and self.candidates.units]
        if worthwhile and not self.share.left:
            self.limited[gang_state.gang.key] = self._disturbance_limit()
            return None
        cut_short: list[EvictionReason] = []
        too_many: DisturbanceLimit | None = None
        for rules in worthwhile:
            try:
                selection = self._select_or_recall(gang_state.gang, rules)
            except OutOfSteps:
                cut_short.append(rules.reason)
                continue
            if isinstance(selection, DisturbanceLimit):
                too_many = selection
            elif selection is not None:
                return self._evict(gang_state, rules, selection)
        if too_many is not None and self.cycle_state.gang_budget.left:
            self.limited[gang_state.gang.key] = too_many
            return None
        self._give_up(gang_state.gang, equal_to, worthwhile, cut_short)
        return None

    def is_known_to_fail(self, gang: Gang, requirement: Requirement) -> bool:
        """Whether `evict_for` failed for an equal gang, with every set of victims tried."""
        is_open, equal_to = gang.key in self.fitting_soon or gang.key in self.limited, _equal_to(gang, requirement)
        return not is_open and equal_to in self._exhausted and equal_to not in self._undecided

    def _give_up(
        self, gang: Gang, equal_to: EqualTo, ways: Sequence[EvictionRules], cut_short: Sequence[EvictionReason]
    ) -> None:
        """Record that no set of victims helps, or that not all moves were tried. OutOfSteps: unknown."""
        if cut_short and (not self.cycle_state.gang_budget.left or list(cut_short) != ["Consolidate"]):
            raise OutOfSteps
        self._exhausted[equal_to] = self._find_unevictable(ways)
        if cut_short:
            self._undecided.add(equal_to)
            self.undecided.add(gang.key)

    def _select_or_recall(self, gang: Gang, rules: EvictionRules) -> Selection | DisturbanceLimit | None:
        work = partial(self._select, rules)
        return self.cycle_state.recall.victims(
            gang, rules.requirement, rules.reason, self.budgets, rules.most_pods, work
        )

    def _select(self, rules: EvictionRules) -> Selection | DisturbanceLimit | None:
        """The set of victims; DisturbanceLimit: there might be one with all of the cycle's share (P8)."""
        self.cycle_state.gang_budget.spend(self.candidates.pass_steps)
        mask = rules.evictable()
        if not mask.any():
            return None
        question = Question(self.cycle_state, rules.requirement, rules, mask)
        exact_steps = self.cycle_state.policy.steps // EXACT_PART
        if isinstance(rules, Consolidate):
            selection = select_nearby(question, exact_steps, self._better, self._nearby)
        else:
            selection = select(question, exact_steps, self._better)
        if selection is None and rules.could_need_more(question.all) and question.could_fit(question.all):
            return self._disturbance_limit()
        return selection

    def unevictable_pods(self, gang: Gang, requirement: Requirement) -> tuple[str, ...]:
        """Pods whose eviction might have helped a gang, but that cannot be evicted (P6)."""
        return self._exhausted.get(_equal_to(gang, requirement), ())

    def _find_unevictable(self, ways: Sequence[EvictionRules]) -> tuple[str, ...]:
        if self.budgets.is_idle:
            return ()
        allowed = self.allowed_by_budgets()
        stuck = [np.flatnonzero(rules.eligible() & ~allowed) for rules in ways if rules.reason != "Consolidate"]
        return tuple(sorted({pod for units in stuck for pod in self.candidates.names(units.tolist())}))

    def _disturbance_limit(self) -> DisturbanceLimit:
        return DisturbanceLimit(self.share.spent, self.share.allowed, self.share.running)

    def _await_terminating(self, gang: Gang, requirement: Requirement) -> bool:
        """Whether the gang fits once terminating pods are gone: then it waits, and nothing is evicted for it.

        What it will need is taken from `later` alone, so that no other gang counts on it; free capacity stays
        available, as the gang is not nominated (P8).
        """
        assignment = self._assignment_later(gang, requirement)
        if assignment is None:
            return False
        self.fitting_soon[gang.key] = assignment
        self.cycle_state.expect_later(assignment)
        return True

    def _assignment_later(self, gang: Gang, requirement: Requirement) -> tuple[PodsOnNode, ...] | None:
        if self.cycle_state.later is self.cycle_state.now or not could_fit_by_counts(
            requirement, self.cycle_state.later
        ):
            return None
        protected = gang.preemptibility != names.PREEMPTIBLE
        allowance = self.cycle_state.usage.allowance(gang.queue, protected, later=True)
        return self.cycle_state.find(self.cycle_state.later, requirement, allowance)

    def _evict(self, gang_state: GangState, rules: EvictionRules, selection: Selection) -> GangState:
        by_gang: dict[str, list[tuple[str, Member]]] = {}
        for unit, leaf, member in self.candidates.members(selection.units):
            by_gang.setdefault(unit.gang.key, []).append((leaf, member))
        for victim, members in sorted(by_gang.items()):
            self.cycle_state.evict(victim, members, rules.reason, gang_state.gang.key, selection.proof)
            if (queue := self.cycle_state.before[victim].queue) in self.cycle_state.usage.tree.nodes:
                self.scheduling_queue.usage_fell(queue)
        made = self.cycle_state.nominate(gang_state, selection.assignment)
        if isinstance(rules, Consolidate):
            for victim in sorted(by_gang):
                self.relocation.write(victim, rules.new_places[victim])
        self.share.spend(self.candidates.count(selection.units))
        self.budgets.spend(self.candidates.names(selection.units))
        self.candidates.remove(selection.units)
        return made


def _equal_to(gang: Gang, requirement: Requirement) -> EqualTo:
    return (requirement.kind, gang.queue, gang.priority, gang.preemptibility)
