"""Events: counted as Kubernetes' own recorders count them, on the object that they are about.

Rule 1: events about one object with one reason are one Event with a count; it has the latest message. Rule 2: callers
decide how often they record.
"""

from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b

from msgspec import Struct

from muster.api.meta import ObjectMeta
from muster.api.moment import format_time
from muster.api.resources import EVENTS, Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError

LONGEST = 1024  # characters of a message, as Kubernetes has it
LONGEST_NAME = 200  # of the object, in the name of an Event
KEPT_SECONDS = 3600.0  # how long API servers keep an Event that is not updated
MOST_RECORDED = 4_096  # Events whose counts are known, as in Kubernetes' own recorders
CLUSTER_SCOPED = "default"  # the namespace of events about objects in none
Series = tuple[str, str, str, str, str]  # what identifies an Event: kind, namespace, name, uid, and the reason


class CountedEvent(Struct, frozen=True):
    """An Event that exists, or whose creation was requested."""

    name: str
    count: int  # 0: unconfirmed
    at: float  # by a clock that never goes back
    message: bytes = b""  # a digest of the latest


class EventRecorder:
    """Writes events, and remembers the counts of the latest, for as long as API servers keep them."""

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
        digest = _digest(event["message"])
        self._recorded[series] = CountedEvent(recorded.name, recorded.count + 1, self.clock(), digest)

    def __len__(self) -> int:
        return len(self._recorded)

    def is_repeated(self, event: Raw, seconds: float) -> bool:
        """Whether the latest event of its series says the same, and was recorded in these last seconds."""
        recorded = self._recorded.get(series_of(event))
        if recorded is None or recorded.message != _digest(event["message"]):
            return False
        return self.clock() - recorded.at < seconds

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
        """Drop the counts of Events that API servers have deleted by now, and of the oldest where there are many."""
        old = self.clock() - KEPT_SECONDS
        while self._recorded:
            first = next(iter(self._recorded))
            if self._recorded[first].at >= old and len(self._recorded) < MOST_RECORDED:
                return
            del self._recorded[first]


def _digest(message: str) -> bytes:
    """Sentences may have a kilobyte, and there are thousands."""
    return blake2b(message.encode(errors="surrogatepass"), digest_size=16).digest()


def series_of(event: Raw) -> Series:
    """What identifies an Event: events of one series are counted as one."""
    about = event["involvedObject"]
    return (about["kind"], about["namespace"], about["name"], about["uid"], event["reason"])


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
        "metadata": {"name": _name(meta, reason, now), "namespace": meta.namespace or CLUSTER_SCOPED},
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
