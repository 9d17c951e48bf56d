"""A live cluster for tests: nodes, gangs, replicas that come back, a judge of every moment, and faults by script.

Rule 1: the judge reads plain objects and shares no code with the engine. Rule 2: time stands still until it is told
to go on, so whatever is not decided by the order of events is decided by the test.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from random import Random
from typing import Any, Literal, TypeVar

from msgspec import Struct

from muster.api.core import Pod
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.config.settings import Scheduling
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.kubelet.clock import EPOCH, ManualClock
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.store.kinds import NODES, PODS
from muster.kube.cache.cache import resource_of
from muster.kube.cluster import ApiError, Change, Cluster, Listing, PatchType, Raw, Resource
from muster.scheduler.binder import LOST_SECONDS
from muster.scheduler.leadership import Leadership
from muster.scheduler.loop import Scheduler

T = TypeVar("T")
Kept = Callable[[], Iterable[Raw]]  # what is there now
GROUPS, QUEUES, TOPOLOGIES = resource_of(PodGroup), resource_of(Queue), resource_of(Topology)
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
EVENTS = Resource("", "v1", "events", "Event")
GPU, RACK = "nvidia.com/gpu", "topology/rack"
LATER_SECONDS = LOST_SECONDS + 1  # nothing that was sent is still on its way
HASTY = Scheduling(debounce_milliseconds=1, longest_debounce_milliseconds=20, idle_cycle_seconds=0)
HABITS = KubeletTimings(start_seconds=0.0, stop_seconds=0.0)


# objects ------------------------------------------------------------------------------------------------------------


def node(name: str, rack: str = "r1", gpus: int = 4) -> Raw:
    status = {"allocatable": {GPU: str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {RACK: rack}}, "status": status}


def pod(name: str, gang: str, gpus: int = 2, leaf: str = "", scheduler: str = "muster", node_name: str = "") -> Raw:
    labels = {"app": gang} | ({"kai.scheduler/subgroup-name": leaf} if leaf else {})
    meta = {"name": name, "namespace": "default", "labels": labels}
    meta |= {"annotations": {"pod-group-name": gang}} if gang else {}
    spec: Raw = {"containers": [{"name": "main", "image": "x:1", "resources": {"limits": {GPU: str(gpus)}}}]}
    spec |= {"schedulerName": scheduler} | ({"nodeName": node_name} if node_name else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def group(name: str, **spec: Any) -> Raw:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def queue(name: str, quota: int = -1, limit: int = -1) -> Raw:
    spec = {"resources": {"gpu": {"quota": quota, "limit": limit}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def leaf(name: str, need: int, rack: bool = False) -> Raw:
    where = {"topologyConstraint": {"requiredTopologyLevel": RACK}} if rack else {}
    return {"name": name, "minMember": need, **where}


def placed(raw: Raw) -> bool:
    """On a node, not over and not leaving."""
    over = raw.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return bool(raw["spec"].get("nodeName")) and not over and not raw["metadata"].get("deletionTimestamp")


def gpus_of(raw: Raw) -> int:
    return sum(int(one["resources"]["requests"].get(GPU, 0)) for one in raw["spec"]["containers"])


def gang_of(raw: Raw) -> str:
    return str(raw["metadata"].get("annotations", {}).get("pod-group-name", ""))


def leaf_of(raw: Raw) -> str:
    return str(raw["metadata"].get("labels", {}).get("kai.scheduler/subgroup-name", ""))


def enough(spec: Raw, pods: Mapping[str, int], name: str = "") -> bool:
    """Whether a group's minimums are met by so many pods in each leaf (M1, M2)."""
    groups = spec.get("subGroups") or []
    here = next((one for one in groups if one["name"] == name), spec)
    children = [one["name"] for one in groups if one.get("parent", "") == name]
    if not children:
        return pods.get(name, 0) >= int(here.get("minMember", 1))
    return sum(enough(spec, pods, child) for child in children) >= int(here.get("minSubGroup", len(children)))


def leaves(spec: Raw, name: str) -> set[str]:
    """Every leaf below a group, or itself; empty: the PodGroup."""
    children = [one["name"] for one in spec.get("subGroups") or () if one.get("parent", "") == name]
    return {name} if not children else {found for child in children for found in leaves(spec, child)}


# the judge ----------------------------------------------------------------------------------------------------------


class Judge:
    """Looks at every single change of a pod, as it happens; `broken` are the promises that were not kept.

    It remembers the pods itself, so that each change is judged with what was there at that very moment.
    """

    def __init__(self, nodes: Kept, groups: Kept, queues: Kept) -> None:
        self.broken: list[str] = []
        self.bound: dict[str, str] = {}  # by uid
        self.evicted: dict[str, str] = {}  # uid -> name
        self.pods: dict[tuple[str, str], Raw] = {}
        self._nodes, self._podgroups, self._queues = nodes, groups, queues

    def look(self, change: Change) -> None:
        """One change, in the order in which they happened."""
        raw = change.object
        meta, there = raw["metadata"], raw["spec"].get("nodeName", "")
        if change.type == "DELETED":
            self.pods.pop((meta["namespace"], meta["name"]), None)
            return
        self.pods[meta["namespace"], meta["name"]] = raw
        uid = meta["uid"]
        if self.bound.get(uid, there) != there:
            self.broken.append(f"I1: {meta['name']} was on {self.bound[uid]}, now on {there or 'none'}")
        if there and uid not in self.bound:
            self.bound[uid] = there
            self.broken += [*self._overfull(), *self._scattered(), *self._over_limit(), *self._hopeless(raw)]
        if _told_to_go(raw) and uid not in self.evicted:
            self.evicted[uid] = meta["name"]
            self.broken += self._unprotected(raw)

    def _groups(self) -> dict[str, Raw]:
        return {one["metadata"]["name"]: one["spec"] for one in self._podgroups()}

    def _overfull(self) -> Iterator[str]:
        """I2; whoever is leaving still holds its room."""
        used: Counter[str] = Counter()
        for raw in self.pods.values():
            if raw.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                used[raw["spec"].get("nodeName", "")] += gpus_of(raw)
        for raw in self._nodes():
            name, room = raw["metadata"]["name"], int(raw["status"]["allocatable"][GPU])
            if used[name] > room:
                yield f"I2: {name} has {room} GPUs and gives {used[name]}"

    def _scattered(self) -> Iterator[str]:
        """I4: all below a group with a required level sit in one domain of it."""
        labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in self._nodes()}
        for gang, spec in self._groups().items():
            here = [raw for raw in self.pods.values() if gang_of(raw) == gang and placed(raw)]
            for one in [{"name": "", **spec}, *(spec.get("subGroups") or ())]:
                level = (one.get("topologyConstraint") or {}).get("requiredTopologyLevel", "")
                label, below = level if "/" in level else f"topology/{level}", leaves(spec, one["name"])
                nodes = {raw["spec"]["nodeName"] for raw in here if leaf_of(raw) in below}
                found = {labels.get(name, {}).get(label, "?") for name in nodes}
                if level and len(found) > 1:
                    yield f"I4: {gang} {one['name']} in {sorted(found)}"

    def _over_limit(self) -> Iterator[str]:
        """I7, for flat queues."""
        queues = {name: spec.get("queue", "default") for name, spec in self._groups().items()}
        used: Counter[str] = Counter()
        for raw in filter(placed, self.pods.values()):
            used[queues.get(gang_of(raw), "")] += gpus_of(raw)
        for raw in self._queues():
            limit, name = raw["spec"]["resources"]["gpu"].get("limit", -1), raw["metadata"]["name"]
            if 0 <= limit < used[name]:
                yield f"I7: {name} may have {limit} GPUs and has {used[name]}"

    def _counts(self, gang: str, test: Callable[[Raw], bool]) -> Counter[str]:
        return Counter(leaf_of(raw) for raw in self.pods.values() if gang_of(raw) == gang and test(raw))

    def _hopeless(self, raw: Raw) -> Iterator[str]:
        """I3: nobody starts where the gang lacks the pods that would make it whole."""
        spec = self._groups().get(gang_of(raw))
        if spec is not None and not enough(spec, self._counts(gang_of(raw), _alive)):
            yield f"I3: {raw['metadata']['name']} starts, and its gang has too few pods"

    def _unprotected(self, raw: Raw) -> Iterator[str]:
        """I5: what leaves does not take a protected core below its minimum."""
        spec = self._groups().get(gang_of(raw), {})
        if not spec.get("preemptibility", "").startswith(("semi", "non")):
            return
        after = self._counts(gang_of(raw), lambda one: placed(one) and not _told_to_go(one))
        before = after + Counter({leaf_of(raw): 1})
        if enough(spec, before) and not enough(spec, after):
            yield f"I5: {raw['metadata']['name']} of a protected core was evicted"

    def halves(self) -> list[str]:
        """Gangs that are there in part and below their minimum."""
        found = []
        for name, spec in self._groups().items():
            here = self._counts(name, placed)
            if here and not enough(spec, here):
                found.append(f"I3: {name} rests below its minimum with {dict(here)}")
        return found


def _alive(raw: Raw) -> bool:
    over = raw.get("status", {}).get("phase") == "Failed"
    return not over and not raw["metadata"].get("deletionTimestamp")


def _told_to_go(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)


# the world ----------------------------------------------------------------------------------------------------------


def judged(store: ClusterStore) -> Judge:
    """A judge of everything that happens in a store from now on, within the very write."""
    judge = Judge(*(lambda kind=kind: store.list(kind).items for kind in (NODES, GROUPS, QUEUES)))
    watch = store.watch(PODS, store.version)

    def look() -> None:
        for change in watch.take():
            judge.look(change)

    watch.wake = look
    return judge


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
            self.create(CLASSES, {"metadata": {"name": name}, "value": value})
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
        self.create(GROUPS, raw)
        gang = raw["metadata"]["name"]
        for one, number in pods.items():
            for i in range(number):
                self.want(pod(f"{gang}-{one}-{i}" if one else f"{gang}-{i}", gang, gpus, one))

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
        found = filter(placed, self.memory.store.list(PODS).items)
        return {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in found}

    def group(self, name: str) -> Raw:
        return self.memory.store.get(GROUPS, "default", name)

    def pod(self, name: str) -> Raw:
        return self.memory.store.get(PODS, "default", name)

    def condition(self, raw: Raw, kind: str) -> Raw:
        found = raw.get("status", {}).get("conditions") or ()
        return next((one for one in found if one["type"] == kind), {})

    @asynccontextmanager
    async def running(
        self, cluster: Cluster | None = None, settings: Scheduling = HASTY, leadership: Leadership | None = None
    ) -> AsyncIterator["Live"]:
        """A scheduler at work, and kubelets, until it is left; a Crash of it is no failure of the test."""
        scheduler = Scheduler(cluster or self.memory, settings, leadership, lambda: self.seconds, self.time.now)
        self.kubelets = Kubelets(self.memory, self.time, HABITS)
        others = asyncio.all_tasks()
        async with self.kubelets.running():
            live = Live(self, scheduler, asyncio.create_task(scheduler.run()))
            try:
                yield live
            finally:
                await _kill(others)
                _blame(None if live.task.cancelled() else live.task.exception())


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
        bool(len(scheduler.assumed_pods))
        or not applier.write_pool.at_rest
        or applier.writer.refusals.next_seconds() is not None
    )


class Live:
    """One scheduler at work in a world."""

    def __init__(self, world: World, scheduler: Scheduler, task: "asyncio.Task[None]") -> None:
        self.world, self.scheduler, self.task = world, scheduler, task

    async def settle(self, seconds: float = 60.0) -> bool:
        """Until nothing changes any more, whatever was lost has been given up, and all is heard; or it crashed."""
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
        cluster = self.scheduler.cluster
        return self.task.done() or (isinstance(cluster, Faulty) and cluster.dead)

    async def until(self, test: Callable[[], bool], seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while not test():
            assert time.monotonic() < end, "it does not happen"
            await asyncio.sleep(0.002)

    async def _cycle(self, end: float) -> None:
        """A whole cycle that began after now and was told; without one, silence says nothing, however long it lasts."""
        first = self.scheduler.cycles
        while self.scheduler.told < first + 2 and not self.over:
            assert time.monotonic() < end, f"not at rest: {self.world.seats()}, {told(self.scheduler)}"
            await asyncio.sleep(0.001)

    def _received(self) -> bool:
        """The scheduler knows every pod as it is."""
        cluster = self.scheduler.cluster
        if not self.scheduler.ready or (isinstance(cluster, Faulty) and cluster.held):
            return False
        known = {one.metadata.name: _known(one) for one in self.scheduler.cache.objects.pods}
        return known == {one["metadata"]["name"]: _stored(one) for one in self.world.memory.store.list(PODS).items}


def told(scheduler: Scheduler) -> str:
    """How a scheduler fares, in a few words."""
    failures = scheduler.last[2].failures if scheduler.last else ()
    troubles = {resource.plural: health.trouble for resource, health in scheduler.health.items() if not health.ready}
    return f"cycle {scheduler.cycles}, sent {len(scheduler.assumed_pods)}, failures {failures}, watches {troubles}"


def _known(one: Pod) -> tuple[object, ...]:
    return one.metadata.uid, one.spec.node_name, one.metadata.deletion_timestamp is not None, one.status.phase


def _stored(raw: Raw) -> tuple[object, ...]:
    meta = raw["metadata"]
    return meta["uid"], raw["spec"].get("nodeName", ""), "deletionTimestamp" in meta, raw["status"].get("phase", "")


# faults -------------------------------------------------------------------------------------------------------------


class Crash(Exception):
    """The process dies here: nothing after this is done by it."""


class Call(Struct, frozen=True):
    """One call of the API, or one event of a watch."""

    number: int  # of calls, from 1; events are not counted
    verb: str  # list, watch, get, ..., or `event`
    what: str  # plural, and a name where there is one
    again: int  # how often the same was asked before


OfCalls = Literal["conflict", "busy", "broken", "lost", "unanswered", "forbidden", "crash"]
OfEvents = Literal["cut", "reset", "expired", "twice", "late"]
Fault = OfCalls | OfEvents
Script = Callable[[Call], Fault | None]

ERRORS: dict[Fault, ApiError] = {
    "conflict": ApiError(409, "Conflict", "the object has been modified"),
    "busy": ApiError(429, "TooManyRequests", "too many requests"),
    "broken": ApiError(500, "InternalError", "etcd has no leader"),
    "lost": ApiError(504, "Timeout", "never arrived"),  # and it did not happen
    "unanswered": ApiError(504, "Timeout", "no answer"),  # and yet it happened
    "forbidden": ApiError(403, "Forbidden", "you may not"),
    "reset": ApiError(503, "ServiceUnavailable", "connection reset by peer"),
    "expired": ApiError(410, "Expired", "too old resource version"),
}
WRITES = ("create", "replace", "patch", "delete", "bind", "evict")


def crash_at(number: int) -> Script:
    return lambda call: "crash" if call.number == number and call.verb != "event" else None


def seeded(seed: int, rate: float = 0.12) -> Script:
    """Faults that depend on the seed and on what is asked how often, not on the order in which tasks take turns."""

    def script(call: Call) -> Fault | None:
        dice = Random(f"{seed}/{call.verb}/{call.what}/{call.again}")
        if dice.random() >= rate:
            return None
        if call.verb == "event":
            return dice.choice(("cut", "reset", "expired", "twice", "late", "late"))
        if call.verb in WRITES:
            return dice.choice(("conflict", "busy", "broken", "lost", "unanswered", "crash"))
        return dice.choice(("busy", "broken", "lost", "expired" if call.verb == "watch" else "busy"))

    return script


class Faulty:
    """A Cluster around another, on which things go wrong by a script; after a crash nobody gets through any more."""

    def __init__(self, cluster: Cluster, script: Script = lambda _: None) -> None:
        self.cluster, self.script = cluster, script
        self.calls = 0
        self.log: list[str] = []
        self.held = 0  # events that are late right now
        self.dead = False
        self._asked: Counter[tuple[str, str]] = Counter()

    def _fault(self, verb: str, what: str) -> Fault | None:
        if self.dead:
            raise Crash
        again = self._asked[verb, what]
        self._asked[verb, what] += 1
        return self.script(Call(self.calls, verb, what, again))

    async def _do(self, verb: str, what: str, work: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        fault = self._fault(verb, what)
        self.log.append(f"{verb} {what}" + (f": {fault}" if fault else ""))
        if fault == "crash":
            self.dead = True
            raise Crash
        await asyncio.sleep(0)  # on its way
        if fault and fault != "unanswered":
            raise ERRORS[fault]
        if self.dead:
            raise Crash
        found = await work()
        await asyncio.sleep(0)  # and back
        if self.dead:
            raise Crash
        if fault:
            raise ERRORS[fault]
        return found

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Listing:
        def work() -> Awaitable[Listing]:
            return self.cluster.list(resource, namespace, labels=labels, fields=fields, limit=limit, after=after)

        return await self._do("list", resource.plural, work)

    def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        return self._watch(resource, self.cluster.watch(resource, since, namespace, labels=labels, fields=fields))

    @asynccontextmanager
    async def _watch(
        self, resource: Resource, inner: AbstractAsyncContextManager[AsyncIterator[Change]]
    ) -> AsyncIterator[AsyncIterator[Change]]:
        async def nothing() -> None:
            return None

        await self._do("watch", resource.plural, nothing)
        async with inner as changes:
            yield self._events(resource, changes)

    async def _events(self, resource: Resource, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        """Events are lost only together with the connection: what API servers promise, and all that anyone can use."""
        async for change in changes:
            name = change.object["metadata"].get("name", "")
            match self._fault("event", f"{resource.plural} {name}"):
                case "cut":
                    return
                case "reset" | "expired" | "broken" as fault:
                    raise ERRORS[fault]
                case "twice":
                    yield change
                case "late":
                    self.held += 1
                    try:
                        await asyncio.sleep(0.01)
                    finally:
                        self.held -= 1
                case _:
                    pass
            yield change

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return await self._do("get", f"{resource.plural} {name}", lambda: self.cluster.get(resource, namespace, name))

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        meta = raw["metadata"]
        what = f"{resource.plural} {meta.get('name') or meta.get('generateName')}"
        return await self._do("create", what, lambda: self.cluster.create(resource, raw))

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        what = f"{resource.plural} {raw['metadata']['name']} {subresource}".strip()
        return await self._do("replace", what, lambda: self.cluster.replace(resource, raw, subresource))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        field_manager: str = "muster",
        force: bool = False,
    ) -> Raw:
        def work() -> Awaitable[Raw]:
            return self.cluster.patch(resource, namespace, name, patch, kind, subresource, field_manager, force)

        return await self._do("patch", f"{resource.plural} {name} {subresource}".strip(), work)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        def work() -> Awaitable[None]:
            return self.cluster.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)

        await self._do("delete", f"{resource.plural} {name}", work)

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        await self._do("bind", pod, lambda: self.cluster.bind(namespace, pod, uid, node))

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        verb = "probe" if dry_run else "evict"
        await self._do(verb, pod, lambda: self.cluster.evict(namespace, pod, uid, dry_run=dry_run))

    async def close(self) -> None:
        await self.cluster.close()

    def writes(self) -> tuple[str, ...]:
        """What was asked for, but reading."""
        return tuple(line for line in self.log if line.split()[0] in WRITES)
