"""Writes statuses, conditions, annotations and events after a cycle (E1-E3).

Rule 1: a loop of its own, on the latest outcome: updates that are not sent when a newer outcome comes are dropped, and
scheduling never waits for them. Rule 2: one update of one object at a time, and only what differs from what is stored;
an update that is lost is written again after the next cycle.
"""

import asyncio
import math
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal

import structlog
from msgspec import Struct

from muster.api import names
from muster.api.core import Pod
from muster.api.decoding import encode
from muster.api.meta import Condition, Wire
from muster.api.moment import format_time
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, POD_GROUPS, PODS, QUEUES, Resource
from muster.kube.cluster import Cluster, PatchType, Raw
from muster.kube.errors import ApiError
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.snapshot import Snapshot
from muster.planning.decision import Binding, CyclePlan, GangPlan
from muster.planning.refusal import NotEnoughPods
from muster.reporting.annotations import stale_annotations
from muster.reporting.conditions import ON_PODS, of_stray, pod_conditions
from muster.reporting.outcome import Outcome, orphans, outcomes
from muster.reporting.status import is_reported_elsewhere, pod_group_status, queue_statuses
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.leadership import Leadership, leads_in, within_leadership
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.status.event_recorder import Recorder, about_gang, about_group, about_stray, series_of
from muster.validation.pods.membership import gang_of

log = structlog.get_logger()
CONFLICT = 409
AGAIN_SECONDS = 300.0  # the same event about the same object is not written more often
RECEIVED_SECONDS = 5.0  # for so long, what was written and is not received yet is not written again
AT_ONCE = 16  # updates: few, as bindings come first
SHOWN = 5  # failures that are logged
SILENT_SECONDS = 60.0  # while nothing works, that is logged again after this time
JSON: PatchType = "application/json-patch+json"
STRATEGIC: PatchType = "application/strategic-merge-patch+json"
Kind = Literal["marks", "status", "condition", "event"]
Address = tuple[str, str, str]  # of an object: plural, namespace, name
Said = Mapping[tuple[Address, Kind], tuple[object, float]]  # what, and when


class CycleOutcome(Struct, frozen=True, eq=False):
    """The outcome of a cycle."""

    number: int  # of the cycle
    snapshot: Snapshot
    plan: CyclePlan
    now: datetime
    term: int  # of leadership, in which the snapshot was taken
    unsettled: Mapping[str, str] = {}  # gangs with bindings that are not settled, and why where that lasts long


class StatusUpdate(Struct, frozen=True, eq=False):
    """One thing to write about one object."""

    kind: Kind
    resource: Resource
    namespace: str
    name: str
    says: object  # where the same was said already, it need not be said again
    body: Any

    @property
    def address(self) -> Address:
        """The object."""
        return self.resource.plural, self.namespace, self.name


class StatusWriter:
    """Writes what plans mean to the objects they are about."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        clock: Callable[[], float],
        seconds: float = 10.0,
        observer: Observer | None = None,
        again: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.cluster, self.leadership, self.clock, self.seconds = cluster, leadership, clock, seconds
        self.observer: Observer = observer or NoObserver()
        self.again = again  # called when all updates are sent: whether one failed
        self.reported_cycle = 0  # the last one whose updates are written, as far as a later one does not replace them
        self._latest: CycleOutcome | None = None
        self._woken = asyncio.Event()
        self._number = 0  # the cycle that the updates are of
        self._term = 0  # its term of leadership: in another one, nothing of it is written
        self._newest = 0  # the last cycle that was submitted
        self._updates: dict[Address, list[StatusUpdate]] = {}
        self._busy: dict[Address, asyncio.Event] = {}  # set once the object may be written to again
        self._placed: dict[Address, int] = {}  # pods that were bound, and in which cycle
        self._said: dict[tuple[Address, Kind], tuple[object, float]] = {}  # what, and when
        self._failures: list[str] = []  # the first few
        self._failed = 0
        self._silent_until = -math.inf
        self._drafts = Drafts()
        self._recorder = Recorder(cluster, clock)

    def submit(self, cycle: CycleOutcome) -> None:
        """Writes its updates soon; or never, if a newer outcome comes before."""
        self._latest, self._newest = cycle, cycle.number
        self._woken.set()

    async def yield_to_binding(self, binding: Binding) -> None:
        """Before a pod is bound: drops its updates, and waits for one under way. None may say later that it waits."""
        address = (PODS.plural, binding.namespace, binding.pod)
        self._placed[address] = self._newest + 1
        self._updates.pop(address, None)
        if address in self._busy:
            await self._busy[address].wait()

    def forget(self) -> None:
        """Another replica leads and writes: what was written may be changed, and nothing more is written."""
        self._latest = None
        self._updates.clear()
        self._said.clear()

    async def run(self) -> None:
        """Writes without end."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._woken.wait()
                self._woken.clear()
                cycle, self._latest = self._latest, None
                if cycle is not None:
                    drafts = await in_daemon_thread("status", partial(self._drafts.updates, cycle))
                    self._put(cycle, drafts)
                    self._send_next(tasks)

    def _put(self, cycle: CycleOutcome, fresh: dict[Address, list[StatusUpdate]]) -> None:
        """Objects that waited before come first, with newer updates: else the last ones might wait for ever."""
        if cycle.term != self._term:
            self._said.clear()  # another leader may have written since then
        for update in [*_withdrawn(self._said, fresh, cycle)]:
            fresh[update.address] = [update]
        self._placed = {address: number for address, number in self._placed.items() if number > cycle.number}
        for address in self._placed:
            fresh.pop(address, None)
        now, due = self.clock(), {(address, update.kind) for address, updates in fresh.items() for update in updates}
        self._said = {about: (said, at) for about, (said, at) in self._said.items() if _stands(about, now - at, due)}
        if self._failed:
            self._report_failures()
        self._updates = {address: fresh[address] for address in self._updates if address in fresh} | fresh
        self._number, self._term = cycle.number, cycle.term

    def _send_next(self, tasks: asyncio.TaskGroup) -> None:
        while len(self._busy) < AT_ONCE and (address := self._next()) is not None:
            self._busy[address] = asyncio.Event()
            tasks.create_task(self._send(address, self._updates.pop(address), self._term, tasks))
        if not self._busy:
            self._all_out()

    def _next(self) -> Address | None:
        return next((address for address in self._updates if address not in self._busy), None)

    def _all_out(self) -> None:
        self.reported_cycle = self._number
        self._report_failures()

    def _report_failures(self) -> None:
        """Logs what was not written, and reports whether to try again."""
        failures, failed = self._failures, self._failed
        self._failures, self._failed = [], 0
        if failures and self.clock() >= self._silent_until:
            self._silent_until = self.clock() + SILENT_SECONDS
            for failure in failures:
                log.warning("status not written", what=failure, of=failed)
        self.again(failed > 0)

    async def _send(self, address: Address, updates: list[StatusUpdate], term: int, tasks: asyncio.TaskGroup) -> None:
        """All that is to be written about one object, in order."""
        for update in updates:
            about = (address, update.kind)
            said, _ = self._said.get(about, (None, 0.0))
            if said != update.says and leads_in(self.leadership, term) and await self._write(update):
                self._said[about] = update.says, self.clock()
        self._busy.pop(address).set()
        self._send_next(tasks)

    async def _write(self, update: StatusUpdate) -> bool:
        """Whether it was written. An object that changed or went away is no failure: the watch brings it."""
        try:
            async with within_leadership(self.leadership, self.seconds):
                await self._request(update)
        except ApiError as error:
            if error.status == CONFLICT:
                self.observer.conflict(update.resource.plural)
            elif error.status != 404:
                self._failed += 1
                if len(self._failures) < SHOWN:
                    self._failures.append(f"{update.resource.plural} {update.namespace}/{update.name}: {error.message}")
            return False
        return True

    async def _request(self, update: StatusUpdate) -> None:
        """One request an update, but for an event that is no longer there to be counted up."""
        where = update.resource, update.namespace, update.name
        match update.kind:
            case "event":
                await self._recorder.record(update.body)
            case "marks":
                await self.cluster.patch(*where, update.body)
            case "status":
                await self.cluster.patch(*where, update.body, JSON, "status")
            case "condition":
                await self.cluster.patch(*where, update.body, STRATEGIC, "status")


def _stands(about: tuple[Address, Kind], age_seconds: float, due: Container[tuple[Address, Kind]]) -> bool:
    """Whether what was written need not be written again.

    The cache does not keep conditions of pods, so they stand as long as they are due; a status that is still due after
    a while was changed by another client.
    """
    match about[1]:
        case "event":
            return age_seconds < AGAIN_SECONDS
        case "condition":
            return about in due
        case _:
            return about in due and age_seconds < RECEIVED_SECONDS


# updates ------------------------------------------------------------------------------------------------------------


class Drafts:
    """Everything that differs from what is stored, cycle after cycle.

    A gang about which there was nothing to say is not looked at again until something happens to it: on a large
    cluster that is nearly all of them.
    """

    def __init__(self) -> None:
        self._silent: dict[str, Gang] = {}
        self._where: object = None  # the domains that statuses name

    def updates(self, cycle: CycleOutcome) -> dict[Address, list[StatusUpdate]]:
        """By the object they are about."""
        updates: dict[Address, list[StatusUpdate]] = {}
        for update in (*self._of_gangs(cycle), *_of_orphans(cycle), *_of_queues(cycle)):
            updates.setdefault(update.address, []).append(update)
        return updates

    def _of_gangs(self, cycle: CycleOutcome) -> Iterator[StatusUpdate]:
        before = {gang.key: gang for gang in cycle.snapshot.gangs}
        if cycle.snapshot.topologies is not self._where:
            self._silent, self._where = {}, cycle.snapshot.topologies
        at_rest = {gang_plan.gang.key for gang_plan in cycle.plan.gangs if self._is_silent(gang_plan)}
        self._silent = {key: self._silent[key] for key in at_rest}
        foreign = {gang.key for gang in cycle.snapshot.gangs if gang.is_foreign}  # another scheduler's to report (N6)
        yield from _of_unsettled(cycle)
        for key, outcome in outcomes(cycle.snapshot, cycle.plan, at_rest | foreign | cycle.unsettled.keys()).items():
            about = _about_one(outcome, before[key].source, cycle)
            yield from about or ()
            is_kept = names.MOVED_TO in before[key].source.metadata.annotations  # a promise ends with time (P7)
            if about == [] and outcome.plan.gang is before[key] and _at_rest(outcome.plan) and not is_kept:
                self._silent[key] = before[key]

    def _is_silent(self, gang_plan: GangPlan) -> bool:
        """There was nothing to say about it, and nothing has happened since."""
        return self._silent.get(gang_plan.gang.key) is gang_plan.gang and _at_rest(gang_plan)


def _of_unsettled(cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    """Whatever a status said about these gangs could be wrong: only an event tells that it is not known (E1)."""
    sources = {gang.key: gang.source for gang in cycle.snapshot.gangs if cycle.unsettled.get(gang.key)}
    for key, group in sources.items():
        yield _of_event(about_group(group, "BindingFailed", cycle.unsettled[key], cycle.now))


def _at_rest(gang_plan: GangPlan) -> bool:
    """It runs, and what is said of its extras, if anything, depends on nothing but the gang itself."""
    return gang_plan.verdict == "Scheduled" and all(
        refusal.extra is not None and isinstance(refusal, NotEnoughPods) for refusal in gang_plan.refusals
    )


def _about_one(outcome: Outcome, group: PodGroup, cycle: CycleOutcome) -> list[StatusUpdate] | None:
    """None: something about this gang cannot be put into words. That must not keep other gangs from being scheduled."""
    try:
        return list(_about(outcome, group, cycle))
    except Exception:
        log.exception("status not written", gang=outcome.gang.key)
        return None


def _about(outcome: Outcome, group: PodGroup, cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    if not is_reported_elsewhere(outcome.before, cycle.snapshot.schedulers):
        yield from _of_group(outcome, group, cycle.now)
    for name, condition in pod_conditions(outcome, group).items():
        pod = cycle.snapshot.pods.get(name)
        yield _of_pod(name, pod.metadata.uid if pod else "", condition, cycle.now)
    yield from map(_of_event, about_gang(outcome, group, cycle.snapshot.pods, cycle.now))


def _of_group(outcome: Outcome, group: PodGroup, now: datetime) -> Iterator[StatusUpdate]:
    meta, resource = group.metadata, POD_GROUPS
    if annotations := stale_annotations(outcome, group, now):
        body = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        yield StatusUpdate("marks", resource, meta.namespace, meta.name, body, body)
    status = pod_group_status(outcome, group, now)
    if status != group.status:
        said = _status(meta.uid, status)
        yield StatusUpdate("status", resource, meta.namespace, meta.name, said, said)


def _of_queues(cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    stored = {queue.metadata.name: queue for queue in cycle.snapshot.objects.queues}
    for name, status in queue_statuses(cycle.snapshot, cycle.plan, cycle.now).items():
        queue = stored.get(name)
        if queue is not None and queue.status != status:
            body = _status(queue.metadata.uid, status)
            yield StatusUpdate("status", QUEUES, "", name, body, body)


def _status(uid: str, status: Wire) -> list[Raw]:
    """The whole status in one request: what it does not say any more must go.

    A JSON patch, as Kubernetes heeds a uid in a merge patch nowhere but in objects of its own kinds.
    """
    same = {"op": "test", "path": "/metadata/uid", "value": uid}
    return [same, {"op": "add", "path": "/status", "value": encode(status)}]


def _of_pod(pod: str, uid: str, condition: Condition, now: datetime) -> StatusUpdate:
    """A pod that was deleted and came back under its name carries nothing yet."""
    namespace, _, name = pod.partition("/")
    raw = encode(condition) | {"lastTransitionTime": format_time(now)}
    return StatusUpdate("condition", PODS, namespace, name, (uid, condition), _on_pod(uid, raw))


def _on_pod(uid: str, condition: Raw) -> Raw:
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def _of_orphans(cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    """Pods that no gang speaks for."""
    for stray in orphans(cycle.snapshot):
        pod = cycle.snapshot.pods[stray.pod]
        yield _of_pod(stray.pod, pod.metadata.uid, of_stray(stray), cycle.now)
        yield _of_event(about_stray(stray, pod, cycle.now))


def _of_event(event: Raw) -> StatusUpdate:
    kind, namespace, name, _, reason = series = series_of(event)
    return StatusUpdate("event", EVENTS, namespace, f"{kind}/{name}/{reason}", series, event)


def _withdrawn(said: Said, fresh: Container[Address], cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    """Conditions of pods that still wait, where nothing takes their place: of gangs that want none, or no more (S4)."""
    bound = {(one.namespace, one.pod) for one in cycle.plan.bindings}
    for (address, kind), (says, _) in said.items():
        if kind == "condition" and address not in fresh and address[1:] not in bound:
            yield from _unsaid(address, says, cycle.snapshot.pods.get("/".join(address[1:])), cycle.unsettled)


def _unsaid(
    address: Address, says: object, pod: Pod | None, unsettled: Container[str | None]
) -> Iterator[StatusUpdate]:
    """On a bound pod the condition is not ours any more, and another pod of that name carries none."""
    if (
        pod is None
        or pod_state(pod) is not PodState.PENDING
        or not isinstance(says, tuple)
        or gang_of(pod) in unsettled
    ):
        return
    uid, _ = says
    if uid == pod.metadata.uid:
        body = _on_pod(uid, {"type": ON_PODS, "$patch": "delete"})
        yield StatusUpdate("condition", PODS, *address[1:], says=(uid, None), body=body)
