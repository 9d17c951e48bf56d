"""Events: why something waits, on the object that waits, as `kubectl describe` shows it (E1, N4).

`event_queue` sends events about bindings and evictions.

Rule 1: events about one object with one reason are one Event with a count, as with Kubernetes' own recorders; it has
the latest message. Rule 2: callers decide how often they record.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b

from msgspec import Struct

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.moment import format_time
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, POD_GROUPS, PODS, Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.model.gang.pod_state import PodState, pod_state
from muster.reporting.conditions import stray_words
from muster.reporting.explain import is_worth_an_event, message
from muster.reporting.outcome import Outcome
from muster.validation.pods.membership import Stray

STRAY_PODS = "StrayPods"
LONGEST = 1024  # characters of a message, as Kubernetes has it
LONGEST_NAME = 200  # of the object, in the name of an Event
KEPT_SECONDS = 3600.0  # how long API servers keep an Event that is not updated
Series = tuple[str, str, str, str, str]  # what identifies an Event: kind, namespace, name, uid, and the reason


class CountedEvent(Struct, frozen=True):
    """An Event that exists, or whose creation was requested."""

    name: str
    count: int  # 0: unconfirmed
    at: float  # by a clock that never goes back


class EventRecorder:
    """Writes events, and remembers the count of each for as long as API servers keep it."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self.cluster, self.clock = cluster, clock
        self._recorded: dict[Series, CountedEvent] = {}  # the latest one comes last

    async def record(self, event: Raw) -> None:
        """Count the event up, or create it."""
        series, meta = series_of(event), event["metadata"]
        self._forget()
        recorded = self._recorded.get(series)
        if recorded is None or not await self._count_up(recorded, event):
            recorded = CountedEvent(meta["name"], 0, self.clock())
            self._recorded[series] = recorded  # before the request: without an answer, the next attempt patches it
            await self.cluster.create(EVENTS, event)
        self._recorded.pop(series, None)
        self._recorded[series] = CountedEvent(recorded.name, recorded.count + 1, self.clock())

    async def _count_up(self, recorded: CountedEvent, event: Raw) -> bool:
        """Whether the Event still exists and was counted up."""
        changes = {"count": recorded.count + 1, "lastTimestamp": event["lastTimestamp"], "message": event["message"]}
        try:
            await self.cluster.patch(EVENTS, event["metadata"]["namespace"], recorded.name, changes)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _forget(self) -> None:
        """Drop the counts of Events that API servers have deleted by now."""
        old = self.clock() - KEPT_SECONDS
        while self._recorded and self._recorded[first := next(iter(self._recorded))].at < old:
            del self._recorded[first]


def series_of(event: Raw) -> Series:
    """What identifies an Event: events of one series are counted as one."""
    about = event["involvedObject"]
    return (about["kind"], about["namespace"], about["name"], about["uid"], event["reason"])


# events -------------------------------------------------------------------------------------------------------------


def about_gang(outcome: Outcome, group: PodGroup, pods: Mapping[str, Pod], now: datetime) -> Iterator[Raw]:
    """Why a gang waits; and its strays that wait, each on its pod and all on the PodGroup (N4)."""
    resource, meta = POD_GROUPS, group.metadata
    for refusal in outcome.plan.refusals:
        if is_worth_an_event(refusal):
            runs = refusal.extra is not None
            yield event(resource, meta, refusal.reason, message(refusal), now, is_normal=runs)
    strays = [
        stray for stray in outcome.gang.strays if pod_state(pods[stray.pod]) in (PodState.PENDING, PodState.GATED)
    ]
    if strays:
        yield event(resource, meta, STRAY_PODS, stray_words(strays), now)
    for stray in strays:
        yield about_stray(stray, pods[stray.pod], now)


def about_group(group: PodGroup, reason: str, message: str, now: datetime) -> Raw:
    """An Event on a PodGroup."""
    return event(POD_GROUPS, group.metadata, reason, message, now)


def about_stray(stray: Stray, pod: Pod, now: datetime) -> Raw:
    """Why a pod belongs to no gang."""
    return event(PODS, pod.metadata, stray.why, f"the pod {stray.says}", now)


def event(
    resource: Resource, meta: ObjectMeta, reason: str, message: str, now: datetime, is_normal: bool = False
) -> Raw:
    """An Event about an object."""
    about = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }
    at = format_time(now.replace(microsecond=0))
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": _name(meta, reason, now), "namespace": meta.namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message[:LONGEST],
        "type": "Normal" if is_normal else "Warning",
        "source": {"component": "muster"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _name(meta: ObjectMeta, reason: str, now: datetime) -> str:
    """Known before it is sent: an Event whose creation is unconfirmed can be patched later."""
    suffix = blake2b(f"{meta.uid}/{reason}/{now.timestamp()}".encode(), digest_size=8).hexdigest()
    return f"{meta.name[:LONGEST_NAME].rstrip('.-')}.{suffix}"
