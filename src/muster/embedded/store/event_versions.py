"""Events are served twice, as `v1` and as `events.k8s.io/v1`; they are stored once, as `v1`."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from muster.api.resources import EVENTS, NEW_EVENTS
from muster.embedded.store.object_store import Home, ObjectStore, home
from muster.embedded.store.versioned_table import Key, Stored
from muster.kube.cluster import Raw

KEEP = timedelta(hours=1)
# events.k8s.io -> v1
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {old: new for new, old in _RENAMED.items()}


def inward(raw: Raw) -> Raw:
    """An event of events.k8s.io as it is stored."""
    return {**{_RENAMED.get(name, name): value for name, value in raw.items()}, "apiVersion": "v1"}


def outward(raw: Raw) -> Raw:
    """A stored event as events.k8s.io shows it."""
    found = {_BACK.get(name, name): value for name, value in raw.items()}
    return {**found, "apiVersion": NEW_EVENTS.api_version}


class Expiry:
    """Events are forgotten an hour after they were last written, whenever another one is written."""

    def __init__(self, object_store: ObjectStore, clock: Callable[[], datetime]) -> None:
        self._object_store, self._clock = object_store, clock
        self._written: deque[tuple[datetime, Key, int]] = deque()
        object_store.tell.append(self._told)

    def _told(self, where: Home, _: Stored | None, new: Stored | None) -> None:
        if where != home(EVENTS) or new is None:
            return
        now = self._clock()
        self._written.append((now, new.key, new.version))
        while self._written and now - self._written[0][0] > KEEP:
            _written, key, version = self._written.popleft()
            found = self._object_store.get(where, key)
            if found is not None and found.version == version:
                self._object_store.remove(where, key)
