"""Events about every binding, eviction and release, on the pod and on the PodGroups it concerns (E1).

Rule 1: events do not slow bindings down. They are sent a few at a time, and wait while bindings or evictions are in
flight. Rule 2: the queue is bounded: where it is full, the oldest events are dropped and counted. Rule 3: a PodGroup
gets one event for everything since the last one, however many pods that were.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime

import structlog
from msgspec import Struct

from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, POD_GROUPS, PODS
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder, event
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.planning.decision import Binding, Eviction
from muster.reporting import event_messages
from muster.scheduler.observer import NoObserver, Observer

log = structlog.get_logger()
MOST_PODS, MOST_GROUPS = 32_768, 8_192  # events that wait to be sent: those of a large backlog
AT_ONCE = 4  # requests: few, as bindings come first
ROUNDS = 16  # of so many requests, before bindings go first again
GATHER_SECONDS = 0.1  # how long the events of one gang are collected into one
YIELD_SECONDS, LONGEST_YIELD_SECONDS = 0.05, 5.0  # while bindings are in flight; then some events are sent anyway
FULL, NOT_TAKEN = "QueueFull", "NotTaken"  # why events are dropped
Done = Binding | Eviction


async def yield_while(is_busy: Callable[[], bool]) -> bool:
    """Waits until no write is in flight, up to a limit: a busy cluster has events, too. Whether none is."""
    for _ in range(int(LONGEST_YIELD_SECONDS / YIELD_SECONDS)):
        if not is_busy():
            return True
        await asyncio.sleep(YIELD_SECONDS)
    return False


class PodEvent(Struct, frozen=True):
    """A binding or an eviction of one pod."""

    done: Done
    uid: str
    term: int  # of leadership, in which it was decided


class EventQueue:
    """Collects accepted writes, and sends events about them behind other writes."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        pod_group: Callable[[str], PodGroup | None],
        is_busy: Callable[[], bool] = lambda: False,
        observer: Observer | None = None,
        seconds: float = 10.0,
    ) -> None:
        self.cluster, self.leadership, self.wall, self.seconds = cluster, leadership, wall, seconds
        self.pod_group = pod_group  # from the cache, by namespace/name
        self.is_busy = is_busy  # whether bindings or evictions are in flight
        self.observer: Observer = observer or NoObserver()
        self._recorder = EventRecorder(cluster, clock)
        self._pods: dict[PodEvent, None] = {}
        self._groups: dict[tuple[str, str, int], list[Done]] = {}  # by PodGroup, reason and term
        self._in_flight = 0
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pods) + len(self._groups) + self._in_flight

    def add(self, done: Done, uid: str, term: int) -> None:
        """The API server accepted a binding or an eviction of the pod with this uid, decided in this term."""
        self._pods[PodEvent(done, uid, term)] = None
        for group, reason in event_messages.group_events(done):
            self._groups.setdefault((group, reason, term), []).append(done)
        self._keep_bounded()
        self._woken.set()

    def _keep_bounded(self) -> None:
        if len(self._pods) > MOST_PODS:
            del self._pods[next(iter(self._pods))]
            self.observer.event_dropped(FULL)
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
            self.observer.event_dropped(FULL)

    def forget(self) -> None:
        """Drops what is not sent yet: another replica leads."""
        self._pods.clear()
        self._groups.clear()

    async def run(self) -> None:
        """Sends without end."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(GATHER_SECONDS)
            while self._pods or self._groups:
                is_free = await yield_while(self.is_busy)
                for _ in range(ROUNDS):
                    await self._send_some()
                    if not (self._pods or self._groups) or (is_free and self.is_busy()):
                        break

    async def _send_some(self) -> None:
        batch = list(self._next(AT_ONCE))
        self._in_flight = len(batch)
        try:
            async with asyncio.TaskGroup() as tasks:
                for raw, is_counted, term in batch:
                    tasks.create_task(self._send(raw, is_counted, term))
        finally:
            self._in_flight = 0

    def _next(self, most: int) -> Iterator[tuple[Raw, bool, int]]:
        """The next events, PodGroups first; each with whether it may count up an existing Event, and its term."""
        for _ in range(most):
            if self._groups:
                key, reason, term = about = next(iter(self._groups))
                raw = self._about_group(key, reason, self._groups.pop(about))
                if raw is not None:
                    yield raw, True, term
            elif self._pods:
                pod_event = next(iter(self._pods))
                del self._pods[pod_event]
                yield self._about_pod(pod_event), False, pod_event.term

    def _about_group(self, key: str, reason: str, done: list[Done]) -> Raw | None:
        group = self.pod_group(key)
        if group is None:
            return None  # it is gone
        about, message = POD_GROUPS, event_messages.group_message(key, done)
        return event(about, group.metadata, reason, message, self.wall(), event_messages.is_normal(reason))

    def _about_pod(self, pod_event: PodEvent) -> Raw:
        meta = ObjectMeta(name=pod_event.done.pod, namespace=pod_event.done.namespace, uid=pod_event.uid)
        reason = event_messages.reason_of(pod_event.done)
        return event(
            PODS,
            meta,
            reason,
            event_messages.pod_message(pod_event.done),
            self.wall(),
            event_messages.is_normal(reason),
        )

    async def _send(self, raw: Raw, is_counted: bool, term: int) -> None:
        """One attempt: an event that the API server rejects is counted as dropped."""
        if not leads_in(self.leadership, term):
            return
        try:
            with within_leadership(self.leadership, self.seconds):
                if is_counted:
                    await self._recorder.record(raw)
                else:
                    await self.cluster.create(EVENTS, raw)
        except ApiError as error:
            self.observer.event_dropped(NOT_TAKEN)
            log.debug("event not taken", reason=raw["reason"], what=error.message)
