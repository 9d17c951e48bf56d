"""Follows gangs from arrival to finish: after every change of their pods, whether they wait and whether they work."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from muster.api.core import Pod, PodSpec
from muster.api.names import GPU
from muster.api.objects import key
from muster.api.podgroup import PodGroup
from muster.errors import InputError
from muster.planning.decision import Eviction
from muster.simulator.engine.domain_counts import DomainCounts
from muster.simulator.engine.events import EventHeap, GangFinished, GangScaled
from muster.simulator.engine.gang_run import Cause, GangRun
from muster.simulator.engine.pod_scaling import scale_pods
from muster.simulator.engine.recorder import Recorder
from muster.simulator.engine.simulated_cluster import SimulatedCluster
from muster.simulator.scenario.gang_template import GangArrival, gang_key
from muster.validation.pods.membership import gang_of
from muster.validation.pods.requests import requests

CAPTURED = "captured"  # the class of gangs that a snapshot has
MOST_PODS = 300_000  # at once; twice what Kubernetes supports


class GangTracker:
    """All gangs of a simulation."""

    def __init__(self, cluster: SimulatedCluster, recorder: Recorder, heap: EventHeap) -> None:
        self._cluster, self._recorder, self._heap = cluster, recorder, heap
        self._domains = DomainCounts(cluster.usage)
        self._changed: set[str] = set()  # gangs whose pods changed at this moment
        self._working: dict[str, Counter[str]] = {}  # by gang that works: what its running pods request
        self.runs: dict[str, GangRun] = {}  # by namespace/name; finished ones, too

    # arrival and finish ---------------------------------------------------------------------------------------------

    def adopt(self, groups: Iterable[PodGroup]) -> None:
        """Gangs that are there from the start: they run for ever."""
        groups = tuple(groups)
        names = Counter(group.metadata.name for group in groups)
        for group in groups:
            gang = key(group.metadata)
            name = group.metadata.name if names[group.metadata.name] == 1 else gang
            pods = self._cluster.pods_of(gang)
            gpus = sum(requests(pod.spec).get(GPU, 0) for pod in pods)
            queue = self._cluster.usage.queue_of[gang]
            self.runs[gang] = GangRun(gang, name, queue, CAPTURED, len(pods), gpus, 0)
            self._begin_wait(self.runs[gang], 0)
            self._changed.add(gang)

    def arrive(self, arrival: GangArrival, now_ms: int, now: datetime) -> None:
        """A gang arrives with its PodGroup and its pods."""
        gang, template = gang_key(arrival), arrival.template
        self._check_arrival(arrival, now_ms)
        self._cluster.put_group(template.pod_group(arrival.name, now))
        wanted = arrival.wanted(now_ms)
        for pod in template.make_pods(arrival.name, now, wanted):
            self._cluster.create_pod(pod)
        run = GangRun(
            key=gang,
            name=arrival.name,
            queue=self._cluster.usage.queue_of[gang],
            class_name=arrival.class_name,
            size=template.size,
            gpus=sum(requests(part.spec).get(GPU, 0) * part.pods for part in template.pods),
            arrived_ms=now_ms,
            arrival=arrival,
            remaining_ms=arrival.duration_ms,
            wanted=wanted,
        )
        self.runs[gang] = run
        self._begin_wait(run, now_ms)
        self._recorder.note(now_ms, "arrived", run.name, pods=run.wanted_pods)
        if arrival.scaling is not None:
            self._heap.push(arrival.scaling.next_ms(now_ms), GangScaled(gang))

    def _check_arrival(self, arrival: GangArrival, now_ms: int) -> None:
        at = f"gang `{arrival.name}`, after {now_ms / 1000:,.0f} s"
        if gang_key(arrival) in self.runs:
            raise InputError(f"{at}: another gang has its name", hint="name workloads and jobs of traces apart")
        if len(self._cluster.pods) + arrival.template.size > MOST_PODS:
            raise InputError(
                f"{at}: there are more than {MOST_PODS:,} pods at once", hint="fewer pods a gang, or fewer arrivals"
            )

    def finish(self, gang: str, stretch: int, now_ms: int) -> bool:
        """A gang has done its work and is deleted; False: it was interrupted since."""
        if not self.is_finishing(gang, stretch):
            return False
        run = self.runs[gang]
        run.finish(now_ms)
        self._count_working(gang, None)
        self._cluster.remove_gang(gang)
        self._recorder.waits.finish(run.name, run.waited_ms)
        self._recorder.note(now_ms, "finished", run.name, pods=run.size)
        return True

    def is_finishing(self, gang: str, stretch: int) -> bool:
        """Whether a gang still does the work whose finish was scheduled as the so manieth."""
        run = self.runs[gang]
        return run.finished_ms is None and run.works_since_ms is not None and run.stretch == stretch

    def restore(self, runs: Iterable[GangRun], arrivals: Mapping[str, GangArrival]) -> None:
        """Gangs of a saved state; what their running pods request is counted again."""
        for run in runs:
            run.arrival = arrivals.get(run.key)
            self.runs[run.key] = run
            if run.works_since_ms is not None:
                self._working[run.key] = _sum_requests(self._cluster.working_pods(run.key))

    # changes --------------------------------------------------------------------------------------------------------

    def note_change(self, pod: Pod) -> None:
        """A pod changed: its gang is settled at the end of this moment."""
        self._changed.add(gang_of(pod) or "")

    def note_loss(self, pod: Pod, cause: Cause) -> None:
        """A pod is evicted, or fails with its node."""
        self.note_change(pod)
        run = self.runs.get(gang_of(pod) or "")
        if run is None:
            return
        run.cause = cause
        if cause == "failure":
            run.failed_pods += 1
        else:
            run.evicted_pods += 1

    def note_evictions(self, evictions: Iterable[Eviction], now_ms: int) -> None:
        """A row of the events for each gang, reason and preemptor."""
        groups: dict[tuple[str, str, str, bool], int] = defaultdict(int)
        for eviction in evictions:
            groups[eviction.gang, eviction.reason, eviction.preemptor, bool(eviction.move_to)] += 1
        for (gang, reason, preemptor, is_moved), pods in sorted(groups.items()):
            run, event = self.runs[gang], "moved" if is_moved else "evicted"
            run.moved_pods += pods if is_moved else 0
            other = self.runs[preemptor].name if preemptor in self.runs and preemptor != gang else ""
            self._recorder.note(now_ms, event, run.name, pods=pods, reason=reason, other=other)

    def scale(self, gang: str, now_ms: int, now: datetime) -> tuple[str, ...] | None:
        """A gang gets the pods that the time of day wants; returns those that terminate, None: nothing changes."""
        run = self.runs[gang]
        if run.finished_ms is not None or run.arrival is None or run.arrival.scaling is None:
            return None
        self._heap.push(run.arrival.scaling.next_ms(now_ms), GangScaled(gang))
        wanted = run.arrival.wanted(now_ms)
        if wanted == run.wanted:
            return None
        terminating = tuple(scale_pods(self._cluster, gang, run.arrival, wanted, now))
        if sum(wanted) > run.wanted_pods and run.grows_since_ms is None:
            run.grows_since_ms = now_ms
        run.wanted = wanted
        self._changed.add(gang)
        self._recorder.note(now_ms, "scaled", run.name, pods=run.wanted_pods)
        return terminating

    def settle_changed(self, now_ms: int) -> None:
        """Every gang whose pods changed: whether it waits, and whether it works."""
        for gang in sorted(self._changed):
            if gang in self.runs and self.runs[gang].finished_ms is None:
                self._settle_wait(self.runs[gang], now_ms)
                self._settle_work(self.runs[gang], now_ms)
        self._changed.clear()

    def _settle_wait(self, run: GangRun, now_ms: int) -> None:
        gang = self._cluster.gang(run.key)
        standing = gang.standing
        if not standing.satisfied or gang.broken:
            self._begin_wait(run, now_ms)
        elif run.waits_since_ms is not None:
            run.end_wait(now_ms)
            self._recorder.waits.end(run.name, now_ms)
            self._recorder.waiting_gangs -= 1
            self._domains.count(run, self._cluster.pods_of(run.key))
            self._recorder.note(now_ms, "started", run.name, pods=standing.placed)
        if standing.placed >= run.wanted_pods:
            self._settle_size(run, now_ms, standing.placed)

    def _settle_size(self, run: GangRun, now_ms: int, pods: int) -> None:
        """All pods that it wants are bound."""
        if run.full_ms is None:
            run.full_ms = now_ms
            self._recorder.note(now_ms, "full", run.name, pods=pods)
        if run.grows_since_ms is not None:
            self._recorder.scale_up_ms.append(now_ms - run.grows_since_ms)
            run.grows_since_ms = None

    def _begin_wait(self, run: GangRun, now_ms: int) -> None:
        if run.waits_since_ms is None:
            run.begin_wait(now_ms)
            self._recorder.waiting_gangs += 1

    def _settle_work(self, run: GangRun, now_ms: int) -> None:
        pods = list(self._cluster.working_pods(run.key))
        gang = self._cluster.gang(run.key)
        core = gang if len(pods) == gang.standing.placed else self._cluster.gang(run.key, pods)
        if not core.standing.satisfied or core.broken:
            self._interrupt(run, now_ms)
            return
        held = _sum_requests(pods)
        if run.works_since_ms is None:
            self._recorder.note(now_ms, "working", run.name, pods=len(pods))
        finish_ms = run.work(now_ms, len(pods), held[GPU])
        if finish_ms is not None:
            self._heap.push(finish_ms, GangFinished(run.key, run.stretch))
        self._count_working(run.key, held)

    def _interrupt(self, run: GangRun, now_ms: int) -> None:
        if run.works_since_ms is not None:
            run.interrupt(now_ms)
            self._count_working(run.key, None)
            self._recorder.note(now_ms, "interrupted", run.name, reason=run.cause)

    def _count_working(self, gang: str, held: Counter[str] | None) -> None:
        """What running pods of gangs that work request, in all."""
        before = self._working.pop(gang, None)
        self._recorder.working_gangs += (held is not None) - (before is not None)
        for amounts, sign in ((before, -1), (held, 1)):
            for resource, amount in (amounts or {}).items():
                self._recorder.working[resource] += sign * amount
        if held is not None:
            self._working[gang] = held


def _sum_requests(pods: Iterable[Pod]) -> Counter[str]:
    """Specs with the same containers differ in their nodes only: each is read once."""
    numbers: Counter[int] = Counter()
    examples: dict[int, PodSpec] = {}
    for pod in pods:
        alike = id(pod.spec.containers)
        numbers[alike] += 1
        examples[alike] = pod.spec
    held: Counter[str] = Counter()
    for alike, spec in examples.items():
        for resource, amount in requests(spec).items():
            held[resource] += amount * numbers[alike]
    return held
