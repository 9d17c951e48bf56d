"""A plan carried out: bindings gang by gang, concurrent and bounded, evictions, nominations (G5, I1, I9).

Rule 1: every write names the pod's uid and asks the fence right before it. Rule 2: whatever fails is left to the next
turn: the plan is made anew from what is there then, so nothing has to be replayed or undone here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from muster.api.core import Pod
from muster.cluster.mirror import resource_of
from muster.cluster.store import ApiError, Cluster
from muster.control.crew import Crew, each
from muster.control.inflight import Inflight
from muster.control.observer import Nobody, Observer
from muster.model.snapshot import names_of
from muster.planning.decision import Binding, Eviction, Plan

PODS = resource_of(Pod)
CONFLICT = 409


class Fence(Protocol):
    """Who says whether, and for how long, we may still act."""

    @property
    def leading(self) -> bool:
        """Whether we may act right now."""

    @property
    def seconds_left(self) -> float:
        """How long we may act from now on without hearing anything new."""


class Done(Struct, frozen=True):
    """What came of a plan."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failures: tuple[str, ...] = ()  # in sentences


class Place(Struct, frozen=True):
    """What should stand on a waiting pod: where it will go; an empty node: nowhere any more."""

    pod: str  # namespace/name
    node: str


class Tally:
    """What came of a plan, so far."""

    def __init__(self) -> None:
        self.bound = self.evicted = self.nominated = 0
        self.failures: list[str] = []


@asynccontextmanager
async def in_time(fence: Fence, seconds: float) -> AsyncIterator[None]:
    """A write ends by then, or when we may not act any more, whatever comes first; ApiError 504 where it did not.

    So no request is on its way when the fence falls. A request that was given up may still be with the API server: for
    that there is the margin between the end of our leadership and that of the lease. Asking for a margin as long as a
    binding may take would be simpler, but then patience with a slow API server would cost every change of leaders.
    """
    try:
        async with asyncio.timeout(max(min(seconds, fence.seconds_left), 0.0)):
            yield
    except TimeoutError:
        raise ApiError(504, "Timeout", "no answer in time") from None


class Applier:
    """Writes to one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        inflight: Inflight,
        fence: Fence,
        clock: Callable[[], float],
        at_once: int = 64,
        seconds: float = 10.0,
        observer: Observer | None = None,
        make_way: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self.make_way = make_way  # called before a pod is bound, by namespace and name
        self.cluster, self.inflight, self.fence, self.clock = cluster, inflight, fence, clock
        self.at_once, self.seconds = at_once, seconds
        self.observer: Observer = observer or Nobody()

    @asynccontextmanager
    async def at_work(self, pods: Mapping[str, Pod]) -> AsyncIterator["Work"]:
        """A plan is carried out while it is made; `pods` as it knows them. On leaving, everything has been answered."""
        async with asyncio.TaskGroup() as tasks:
            work = Work(self, pods, tasks)
            try:
                yield work
            except BaseException:
                work.stop()
                raise
            work.open = False

    async def carry_out(self, plan: Plan, pods: Mapping[str, Pod]) -> Done:
        """The same for a plan that is there."""
        async with self.at_work(pods) as work:
            await work.finish(plan, pods)
        return work.done

    async def bind(self, one: Binding, uid: str, tally: Tally) -> bool:
        """Whether it is done; if not, the reason is noted."""
        pod = f"{one.namespace}/{one.pod}"
        if self.make_way is not None:
            await self.make_way(one.namespace, one.pod)
        if not self.fence.leading:
            tally.failures.append(f"{pod}: not bound: another leader may be acting")
            return False
        began = self.clock()
        self.inflight.bound(pod, uid, one.node, began)
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.bind(one.namespace, one.pod, uid, one.node)
        except ApiError as error:
            self._failed(pod, error)
            self.observer.bind_failed(error.reason, self.clock() - began)
            tally.failures.append(f"{pod}: not bound to {one.node}: {error.message}")
            return False
        self.observer.bound(one.role, self.clock() - began)
        tally.bound += 1
        return True

    async def evict(self, one: Eviction, uid: str, tally: Tally) -> None:
        """Ask a pod to leave, its budgets heeded."""
        pod = f"{one.namespace}/{one.pod}"
        if not self.fence.leading:
            tally.failures.append(f"{pod}: not evicted: another leader may be acting")
            return
        self.inflight.evicted(pod, uid, self.clock())
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.evict(one.namespace, one.pod, uid)
        except ApiError as error:
            self._failed(pod, error)
            if error.status != 404:  # it is gone already
                self.observer.eviction_failed(error.reason)
                tally.failures.append(f"{pod}: not evicted: {error.message}")
            return
        self.observer.evicted(one.reason)
        tally.evicted += 1

    async def note(self, one: Place, uid: str, tally: Tally) -> None:
        """Write on a waiting pod where it will go."""
        if not self.fence.leading:
            return
        namespace, _, name = one.pod.partition("/")
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": one.node or None}}
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.patch(PODS, namespace, name, patch, subresource="status")
        except ApiError as error:
            self._conflict(error)
            if one.node or error.status != 404:
                tally.failures.append(f"{one.pod}: no place noted: {error.message}")
            return
        if one.node:
            self.observer.nominated()
            tally.nominated += 1

    def _failed(self, pod: str, error: ApiError) -> None:
        """A clear no did not happen; after a timeout or a server's failure nobody knows, so it still counts as sent."""
        self._conflict(error)
        if 400 <= error.status < 500 and error.status != 408:
            self.inflight.failed(pod)

    def _conflict(self, error: ApiError) -> None:
        if error.status == CONFLICT:
            self.observer.conflict(PODS.plural)


class Work:
    """One plan being carried out. Bindings come gang by gang as they are decided: each is final in its plan."""

    def __init__(self, applier: Applier, pods: Mapping[str, Pod], tasks: asyncio.TaskGroup) -> None:
        self._applier, self._pods = applier, pods
        self._tally = Tally()
        self._given: set[Binding] = set()
        self._crew = Crew(self._bind, applier.at_once, tasks)
        self.open = True

    @property
    def done(self) -> Done:
        """What came of it."""
        tally = self._tally
        return Done(tally.bound, tally.evicted, tally.nominated, tuple(sorted(tally.failures)))

    def stop(self) -> None:
        """Send nothing more."""
        self.open = False
        self._crew.stop()

    def bind(self, bindings: Sequence[Binding]) -> None:
        """These are decided."""
        if self.open:
            self._given.update(bindings)
            self._crew.add(bindings)

    async def finish(self, plan: Plan, pods: Mapping[str, Pod]) -> None:
        """All is decided: evictions, notes, and what was not given before; `pods` are those that it is about."""
        applier, tally = self._applier, self._tally
        self.bind([one for one in plan.bindings if one not in self._given])
        self._crew.finish()
        await each(lambda one: applier.evict(one, self._uid(one), tally), plan.evictions, applier.at_once)
        notes = list(places(plan, pods))
        await each(lambda one: applier.note(one, self._uid_of(one.pod), tally), notes, applier.at_once)

    async def _bind(self, one: Binding) -> bool:
        return await self._applier.bind(one, self._uid(one), self._tally)

    def _uid(self, one: Binding | Eviction) -> str:
        return self._uid_of(f"{one.namespace}/{one.pod}")

    def _uid_of(self, pod: str) -> str:
        found = self._pods.get(pod)
        return found.metadata.uid if found else ""


def concerned(plan: Plan, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    """The pods that a plan does something to, and those that wait with a place noted on them, by `namespace/name`."""
    named = {f"{one.namespace}/{one.pod}" for one in (*plan.nominations, *plan.bindings)}
    named |= {f"{one.namespace}/{one.pod}" for one in plan.evictions}
    found = {name: pod for name, pod in pods.items() if _noted(pod)}
    return found | {name: pods[name] for name in named if name in pods}


def _noted(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name


def places(plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Place]:
    """What has to be noted on pods (P7): only what differs from what stands there.

    A note that the plan does not repeat is taken away: its gang changed or goes elsewhere, and others, schedulers
    among them, would keep the room free. Not so where the plan says nothing about it: the search was cut short, or the
    gang has just lost pods and is planned anew when they are gone.
    """
    wanted = {f"{one.namespace}/{one.pod}": one.node for one in plan.nominations}
    for name, node in wanted.items():
        if name not in pods or pods[name].status.nominated_node_name != node:
            yield Place(name, node)
    noted = {name for name, pod in pods.items() if _noted(pod)}
    if not noted - wanted.keys():
        return
    silent = {f"{one.namespace}/{one.pod_group}" for one in plan.evictions}
    bound = {f"{one.namespace}/{one.pod}" for one in plan.bindings}
    for found in plan.gangs:
        if found.verdict != "Unknown" and found.gang.key not in silent:
            own = {f"{found.gang.namespace}/{name}" for name in names_of(found.gang)}
            yield from (Place(name, "") for name in sorted((own & noted) - wanted.keys() - bound))
