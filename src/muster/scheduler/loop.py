"""The scheduler's loop: hear, wait for quiet, plan, carry out, tell. Level-triggered: nothing has to be replayed."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial

import structlog
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.meta import Wire
from muster.api.objects import WATCHED_KINDS
from muster.api.podgroup import PodGroup
from muster.api.resources import PODS, Resource
from muster.config.settings import Scheduling
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ListCompleted, Reflector, ReflectorHealth
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.model.snapshot import Snapshot
from muster.placement.budget import Cancelled
from muster.planning.allocation.allocate import OnBound
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.apply.binder import Binder, UnconfirmedBinding, wanted_in
from muster.scheduler.apply.eviction_backoff import EvictionBackoff
from muster.scheduler.apply.evictor import Evictor
from muster.scheduler.apply.nominator import Nominator
from muster.scheduler.apply.plan_applier import PlanApplier, concerned_pods
from muster.scheduler.apply.pod_api import PodApi
from muster.scheduler.apply.volume_binder import VolumeBinder
from muster.scheduler.apply.write_pool import WritePool
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.leadership import AlwaysLeading, Leadership, leads_in
from muster.scheduler.longer_searches import LongerSearches
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.promises import UnseenPromises
from muster.scheduler.status.decision_log import DecisionLog
from muster.scheduler.status.event_queue import EventQueue
from muster.scheduler.status.status_writer import CycleOutcome, StatusWriter

log = structlog.get_logger()
FIRST_SECONDS, MOST_FAILURES = 0.05, 8  # after failures, the next try comes after 0.1, 0.2 … 12.8 s, or on a change
TELL_SECONDS = 10.0  # doubt that lasts longer is told
AT_A_TIME = 2_000  # pods that are counted before others have their turn


class Scheduler:
    """One scheduler on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Scheduling | None = None,
        leadership: Leadership | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        observer: Observer | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.cluster, self.settings, self.clock, self.wall = cluster, settings or Scheduling(), clock, wall
        self.policy = policy or Policy(steps=self.settings.search_steps, cycle_steps=self.settings.cycle_steps)
        self.leadership: Leadership = leadership or AlwaysLeading()
        self.observer: Observer = observer or NoObserver()
        self.cache = Cache(in_scope(self.settings), self.settings.scheduler_names)
        self.health = {resource: self._health_of(resource) for resource in WATCHED_KINDS}
        self._reflectors = {one: Reflector(cluster, one, health=health) for one, health in self.health.items()}
        self._term = 0  # the one that we plan in
        self._asked = (0, 0)  # the one for which pods are listed again, and how many lists had begun before
        self.assumed_pods = AssumedPods(lambda: self.health[PODS].lists)
        self._decision_log = DecisionLog(self.settings.dry_run)
        self._promises = UnseenPromises()
        self.memory = AnswerCache()  # what earlier cycles found out (X7)
        self.longer = LongerSearches(self.memory, self.settings.long_search_steps, self.observer, self.wake)
        self._give_up = threading.Event()  # the plan that is being made
        self._is_stopped = False
        self._is_building = False  # a snapshot, in a thread: nothing is counted meanwhile
        self._woken = asyncio.Event()
        self._since: float | None = None  # the first change that no plan knows of
        at_once, seconds = self.settings.bind_concurrency, float(self.settings.bind_timeout_seconds)
        self._carried_out, told = _FailureBackoff(self._woken.set), _FailureBackoff(self._woken.set)
        self._ask_again = _Alarm(self._woken.set)  # somebody whose eviction was refused
        self._settled_late = _FailureBackoff(self._woken.set)
        write_pool = WritePool(at_once, self._late)
        self.status_writer = StatusWriter(cluster, self.leadership, clock, seconds, self.observer, told.after)
        self.events = EventQueue(
            cluster,
            self.leadership,
            clock,
            wall,
            self.cache.pod_group,
            lambda: not write_pool.at_rest,
            self.observer,
            seconds,
        )
        api = PodApi(cluster, self.leadership, clock, seconds, self.observer)
        preparations = self.status_writer.make_way, VolumeBinder(cluster, self.cache, clock).select_node
        is_wanted = wanted_in(self.cache, self.assumed_pods)
        binder = Binder(api, self.assumed_pods, preparations, is_wanted, self.events.add)
        evictor = Evictor(api, self.assumed_pods, EvictionBackoff(clock), self.events.add)
        self.applier = PlanApplier(write_pool, binder, evictor, Nominator(api))
        self.observer.leads(lambda: self.leadership.leading and not self.settings.dry_run)
        self.last: tuple[Snapshot, CyclePlan, ApplyResult] | None = None
        self.cycles = 0  # that were carried out
        self.began: float | None = None  # the cycle that runs now
        self.turns = 0  # cycles that have ended, whatever came of them

    def _health_of(self, resource: Resource) -> ReflectorHealth:
        restarted = partial(self.observer.watch_restarted, resource.plural)
        health = ReflectorHealth(self.clock, restarted, partial(_trouble, resource.plural))
        self.observer.watch(resource.plural, health.lag_seconds)
        return health

    @property
    def synced(self) -> bool:
        """Everything there is has been heard once."""
        return all(health.has_synced for health in self.health.values())

    @property
    def ready(self) -> bool:
        """Every watch is alive: a scheduler that hears nothing must not say that it is well."""
        return all(health.is_ready for health in self.health.values())

    @property
    def told(self) -> int:
        """The last cycle whose outcome everybody was told of, as far as later ones do not tell it better."""
        return self.cycles if self.settings.dry_run else self.status_writer.told

    @property
    def at_rest(self) -> bool:
        """Nothing is decided, on its way or in doubt."""
        return self.began is None and self.applier.write_pool.at_rest

    @property
    def results(self) -> tuple[int, int]:
        """What differs whenever something has come forth: steps that a plan takes are no result."""
        return self.turns, self.applier.write_pool.answers

    def cancel_plan(self) -> None:
        """Give up the plan that is being made, if there is one: what was granted of it stands, the rest is not done."""
        self._give_up.set()

    def stop(self) -> None:
        """Begin no more cycles, and give up the one that runs; what was sent is still waited for."""
        self._is_stopped = True
        self.cancel_plan()
        self._woken.set()

    def wake(self) -> None:
        """Something changed: plan soon."""
        if self._since is None:
            self._since = self.clock()
        self._woken.set()

    async def run(self) -> None:
        """Without end."""
        try:
            await self._loops()
        finally:
            await self.applier.write_pool.stop()

    async def _loops(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for resource, struct in WATCHED_KINDS.items():
                tasks.create_task(self._reflect(resource, struct), name=f"reflect {resource.plural}")
            tasks.create_task(self._cycles(), name="cycles")
            tasks.create_task(self.status_writer.run(), name="tell")
            tasks.create_task(self.events.run(), name="events")
            tasks.create_task(self.longer.run(), name="longer searches")

    async def _reflect(self, resource: Resource, struct: type[Wire]) -> None:
        """Keeps the cache up to date with one kind, without end."""
        async with aclosing(self._reflectors[resource].events()) as events:
            async for event in events:
                if (self.cache.handle(struct, event) and not self.cache.echo) or isinstance(event, ListCompleted):
                    self.wake()
                if isinstance(event, ListCompleted):
                    await self._count()

    async def _count(self) -> None:
        """What was heard of, a little at a time: others have work to do, and a lease to renew."""
        while self.synced and not self._is_building and self.cache.fold(AT_A_TIME):
            await asyncio.sleep(0)

    async def _cycles(self) -> None:
        while not self._is_stopped:
            await self._quiet()
            if not self._may_begin():
                self._stand_by()
            elif self._caught_up():
                await self.cycle()

    def _may_begin(self) -> bool:
        """Everything is known, it is our turn to act, and not the end."""
        return self.synced and self.leadership.leading and not self._is_stopped

    def _caught_up(self) -> bool:
        """Whether all is known that another leader did: pods are listed again after leadership has begun (I2).

        A watch may be late, or silently dead, and nobody could tell that from a quiet cluster.
        """
        if self.leadership.term == self._term:
            return True
        if self._asked[0] != self.leadership.term:
            self._asked = self.leadership.term, self.health[PODS].lists
            self._reflectors[PODS].relist()
        if self.health[PODS].listed <= self._asked[1]:
            return False
        self._term = self.leadership.term
        return True

    def _late(self, good: bool) -> None:
        """Something was settled after its turn: its gang has waited for that."""
        self._settled_late.after(not good)
        if good:
            self.wake()

    def _stand_by(self) -> None:
        """Somebody else acts."""
        self._since = None
        self.status_writer.forget()
        self.events.forget()
        self.longer.forget()
        self.observer.stands_by()

    async def _quiet(self) -> None:
        """Until something happened and then nothing for a moment, or long enough; or until timers should be read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.idle_cycle_seconds):  # wait_for may lose a cancellation
                await self._woken.wait()
        end = self.clock() + self.settings.longest_debounce_milliseconds / 1000
        while self.clock() < end:
            self._woken.clear()
            await asyncio.sleep(self.settings.debounce_milliseconds / 1000)
            await self._count()  # while we wait: it is not to be done in the cycle
            if not self._woken.is_set():
                break
        self._woken.clear()

    async def cycle(self) -> ApplyResult:
        """One turn on what is known now."""
        self.began, self._give_up = self.clock(), threading.Event()
        try:
            with self.longer.paused():
                return await self._cycle(self.wall(), self.began)
        finally:
            self._give_up.set()  # where the loop ends: the thread ends by itself
            self.began = None
            self.turns += 1

    async def _cycle(self, now: datetime, began: float) -> ApplyResult:
        since, self._since = self._since, None
        term = self.leadership.term
        snapshot = await self._known(now)
        async with self.applier.applying(snapshot.pods, term) as execution:
            granted = None if self.settings.dry_run else _from_a_thread(execution.bind)
            policy = replace(
                self.policy,
                untouchable=self.applier.evictor.backoff.untouchable(self.cache.pod),
                moved=self._promises.unseen(self.cache.pod_group),
            )
            decide = partial(self._decide, snapshot, policy, granted, began, self._give_up.is_set)
            try:
                plan, pods, took = await in_daemon_thread("plan", decide)
            except Cancelled:
                self._since = since  # it is not answered
                return self._given_up(self.clock() - began)
            if since is not None:
                self.observer.decided(self.clock() - since)
            if not self.settings.dry_run:
                execution.finish(plan, pods)
                if leads_in(self.leadership, term):
                    self._promises.note(snapshot, plan, now)
        self.last = (snapshot, plan, execution.result)
        self.cycles += 1
        if not self.settings.dry_run:
            self.status_writer.tell(CycleOutcome(self.cycles, snapshot, execution.plan, now, term, self._unsettled()))
        self.longer.offer(snapshot, policy, plan)
        if plan.bindings or plan.evictions or execution.result.failures:
            _log(execution.result, took)
        self._carried_out.after(bool(execution.result.failures))
        if (seconds := self.applier.evictor.backoff.next_seconds()) is not None:
            self._ask_again.after(seconds)
        return execution.result

    def _unsettled(self) -> dict[str, str]:
        """Gangs of which something was sent and is not settled; after a while, with what is in doubt."""
        now = self.clock()
        unconfirmed = self.applier.binder.unconfirmed
        return {gang: _told(unconfirmed.get(gang), now) for gang in self.applier.write_pool.unsettled}

    async def _known(self, now: datetime) -> Snapshot:
        """What a plan may know: what was heard, with what was sent on top, without what is none of our business."""
        await self._count()
        rest = self.cache.prepare(self.assumed_pods.overlay(self.cache.pod, now, self.health[PODS].listed))
        self._is_building = True
        try:
            return await in_daemon_thread("snapshot", partial(self.cache.build, rest, now))
        finally:
            self._is_building = False

    def _decide(
        self,
        snapshot: Snapshot,
        policy: Policy,
        granted: OnBound | None,
        began: float,
        is_cancelled: Callable[[], bool],
    ) -> tuple[CyclePlan, dict[str, Pod], float]:
        """The plan, the pods that it is about, and how long it took; bindings are told as they are decided.

        In a thread of its own, with all that grows with the cluster: the loop renews a lease and answers probes.
        """
        plan = make_plan(snapshot, policy, granted, is_cancelled, self.memory)
        took = self.clock() - began
        self._decision_log.tell(plan)
        self.observer.cycle(plan, took)
        for failure in plan.failures:
            self.observer.failed(failure.error)
        return plan, concerned_pods(plan, snapshot.pods), took

    def _given_up(self, took: float) -> ApplyResult:
        """Nothing of the plan is done but what was granted before."""
        self.observer.cancelled()
        log.warning("cycle is given up", seconds=round(took, 4))
        return ApplyResult()


def _told(oldest: UnconfirmedBinding | None, now: float) -> str:
    """The doubt that has lasted longest, once that is worth a word."""
    return oldest.message if oldest is not None and now - oldest.since >= TELL_SECONDS else ""


def _from_a_thread(do: OnBound) -> OnBound:
    """The same, to be called from a thread; it is done by the loop."""
    loop = asyncio.get_running_loop()
    return lambda bindings: loop.call_soon_threadsafe(do, bindings)


class _Alarm:
    """Wakes somebody later; one at a time, or they would multiply."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._set: asyncio.TimerHandle | None = None

    def after(self, seconds: float) -> bool:
        """Unless it is set already; whether it was not."""
        free = self._set is None
        if free:
            self._set = asyncio.get_running_loop().call_later(seconds, self._ring)
        return free

    def off(self) -> None:
        """Nobody has to be woken any more."""
        if self._set is not None:
            self._set.cancel()
            self._set = None

    def _ring(self) -> None:
        self._set = None
        self._wake()


class _FailureBackoff:
    """Wakes somebody after failures: each in a row waits twice as long."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._alarm, self._failed = _Alarm(wake), 0

    def after(self, failed: bool) -> None:
        """It went like this."""
        if not failed:
            self._failed = 0
            self._alarm.off()
        elif self._alarm.after(FIRST_SECONDS * 2 ** min(self._failed + 1, MOST_FAILURES)):
            self._failed += 1


def _log(done: ApplyResult, took: float) -> None:
    log.info("cycle", bound=done.bound, evicted=done.evicted, failures=len(done.failures), seconds=round(took, 4))


def _trouble(resource: str, trouble: ApiError | None) -> None:
    """A watch fares otherwise than before."""
    if trouble is None:
        log.info("watch is back", resource=resource)
    else:
        log.warning("watch is lost", resource=resource, reason=trouble.reason, what=trouble.message)


def in_scope(settings: Scheduling) -> Callable[[Pod | PodGroup], bool]:
    """All but gangs of namespaces that are not configured, and what waits there.

    What runs there stays, as pods of no gang: they take room on their nodes, and nothing disturbs them.
    """
    chosen = frozenset(settings.namespaces)

    def is_in_scope(one: Pod | PodGroup) -> bool:
        runs = isinstance(one, Pod) and bool(one.spec.node_name)
        return runs or not chosen or one.metadata.namespace in chosen

    return is_in_scope
