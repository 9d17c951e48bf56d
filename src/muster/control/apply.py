"""A plan carried out: bindings gang by gang, concurrent and bounded, evictions, nominations (G5, I1, I9).

Rule 1: every write names the pod's uid and asks the fence right before it. Rule 2: whatever fails is left to the next
turn: the plan is made anew from what is there then, so nothing has to be replayed or undone here. Rule 3: a turn does
not wait for what is not answered; what it leaves behind counts as done until it is, so the next plan builds on it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import structlog
from msgspec import Struct

from muster.api.core import Pod
from muster.cluster.mirror import resource_of
from muster.cluster.store import ApiError, Cluster
from muster.control.crew import Crew, Order
from muster.control.inflight import Inflight
from muster.control.observer import Nobody, Observer
from muster.model.snapshot import names_of
from muster.planning.decision import Binding, Eviction, Plan

log = structlog.get_logger()
PODS = resource_of(Pod)
CONFLICT = 409
SHOWN = 5  # failures of a turn that are told in words
PATIENCE_SECONDS = 1.0  # without a single answer, before a turn ends without those that are missing


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
    gang: str  # namespace/name


class Tally:
    """What came of a plan, so far."""

    def __init__(self) -> None:
        self.bound = self.evicted = self.nominated = 0
        self._failures: list[str] = []
        self._closed = False

    def failed(self, gang: str, what: str) -> None:
        """One did not work, and why; the first few are logged, and all that come late, as they are few."""
        self._failures.append(what)
        if self._closed or len(self._failures) <= SHOWN:
            log.warning("not done", gang=gang, what=what)

    def close(self) -> Done:
        """What came of it, but for what comes late."""
        self._closed = True
        return Done(self.bound, self.evicted, self.nominated, tuple(sorted(self._failures)))


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
        late: Callable[[], None] = lambda: None,
    ) -> None:
        self.make_way = make_way  # called before a pod is bound, by namespace and name
        self.cluster, self.inflight, self.fence, self.clock = cluster, inflight, fence, clock
        self.seconds = seconds
        self.crew = Crew(at_once, late)  # `late`: something was answered after its turn
        self.observer: Observer = observer or Nobody()

    @asynccontextmanager
    async def at_work(self, pods: Mapping[str, Pod]) -> AsyncIterator["Work"]:
        """A plan is carried out while it is made; `pods` as it knows them.

        On leaving, everything has been answered, but for what is behind: `at_rest` tells.
        """
        self.crew.open()
        work = Work(self, pods)
        try:
            yield work
            await self.crew.settle(PATIENCE_SECONDS)
        except BaseException:
            await self.crew.stop()
            raise
        finally:
            work.close()

    async def carry_out(self, plan: Plan, pods: Mapping[str, Pod]) -> Done:
        """The same for a plan that is there."""
        async with self.at_work(pods) as work:
            work.finish(plan, pods)
        return work.done

    async def bind(self, one: Binding, uid: str, tally: Tally) -> bool:
        """Whether it is done; if not, the reason is noted."""
        pod = one.key
        if self.make_way is not None:
            await self.make_way(one.namespace, one.pod)
        if not self.fence.leading:
            self.inflight.failed(pod)
            tally.failed(one.gang, f"{pod}: not bound: another leader may be acting")
            return False
        if self.inflight.leaves(pod, uid):
            tally.failed(one.gang, f"{pod}: not bound: it was told to leave while it stood in line")
            return False
        began = self.clock()
        self.inflight.bound(pod, uid, one.node, began)
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.bind(one.namespace, one.pod, uid, one.node)
        except ApiError as error:
            self._failed(pod, error)
            self.observer.bind_failed(error.reason, self.clock() - began)
            tally.failed(one.gang, f"{pod}: not bound to {one.node}: {error.message}")
            return False
        self.observer.bound(one.role, self.clock() - began)
        tally.bound += 1
        return True

    async def evict(self, one: Eviction, uid: str, tally: Tally) -> bool:
        """Ask a pod to leave, its budgets heeded."""
        pod = one.key
        if not self.fence.leading:
            tally.failed(one.gang, f"{pod}: not evicted: another leader may be acting")
            return False
        self.inflight.evicted(pod, uid, self.clock())
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.evict(one.namespace, one.pod, uid)
        except ApiError as error:
            self._failed(pod, error)
            if error.status != 404:  # it is gone already
                self.observer.eviction_failed(error.reason)
                tally.failed(one.gang, f"{pod}: not evicted: {error.message}")
            return False
        self.observer.evicted(one.reason)
        tally.evicted += 1
        return True

    async def note(self, one: Place, uid: str, tally: Tally) -> bool:
        """Write on a waiting pod where it will go."""
        if not self.fence.leading:
            return False
        namespace, _, name = one.pod.partition("/")
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": one.node or None}}
        try:
            async with in_time(self.fence, self.seconds):
                await self.cluster.patch(PODS, namespace, name, patch, subresource="status")
        except ApiError as error:
            self._conflict(error)
            if one.node or error.status != 404:
                tally.failed(one.gang, f"{one.pod}: no place noted: {error.message}")
            return False
        if one.node:
            self.observer.nominated()
            tally.nominated += 1
        return True

    def _failed(self, pod: str, error: ApiError) -> None:
        """A clear no did not happen; after a timeout or a server's failure nobody knows, so it still counts as sent."""
        self._conflict(error)
        if 400 <= error.status < 500 and error.status != 408:
            self.inflight.failed(pod)

    def _conflict(self, error: ApiError) -> None:
        if error.status == CONFLICT:
            self.observer.conflict(PODS.plural)


class Bind(Struct, frozen=True, eq=False):
    """One binding to send. While it waits for others beyond its turn, it counts as sent: the room is taken."""

    applier: Applier
    binding: Binding
    uid: str
    tally: Tally

    @property
    def whose(self) -> str:
        """See Order."""
        return self.binding.gang

    @property
    def first(self) -> bool:
        """See Order."""
        return self.binding.role == "core"

    async def send(self) -> bool:
        """See Order."""
        return await self.applier.bind(self.binding, self.uid, self.tally)

    def keep(self) -> None:
        """See Order."""
        self.applier.inflight.bound(self.binding.key, self.uid, self.binding.node, self.applier.clock())

    def drop(self) -> None:
        """See Order."""
        self.applier.inflight.failed(self.binding.key)


class Alone(Struct, frozen=True, eq=False):
    """A write of which no other one depends."""

    whose: str
    send: Callable[[], Coroutine[Any, Any, bool]]
    first: bool = True

    def keep(self) -> None:
        """See Order: it is alone, so it never waits once it was begun."""

    def drop(self) -> None:
        """See Order."""


class Work:
    """One plan being carried out. Bindings come gang by gang as they are decided: each is final in its plan."""

    def __init__(self, applier: Applier, pods: Mapping[str, Pod]) -> None:
        self._applier, self._pods = applier, pods
        self._tally = Tally()
        self._given: set[Binding] = set()
        self._open = True
        self.done = Done()  # what came of it, once it is over

    def bind(self, bindings: Sequence[Binding]) -> None:
        """These are decided."""
        if self._open:
            self._given.update(bindings)
            applier, tally = self._applier, self._tally
            applier.crew.add([Bind(applier, one, self._uid(one), tally) for one in bindings])

    def finish(self, plan: Plan, pods: Mapping[str, Pod]) -> None:
        """All is decided: evictions, notes, and what was not given before; `pods` are those that it is about."""
        crew = self._applier.crew
        crew.add(self._alone(map(self._evict, plan.evictions)), urgent=True)  # it takes time until there is room
        self.bind([one for one in plan.bindings if one not in self._given])
        crew.add(self._alone(map(self._note, places(plan, pods))))
        crew.finish()

    def close(self) -> None:
        """It is over; whoever still plans, plans for nothing."""
        self._open = False
        self.done = self._tally.close()

    def _alone(self, orders: Iterable[Alone]) -> list[Order]:
        """Those that are not on their way since another turn."""
        return [one for one in orders if one.whose not in self._applier.crew]

    def _evict(self, one: Eviction) -> Alone:
        return Alone(f"evict {one.key}", lambda: self._applier.evict(one, self._uid(one), self._tally))

    def _note(self, one: Place) -> Alone:
        return Alone(f"note {one.pod}", lambda: self._applier.note(one, self._uid_of(one.pod), self._tally))

    def _uid(self, one: Binding | Eviction) -> str:
        return self._uid_of(one.key)

    def _uid_of(self, pod: str) -> str:
        found = self._pods.get(pod)
        return found.metadata.uid if found else ""


def concerned(plan: Plan, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    """The pods that a plan does something to, and those that wait with a place noted on them, by `namespace/name`."""
    named = {one.key for one in (*plan.nominations, *plan.bindings)} | {one.key for one in plan.evictions}
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
    wanted = {one.key: one for one in plan.nominations}
    for name, one in wanted.items():
        if name not in pods or pods[name].status.nominated_node_name != one.node:
            yield Place(name, one.node, one.gang)
    noted = {name for name, pod in pods.items() if _noted(pod)}
    if not noted - wanted.keys():
        return
    silent = {one.gang for one in plan.evictions}
    bound = {one.key for one in plan.bindings}
    for found in plan.gangs:
        if found.verdict != "Unknown" and found.gang.key not in silent:
            own = {f"{found.gang.namespace}/{name}" for name in names_of(found.gang)}
            yield from (Place(name, "", found.gang.key) for name in sorted((own & noted) - wanted.keys() - bound))
