"""An embedded cluster with a scheduler at work in it, and replicas that come back.

Time stands still until the test advances it, so the test decides whatever the order of events does not.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from muster.api.core import Pod
from muster.api.resources import (
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.cli.assemble.grove_operator import attach_operator
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.config.settings import Config, GroveOperator, PodGrouping, Scheduling
from muster.controllers.grouper.grouper import Grouper
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.kubelet.clock import EPOCH, ManualClock
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.leadership import Leadership
from muster.scheduler.apply.write_state import LOST_SECONDS
from muster.scheduler.loop import Scheduler
from tests.support.live.faults import Crash, Faulty
from tests.support.live.judge import judged
from tests.support.live.objects import RACK, gpu_pod, placed

LATER_SECONDS = LOST_SECONDS + 1  # nothing that was sent is still on its way
HASTY = Scheduling(debounce_milliseconds=1, longest_debounce_milliseconds=20, idle_cycle_seconds=0)
HABITS = KubeletTimings(start_seconds=0.0, stop_seconds=0.0)


class World:
    """An embedded cluster with kubelets, a controller that replaces pods, and a judge; time is the test's."""

    def __init__(self, nodes: Iterable[Raw] = (), queues: Iterable[Raw] = ()) -> None:
        self.time = ManualClock()
        self.memory = MemoryCluster(ClusterStore(clock=self.time.now, new_uid=_uids()), bookmark_seconds=0.02)
        self.kubelets = Kubelets(self.memory, self.time, HABITS)
        self.wanted: dict[str, Raw] = {}
        self.judge = judged(self.memory.store)
        levels = {"levels": [{"nodeLabel": RACK}]}
        self.create(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": levels})
        for name, value in (("low", 10), ("high", 90)):
            self.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for raw in nodes:
            self.create(NODES, raw)
        for raw in queues:
            self.create(QUEUES, raw)

    @property
    def seconds(self) -> float:
        """A clock that never goes back."""
        return (self.time.now() - EPOCH).total_seconds()

    def create(self, resource: Resource, raw: Raw) -> Raw:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        return self.memory.store.create(resource, whole)

    def submit(self, raw: Raw, pods: Mapping[str, int], gpus: int = 2) -> None:
        """A PodGroup and so many pods in each leaf, which are kept alive from now on."""
        self.create(POD_GROUPS, raw)
        gang = raw["metadata"]["name"]
        for one, number in pods.items():
            for i in range(number):
                self.want(gpu_pod(f"{gang}-{one}-{i}" if one else f"{gang}-{i}", gang, gpus, one))

    def want(self, raw: Raw) -> None:
        """A pod that comes back when it is gone or has failed."""
        self.wanted[raw["metadata"]["name"]] = raw
        self.create(PODS, raw)

    def replicate(self) -> None:
        """Replace pods that are gone or have failed."""
        have = {raw["metadata"]["name"]: raw for raw in self.memory.store.list(PODS).items}
        for name, raw in self.wanted.items():
            if name in have and have[name].get("status", {}).get("phase") == "Failed":
                self.memory.store.delete(PODS, "default", name, grace_seconds=0)
                del have[name]
            if name not in have:
                self.create(PODS, raw)

    def seats(self) -> dict[str, str]:
        """Where every placed pod is."""
        on_nodes = filter(placed, self.memory.store.list(PODS).items)
        return {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in on_nodes}

    def group(self, name: str) -> Raw:
        return self.memory.store.get(POD_GROUPS, "default", name)

    def pod(self, name: str) -> Raw:
        return self.memory.store.get(PODS, "default", name)

    def condition(self, raw: Raw, kind: str) -> Raw:
        conditions = raw.get("status", {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    @asynccontextmanager
    async def running(
        self,
        cluster: Cluster | None = None,
        settings: Scheduling = HASTY,
        leadership: Leadership | None = None,
        grouping: PodGrouping | None = None,
        grove: Cluster | None = None,
    ) -> AsyncIterator["Live"]:
        """A scheduler at work, and kubelets, until it is left; a Crash of it is no failure of the test.

        With `grouping`, a pod grouper works beside it; with `grove`, Grove's operator, on that cluster.
        """
        scheduler = Scheduler(
            cluster or self.memory,
            settings,
            leadership,
            lambda: self.seconds,
            self.time.now,
            reports_orphan=reports_orphan if grouping else (lambda _: True),
        )
        config = Config(scheduling=settings, grouping=grouping or PodGrouping())
        grouper = build_grouper(config, scheduler.cluster, scheduler) if grouping else None
        operator = attach_operator(GroveOperator(), grove, scheduler) if grove else None
        self.kubelets = Kubelets(self.memory, self.time, HABITS)
        others = asyncio.all_tasks()
        async with self.kubelets.running():
            parts = [part for part in (scheduler, grouper, operator) if part is not None]
            live = Live(self, scheduler, asyncio.create_task(_run(parts)), grouper, operator)
            live.clusters = [cluster for cluster in (scheduler.cluster, grove) if isinstance(cluster, Faulty)]
            try:
                yield live
            finally:
                await _kill(others)
                _blame(None if live.task.cancelled() else live.task.exception())


async def _run(parts: Iterable[Scheduler | Grouper | ControllerRuntime]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for part in parts:
            tasks.create_task(part.run())


def _uids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


async def _kill(others: "set[asyncio.Task[Any]]") -> None:
    """The end of a process: every task of it, whatever it would rather do."""
    while tasks := asyncio.all_tasks() - others - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.1)


def _blame(error: BaseException | None) -> None:
    """Whatever ended a scheduler, but a crash that was asked for."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _blame(one)
    elif error is not None and not isinstance(error, Crash | asyncio.CancelledError):
        raise error


def unsettled(scheduler: Scheduler) -> bool:
    """Something is not seen yet, in doubt, or was refused and will be tried again."""
    applier = scheduler.applier
    return (
        bool(len(scheduler.watched.assumed_pods))
        or not applier.write_pool.at_rest
        or applier.evictor.backoff.next_seconds() is not None
    )


class Live:
    """One scheduler at work in a world."""

    def __init__(
        self,
        world: World,
        scheduler: Scheduler,
        task: "asyncio.Task[None]",
        grouper: Grouper | None = None,
        operator: ControllerRuntime | None = None,
    ) -> None:
        self.world, self.scheduler, self.task = world, scheduler, task
        self.grouper, self.operator = grouper, operator
        self.clusters = [cluster for cluster in (scheduler.cluster,) if isinstance(cluster, Faulty)]

    async def settle(self, seconds: float = 60.0) -> bool:
        """Until nothing changes any more, no write is unconfirmed, and the cache has every pod; or it crashed."""
        end, quiet = time.monotonic() + seconds, 0
        while quiet < 2 and not self.over:
            before = self.world.memory.store.version
            self.world.replicate()
            await self._cycle(end)
            still = before == self.world.memory.store.version and self._received()
            quiet = quiet + 1 if still else 0
            if quiet and unsettled(self.scheduler):
                await self.world.time.advance(LATER_SECONDS)
                quiet = 0
        return not self.over

    @property
    def over(self) -> bool:
        """It has ended, or has crashed and is about to."""
        return self.task.done() or any(cluster.dead for cluster in self.clusters)

    async def until(self, test: Callable[[], bool], seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while not test():
            assert time.monotonic() < end, "it does not happen"
            await asyncio.sleep(0.002)

    async def _cycle(self, end: float) -> None:
        """Waits for a whole cycle that begins after now and is reported; silence alone proves nothing."""
        first = self.scheduler.cycles
        while self.scheduler.reported_cycle < first + 2 and not self.over:
            assert time.monotonic() < end, f"not at rest: {self.world.seats()}, {describe(self.scheduler)}"
            await asyncio.sleep(0.001)

    def _received(self) -> bool:
        """The scheduler knows every pod as it is."""
        if not self.scheduler.ready or any(cluster.held for cluster in self.clusters):
            return False
        if self.operator is not None and not self._has_operator_settled(self.operator):
            return False
        if self.grouper is not None and not self.grouper.is_settled:
            return False
        known = {one.metadata.name: _known(one) for one in self.scheduler.watched.cache.objects.pods}
        return known == {one["metadata"]["name"]: _stored(one) for one in self.world.memory.store.list(PODS).items}

    def _has_operator_settled(self, operator: ControllerRuntime) -> bool:
        """Grove's operator has nothing to do, and knows every object of its kinds as it is."""
        return operator.is_at_rest and all(
            _versions(operator.every(kind)) == _versions(self.world.memory.store.list(kind).items)
            for kind in (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS)
        )


def _versions(raws: Iterable[Raw]) -> set[tuple[str, str]]:
    return {(raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]) for raw in raws}


def describe(scheduler: Scheduler) -> str:
    """How a scheduler fares, in a few words."""
    failures = scheduler.last[2].failures if scheduler.last else ()
    errors = {
        resource.plural: health.error for resource, health in scheduler.watched.health.items() if not health.is_ready
    }
    return (
        f"cycle {scheduler.cycles}, sent {len(scheduler.watched.assumed_pods)}, failures {failures}, watches {errors}"
    )


def _known(one: Pod) -> tuple[object, ...]:
    return one.metadata.uid, one.spec.node_name, one.metadata.deletion_timestamp is not None, one.status.phase


def _stored(raw: Raw) -> tuple[object, ...]:
    meta = raw["metadata"]
    return meta["uid"], raw["spec"].get("nodeName", ""), "deletionTimestamp" in meta, raw["status"].get("phase", "")
