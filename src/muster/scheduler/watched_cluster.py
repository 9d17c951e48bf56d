"""The cluster as the scheduler knows it: one reflector a kind fills the cache, of which snapshots are built.

Rule: the event loop folds changes into the cache a few at a time, as it also renews a lease; while a thread builds a
snapshot, nothing is folded.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from functools import partial

import structlog

from muster.api.core import Pod
from muster.api.meta import Wire
from muster.api.objects import WATCHED_KINDS
from muster.api.podgroup import PodGroup
from muster.api.resources import PODS, Resource
from muster.config.settings import Scheduling
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ListCompleted, Reflector, ReflectorEvent, ReflectorHealth
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.model.snapshot import Snapshot
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.cycle_trigger import CycleTrigger
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.observer import Observer

log = structlog.get_logger()
FOLDED_AT_ONCE = 500  # pods, before other tasks of the loop run: a probe or a lease waits for several turns of it
FEW_CHANGES = 500  # what a cycle counts quickly: until then changes of one gang are counted together


class WatchedCluster:
    """The cache, and the reflectors that fill it."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Scheduling,
        clock: Callable[[], float],
        observer: Observer,
        trigger: CycleTrigger,
    ) -> None:
        self.cache = Cache(in_scope(settings), settings.scheduler_names, settings.shard.chosen)
        self.health = {resource: _health(resource, clock, observer) for resource in WATCHED_KINDS}
        self._reflectors = {
            resource: Reflector(cluster, resource, health=health) for resource, health in self.health.items()
        }
        self.assumed_pods = AssumedPods(lambda: self.health[PODS].lists)
        self._trigger = trigger  # woken by every change
        self.listeners: list[Callable[[Resource, ReflectorEvent], None]] = []  # called with every event, cached already
        self._is_building = False  # a thread builds a snapshot
        self._relist_term = 0  # of leadership, for which pods are listed again
        self._lists_before = 0  # lists of pods that had begun before that

    @property
    def has_synced(self) -> bool:
        """Whether every kind was listed once."""
        return all(health.has_synced for health in self.health.values())

    @property
    def is_ready(self) -> bool:
        """Whether every watch is alive: a scheduler that receives nothing is not ready."""
        return all(health.is_ready for health in self.health.values())

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Reflects every kind into the cache, without end."""
        for resource, struct in WATCHED_KINDS.items():
            tasks.create_task(self._reflect(resource, struct), name=f"reflect {resource.plural}")

    def is_relisted(self, term: int) -> bool:
        """Whether pods were listed since this term of leadership began; starts a relist for it (I2).

        The watch may be behind what the last leader did, or silently dead, which a quiet cluster does not show.
        """
        if self._relist_term != term:
            self._relist_term, self._lists_before = term, self.health[PODS].lists
            self._reflectors[PODS].relist()
        return self.health[PODS].listed > self._lists_before

    def mark_pod(self, pod: str, uid: str, mark: PodMark | None) -> None:
        """A pod gets this mark with its binding, and has it in the cache at once."""
        if self.cache.set_mark(pod, uid, mark):
            self._trigger.wake()

    async def fold_backlog(self) -> None:
        """Counts what was received, where the next cycle would take long to count it."""
        if self.cache.unfolded_number > FEW_CHANGES:
            await self.fold()

    async def fold(self) -> None:
        """Counts what was received into the cache."""
        while self.has_synced and not self._is_building and self.cache.fold(FOLDED_AT_ONCE):
            await asyncio.sleep(0)

    async def snapshot(self, now: datetime) -> Snapshot:
        """What a plan may know: the cache with assumed pods on top."""
        await self.fold()
        rest = self.cache.prepare(self.assumed_pods.overlay(self.cache.pod, now, self.health[PODS].listed))
        self._is_building = True
        try:
            return await in_daemon_thread("snapshot", partial(self.cache.build, rest, now))
        finally:
            self._is_building = False

    async def _reflect(self, resource: Resource, struct: type[Wire]) -> None:
        async with aclosing(self._reflectors[resource].batches()) as batches:
            async for batch in batches:
                for event in batch:
                    self._handle(resource, struct, event)
                    if isinstance(event, ListCompleted):
                        await self.fold()

    def _handle(self, resource: Resource, struct: type[Wire], event: ReflectorEvent) -> None:
        if (self.cache.handle(struct, event) and not self.cache.echo) or isinstance(event, ListCompleted):
            self._trigger.wake()
        for listener in self.listeners:
            listener(resource, event)


def in_scope(settings: Scheduling) -> Callable[[Pod | PodGroup], bool]:
    """All but gangs of namespaces that are not configured, and pods that wait there.

    Pods that run there stay, as pods of no gang: they take their nodes' resources, and are never evicted.
    """
    namespaces = frozenset(settings.namespaces)

    def is_in_scope(item: Pod | PodGroup) -> bool:
        runs = isinstance(item, Pod) and bool(item.spec.node_name)
        return runs or not namespaces or item.metadata.namespace in namespaces

    return is_in_scope


def _health(resource: Resource, clock: Callable[[], float], observer: Observer) -> ReflectorHealth:
    restarted = partial(observer.watch_restarted, resource.plural)
    health = ReflectorHealth(clock, restarted, partial(_log_problem, resource.plural))
    observer.watch(resource.plural, health.lag_seconds)
    return health


def _log_problem(resource: str, problem: ApiError | None) -> None:
    if problem is None:
        log.info("watch is back", resource=resource)
    else:
        log.warning("watch is lost", resource=resource, reason=problem.reason, what=problem.message)
