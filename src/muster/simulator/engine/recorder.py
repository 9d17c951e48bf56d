"""Records what happens in a simulation as plain columns: events, a timeline, cycles, and integrals over time."""

from array import array
from collections import defaultdict
from collections.abc import Mapping

from muster.planning.decision import CyclePlan
from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.histories import DomainSamples, QueueHistory, WaitHistory
from muster.simulator.engine.resource_usage import ResourceUsage
from muster.simulator.engine.timeline import MOST_ROWS, CycleHistory, Timeline, new_frame

EVENT_COLUMNS = ("at_seconds", "event", "gang", "node", "pods", "reason", "other")


def seconds(milliseconds: int) -> float:
    """Milliseconds as people read them."""
    return milliseconds / 1000


class Recorder:
    """Receives what happens, in the order of time."""

    def __init__(self, usage: ResourceUsage) -> None:
        self._usage = usage
        self.at_ms = 0
        self.begun_seconds = 0.0  # when the timeline begins
        self.events = new_frame(*EVENT_COLUMNS)
        self.cycles = CycleHistory()
        self.plan_seconds = array("d")  # CPU of every plan; differs from run to run
        names = (f"{kind}_{name}" for name in usage.resources for kind in ("allocated", "working", "capacity"))
        self.timeline = Timeline(
            "waiting_gangs",
            "working_gangs",
            "pending_pods",
            "idle_gpus",
            "stranded_gpus",
            "largest_free_node_gpus",
            "largest_free_domain_gpus",
            *names,
        )
        self.scale_up_ms = array("q")  # from more pods that are wanted until all of them are bound
        self.working: dict[str, int] = defaultdict(int)  # by resource: of pods whose gangs work
        self.working_gangs = self.waiting_gangs = 0
        self.integrals: dict[str, float] = defaultdict(float)  # by column of the timeline: amount × seconds
        self.fair: Mapping[str, Mapping[str, int]] = {}  # by queue and resource, while gangs wait
        self.queue_integrals: dict[tuple[str, str, str], float] = defaultdict(float)  # queue, resource, what
        self.is_infeasible = False  # some gang waits that fits nowhere
        self.waits, self.queues, self.domains = WaitHistory(), QueueHistory(usage.resources), DomainSamples(usage)

    def note(
        self, at_ms: int, event: str, gang: str = "", node: str = "", pods: int = 0, reason: str = "", other: str = ""
    ) -> None:
        """Something happened; `other` is the gang on the other side of it."""
        row = (seconds(at_ms), event, gang, node, pods, reason, other)
        for name, value in zip(EVENT_COLUMNS, row, strict=True):
            self.events[name].append(value)

    def note_plan(self, at_ms: int, plan: CyclePlan, runs: Mapping[str, GangRun], cpu_seconds: float) -> None:
        """A plan was made: what it says about every gang, and what it cost."""
        waiting = unknown = 0
        self.is_infeasible = False
        for gang_plan in plan.gangs:
            run = runs[gang_plan.gang.key]
            run.verdict = gang_plan.verdict
            run.reason = gang_plan.refusals[0].reason if gang_plan.refusals else ""
            if gang_plan.verdict != "Scheduled":
                waiting += 1
                if run.waits_since_ms is not None:
                    self.waits.note(run.name, run.waits_since_ms, at_ms, run.reason)
                unknown += gang_plan.verdict == "Unknown"
                self.is_infeasible |= gang_plan.verdict == "Infeasible"
        if plan.division is not None:
            self.fair = plan.division.shares
        self.cycles.put(
            seconds(at_ms),
            len(plan.gangs),
            cpu_seconds,
            waiting=waiting,
            bindings=len(plan.bindings),
            evictions=len(plan.evictions),
            searches=len(plan.searches),
            steps=sum(plan.searches),
            unknown=unknown,
        )
        self.plan_seconds.append(cpu_seconds)

    def advance(self, at_ms: int) -> None:
        """Time passes while everything stays as it was sampled last."""
        passed = seconds(at_ms - self.at_ms)
        self.at_ms = at_ms
        if passed <= 0 or not self.timeline:
            return
        for name, column in self.timeline.frame.items():
            self.integrals[name] += column[-1] * passed
        for queue, held in self._usage.by_queue.items():
            self._add_queue(queue, held, passed)
        for queue in self.fair.keys() - self._usage.by_queue.keys():
            self._add_queue(queue, {}, passed)

    def _add_queue(self, queue: str, held: Mapping[str, int], passed: float) -> None:
        """A queue is short of its fair share only while gangs wait; else it has what it asks for."""
        fair = self.fair.get(queue, {})
        for resource in self._usage.resources:
            has = held.get(resource, 0)
            share = fair.get(resource, 0) if self.waiting_gangs else has
            self.queue_integrals[queue, resource, "allocated"] += has * passed
            self.queue_integrals[queue, resource, "fair_share"] += share * passed
            self.queue_integrals[queue, resource, "below"] += max(share - has, 0) * passed
            self.queue_integrals[queue, resource, "above"] += max(has - share, 0) * passed

    def sample(self, at_ms: int, pending_pods: int) -> None:
        """The state after all that happened at this moment."""
        usage = self._usage
        idle = int(usage.idle_gpus().sum())
        node, domain = usage.largest_free()
        row = {
            "at_seconds": seconds(at_ms),
            "waiting_gangs": self.waiting_gangs,
            "working_gangs": self.working_gangs,
            "pending_pods": pending_pods,
            "idle_gpus": idle,
            "stranded_gpus": idle if self.is_infeasible else 0,
            "largest_free_node_gpus": node,
            "largest_free_domain_gpus": domain,
        }
        for name in usage.resources:
            row[f"allocated_{name}"] = usage.allocated[name]
            row[f"working_{name}"] = self.working[name]
            row[f"capacity_{name}"] = usage.capacity[name]
        if not self.timeline:
            self.begun_seconds = seconds(at_ms)
        self.timeline.put(row)
        fair = self.fair if self.waiting_gangs else usage.by_queue  # without gangs that wait, each has what it wants
        self.queues.sample(len(self.timeline) - 1, usage.by_queue, fair)
        if (kept := self.timeline.thin(min(MOST_ROWS, self.queues.most_moments))) is not None:
            self.queues.keep(kept)
        self.domains.sample(at_ms)
