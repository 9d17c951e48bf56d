"""Preempt: higher priority, same queue (P5)."""

from muster.planning.disturbance import EvictionReason
from muster.planning.preemption.candidates import Mask
from muster.planning.preemption.rules import EvictionRules


class Preempt(EvictionRules):
    """Victims of a lower priority in the gang's own queue."""

    reason: EvictionReason = "Preempt"
    run_times = ("preempt_min_runtime",)

    def is_worthwhile(self) -> bool:
        """Some gang of the queue must have a lower priority."""
        return self.preemption.lowest_priority(self.gang.queue, self.gang.priority) < self.gang.priority

    def reachable(self) -> Mask:
        """Lower priority in the same queue."""
        candidates = self.candidates
        mask: Mask = candidates.queue == candidates.queues.get(self.gang.queue, -1)
        return mask & (candidates.priority < self.gang.priority)
