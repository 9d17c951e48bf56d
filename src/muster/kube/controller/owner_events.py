"""Events that controllers have to say about the objects that they reconcile.

Rule 1: an event that is said again at once is not written again: a controller decides on what it sees, and may see a
change of its own late. Rule 2: the leader only, in its term (I9). Rule 3: an event that cannot be written is dropped;
the status says the same.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice

from muster.api.meta import ObjectMeta
from muster.api.resources import Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder, event
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.workloads.types import OwnerEvent

EVENT_SECONDS = 30.0  # that writing an event may take
AGAIN_SECONDS = 60.0  # before the same event about an object is written again
MOST_EVENTS = 8  # of one reconciliation


class OwnerEvents:
    """Writes events about owners, as long as this replica leads."""

    def __init__(self, cluster: Cluster, leadership: Leadership, now: Callable[[], datetime]) -> None:
        self._leadership, self._now = leadership, now
        self._recorder = EventRecorder(cluster, time.monotonic)

    async def record_failure(self, resource: Resource, owner: Raw, reason: str, message: str, term: int) -> None:
        """What went wrong; every attempt counts."""
        await self._write(self._event(resource, owner, OwnerEvent(reason, message)), term)

    async def record_changes(self, resource: Resource, owner: Raw, events: Iterable[OwnerEvent], term: int) -> None:
        """What a controller has to say, but for what it said a moment ago."""
        for change in islice(events, MOST_EVENTS):
            raw = self._event(resource, owner, change)
            if not self._recorder.is_repeated(raw, AGAIN_SECONDS):
                await self._write(raw, term)

    def _event(self, resource: Resource, owner: Raw, change: OwnerEvent) -> Raw:
        metadata = owner["metadata"]
        about = ObjectMeta(name=metadata["name"], namespace=metadata.get("namespace", ""), uid=metadata.get("uid", ""))
        return event(resource, about, change.reason, change.message, self._now(), change.is_normal)

    async def _write(self, raw: Raw, term: int) -> None:
        if not leads_in(self._leadership, term):
            return
        try:
            with within_leadership(self._leadership, EVENT_SECONDS):
                await self._recorder.record(raw)
        except ApiError:
            return
