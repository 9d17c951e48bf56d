"""Events about a gang, read from the API server when its page is opened."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from muster.api.moment import parse_time
from muster.api.resources import EVENTS, POD_GROUPS
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.observability.logging import logger
from muster.reporting.dashboard.rows import GangEvent

MOST_EVENTS = 100
READ_SECONDS = 3.0
REMEMBERED_SECONDS, MOST_REMEMBERED = 2.0, 64  # viewers of one page share an answer


class GangEvents:
    """Lists events of PodGroups; what was read last is remembered for a moment."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster, self._clock = cluster, clock
        self._read: dict[str, tuple[float, tuple[GangEvent, ...]]] = {}

    async def of(self, namespace: str, name: str) -> tuple[GangEvent, ...]:
        """The events about a PodGroup, newest first; none where the API server gives no answer."""
        key, now = f"{namespace}/{name}", self._clock()
        if key in self._read and now - self._read[key][0] < REMEMBERED_SECONDS:
            return self._read[key][1]
        try:
            async with asyncio.timeout(READ_SECONDS):
                events = await self._list(namespace, name)
        except (ApiError, TimeoutError) as error:
            what = error.message if isinstance(error, ApiError) else "no answer in time"
            logger("dashboard").warning("events cannot be listed", gang=key, what=what)
            return ()
        self._read.pop(key, None)
        self._read[key] = now, events
        if len(self._read) > MOST_REMEMBERED:
            del self._read[next(iter(self._read))]
        return events

    async def _list(self, namespace: str, name: str) -> tuple[GangEvent, ...]:
        fields = f"involvedObject.kind={POD_GROUPS.kind},involvedObject.name={name}"
        listed = await self._cluster.list(EVENTS, namespace, fields=fields, limit=MOST_EVENTS)
        return tuple(sorted(map(_event, listed.items), key=moment_of, reverse=True))


def moment_of(event: GangEvent) -> datetime:
    """When it happened, for comparisons: as texts, whole seconds come after their fractions. Unknown: before all."""
    return parse_time(event.at) or datetime.min.replace(tzinfo=UTC)


def _event(raw: Raw) -> GangEvent:
    about: dict[str, Any] = raw.get("involvedObject") or {}
    at = raw.get("lastTimestamp") or raw.get("eventTime") or (raw.get("metadata") or {}).get("creationTimestamp") or ""
    return GangEvent(
        at=str(at),
        type=str(raw.get("type", "")),
        reason=str(raw.get("reason", "")),
        message=str(raw.get("message", "")),
        object=f"{about.get('kind', '')}/{about.get('name', '')}",
    )
