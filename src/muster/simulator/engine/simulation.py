"""The loop: events in virtual time, each batch of simultaneous ones followed by one cycle of the real planner.

Rule 1: time never runs back, and two cycles are at least `SPACING_MS` apart, so that no chain of events at one moment
can be endless. Rule 2: a cycle that changes nothing schedules no other one; time alone wakes the scheduler only at
deadlines. Rule 3: nothing here reads a clock or chance: the same scenario gives the same result, byte for byte.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from muster.api.objects import Objects
from muster.placement.budget import Cancelled
from muster.planning.decision import CyclePlan
from muster.simulator.engine.deadlines import deadlines_of, ends_of_run_times, has_notes, run_times
from muster.simulator.engine.events import (
    DrainBegun,
    DrainEnded,
    Event,
    EventHeap,
    GangFinished,
    GangScaled,
    NodeBack,
    NodeLost,
    PodStarted,
    PodStopped,
    Wake,
)
from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.gang_tracker import GangTracker
from muster.simulator.engine.node_changes import NodeChange
from muster.simulator.engine.recorder import Recorder
from muster.simulator.engine.saved_recorder import restore_recorder, save_recorder
from muster.simulator.engine.saved_state import SavedSimulation, load_answers, load_objects, save_answers, save_cluster
from muster.simulator.engine.simulated_cluster import SimulatedCluster
from muster.simulator.engine.simulated_scheduler import AppliedCycle, Planner, SimulatedScheduler
from muster.simulator.scenario.durations import LONGEST_MS
from muster.simulator.scenario.gang_template import GangArrival, gang_key
from muster.simulator.scenario.scheduler_policy import SimulationTimes, policy_of, times_of
from muster.simulator.scenario.types import Scenario

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SPACING_MS = 50  # between two cycles: the debounce of the live loop


class Hooks(Struct, frozen=True):
    """What the caller of a simulation sees and decides while it runs."""

    cpu_clock: Callable[[], float] = lambda: 0.0
    is_stopped: Callable[[], bool] = lambda: False  # before the next moment
    is_cancelled: Callable[[], bool] = lambda: False  # in the middle of a plan; then it cannot be saved
    on_moment: Callable[["Simulation"], object] = lambda _: None  # after everything that happened at one moment
    on_cycle: Callable[[AppliedCycle], object] = lambda _: None
    planner: Planner | None = None  # another one to compare with; None: the real one


class Simulation:
    """One scenario while it runs."""

    def __init__(
        self,
        scenario: Scenario,
        objects: Objects,
        arrivals: Iterator[GangArrival],
        changes: Iterator[NodeChange],
        hooks: Hooks | None = None,
        saved: SavedSimulation | None = None,
    ) -> None:
        """`saved`: the state to go on from; None: the start."""
        self._hooks = hooks or Hooks()
        self._times: SimulationTimes = times_of(scenario)
        self.epoch = _start_of(objects)
        self._run_times = run_times(objects.queues)
        self._arrivals, self._changes = arrivals, changes
        self._arrived = self._changed = 0  # how many arrivals, and changes of nodes, there were
        self._heap = EventHeap()
        arrived: dict[str, GangArrival] = {}
        if saved is not None:
            arrived = {gang_key(arrival): arrival for arrival in islice(arrivals, saved.arrived)}
            objects = load_objects(objects, saved.cluster, arrived)
            deque(islice(changes, saved.changed), maxlen=0)
        self._next_arrival, self._next_change = next(arrivals, None), next(changes, None)
        self.cluster = SimulatedCluster(objects)
        self._scheduler = SimulatedScheduler(
            self.cluster, policy_of(scenario), self._hooks.cpu_clock, self._hooks.is_cancelled, self._hooks.planner
        )
        self.recorder = Recorder(self.cluster.usage)
        self._tracker = GangTracker(self.cluster, self.recorder, self._heap)
        self.now_ms = 0
        self.is_complete = False  # it came to its end
        self._is_torn = False  # it ended in the middle of a moment
        self._noted: set[str] = set()  # gangs with notes of time
        self._unready: Counter[str] = Counter()  # nodes, by the failures that they are in
        self._cordoned: Counter[str] = Counter()  # nodes, by the drains that they are in
        self._needs_cycle = False
        self._last_cycle_ms = -SPACING_MS
        self._wake_ms: int | None = None  # the next one that is scheduled
        if saved is not None:
            self._restore(saved, arrived)
        else:
            self._adopt(objects)

    @property
    def now(self) -> datetime:
        """The virtual date."""
        return self.epoch + timedelta(milliseconds=self.now_ms)

    @property
    def stamp(self) -> datetime:
        """The virtual date as objects carry it: the API server stores whole seconds, and so decides who is older."""
        return self.now.replace(microsecond=0)

    @property
    def runs(self) -> Mapping[str, GangRun]:
        """Every gang that has arrived, by `namespace/name`; finished ones, too."""
        return self._tracker.runs

    # saving ---------------------------------------------------------------------------------------------------------

    def save(self) -> SavedSimulation:
        """The state after the last moment."""
        assert not self._is_torn, "a plan was given up in the middle of a moment"
        return SavedSimulation(
            epoch=self.epoch,
            now_ms=self.now_ms,
            arrived=self._arrived,
            changed=self._changed,
            needs_cycle=self._needs_cycle,
            last_cycle_ms=self._last_cycle_ms,
            wake_ms=self._wake_ms,
            unready=dict(self._unready),
            cordoned=dict(self._cordoned),
            events=self._heap.scheduled,
            next_number=self._heap.next_number,
            cluster=save_cluster(self.cluster),
            runs=[replace(run, arrival=None) for run in self.runs.values()],
            recorder=save_recorder(self.recorder),
            answers=save_answers(self._scheduler.memory),
        )

    def _restore(self, saved: SavedSimulation, arrived: Mapping[str, GangArrival]) -> None:
        self.epoch, self.now_ms = saved.epoch, saved.now_ms
        self._arrived, self._changed = saved.arrived, saved.changed
        self._needs_cycle, self._last_cycle_ms, self._wake_ms = saved.needs_cycle, saved.last_cycle_ms, saved.wake_ms
        self._unready.update(saved.unready)
        self._cordoned.update(saved.cordoned)
        self._heap.restore(saved.events, saved.next_number)
        self._scheduler.memory = load_answers(saved.answers)
        restore_recorder(self.recorder, saved.recorder)
        self.cluster.restore(saved.cluster.retired, saved.cluster.number)
        self._tracker.restore(saved.runs, arrived)
        self._note_deadlines(self.cluster.groups)

    # the loop -------------------------------------------------------------------------------------------------------

    def run(self, until_ms: int | None = None) -> None:
        """Runs to the horizon, until nothing is left to happen, until then, or until the caller stops it."""
        horizon_ms = self._times.horizon_ms
        end_ms = LONGEST_MS if horizon_ms is None else horizon_ms
        while (at_ms := self._next_ms()) is not None and at_ms < end_ms:
            if self._hooks.is_stopped() or (until_ms is not None and at_ms >= until_ms):
                return
            self.recorder.advance(at_ms)
            self.now_ms = at_ms
            try:
                self._process_moment()
            except Cancelled:
                self._is_torn = True
                return
        self.now_ms = self.now_ms if horizon_ms is None else horizon_ms
        self.recorder.advance(self.now_ms)
        self.is_complete = True

    def _next_ms(self) -> int | None:
        self._drop_void_events()
        arrival_ms = None if self._next_arrival is None else self._next_arrival.at_ms
        change_ms = None if self._next_change is None else self._next_change[0]
        return min((ms for ms in (self._heap.next_ms, arrival_ms, change_ms) if ms is not None), default=None)

    def _drop_void_events(self) -> None:
        """Time must not pass for an event that means nothing any more, or a simulation would end too late."""
        while (event := self._heap.next_event) is not None and self._is_void(event):
            self._heap.drop_next()
            if isinstance(event, Wake):
                self._wake_ms = None

    def _is_void(self, event: Event) -> bool:
        match event:
            case GangFinished(gang=gang, stretch=stretch):
                return not self._tracker.is_finishing(gang, stretch)
            case PodStarted(pod=pod) | PodStopped(pod=pod):
                return pod not in self.cluster.pods
            case Wake():
                return self._is_idle and not self._needs_cycle
            case _:
                return False

    @property
    def _is_idle(self) -> bool:
        """Whether a plan would decide nothing: no pod waits, and no grace period runs."""
        return not self.cluster.pending and not self._noted

    def _process_moment(self) -> None:
        while self._next_arrival is not None and self._next_arrival.at_ms <= self.now_ms:
            self._tracker.arrive(self._next_arrival, self.now_ms, self.stamp)
            self._needs_cycle = True
            self._arrived += 1
            self._next_arrival = next(self._arrivals, None)
        while self._next_change is not None and self._next_change[0] <= self.now_ms:
            self._heap.push(*self._next_change)
            self._changed += 1
            self._next_change = next(self._changes, None)
        while (event := self._heap.pop_due(self.now_ms)) is not None:
            self._handle(event)
        self._tracker.settle_changed(self.now_ms)
        if self._needs_cycle:
            self._plan_or_wait()
        self.recorder.sample(self.now_ms, len(self.cluster.pending))
        self._hooks.on_moment(self)

    def _handle(self, event: Event) -> None:
        match event:
            case PodStarted(pod=pod):
                self._start_pod(pod)
            case PodStopped(pod=pod):
                self._replace_pod(pod)
            case GangFinished(gang=gang, stretch=stretch):
                self._finish(gang, stretch)
            case GangScaled(gang=gang):
                self._scale(gang)
            case NodeLost(node=node):
                self._lose_node(node)
            case NodeBack(node=node):
                self._restore_node(node)
            case DrainBegun(node=node):
                self._drain(node)
            case DrainEnded(node=node):
                self._end_drain(node)
            case Wake():
                self._wake_ms = None
                self._needs_cycle = True

    def _adopt(self, objects: Objects) -> None:
        """What a snapshot has: gangs that run for ever, pods that start or terminate."""
        self._tracker.adopt(objects.pod_groups)
        self._note_deadlines(self.cluster.groups)
        for name, pod in self.cluster.pods.items():
            if pod.metadata.deletion_timestamp is not None:
                self._heap.push(self._times.stop_ms, PodStopped(name))
            elif pod.spec.node_name and pod.status.phase in ("", "Pending"):
                self._heap.push(self._times.start_ms, PodStarted(name))
        if objects.pod_groups:
            self._heap.push(0, Wake())

    def _finish(self, gang: str, stretch: int) -> None:
        if self._tracker.finish(gang, stretch, self.now_ms):
            self._noted.discard(gang)
            self._needs_cycle = True

    def _scale(self, gang: str) -> None:
        terminating = self._tracker.scale(gang, self.now_ms, self.stamp)
        for pod in terminating or ():
            self._heap.push(self.now_ms + self._times.stop_ms, PodStopped(pod))
        self._needs_cycle |= terminating is not None

    # pods and nodes -------------------------------------------------------------------------------------------------

    def _start_pod(self, pod: str) -> None:
        if self.cluster.start(pod):
            self._tracker.note_change(self.cluster.pods[pod])

    def _replace_pod(self, pod: str) -> None:
        """A pod that is gone frees its node, and its controller makes another one."""
        if pod in self.cluster.pods:
            old = self.cluster.replace_pod(pod, self.stamp)
            self._tracker.note_change(old)
            self._needs_cycle = True

    def _lose_node(self, node: str) -> None:
        self._unready[node] += 1
        failed = [pod for pod in self.cluster.pods_on(node) if not self.cluster.is_terminating(pod)]
        self.recorder.note(self.now_ms, "node lost", node=node, pods=len(failed))
        self.cluster.write_readiness(node, False, self.stamp)
        for pod in failed:
            self._tracker.note_loss(self.cluster.pods[pod], "failure")
        for pod in self.cluster.pods_on(node):
            self._replace_pod(pod)
        self._needs_cycle = True

    def _restore_node(self, node: str) -> None:
        self._unready[node] -= 1
        if not self._unready[node]:
            self.cluster.write_readiness(node, True, self.stamp)
            self.recorder.note(self.now_ms, "node back", node=node)
            self._needs_cycle = True

    def _drain(self, node: str) -> None:
        self._cordoned[node] += 1
        self.cluster.cordon(node, True)
        evicted = [pod for pod in self.cluster.pods_on(node) if self.cluster.evict(pod, self.stamp)]
        self.recorder.note(self.now_ms, "drain", node=node, pods=len(evicted))
        for pod in evicted:
            self._tracker.note_loss(self.cluster.pods[pod], "eviction")
            self._heap.push(self.now_ms + self._times.stop_ms, PodStopped(pod))
        self._needs_cycle = True

    def _end_drain(self, node: str) -> None:
        self._cordoned[node] -= 1
        if not self._cordoned[node]:
            self.cluster.cordon(node, False)
            self.recorder.note(self.now_ms, "drain ended", node=node)
            self._needs_cycle = True

    # cycles ---------------------------------------------------------------------------------------------------------

    def _plan_or_wait(self) -> None:
        """A cycle now, or once enough time has passed since the last one; none where there is nothing to decide."""
        if self._is_idle:
            self._needs_cycle = False
            self.recorder.is_infeasible = False
            return
        if self.now_ms < self._last_cycle_ms + SPACING_MS:
            self._wake_at(self._last_cycle_ms + SPACING_MS)
            return
        cycle = self._scheduler.run_cycle(self.now)
        self._needs_cycle, self._last_cycle_ms = False, self.now_ms
        self.recorder.note_plan(self.now_ms, cycle.plan, self.runs, cycle.cpu_seconds)
        self._carry_out(cycle.plan)
        self._hooks.on_cycle(cycle)
        self._tracker.settle_changed(self.now_ms)
        self._schedule_next(cycle)

    def _carry_out(self, plan: CyclePlan) -> None:
        """What follows from a plan: pods start, evicted ones terminate."""
        for binding in plan.bindings:
            self._heap.push(self.now_ms + self._times.start_ms, PodStarted(binding.key))
            self._tracker.note_change(self.cluster.pods[binding.key])
        for eviction in plan.evictions:
            self._tracker.note_loss(self.cluster.pods[eviction.key], "eviction")
            self._heap.push(self.now_ms + self._times.stop_ms, PodStopped(eviction.key))
        self._tracker.note_evictions(plan.evictions, self.now_ms)

    def _schedule_next(self, cycle: AppliedCycle) -> None:
        """The next cycle: soon, if this one changed something and pods still wait; else when a deadline passes."""
        self._note_deadlines(cycle.annotated)
        if cycle.is_changed and self.cluster.pending:
            self._wake_at(self.now_ms + SPACING_MS)
            return
        ends = [end for name in sorted(self._noted) for end in deadlines_of(self.cluster.gang(name), self.now)]
        if self._run_times and self.cluster.pending:
            ends += ends_of_run_times(self.cluster.groups.values(), self._run_times)
        later = [end for end in ends if end > self.now]
        if later:
            self._wake_at(self._to_ms(min(later)))

    def _note_deadlines(self, gangs: Iterable[str]) -> None:
        """Which gangs have deadlines, after some were annotated."""
        for gang in gangs:
            (self._noted.add if has_notes(self.cluster.groups[gang]) else self._noted.discard)(gang)

    def _wake_at(self, at_ms: int) -> None:
        """Wakes the scheduler then, unless it wakes before; one wake that comes too early does no harm."""
        if self._wake_ms is None or self._wake_ms > at_ms or self._wake_ms <= self.now_ms:
            self._wake_ms = at_ms
            self._heap.push(at_ms, Wake())

    def _to_ms(self, moment: datetime) -> int:
        """The first millisecond at which a moment has come."""
        return -((self.epoch - moment) // timedelta(milliseconds=1))


def _start_of(objects: Objects) -> datetime:
    """When the simulation begins: after everything that a snapshot knows of."""
    metas = [*(pod.metadata for pod in objects.pods), *(group.metadata for group in objects.pod_groups)]
    known = [moment for meta in metas for moment in (meta.creation_timestamp, meta.deletion_timestamp) if moment]
    return max(known, default=EPOCH)
