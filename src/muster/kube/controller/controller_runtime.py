"""Controllers on any cluster: reflectors, one cache, one work queue, and pure functions (`workloads.types`) to decide.

Rule 1: an object is reconciled only when all kinds that its controller reads were listed. Rule 2: what goes wrong with
one object is said on it and retried with a backoff of its own; the others go on. Rule 3: a kind that the cluster does
not serve is waited for; its CRD wakes it. Rule 4: only the leader writes, in its term (I9).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial

from muster.api.resources import DEFINITIONS, Resource
from muster.kube.cache.reflector import (
    ListCompleted,
    ObjectDeleted,
    ObjectUpdated,
    Reflector,
    ReflectorEvent,
    ReflectorHealth,
)
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.action_writer import FIELD_MANAGER, ActionWriter, FailedAction
from muster.kube.controller.object_cache import ObjectCache
from muster.kube.controller.orphan_collector import OrphanCollector
from muster.kube.controller.owner_events import OwnerEvents
from muster.kube.controller.status_queue import StatusQueue
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading, Leadership
from muster.kube.stored_object import StoredObject, raw_of, version_of
from muster.kube.work_queue import WorkQueue
from muster.workloads.conditions import timestamp
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Controller, Create, Key, Remove, Update, kinds_of, related_keys

WORKERS = 8
EXPIRE_SECONDS = 60.0
PER_CHILD_SECONDS, LONGEST_DELAY_SECONDS = 0.0002, 1.0  # changes of many children are reconciled together
FEW_CHILDREN = 50  # below, a change is reconciled at once
BUSY_SECONDS = 0.05  # while actions are in flight: what follows them is reconciled together
CHEAP_SECONDS, COST_FACTOR = 0.005, 10  # an object whose reconciliation takes longer waits so many times as long


def _now() -> datetime:
    return datetime.now(UTC)


class ControllerRuntime:
    """Runs the controllers of these kinds. `run` until cancelled.

    `fed` are kinds that `handle` gets from watches of others. `keep`: what is kept of an object; None: nothing.
    Statuses wait while actions are in flight, or `is_busy`. `on_problem`: a kind whose watch fails; None: it is back.
    """

    def __init__(
        self,
        cluster: Cluster,
        controllers: Mapping[Resource, Controller] = CONTROLLERS,
        now: Callable[[], datetime] = _now,
        leadership: Leadership | None = None,
        fed: Collection[Resource] = (),
        keep: Callable[[Resource, StoredObject], Raw | None] = lambda _, stored: raw_of(stored),
        field_manager: str = FIELD_MANAGER,
        workers: int = WORKERS,
        is_busy: Callable[[], bool] = lambda: False,
        on_problem: Callable[[Resource, ApiError | None], None] = lambda *_: None,
    ) -> None:
        self._controllers, self._now, self._workers = dict(controllers), now, workers
        self._leadership: Leadership = leadership or AlwaysLeading()
        self._keep = keep
        self.cache = ObjectCache(time.monotonic, self._on_change)
        self._writer = ActionWriter(cluster, self.cache, lambda: timestamp(now()), self._leadership, field_manager)
        self._events = OwnerEvents(cluster, self._leadership, now)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._failed: dict[Key, object] = {}  # what waits to be tried again, and the version that failed
        self._unseen: set[Key] = set()  # of them, those that have changed since they were reconciled
        self._costs: dict[Key, float] = {}  # seconds of the last reconciliation, where it was not cheap
        self._statuses = StatusQueue(
            cluster,
            self.cache,
            self._leadership,
            time.monotonic,
            lambda: self.is_writing or is_busy(),
            self._queue.add_later,
            self._events.record_failure,
        )
        kinds = dict.fromkeys(kind for controller in controllers.values() for kind in kinds_of(controller))
        self._definitions = Reflector(cluster, DEFINITIONS, health=_health(DEFINITIONS, on_problem))
        self._reflectors = {
            kind: Reflector(cluster, kind, health=_health(kind, on_problem)) for kind in kinds if kind not in fed
        }
        self._fed = dict.fromkeys((kind for kind in kinds if kind in fed), False)  # whether it was listed
        self._orphans = OrphanCollector(cluster, self.cache, controllers, self._has_synced, self._leadership)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource in self._reflectors:
                tasks.create_task(self._reflect(resource), name=f"reflector of {resource.plural}")
            tasks.create_task(self._wake_on_definitions())
            tasks.create_task(self._expire())
            tasks.create_task(self._queue.run(self._reconcile, self._workers))
            tasks.create_task(self._statuses.run())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now; objects may still wait for their time."""
        return self._queue.is_idle and not len(self._statuses)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be done, now or later, until something changes."""
        return not len(self._queue) and not len(self._statuses)

    @property
    def is_writing(self) -> bool:
        """Whether actions are in flight."""
        return self._writer.in_flight > 0

    @property
    def has_requests(self) -> bool:
        """Whether any request that writes is in flight."""
        return self.is_writing or self._statuses.in_flight > 0

    def every(self, resource: Resource) -> list[Raw]:
        """All objects of a kind that are known; other threads may call it."""
        return [raw for key in self.cache.all_keys(resource) if (raw := self.cache.get(*key)) is not None]

    def lead(self) -> None:
        """Leadership has begun: everything is reconciled, as another leader may have written."""
        for key in self.cache.all_keys():
            if key[0] in self._controllers:
                self._queue.add(key)

    # watches

    def handle(self, resource: Resource, received: ReflectorEvent) -> None:
        """One event of a watch; of kinds that no controller reads, nothing is kept."""
        if resource not in self._fed and resource not in self._reflectors:
            return
        match received:
            case ObjectUpdated():
                self._update(resource, received.stored)
            case ObjectDeleted(object=raw):
                self.cache.observe_deletion(raw)
            case ListCompleted():
                if resource in self._fed:
                    self._fed[resource] = True
                self._on_listed(resource)

    def _update(self, resource: Resource, stored: StoredObject) -> None:
        kept = self._keep(resource, stored)
        if kept is not None:
            self.cache.observe(resource, kept)
        else:
            self.cache.forget(version_of(stored)[0])

    async def _reflect(self, resource: Resource) -> None:
        async with aclosing(self._reflectors[resource].events()) as events:
            async for received in events:
                self.handle(resource, received)

    def _on_listed(self, resource: Resource) -> None:
        """Reconciles what had to wait for this list."""
        for controller in self._controllers.values():
            if resource in kinds_of(controller):
                for key in self.cache.all_keys(controller.resource):
                    self._queue.add(key)
        for key in self.cache.all_keys():
            self._enqueue_orphan(key)

    def _has_synced(self, resource: Resource) -> bool:
        if resource in self._fed:
            return self._fed[resource]
        return self._reflectors[resource].health.has_synced

    async def _wake_on_definitions(self) -> None:
        """Lists a kind as soon as its CRD is there; until then its reflector waits longer and longer."""
        async with aclosing(self._definitions.events()) as events:
            async for received in events:
                if isinstance(received, ObjectUpdated):
                    for resource in _defined(received.object, self._reflectors):
                        if not self._reflectors[resource].health.is_ready:
                            self._reflectors[resource].relist()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_SECONDS)
            self.cache.expire()

    # which objects a change concerns

    def _on_change(self, key: Key, raw: Raw) -> None:
        if key[0] in self._controllers:
            self._enqueue_soon(key, raw["metadata"].get("uid", ""), is_new=not raw.get("status"))
            self._enqueue_orphans_of(raw["metadata"].get("uid", ""))
        for uid, owner in self.cache.owners_of(raw):
            if owner is None:
                self._enqueue_orphan(key)
            elif self._concerns(owner, key[0]):
                self._enqueue_soon(owner, uid)
        for related in related_keys(self._controllers.values(), key[0], raw, self.cache):
            self._add(related, self._busy_seconds())

    def _concerns(self, owner: Key, resource: Resource) -> bool:
        controller = self._controllers.get(owner[0])
        return controller is not None and resource in controller.children

    def _enqueue_soon(self, owner: Key, uid: str, *, is_new: bool = False) -> None:
        count = self.cache.count_children(uid)
        seconds = 0.0 if count < FEW_CHILDREN else PER_CHILD_SECONDS * count
        self._add(owner, seconds if is_new else max(seconds, self._busy_seconds()))

    def _busy_seconds(self) -> float:
        return BUSY_SECONDS if self.is_writing else 0.0

    def _add(self, key: Key, seconds: float) -> None:
        """Reconcile it soon; the more its reconciliation costs, the more changes are reconciled together.

        What has failed waits for its time, unless its spec has changed: its status, which says why, changes as well.
        """
        if key in self._failed and self._failed[key] == self._generation(key):
            self._unseen.add(key)
            return
        seconds = min(LONGEST_DELAY_SECONDS, max(seconds, COST_FACTOR * self._costs.get(key, 0.0)))
        if seconds:
            self._queue.add_later(key, seconds)
        else:
            self._queue.add(key)

    def _enqueue_orphans_of(self, uid: str) -> None:
        if self.cache.find(uid) is None:
            for child in self.cache.children(uid):
                self._enqueue_orphan(child)

    def _enqueue_orphan(self, key: Key) -> None:
        raw = self.cache.get(*key)
        if raw is not None and self._orphans.is_orphan(raw):
            self._queue.add_later(key, self._orphans.wait_seconds(raw))

    def _generation(self, key: Key) -> object:
        raw = self.cache.get(*key)
        return None if raw is None else (raw["metadata"].get("uid"), raw["metadata"].get("generation"))

    # reconciliation

    async def _reconcile(self, key: Key) -> bool:
        """Whether nothing is left to do about an object, until it changes or its time comes."""
        self._unseen.discard(key)
        is_done = await self._reconcile_once(key)
        if not is_done:
            self._failed[key] = self._generation(key)
        elif self._failed.pop(key, None) is not None and key in self._unseen:
            self._queue.add(key)
        return is_done

    async def _reconcile_once(self, key: Key) -> bool:
        raw, controller = self.cache.get(*key), self._controllers.get(key[0])
        if raw is None:
            self._costs.pop(key, None)
        if raw is None or not self._leadership.leading:
            return True
        if self._orphans.is_orphan(raw):
            return await self._orphans.collect(key)
        if controller is None or not all(map(self._has_synced, kinds_of(controller))):
            return True  # its list will bring it back
        return await self._reconcile_owner(key, raw, controller)

    async def _reconcile_owner(self, key: Key, owner: Raw, controller: Controller) -> bool:
        term, began = self._leadership.term, time.monotonic()
        try:
            reconciliation = controller.reconcile(owner, self.cache, self._now())
        except Exception as error:  # an object that nothing has validated: the others go on
            await self._events.record_failure(
                key[0], owner, "FailedReconcile", f"{type(error).__name__}: {error}", term
            )
            return False
        self._note_cost(key, time.monotonic() - began)
        failures = await self._writer.perform(reconciliation.actions, term)
        status = reconciliation.status
        if failures:
            reason, message = _explain(failures[0])
            await self._events.record_failure(key[0], owner, reason, message, term)
            if status is not None and controller.failed is not None:
                status = controller.failed(owner, status, reason, message, self._now())
        self._statuses.put(key, owner, status, term)
        if not failures:
            await self._events.record_changes(key[0], owner, reconciliation.events, term)
        again = reconciliation.again_after_seconds
        if again == 0 and not await self._statuses.write_now(key):
            return False
        if failures:
            return False
        if again:
            self._queue.add_later(key, again)
        elif again is not None:
            self._queue.add(key)
        return True

    def _note_cost(self, key: Key, seconds: float) -> None:
        if seconds > CHEAP_SECONDS:
            self._costs[key] = seconds
        else:
            self._costs.pop(key, None)


def _health(resource: Resource, on_problem: Callable[[Resource, ApiError | None], None]) -> ReflectorHealth:
    return ReflectorHealth(on_change=partial(on_problem, resource))


def _explain(failure: FailedAction) -> tuple[str, str]:
    """Reason and message of an action that failed, as Kubernetes' controllers put it."""
    match failure.action:
        case Create():
            reason, verb = "FailedCreate", "creating"
        case Remove():
            reason, verb = "FailedDelete", "deleting"
        case Update():
            reason, verb = "FailedUpdate", "updating"
    return reason, f"Error {verb}: {failure.error.message}"


def _defined(definition: Raw, resources: Iterable[Resource]) -> list[Resource]:
    """The kinds that a CRD defines."""
    return [kind for kind in resources if f"{kind.plural}.{kind.group}" == definition["metadata"]["name"]]
