"""The rules that consolidate, reclaim and preempt share: which units may be evicted for a gang (P5, P6)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.api import names
from muster.api.duration import parse_nanoseconds
from muster.api.moment import parse_past_time
from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.fairness.queue_usage import QueueUsage
from muster.model.gang.gang import Gang
from muster.placement.bounds import least_requests
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.disturbance import EvictionReason
from muster.planning.preemption.candidates import Candidates, Mask, Units

if TYPE_CHECKING:
    from muster.planning.preemption.preemption import Preemption
    from muster.planning.preemption.victims.question import Question
    from muster.planning.preemption.victims.smallest import VictimProgram

Ints = NDArray[np.int64]


class EvictionRules:
    """The rules of one kind of eviction for one gang."""

    reason: EvictionReason
    run_times: Sequence[str] = ()  # fields of queues that state a minimum run time

    def __init__(self, preemption: "Preemption", gang: Gang, requirement: Requirement) -> None:
        self.preemption = preemption
        self.cycle_state: CycleState = preemption.cycle_state
        self.gang, self.requirement = gang, requirement
        self.usage: QueueUsage = self.cycle_state.usage
        self.is_protected = gang.preemptibility != names.PREEMPTIBLE
        self.is_limited = self.usage.allowance(gang.queue, self.is_protected, later=True) is not None
        self.asks = least_requests(requirement, self.cycle_state.pod_classes.requests)

    @property
    def candidates(self) -> Candidates:
        """Every unit that could be evicted."""
        return self.preemption.candidates

    @property
    def most_pods(self) -> int:
        """How many pods may be evicted for the gang (P8)."""
        return self.preemption.share.left

    def could_need_more(self, units: Units) -> bool:
        """Whether these units have more pods than what is left of the cycle's share (P8)."""
        return self.preemption.share.left < self.candidates.count(units)

    # which units ----------------------------------------------------------------------------------------------------

    def is_worthwhile(self) -> bool:
        """Whether it could help at all."""
        return True

    def could_help(self, question: "Question") -> bool:  # noqa: ARG002 (consolidation has bounds)
        """Whether evicting some of the candidates might help, by totals alone: an upper bound."""
        return True

    def is_cheap(self, units: Units) -> bool:  # noqa: ARG002 (consolidation compares amounts)
        """Whether it is worth a try on a large cluster."""
        return True

    def movable_single_pods(self, units: Mask) -> Mask:
        """Of units of one pod each, those that could get a new place now, where this kind of eviction needs one."""
        return units

    def movable_now(self, units: Units) -> Units:
        """Units that could get a new place now, where this kind of eviction needs one."""
        return units

    def evictable(self) -> Mask:
        """Units that may be evicted for the gang, each by itself."""
        return self.eligible() & self.preemption.allowed_by_budgets()

    def eligible(self) -> Mask:
        """The same, whether or not budgets allow it."""
        candidates = self.candidates
        mask = candidates.remaining & self.reachable() & ~candidates.of(self.gang.key) & ~self.preemption.busy()
        return mask & self.preemption.run_long_enough(self)

    def reachable(self) -> Mask:
        """Units that this kind of eviction may choose, other rules aside."""
        raise NotImplementedError

    def has_run_long_enough(self, victim: Gang) -> bool:
        """Whether a gang has run for the minimum run time of its queue."""
        now = self.cycle_state.snapshot.now
        since = parse_past_time(victim.source.metadata.annotations.get(names.LAST_START, ""), now)
        if since is None or now is None:
            return True
        ran = (now - since) // timedelta(microseconds=1) * 1000
        return ran >= max((self._promised(victim, field) for field in self.run_times), default=0)

    def _promised(self, victim: Gang, field: str) -> int:
        """The minimum run time in nanoseconds, of the nearest queue that states one."""
        if victim.queue not in self.usage.tree.nodes:
            return 0
        for node in reversed(self.usage.tree.path(victim.queue)):
            stated = (
                getattr(self.preemption.queues[node.name].spec, field, "")
                if node.name in self.preemption.queues
                else ""
            )
            try:
                if stated:
                    return parse_nanoseconds(stated)
            except ValueError:
                continue
        return 0

    # which sets of them ---------------------------------------------------------------------------------------------

    def allowance(self, units: Units) -> Ints | None:
        """What the gang's new pods may take, by column, without some units; None: any."""
        if not self.is_limited:
            return None
        after = self.usage.without(self.candidates.held(units))
        return after.allowance(self.gang.queue, self.is_protected, later=True)

    def max_allowance(self, units: Units) -> Ints | None:
        """An upper bound on the allowance without any subset of these units."""
        return self.allowance(units)

    def allows(self, units: Units, requests: Resources) -> bool:  # noqa: ARG002 (consolidation limits what moves)
        """Whether these may be evicted together for a gang with these requests: by budgets (P6) and P8."""
        if self.candidates.count(units) > self.most_pods:
            return False
        return self.preemption.budgets.allows(self.candidates.names(units))

    def equivalence(self, pod: str) -> object:
        """What distinguishes pods of one class, node and queue in these rules: budgets and inter-pod rules."""
        rule_matches = self.cycle_state.snapshot.inter_pod_rules.running.get(pod)
        return repr((self.preemption.budgets.of.get(pod, ()), rule_matches))

    def confirm(self, units: Units, assignment: tuple[PodsOnNode, ...]) -> tuple[PodsOnNode, ...] | None:  # noqa: ARG002
        """The final assignment of the gang, after the last checks; None: one fails, as a quota (Q4)."""
        return assignment if self.cycle_state.quota_excess(self.gang, assignment) is None else None

    def add_rows(self, program: "VictimProgram") -> None:
        """The same for the integer program, as far as it is linear: P8, budgets, limits and quotas."""
        candidates, budgets = self.candidates, self.preemption.budgets
        pods = [(variable, len(candidates.units[number].pods)) for number, variable in program.leaves.items()]
        if self.most_pods < sum(count for _, count in pods):
            program.add_row(pods, self.most_pods)
        selected: dict[int, list[tuple[int, int]]] = {}
        for number, variable in program.leaves.items():
            for pod in candidates.names([number]):
                for budget in budgets.of.get(pod, ()):
                    selected.setdefault(budget, []).append((variable, 1))
        for budget, terms in selected.items():
            program.add_row(terms, budgets.left[budget])
        self.add_queue_rows(program)

    def add_queue_rows(self, program: "VictimProgram", moves: bool = False) -> None:
        """Limits and quotas for non-preemptible pods, up to the top queue (Q4); pods that move count as before."""
        for queue, resource, column, limit, quota in self.usage.bounds.above(self.gang.queue):
            if not self.asks[column]:
                continue
            if limit != UNLIMITED:
                gone = [] if moves else [(variable, -value) for variable, value in program.gone(resource, queue)]
                held = self.usage.allocated[queue].get(resource, 0)
                program.add_row([*program.requested(column), *gone], limit - held)
            if self.is_protected and quota != UNLIMITED:
                program.add_row(program.requested(column), quota - self.usage.protected[queue].get(resource, 0))

    def is_within(self, units: Units, assignment: tuple[PodsOnNode, ...]) -> bool:
        """Whether an assignment stays within the allowance."""
        allowance = self.allowance(units)
        if allowance is None:
            return True
        total = np.sum(
            [self.cycle_state.pod_classes.requests[assigned.pod_class] * assigned.pods for assigned in assignment],
            axis=0,
        )
        return bool((total <= allowance).all())
