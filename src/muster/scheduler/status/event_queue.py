"""Events of what was done: every placement, eviction and release, on the pod and on the PodGroups it concerns (E1).

Rule 1: events cost no pace. They are sent a few at a time, and wait while bindings or evictions are on their way.
Rule 2: the queue is bounded: where more happens than can be sent, the oldest are dropped and counted. Rule 3: one event
on a PodGroup for all that happened to it since the last one, however many pods that were.
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
from muster.planning.decision import Binding, Eviction
from muster.reporting import event_messages
from muster.scheduler.leadership import Leadership, leads_in, within_leadership
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.status.event_recorder import Recorder, event

log = structlog.get_logger()
MOST_PODS, MOST_GROUPS = 4096, 1024  # events that wait to be sent
AT_ONCE = 4  # requests: few, as bindings come first
ROUNDS = 16  # of so many requests, before bindings are given way to again
GATHER_SECONDS = 0.1  # so long, what happens to one gang is gathered
YIELD_SECONDS, LONGEST_YIELD_SECONDS = 0.05, 2.0  # while bindings are on their way; then some events go out anyway
FULL, NOT_TAKEN = "QueueFull", "NotTaken"  # why events are dropped
Done = Binding | Eviction


class AboutPod(Struct, frozen=True):
    """One thing that happened to one pod."""

    done: Done
    uid: str
    term: int  # of leadership, in which it was decided


class EventQueue:
    """Gathers what was done, and tells it behind the writes that did it."""

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
        self.pod_group = pod_group  # as it was last seen, by namespace/name
        self.is_busy = is_busy  # whether bindings or evictions are on their way
        self.observer: Observer = observer or NoObserver()
        self._recorder = Recorder(cluster, clock)
        self._pods: dict[AboutPod, None] = {}
        self._groups: dict[tuple[str, str, int], list[Done]] = {}  # by PodGroup, reason and term
        self._in_flight = 0
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pods) + len(self._groups) + self._in_flight

    def add(self, done: Done, uid: str, term: int) -> None:
        """The API server took a binding or an eviction of the pod with this uid, decided in this term."""
        self._pods[AboutPod(done, uid, term)] = None
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
        """Another replica leads: what is not sent yet is not ours to send."""
        self._pods.clear()
        self._groups.clear()

    async def run(self) -> None:
        """Sends without end."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(GATHER_SECONDS)
            while self._pods or self._groups:
                is_free = await self._yield()
                for _ in range(ROUNDS):
                    await self._send_some()
                    if not (self._pods or self._groups) or (is_free and self.is_busy()):
                        break

    async def _yield(self) -> bool:
        """Lets bindings go first, for a while: a cluster that never rests has events, too. Whether it rests now."""
        for _ in range(int(LONGEST_YIELD_SECONDS / YIELD_SECONDS)):
            if not self.is_busy():
                return True
            await asyncio.sleep(YIELD_SECONDS)
        return False

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
        """PodGroups first; each event with whether it counts up one that is there already, and its term."""
        for _ in range(most):
            if self._groups:
                key, reason, term = about = next(iter(self._groups))
                raw = self._about_group(key, reason, self._groups.pop(about))
                if raw is not None:
                    yield raw, True, term
            elif self._pods:
                one = next(iter(self._pods))
                del self._pods[one]
                yield self._about_pod(one), False, one.term

    def _about_group(self, key: str, reason: str, done: list[Done]) -> Raw | None:
        group = self.pod_group(key)
        if group is None:
            return None  # it is gone
        about, message = POD_GROUPS, event_messages.group_message(key, done)
        return event(about, group.metadata, reason, message, self.wall(), event_messages.is_normal(reason))

    def _about_pod(self, one: AboutPod) -> Raw:
        meta = ObjectMeta(name=one.done.pod, namespace=one.done.namespace, uid=one.uid)
        reason = event_messages.reason_of(one.done)
        return event(
            PODS,
            meta,
            reason,
            event_messages.pod_message(one.done),
            self.wall(),
            event_messages.is_normal(reason),
        )

    async def _send(self, raw: Raw, is_counted: bool, term: int) -> None:
        """Events are worth one try: what an API server does not take is counted as dropped."""
        if not leads_in(self.leadership, term):
            return
        try:
            async with within_leadership(self.leadership, self.seconds):
                if is_counted:
                    await self._recorder.record(raw)
                else:
                    await self.cluster.create(EVENTS, raw)
        except ApiError as error:
            self.observer.event_dropped(NOT_TAKEN)
            log.debug("event not taken", reason=raw["reason"], what=error.message)
