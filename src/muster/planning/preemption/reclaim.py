"""Reclaim: a queue below its fair share takes from queues above theirs (P5).

Per resource that the gang requests and queues share, and for every queue below the lowest common ancestor:
the reclaimer's queues stay within their fair shares; each victim's queue is above its fair share and its quota before
that unit is evicted; and for a reclaimer above its own quota no queue ends below its quota.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.fairness.queue_usage import NO_END
from muster.model.gang.gang import Gang
from muster.model.queues import QueueNode, plus
from muster.placement.exact.solver import Term
from muster.placement.requirements.types import Requirement
from muster.planning.disturbance import EvictionReason
from muster.planning.preemption.candidates import Mask, Units
from muster.planning.preemption.rules import EvictionRules

if TYPE_CHECKING:
    from muster.planning.preemption.preemption import Preemption
    from muster.planning.preemption.victims.smallest import VictimProgram

Ints = NDArray[np.int64]


class Reclaim(EvictionRules):
    """Victims in other queues."""

    reason: EvictionReason = "Reclaim"
    run_times = ("reclaim_min_runtime",)

    def __init__(self, preemption: "Preemption", gang: Gang, requirement: Requirement) -> None:
        super().__init__(preemption, gang, requirement)
        self.path = self.usage.tree.path(gang.queue)
        self.shared = self.usage.bounds.shared
        columns = self.cycle_state.snapshot.columns
        self.requested = [name for i, name in enumerate(columns) if self.asks[i] and name in self.shared]
        self.entitled = self._entitled()
        self._ways: dict[str, tuple[Sequence[QueueNode], Sequence[QueueNode]]] = {}

    def is_worthwhile(self) -> bool:
        """Whether its own queue stays within its fair share; queues above are checked with the victims."""
        return bool(self.requested) and bool((self.asks <= self.entitled).all())

    def _entitled(self) -> Ints:
        """By column, what the gang's own queue may still take within its fair share."""
        entitled = np.full(len(self.cycle_state.snapshot.columns), NO_END, dtype=np.int64)
        for name in self.shared:
            share = self.usage.shares[self.gang.queue].get(name, 0)
            entitled[self.usage.bounds.column[name]] = share - self.usage.allocated[self.gang.queue].get(name, 0)
        return entitled

    def reachable(self) -> Mask:
        """Units of other leaf queues that are above their shares, on the whole path below the common ancestor."""
        good = [
            queue != self.gang.queue
            and queue in self.usage.tree.nodes
            and all(self._stands_above(node, {}, {}) for node in self._ways_down(queue)[1])
            for queue in self.candidates.queues
        ]
        mask: Mask = np.array(good, dtype=bool)[self.candidates.queue]
        return mask

    def _ways_down(self, victim: str) -> tuple[Sequence[QueueNode], Sequence[QueueNode]]:
        """The paths from the lowest common ancestor down to the gang's queue and to the victim's."""
        if victim not in self._ways:
            theirs = self.usage.tree.path(victim)
            shared = 0
            while shared < min(len(self.path), len(theirs)) and self.path[shared].name == theirs[shared].name:
                shared += 1
            self._ways[victim] = self.path[shared:], theirs[shared:]
        return self._ways[victim]

    # sets of units --------------------------------------------------------------------------------------------------

    def allows(self, units: Units, requests: Resources) -> bool:
        """Whether every unit comes from queues above their share and quota."""
        if not super().allows(units, requests):
            return False
        taken = _TakenFromQueues(self, units)
        return all(
            self._stands_above(node, taken.gone(node), taken.largest(node))
            for victim in taken.queues
            for node in self._ways_down(victim)[1]
        )

    def _stands_above(self, node: QueueNode, gone: Mapping[str, int], largest: Mapping[str, int]) -> bool:
        """Whether a queue is above its share and quota of a requested resource before its last unit is evicted.

        The largest unit goes last. A queue with an unlimited quota is never above it.
        """
        held, share = self.usage.allocated[node.name], self.usage.shares[node.name]
        for name in self.requested:
            quota = node.share(name).quota
            before = held.get(name, 0) - gone.get(name, 0) + largest.get(name, 0)
            if quota != UNLIMITED and before > max(share.get(name, 0), quota):
                return True
        return False

    def allowance(self, units: Units) -> Ints | None:
        """Within the fair shares of its queues, and within its quota where victims fall below theirs."""
        allowance = self.max_allowance(units).copy()
        taken = _TakenFromQueues(self, units)
        for victim in taken.queues:
            own, theirs = self._ways_down(victim)
            for node in own:
                self._cap(allowance, node, taken, self.usage.shares[node.name])
            short = {name for name in self.requested for node in theirs if not self._keeps_quota(node, taken, name)}
            quotas = {name: own[0].share(name).quota for name in short}
            self._cap(allowance, own[0], taken, {n: quota for n, quota in quotas.items() if quota != UNLIMITED})
        return allowance

    def max_allowance(self, units: Units) -> Ints:
        """The allowance without the conditions on the queues of the victims: these only lower it."""
        base = super().allowance(units)
        return self.entitled if base is None else np.minimum(base, self.entitled)

    def _cap(self, allowance: Ints, node: QueueNode, taken: "_TakenFromQueues", most: Mapping[str, int]) -> None:
        """Cap the allowance at some amounts, less what a queue holds without the victims."""
        held, gone = self.usage.allocated[node.name], taken.gone(node)
        for name in self.shared:
            if name in most:
                column = self.usage.bounds.column[name]
                allowance[column] = min(allowance[column], most[name] - held.get(name, 0) + gone.get(name, 0))

    def _keeps_quota(self, node: QueueNode, taken: "_TakenFromQueues", name: str) -> bool:
        quota, held = node.share(name).quota, self.usage.allocated[node.name].get(name, 0)
        floor = held if quota == UNLIMITED else min(quota, held)
        return held - taken.gone(node).get(name, 0) >= floor

    # the integer program ----------------------------------------------------------------------------------------------

    def add_queue_rows(self, program: "VictimProgram", moves: bool = False) -> None:
        """Fair shares and quotas, as conditions on the queues that units are taken from."""
        super().add_queue_rows(program, moves)
        for name in self.requested:
            column = self.usage.bounds.column[name]
            program.add_row(program.requested(column), int(self.entitled[column]))
        taken: dict[str, int] = {}  # by leaf queue: whether units are taken from it
        for number, variable in program.leaves.items():
            queue = self.candidates.units[number].gang.queue
            if queue not in taken:
                taken[queue] = program.model.add_variable(1)
            program.add_link([(variable, 1), (taken[queue], -1)], most=0)
        nodes = {node.name: node for queue in taken for node in self._ways_down(queue)[1]}
        above = {name: self._above_rows(program, node) for name, node in nodes.items()}
        for queue, is_taken in taken.items():
            own, theirs = self._ways_down(queue)
            for node in theirs:
                some = [(variable, -1) for variable in above[node.name]]
                program.add_link([(is_taken, 1), *some], most=0)
            self._entitled_rows(program, is_taken, own, theirs)

    def _above_rows(self, program: "VictimProgram", node: QueueNode) -> list[int]:
        """By resource, a variable that is one only where the queue is above share and quota up to the last unit."""
        variables = []
        for name in self.requested:
            quota, share = node.share(name).quota, self.usage.shares[node.name].get(name, 0)
            if quota == UNLIMITED:
                continue
            is_above = program.model.add_variable(1)
            variables.append(is_above)
            gone = program.gone(name, node.name)
            everything = sum(value for _, value in gone)
            held_by = self.candidates.held_by
            last = [(self._last(program, n), -held_by(n).get(name, 0)) for n in program.under(node.name)]
            program.add_link([(variable, 1) for variable, _ in last], most=1)
            margin = self.usage.allocated[node.name].get(name, 0) - max(share, quota) - 1
            program.add_row(
                [*gone, *last, (is_above, everything - min(margin, 0))], margin + everything - min(margin, 0)
            )
        return variables

    def _last(self, program: "VictimProgram", number: int) -> int:
        """A variable that may be one where a unit is evicted and no unit around it is."""
        variable = program.model.add_variable(1)
        program.add_link([(variable, 1), (program.leaves[number], -1)], most=0)
        for outer in self.candidates.units[number].around:
            if outer in program.leaves:
                program.add_link([(variable, 1), (program.leaves[outer], 1)], most=1)
        return variable

    def _entitled_rows(
        self, program: "VictimProgram", is_taken: int, own: Sequence[QueueNode], theirs: Sequence[QueueNode]
    ) -> None:
        """Where units are taken, the reclaimer stays within its shares; above its quota no queue ends below its own."""
        for name in self.requested:
            requested = program.requested(self.usage.bounds.column[name])
            most = program.max_requested(self.usage.bounds.column[name])
            for node in own:
                margin = self.usage.shares[node.name].get(name, 0) - self.usage.allocated[node.name].get(name, 0)
                self._row_if(program, is_taken, [*requested, *_minus(program.gone(name, node.name))], margin, most)
            quota, held = own[0].share(name).quota, self.usage.allocated[own[0].name].get(name, 0)
            if quota == UNLIMITED:
                continue
            is_over = program.model.add_variable(1)
            within = [*requested, *_minus(program.gone(name, own[0].name))]
            program.add_row([*within, (is_over, -max(most - quota + held, 0))], quota - held)
            for node in theirs:
                stays = node.share(name).quota
                floor = self.usage.allocated[node.name].get(name, 0)
                spare = 0 if stays == UNLIMITED else max(floor - stays, 0)
                gone = program.gone(name, node.name)
                everything = sum(value for _, value in gone)
                both = [(is_taken, everything), (is_over, everything)]
                program.add_row([*gone, *both], spare + 2 * everything)

    def _row_if(self, program: "VictimProgram", condition: int, terms: list[Term], bound: int, most: int) -> None:
        """A bound that holds where a variable is one; `most` is the largest value of the terms."""
        slack = max(most - bound, 0)
        program.add_row([*terms, (condition, slack)], bound + slack)


def _minus(terms: list[Term]) -> list[Term]:
    return [(variable, -value) for variable, value in terms]


class _TakenFromQueues:
    """What a set of units takes from queues."""

    def __init__(self, rules: Reclaim, units: Units) -> None:
        self.tree = rules.usage.tree
        candidates = rules.candidates
        self.by_queue = candidates.held(units)
        self.queues = sorted(self.by_queue)
        outermost = candidates.outermost(units)
        self.units = [(candidates.units[n].gang.queue, candidates.held_by(n)) for n in outermost]
        self._gone: dict[str, Mapping[str, int]] = {}

    def _under(self, node: QueueNode) -> set[str]:
        return {queue for queue in self.queues if node in self.tree.path(queue)}

    def gone(self, node: QueueNode) -> Mapping[str, int]:
        """What is evicted from a queue and those below it."""
        if node.name not in self._gone:
            total = Resources()
            for queue in self._under(node):
                total = plus(total, self.by_queue[queue])
            self._gone[node.name] = total
        return self._gone[node.name]

    def largest(self, node: QueueNode) -> Mapping[str, int]:
        """By resource, the largest unit that can be evicted last: units inside of it go first."""
        under, largest = self._under(node), Resources()
        for queue, amount in self.units:
            for name, number in amount.items() if queue in under else ():
                largest[name] = max(largest.get(name, 0), number)
        return largest
