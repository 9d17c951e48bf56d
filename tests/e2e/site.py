"""A place of one's own on any cluster, embedded or real: nodes, gangs, kubelets, replicas, a judge; time is real.

Rule 1: what is made here has names, selectors and a scheduler of its own, and goes at the end, so that tests may share
a cluster. Rule 2: what is asserted is read from the cluster as plain objects.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from os import getpid
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.api.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.config.settings import Scheduling
from muster.embedded.controllers.replica_controller import ReplicaController
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.leadership import Leadership
from muster.scheduler.loop import Scheduler
from tests.support.live.faults import Crash, Faulty
from tests.support.live.judge import Judge
from tests.support.live.objects import gang_of, gpu_pod, leaf_of, placed
from tests.support.live.world import LATER_SECONDS, describe, unsettled

SITE = "muster.test/site"  # label of nodes
ZONE, RACK = "topology/zone", "topology/rack"
SETTINGS = Scheduling(debounce_milliseconds=5, longest_debounce_milliseconds=50, idle_cycle_seconds=1)
HABITS = KubeletTimings(start_seconds=0.0, stop_seconds=0.0)
GONE = (NODES, QUEUES, TOPOLOGIES, PRIORITY_CLASSES)  # what is in no namespace
LONGEST_SECONDS = 60.0
_numbers = count()


class Seen(Struct, frozen=True):
    """What is there at one moment."""

    pods: tuple[Raw, ...]
    groups: dict[str, Raw]
    events: tuple[Raw, ...]

    def seats(self, gang: str = "") -> dict[str, str]:
        """Where every placed pod is, of one gang or of all."""
        placed_pods = [raw for raw in self.pods if placed(raw) and gang in ("", gang_of(raw))]
        return {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in placed_pods}

    def sizes(self) -> dict[str, int]:
        """How many pods of each leaf are placed."""
        counts: dict[str, int] = {}
        for raw in filter(placed, self.pods):
            counts[leaf_of(raw)] = counts.get(leaf_of(raw), 0) + 1
        return counts

    def status(self, gang: str) -> Raw:
        return self.groups[gang].get("status") or {}

    def condition(self, gang: str, kind: str = "Scheduled") -> Raw:
        conditions = self.status(gang).get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def running(self, gang: str) -> bool:
        """Every seat of it is taken by a pod that is Ready, and its status says as much."""
        ready = [raw for raw in self.pods if placed(raw) and gang_of(raw) == gang]
        status = self.status(gang)
        return all(map(is_ready, ready)) and (status.get("phase"), status.get("running")) == ("Running", len(ready))


def is_ready(raw: Raw) -> bool:
    return said(raw, "Ready").get("status") == "True"


def said(raw: Raw, kind: str) -> Raw:
    """One condition of a pod."""
    conditions = raw.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


class Site:
    """See above."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.nodes: dict[str, Raw] = {}
        self.groups: dict[str, Raw] = {}
        self.kubelets = Kubelets(cluster, timings=HABITS)
        self.replicas = ReplicaController(cluster, [name])
        self.judge = Judge(self.nodes.values, self.groups.values, lambda: ())
        self.later = 0.0  # seconds that schedulers here believe to have passed on top

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Site"]:
        """With kubelets, replicas and a judge at work; a broken promise fails the test."""
        await self.cluster.create(NAMESPACES, {"metadata": {"name": self.name}})
        levels = {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]}
        await self._create(TOPOLOGIES, {"metadata": {"name": self.name}, "spec": levels})
        everything = {"resources": {"gpu": {"quota": -1}, "cpu": {"quota": -1}, "memory": {"quota": -1}}}
        await self._create(QUEUES, {"metadata": {"name": self.name}, "spec": everything})
        for name, value in (("low", 10), ("high", 90)):
            await self._create(PRIORITY_CLASSES, {"metadata": {"name": f"{self.name}-{name}"}, "value": value})
        since = (await self.cluster.list(PODS, self.name)).resource_version
        loops = (self.kubelets.run(), self.replicas.run(), self._watch(since))
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield self
            await self.judged()
        finally:
            await ended(tasks)
            await self._clean()

    async def _create(self, resource: Resource, raw: Raw) -> Raw:
        return await self.cluster.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **raw})

    async def _watch(self, since: str) -> None:
        async with self.cluster.watch(PODS, since, self.name) as changes:
            async for change in changes:
                if change.type != "BOOKMARK":
                    self.judge.look(change)

    async def judged(self) -> None:
        """Everything that happened was seen, and every promise was kept."""

        async def caught_up() -> bool:
            stored = (await self.cluster.list(PODS, self.name)).items
            return {_version(raw) for raw in stored} == {_version(raw) for raw in self.judge.pods.values()}

        await until(caught_up)
        assert self.judge.broken == []

    async def _clean(self) -> None:
        for resource in (PODS, POD_GROUPS):
            for raw in (await self.cluster.list(resource, self.name)).items:
                with suppress(ApiError):
                    await self.cluster.delete(resource, self.name, raw["metadata"]["name"], grace_seconds=0)
        for resource in GONE:
            for raw in (await self.cluster.list(resource)).items:
                if f"{raw['metadata']['name']}-".startswith(f"{self.name}-"):
                    await self.cluster.delete(resource, "", raw["metadata"]["name"])

    # what is there

    async def node(self, name: str, rack: str = "r1", gpus: int = 4, zone: str = "z1") -> str:
        """A node of this site; its whole name."""
        whole = f"{self.name}-{name}"
        labels = {SITE: self.name, ZONE: zone, RACK: rack, "kubernetes.io/hostname": whole}
        allocatable = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
        raw = {
            "metadata": {"name": whole, "labels": labels},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }
        self.nodes[whole] = await self._create(NODES, raw)
        return whole

    async def submit(self, raw: Raw, pods: Mapping[str, int], gpus: int = 2) -> None:
        """A PodGroup of this site, and so many pods in each leaf."""
        name = raw["metadata"]["name"]
        made = [
            gpu_pod(f"{name}-{one}-{i}" if one else f"{name}-{i}", name, gpus, one)
            for one in pods
            for i in range(pods[one])
        ]
        await self.send(raw, *made)

    async def send(self, *raws: Raw) -> None:
        """PodGroups and pods as they are, but for what makes them this site's own."""
        for raw in raws:
            own = {**raw, "metadata": {**raw["metadata"], "namespace": self.name}}
            if raw["kind"] == "Pod":
                spec = {**raw["spec"], "schedulerName": self.name, "nodeSelector": {SITE: self.name}}
                await self._create(PODS, {**own, "spec": spec})
            else:
                stored = await self._create(POD_GROUPS, {**own, "spec": self._spec(raw["spec"])})
                self.groups[stored["metadata"]["name"]] = stored

    def _spec(self, spec: Raw) -> Raw:
        """With the queue, the topology and the priorities of this site."""
        here = {"topology": self.name}
        priority = (
            {"priorityClassName": f"{self.name}-{spec['priorityClassName']}"} if "priorityClassName" in spec else {}
        )
        groups = [
            {**part, "topologyConstraint": {**part["topologyConstraint"], **here}}
            if "topologyConstraint" in part
            else part
            for part in spec.get("subGroups") or ()
        ]
        return {
            **spec,
            **priority,
            "queue": self.name,
            "topologyConstraint": {**spec.get("topologyConstraint", {}), **here},
            **({"subGroups": groups} if groups else {}),
        }

    async def seen(self) -> Seen:
        pods, groups, events = [(await self.cluster.list(kind, self.name)).items for kind in (PODS, POD_GROUPS, EVENTS)]
        return Seen(pods, {raw["metadata"]["name"]: raw for raw in groups}, events)

    async def until(self, test: Callable[[Seen], bool], what: str = "", seconds: float = LONGEST_SECONDS) -> Seen:
        """What is seen when it holds."""
        seen = await self.seen()

        async def holds() -> bool:
            nonlocal seen
            seen = await self.seen()
            return test(seen)

        try:
            await until(holds, seconds)
        except AssertionError:
            conditions = {name: seen.condition(name) for name in seen.groups}
            raise AssertionError(f"{what or 'waited in vain'}: {seen.seats()}, {conditions}") from None
        return seen

    def racks(self, seats: Mapping[str, str], label: str = RACK) -> set[str]:
        """In which domains these seats are."""
        return {self.nodes[node]["metadata"]["labels"][label] for node in seats.values()}

    # schedulers

    @asynccontextmanager
    async def scheduling(
        self, cluster: Cluster | None = None, leadership: Leadership | None = None, **settings: Any
    ) -> AsyncIterator["Process"]:
        """A scheduler at work until it is left; then it is gone at once, whatever it was doing."""
        chosen = replace(SETTINGS, **({"scheduler_names": (self.name,)} | settings))
        scheduler = Scheduler(cluster or self.cluster, chosen, leadership, self.clock, self.wall)
        process = Process(self, scheduler, asyncio.create_task(scheduler.run()))
        try:
            yield process
        finally:
            await process.kill()

    def clock(self) -> float:
        return time.monotonic() + self.later

    def wall(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.later)


def fresh(cluster: Cluster) -> Site:
    """A site with a name that no other has."""
    return Site(cluster, f"site{getpid()}-{next(_numbers)}")


class Process:
    """One scheduler at work on a site."""

    def __init__(self, site: Site, scheduler: Scheduler, task: "asyncio.Task[None]") -> None:
        self.site, self.scheduler, self.task = site, scheduler, task

    @property
    def over(self) -> bool:
        """It has ended, or has crashed and is about to."""
        cluster = self.scheduler.cluster
        return self.task.done() or (isinstance(cluster, Faulty) and cluster.dead)

    async def kill(self) -> None:
        """Nothing of it gets through from now on."""
        if isinstance(self.scheduler.cluster, Faulty):
            self.scheduler.cluster.dead = True
        await ended([self.task])

    async def settle(self, seconds: float = LONGEST_SECONDS) -> bool:
        """Until nothing changes any more and whatever was lost has been given up; False: it crashed before."""
        end, quiet = time.monotonic() + seconds, 0
        while quiet < 2 and not self.over:
            before = await self.site.seen()
            await self._cycle(end)
            after = await self.site.seen()
            quiet = quiet + 1 if before == after and all(map(_calm, after.pods)) and self._received(after) else 0
            if quiet and unsettled(self.scheduler):
                await self._later()
                quiet = 0
        return not self.over

    async def _cycle(self, end: float) -> None:
        """A whole cycle that began after now, and was reported."""
        first = self.scheduler.cycles
        while self.scheduler.reported_cycle < first + 2 and not self.over:
            assert time.monotonic() < end, (
                f"not at rest: {(await self.site.seen()).seats()}, {describe(self.scheduler)}"
            )
            await asyncio.sleep(0.005)

    async def _later(self) -> None:
        """Long enough for anything that was sent; a word about some pod, as silence would say nothing."""
        self.site.later += LATER_SECONDS
        for raw in (await self.site.seen()).pods[:1]:
            meta = {"metadata": {"annotations": {"muster.test/later": str(self.site.later)}}}
            await self.site.cluster.patch(PODS, self.site.name, raw["metadata"]["name"], meta)

    def _received(self, seen: Seen) -> bool:
        """The scheduler knows every pod here as it is."""
        cluster = self.scheduler.cluster
        if not self.scheduler.ready or (isinstance(cluster, Faulty) and cluster.held):
            return False
        known = {
            (pod.metadata.uid, pod.spec.node_name, pod.status.phase)
            for pod in self.scheduler.watched.cache.objects.pods
            if pod.metadata.namespace == self.site.name
        }
        stored = {
            (raw["metadata"]["uid"], raw["spec"].get("nodeName", ""), raw["status"]["phase"]) for raw in seen.pods
        }
        return known == stored


def _calm(raw: Raw) -> bool:
    """Neither a kubelet nor a controller has anything to do with it."""
    phase = raw["status"]["phase"]
    return "deletionTimestamp" not in raw["metadata"] and phase == (
        "Running" if raw["spec"].get("nodeName") else "Pending"
    )


def _version(raw: Raw) -> tuple[str, str]:
    return raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = LONGEST_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.03)


async def ended(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancelled until they are done; an error in one of them is raised, but for a crash that a script asked for."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=0.5)
        for task in done:
            for error in () if task.cancelled() else _errors(task.exception()):
                raise error


def _errors(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _errors(inner)
    elif error is not None and not isinstance(error, Crash | asyncio.CancelledError):
        yield error
