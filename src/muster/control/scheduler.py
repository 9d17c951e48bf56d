"""The scheduler's loop: hear, wait for quiet, plan, carry out, tell. Level-triggered: nothing has to be replayed."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.meta import Wire
from muster.api.objects import Objects, key
from muster.cluster.follow import Health, Synced, follow
from muster.cluster.mirror import FOLLOWED, Mirror, resource_of
from muster.cluster.store import Cluster, Resource
from muster.config import Scheduling
from muster.control.apply import Applier, Done, Fence
from muster.control.inflight import Inflight
from muster.control.status import Teller
from muster.model.snapshot import Snapshot, take
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import Plan
from muster.planning.policy import Policy

log = structlog.get_logger()
FIRST_SECONDS, MOST_FAILURES = 0.05, 8  # after failures, the next try comes after 0.1, 0.2 … 12.8 s, or on a change


class Always:
    """The fence of a single scheduler: nobody else is there."""

    leading = True


class Scheduler:
    """One scheduler on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Scheduling | None = None,
        fence: Fence | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.cluster, self.settings, self.clock, self.wall = cluster, settings or Scheduling(), clock, wall
        self.fence: Fence = fence or Always()
        self.mirror = Mirror()
        self.health = {resource: Health(clock) for resource in FOLLOWED}
        self.inflight = Inflight()
        self.applier = Applier(cluster, self.inflight, self.fence, clock, self.settings.bind_concurrency)
        self.teller = Teller(cluster, self.fence)
        self.last: tuple[Snapshot, Plan, Done] | None = None
        self.cycles = 0
        self._woken = asyncio.Event()
        self._failed = 0  # cycles in a row that could not do everything: each waits twice as long for the next

    @property
    def synced(self) -> bool:
        """Everything there is has been heard once."""
        return all(health.synced for health in self.health.values())

    @property
    def ready(self) -> bool:
        """Every watch is alive: a scheduler that hears nothing must not say that it is well."""
        return all(health.ready for health in self.health.values())

    async def run(self) -> None:
        """Without end."""
        async with asyncio.TaskGroup() as tasks:
            for resource, struct in FOLLOWED.items():
                tasks.create_task(self._hear(resource, struct), name=f"follow {resource.plural}")
            tasks.create_task(self._cycles(), name="cycles")

    async def _hear(self, resource: Resource, struct: type[Wire]) -> None:
        async for news in follow(self.cluster, resource, health=self.health[resource]):
            if self.mirror.hear(struct, news) or isinstance(news, Synced):
                self._woken.set()

    async def _cycles(self) -> None:
        while True:
            await self._quiet()
            if self.synced and self.fence.leading:
                await self.cycle()

    async def _quiet(self) -> None:
        """Until something happened and then nothing for a moment, or long enough; or until timers should be read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.idle_cycle_seconds):  # wait_for may lose a cancellation
                await self._woken.wait()
        end = self.clock() + self.settings.longest_debounce_milliseconds / 1000
        while self.clock() < end:
            self._woken.clear()
            await asyncio.sleep(self.settings.debounce_milliseconds / 1000)
            if not self._woken.is_set():
                break
        self._woken.clear()

    async def cycle(self) -> Done:
        """One turn on what is known now."""
        now = self.wall()
        seen = self.inflight.over(self.mirror.objects, now, self._pods_heard_at())
        objects = ours(seen, self.settings.scheduler_name)
        started = self.clock()
        snapshot, plan = await asyncio.to_thread(self._plan, objects, now)
        took = self.clock() - started
        if self.settings.dry_run:
            done = Done()
        else:
            uids = {key(pod.metadata): pod.metadata.uid for pod in objects.pods}
            done = await self.applier.carry_out(plan, uids)
            failures = await self.teller.tell(snapshot, plan, now)
            done = replace(done, failures=(*done.failures, *failures))
        self.last = (snapshot, plan, done)
        self.cycles += 1
        if plan.bindings or plan.evictions or done.failures:
            log.info(
                "cycle", bound=done.bound, evicted=done.evicted, failures=len(done.failures), seconds=round(took, 4)
            )
        for failure in done.failures[:5]:
            log.warning("not done", what=failure)
        self._failed = min(self._failed + 1, MOST_FAILURES) if done.failures else 0
        if done.failures:
            asyncio.get_running_loop().call_later(FIRST_SECONDS * 2**self._failed, self._woken.set)
        return done

    def _pods_heard_at(self) -> float:
        """The moment up to which pods are known: while a watch is dead, silence says nothing about what was sent."""
        heard_at = self.health[resource_of(Pod)].heard_at
        return self.clock() if heard_at is None else heard_at

    def _plan(self, objects: Objects, now: datetime) -> tuple[Snapshot, Plan]:
        snapshot = take(objects, now)
        return snapshot, make_plan(snapshot, Policy(steps=self.settings.search_steps))


def ours(objects: Objects, scheduler: str) -> Objects:
    """Without pods that wait for another scheduler: they are not ours to place."""
    return replace(objects, pods=tuple(pod for pod in objects.pods if pod.spec.node_name or _ours(pod, scheduler)))


def _ours(pod: Pod, scheduler: str) -> bool:
    return pod.spec.scheduler_name == scheduler
