"""Writes statuses, conditions, annotations and events after a cycle (E1-E3).

Rule 1: a loop of its own, on the latest outcome, behind the bindings: a newer outcome replaces updates that are not
sent yet, and scheduling never waits for them. Rule 2: one update of an object at a time, and only what differs from
what is stored; a lost one is written again after the next cycle.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal

import structlog
from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod
from muster.api.decoding import encode
from muster.api.meta import Condition, Wire
from muster.api.moment import format_time
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, POD_GROUPS, PODS, QUEUES, Resource
from muster.kube.cluster import Cluster, PatchType, Raw
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder, series_of
from muster.kube.leadership import Leadership, leads_in, within_leadership
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
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.status.event_queue import yield_while
from muster.scheduler.status.gang_events import about_gang, about_group, about_stray
from muster.validation.pods.membership import gang_of

log = structlog.get_logger()
CONFLICT = 409
AGAIN_SECONDS = 300.0  # the same event about the same object is not written more often
EMPTIED_SECONDS = 5.0  # how much later a gang is reported whose last pod has left: most go with their workload
RECEIVED_SECONDS = 5.0  # how long an update that the cache does not have yet is not written again
AT_ONCE, AT_ONCE_BUSY = 16, 1  # updates: few, as bindings come first; fewer while these are in flight
SHOWN = 5  # failures that are logged
SILENT_SECONDS = 60.0  # between log lines about failures
JSON: PatchType = "application/json-patch+json"
STRATEGIC: PatchType = "application/strategic-merge-patch+json"
Kind = Literal["annotations", "status", "condition", "event"]
Address = tuple[str, str, str]  # of an object: plural, namespace, name
Written = Mapping[tuple[Address, Kind], tuple[object, float]]  # the content, and when


class CycleOutcome(Struct, frozen=True, eq=False):
    """The outcome of a cycle."""

    number: int  # of the cycle
    snapshot: Snapshot
    plan: CyclePlan
    now: datetime
    term: int  # of leadership, in which the snapshot was taken
    unsettled: Mapping[str, str] = {}  # gangs with bindings that are not settled, and why where that lasts long


class StatusUpdate(Struct, frozen=True, eq=False):
    """One write to one object."""

    kind: Kind
    resource: Resource
    namespace: str
    name: str
    content: object  # for comparison: an update whose content was written already is skipped
    body: Any
    emptied: str = ""  # the gang, where its last pod has left since it was reported

    @property
    def address(self) -> Address:
        """The object."""
        return self.resource.plural, self.namespace, self.name


class StatusWriter:
    """Writes the outcome of cycles to PodGroups, pods and queues."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        clock: Callable[[], float],
        seconds: float = 10.0,
        observer: Observer | None = None,
        again: Callable[[bool], None] = lambda _: None,
        reports_orphan: Callable[[Pod], bool] = lambda _: True,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cluster, self.leadership, self.clock, self.seconds = cluster, leadership, clock, seconds
        self.observer: Observer = observer or NoObserver()
        self.is_busy = is_busy  # whether bindings or evictions are in flight
        self.again = again  # called when all updates are sent, with whether one failed
        self.reported_cycle = 0  # the last one whose updates are written or replaced by later ones
        self._latest: CycleOutcome | None = None
        self._woken = asyncio.Event()
        self._number = 0  # of the cycle that `_updates` belong to
        self._term = 0  # its term of leadership: in another one, none of them is written
        self._newest = 0  # number of the last cycle that was submitted
        self._updates: dict[Address, list[StatusUpdate]] = {}
        self._busy: dict[Address, asyncio.Event] = {}  # set once the object may be written to again
        self._placed: dict[Address, int] = {}  # pods that were bound, and from which cycle on they may be written to
        self._written: dict[tuple[Address, Kind], tuple[object, float]] = {}  # the content, and when
        self._emptied: dict[str, float] = {}  # gangs whose last pod has left, and since when that is known
        self._failures: list[str] = []  # the first few messages
        self._failed = 0
        self._silent_until = -math.inf
        self._builder = UpdateBuilder(reports_orphan)
        self._recorder = EventRecorder(cluster, clock)

    def submit(self, cycle: CycleOutcome) -> None:
        """Writes its updates soon; or never, if a newer outcome comes first."""
        self._latest, self._newest = cycle, cycle.number
        self._woken.set()

    def yield_to_binding(self, binding: Binding) -> Awaitable[object] | None:
        """Before a pod is bound: drops its updates; waits for one in flight: none may report later that it waits."""
        address = (PODS.plural, binding.namespace, binding.pod)
        self._placed[address] = self._newest + 1
        self._updates.pop(address, None)
        return self._busy[address].wait() if address in self._busy else None

    def forget(self) -> None:
        """Drops every update: another replica leads, and may change what was written."""
        self._latest = None
        self._updates.clear()
        self._written.clear()

    async def run(self) -> None:
        """Writes without end."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._woken.wait()
                await yield_while(self.is_busy)
                self._woken.clear()
                cycle, self._latest = self._latest, None
                if cycle is not None:
                    updates = await in_daemon_thread("status", partial(self._builder.updates, cycle))
                    self._replace_updates(cycle, updates)
                    self._send_next(tasks)

    def _replace_updates(self, cycle: CycleOutcome, fresh: dict[Address, list[StatusUpdate]]) -> None:
        """Objects that waited before come first, with newer updates: otherwise the last ones might starve."""
        if cycle.term != self._term:
            self._written.clear()  # another leader may have written since then
        for update in [*_withdrawn(self._written, fresh, cycle)]:
            fresh[update.address] = [update]
        self._placed = {address: number for address, number in self._placed.items() if number > cycle.number}
        for address in [*self._placed, *self._emptied_lately(fresh)]:
            fresh.pop(address, None)
        now, due = self.clock(), {(address, update.kind) for address, updates in fresh.items() for update in updates}
        self._written = {
            about: entry for about, entry in self._written.items() if _is_current(about, now - entry[1], due)
        }
        if self._failed:
            self._report_failures()
        self._updates = {address: fresh[address] for address in self._updates if address in fresh} | fresh
        self._number, self._term = cycle.number, cycle.term

    def _emptied_lately(self, fresh: Mapping[Address, list[StatusUpdate]]) -> Iterator[Address]:
        """Objects of gangs whose last pod has just left: their PodGroups go as well, unless they get other pods."""
        now, before = self.clock(), self._emptied
        emptied = {address: updates[0].emptied for address, updates in fresh.items() if updates[0].emptied}
        self._emptied = {gang: before.get(gang, now) for gang in emptied.values()}
        return (address for address, gang in emptied.items() if now - self._emptied[gang] < EMPTIED_SECONDS)

    def _send_next(self, tasks: asyncio.TaskGroup) -> None:
        most = AT_ONCE_BUSY if self.is_busy() else AT_ONCE
        while len(self._busy) < most and (address := self._next()) is not None:
            self._busy[address] = asyncio.Event()
            tasks.create_task(self._send(address, self._updates.pop(address), self._term, tasks))
        if not self._busy:
            self._finish_cycle()

    def _next(self) -> Address | None:
        return next((address for address in self._updates if address not in self._busy), None)

    def _finish_cycle(self) -> None:
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
        """Writes the updates of one object, in order."""
        for update in updates:
            about = (address, update.kind)
            content, _ = self._written.get(about, (None, 0.0))
            if content != update.content and leads_in(self.leadership, term) and await self._write(update):
                self._written[about] = update.content, self.clock()
        self._busy.pop(address).set()
        self._send_next(tasks)

    async def _write(self, update: StatusUpdate) -> bool:
        """Whether it was written. An object that changed or is gone is no failure: the watch brings the change."""
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
        """One request an update; two for an Event that no longer exists and is created again."""
        where = update.resource, update.namespace, update.name
        match update.kind:
            case "event":
                await self._recorder.record(update.body)
            case "annotations":
                await self.cluster.patch(*where, update.body)
            case "status":
                await self.cluster.patch(*where, update.body, JSON, "status")
            case "condition":
                await self.cluster.patch(*where, update.body, STRATEGIC, "status")


def _is_current(about: tuple[Address, Kind], age_seconds: float, due: Container[tuple[Address, Kind]]) -> bool:
    """Whether an update that was written need not be written again.

    The cache does not keep conditions of pods, so they are current as long as they are due; a status that is still due
    after a while was changed by another client.
    """
    match about[1]:
        case "event":
            return age_seconds < AGAIN_SECONDS
        case "condition":
            return about in due
        case _:
            return about in due and age_seconds < RECEIVED_SECONDS


# updates ------------------------------------------------------------------------------------------------------------


class UpdateBuilder:
    """Builds the updates of each cycle: everything that differs from what is stored.

    A gang without updates is skipped until it changes: on a large cluster these are nearly all.
    """

    def __init__(self, reports_orphan: Callable[[Pod], bool] = lambda _: True) -> None:
        self._reports_orphan = reports_orphan  # whether a pod without a gang is reported here, and not by the grouper
        self._unchanged: dict[str, Gang] = {}
        self._topologies: object = None  # the domains that statuses name

    def updates(self, cycle: CycleOutcome) -> dict[Address, list[StatusUpdate]]:
        """Updates by object."""
        updates: dict[Address, list[StatusUpdate]] = {}
        for update in (*self._of_gangs(cycle), *_of_orphans(cycle, self._reports_orphan), *_of_queues(cycle)):
            updates.setdefault(update.address, []).append(update)
        return updates

    def _of_gangs(self, cycle: CycleOutcome) -> Iterator[StatusUpdate]:
        before = {gang.key: gang for gang in cycle.snapshot.gangs}
        if cycle.snapshot.topologies is not self._topologies:
            self._unchanged, self._topologies = {}, cycle.snapshot.topologies
        at_rest = {gang_plan.gang.key for gang_plan in cycle.plan.gangs if self._is_unchanged(gang_plan)}
        self._unchanged = {key: self._unchanged[key] for key in at_rest}
        foreign = {gang.key for gang in cycle.snapshot.gangs if gang.is_foreign}  # another scheduler's to report (N6)
        yield from _of_unsettled(cycle)
        for key, outcome in outcomes(cycle.snapshot, cycle.plan, at_rest | foreign | cycle.unsettled.keys()).items():
            about = _of_gang_or_none(outcome, before[key].source, cycle)
            yield from about or ()
            has_moves = names.MOVED_TO in before[key].source.metadata.annotations  # they expire (P7)
            if about == [] and outcome.plan.gang is before[key] and _at_rest(outcome.plan) and not has_moves:
                self._unchanged[key] = before[key]

    def _is_unchanged(self, gang_plan: GangPlan) -> bool:
        """Whether the gang had no updates, and has not changed since."""
        return self._unchanged.get(gang_plan.gang.key) is gang_plan.gang and _at_rest(gang_plan)


def _of_unsettled(cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    """Any status of a gang with unconfirmed bindings could be wrong: only an event reports them (E1)."""
    sources = {gang.key: gang.source for gang in cycle.snapshot.gangs if cycle.unsettled.get(gang.key)}
    for key, group in sources.items():
        yield _of_event(about_group(group, "BindingFailed", cycle.unsettled[key], cycle.now))


def _at_rest(gang_plan: GangPlan) -> bool:
    """Whether the gang runs, and refusals of its extras, if any, depend on nothing but the gang itself."""
    return gang_plan.verdict == "Scheduled" and all(
        refusal.extra is not None and isinstance(refusal, NotEnoughPods) for refusal in gang_plan.refusals
    )


def _of_gang_or_none(outcome: Outcome, group: PodGroup, cycle: CycleOutcome) -> list[StatusUpdate] | None:
    """None where an internal error prevents them: it must not keep other gangs from being reported."""
    try:
        updates = list(_about(outcome, group, cycle))
        return [replace(each, emptied=outcome.gang.key) for each in updates] if _is_emptied(outcome, group) else updates
    except Exception:
        log.exception("status not written", gang=outcome.gang.key)
        return None


def _is_emptied(outcome: Outcome, group: PodGroup) -> bool:
    """Whether no pod is left of a gang that had some when it was last reported."""
    left, reported = outcome.before.standing, group.status
    has_left = left.placed or left.pending or left.gated or left.succeeded
    return not has_left and reported is not None and reported.running + reported.pending > 0


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
        yield StatusUpdate("annotations", resource, meta.namespace, meta.name, body, body)
    status = pod_group_status(outcome, group, now)
    if status != group.status:
        patch = _status(meta.uid, status)
        yield StatusUpdate("status", resource, meta.namespace, meta.name, patch, patch)


def _of_queues(cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    stored = {queue.metadata.name: queue for queue in cycle.snapshot.objects.queues}
    for name, status in queue_statuses(cycle.snapshot, cycle.plan, cycle.now).items():
        queue = stored.get(name)
        if queue is not None and queue.status != status:
            body = _status(queue.metadata.uid, status)
            yield StatusUpdate("status", QUEUES, "", name, body, body)


def _status(uid: str, status: Wire) -> list[Raw]:
    """The whole status in one request: fields that are not in it any more must go.

    A JSON patch, as Kubernetes checks a uid in a merge patch only for its built-in kinds.
    """
    same = {"op": "test", "path": "/metadata/uid", "value": uid}
    return [same, {"op": "add", "path": "/status", "value": encode(status)}]


def _of_pod(pod: str, uid: str, condition: Condition, now: datetime) -> StatusUpdate:
    """The content has the uid: a pod that was created again under the same name has no condition yet."""
    namespace, _, name = pod.partition("/")
    raw = encode(condition) | {"lastTransitionTime": format_time(now)}
    return StatusUpdate("condition", PODS, namespace, name, (uid, condition), _on_pod(uid, raw))


def _on_pod(uid: str, condition: Raw) -> Raw:
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def _of_orphans(cycle: CycleOutcome, is_reported: Callable[[Pod], bool]) -> Iterator[StatusUpdate]:
    """Updates of strays that name no existing gang."""
    for stray in orphans(cycle.snapshot):
        pod = cycle.snapshot.pods[stray.pod]
        if not is_reported(pod):
            continue
        yield _of_pod(stray.pod, pod.metadata.uid, of_stray(stray), cycle.now)
        yield _of_event(about_stray(stray, pod, cycle.now))


def _of_event(event: Raw) -> StatusUpdate:
    kind, namespace, name, _, reason = series = series_of(event)
    return StatusUpdate("event", EVENTS, namespace, f"{kind}/{name}/{reason}", series, event)


def _withdrawn(written: Written, fresh: Container[Address], cycle: CycleOutcome) -> Iterator[StatusUpdate]:
    """Removes conditions of pods that still wait and get no new one, as `markUnschedulable` is off by now (S4)."""
    bound = {(binding.namespace, binding.pod) for binding in cycle.plan.bindings}
    for (address, kind), (content, _) in written.items():
        if kind == "condition" and address not in fresh and address[1:] not in bound:
            yield from _removed_condition(
                address, content, cycle.snapshot.pods.get("/".join(address[1:])), cycle.unsettled
            )


def _removed_condition(
    address: Address, content: object, pod: Pod | None, unsettled: Container[str | None]
) -> Iterator[StatusUpdate]:
    """Nothing on a bound pod, whose condition is not ours any more, or on another pod of that name, which has none."""
    if (
        pod is None
        or pod_state(pod) is not PodState.PENDING
        or not isinstance(content, tuple)
        or gang_of(pod) in unsettled
    ):
        return
    uid, _ = content
    if uid == pod.metadata.uid:
        body = _on_pod(uid, {"type": ON_PODS, "$patch": "delete"})
        yield StatusUpdate("condition", PODS, *address[1:], content=(uid, None), body=body)
