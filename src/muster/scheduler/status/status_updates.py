"""What a cycle changes in statuses, conditions, annotations and events (E1-E3): one update an object and kind.

Rule: only what differs from what is stored; nothing here writes.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
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
from muster.kube.cluster import Raw
from muster.kube.event_recorder import series_of
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.snapshot import Snapshot
from muster.planning.decision import CyclePlan, GangPlan
from muster.planning.refusal import NotEnoughPods
from muster.reporting.annotations import stale_annotations
from muster.reporting.conditions import ON_PODS, of_stray, pod_conditions
from muster.reporting.outcome import Outcome, orphans, outcomes
from muster.reporting.status import is_reported_elsewhere, pod_group_status, queue_statuses
from muster.scheduler.status.gang_events import about_gang, about_group, about_stray
from muster.validation.pods.membership import gang_of

log = structlog.get_logger()
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


def withdrawn_conditions(written: Written, fresh: Container[Address], cycle: CycleOutcome) -> Iterator[StatusUpdate]:
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
