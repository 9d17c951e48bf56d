"""Events are served as `v1` and as `events.k8s.io/v1`; they are stored as `v1`, and expire."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from muster.api.resources import EVENTS, NEW_EVENTS
from muster.embedded.store.object_store import GroupResource, ObjectStore, group_resource
from muster.embedded.store.versioned_table import NamespacedName, StoredObject
from muster.kube.cluster import Raw

EVENT_TTL = timedelta(hours=1)
_STORED_FIELDS = {  # events.k8s.io -> v1
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SERVED_FIELDS = {stored: served for served, stored in _STORED_FIELDS.items()}


def to_storage(raw: Raw) -> Raw:
    """An event of events.k8s.io as it is stored."""
    return {**{_STORED_FIELDS.get(name, name): value for name, value in raw.items()}, "apiVersion": "v1"}


def from_storage(raw: Raw) -> Raw:
    """A stored event as events.k8s.io serves it."""
    served = {_SERVED_FIELDS.get(name, name): value for name, value in raw.items()}
    return {**served, "apiVersion": NEW_EVENTS.api_version}


class EventExpiry:
    """Removes events an hour after their last write, whenever another event is written."""

    def __init__(self, object_store: ObjectStore, clock: Callable[[], datetime]) -> None:
        self._object_store, self._clock = object_store, clock
        self._writes: deque[tuple[datetime, NamespacedName, int]] = deque()
        object_store.listeners.append(self._on_change)

    def _on_change(self, resource: GroupResource, _: StoredObject | None, new: StoredObject | None) -> None:
        if resource != group_resource(EVENTS) or new is None:
            return
        now = self._clock()
        self._writes.append((now, new.key, new.version))
        while self._writes and now - self._writes[0][0] > EVENT_TTL:
            _written_at, key, version = self._writes.popleft()
            event = self._object_store.get(resource, key)
            if event is not None and event.version == version:
                self._object_store.remove(resource, key)
