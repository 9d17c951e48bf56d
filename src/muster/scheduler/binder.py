"""One write at a time, and what became of it: bindings, evictions, notes of places (I1, I9).

Rule 1: every write names the pod's uid and checks leadership right before it. Rule 2: where nobody knows whether it
was done, the pod itself is asked until that is known. A binding is sent again, to the same node; nothing else is.
Rule 3: what was decided in one term of leadership is not sent in another one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog
from msgspec import Struct

from muster.api.resources import PODS
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.planning.decision import Binding, Eviction
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.eviction_backoff import EvictionBackoff
from muster.scheduler.leadership import Leadership, leads_in, within_leadership
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.write_pool import WriteResult

log = structlog.get_logger()
CONFLICT, GONE, UNANSWERED = 409, 404, 504
SHOWN = 5  # failures of a turn that are told in words
LOST_SECONDS = 65.0  # an API server gives up a request after a minute: what was not done by then will not be
AGAIN_SECONDS = 30.0  # for so long, a binding that has not happened is sent again
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 5.0  # before a pod in doubt is asked: twice as long each time


class Done(Struct, frozen=True):
    """What came of a plan."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failures: tuple[str, ...] = ()  # in sentences


class NominatedPlace(Struct, frozen=True):
    """What should stand on a waiting pod: where it will go; an empty node: nowhere any more."""

    pod: str  # namespace/name
    node: str
    gang: str  # namespace/name


class Trouble(Struct, frozen=True):
    """Why a gang did not get what a plan has given it."""

    what: str
    core: bool  # what it needs to run at all


class UnconfirmedBinding(Struct, frozen=True):
    """Nobody knows whether a binding was done."""

    since: float
    what: str


class ApplyTally:
    """What came of a plan, so far."""

    def __init__(self) -> None:
        self.bound: set[str] = set()  # pods
        self.evicted = self.nominated = 0
        self.troubles: dict[str, Trouble] = {}  # by gang
        self._failures: list[str] = []

    def failed(self, gang: str, what: str) -> None:
        """One did not work, and why; the first few are logged."""
        self._failures.append(what)
        if len(self._failures) <= SHOWN:
            log.warning("not done", gang=gang, what=what)

    def unbound(self, one: Binding, why: str) -> None:
        """A binding did not work."""
        before = self.troubles.get(one.gang)
        if before is None or not before.core:
            told = f"pod `{one.pod}` was not bound to `{one.node}`: {why}"
            self.troubles[one.gang] = Trouble(told, one.role == "core")
        self.failed(one.gang, f"{one.key}: not bound to {one.node}: {why}")

    def unsent(self, whose: str, core: bool) -> None:
        """Nothing, or not all, of it was sent."""
        why = "not sent yet: the API server does not answer"
        self.troubles.setdefault(whose, Trouble(why, core))
        self._failures.append(f"{whose}: {why}")

    def done(self) -> Done:
        """What came of it, but for what comes late."""
        return Done(len(self.bound), self.evicted, self.nominated, tuple(sorted(self._failures)))


class Writer:
    """Writes to one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        assumed_pods: AssumedPods,
        leadership: Leadership,
        clock: Callable[[], float],
        seconds: float = 10.0,
        observer: Observer | None = None,
        make_way: Callable[[str, str], Awaitable[None]] | None = None,
        still: Callable[[Binding, str], bool] = lambda *_: True,
        on_done: Callable[[Binding | Eviction, str, int], None] = lambda *_: None,
        select_node: Callable[[Binding], Awaitable[None]] | None = None,
    ) -> None:
        self.select_node = select_node  # called before a pod is bound: writes the node on claims that wait for it
        self.on_done = on_done  # called once the API server has taken a binding or an eviction: the pod's uid, the term
        self.make_way = make_way  # called before a pod is bound, by namespace and name
        self.still = still  # whether a binding of a pod by its uid may be sent again, as far as is known now
        self.cluster, self.assumed_pods, self.leadership, self.clock = cluster, assumed_pods, leadership, clock
        self.seconds = seconds
        self.refusals = EvictionBackoff(clock)
        self.unconfirmed: dict[str, dict[str, UnconfirmedBinding]] = {}  # by gang, by pod
        self.observer: Observer = observer or NoObserver()

    async def bind(self, order: "Bind") -> WriteResult:
        """One binding."""
        one = order.binding
        if self.make_way is not None:
            await self.make_way(one.namespace, one.pod)
        if not leads_in(self.leadership, order.term):
            order.tally.unbound(one, "another leader may be acting")
            return WriteResult.NO
        if self.select_node is not None:
            try:
                async with within_leadership(self.leadership, self.seconds):
                    await self.select_node(one)
            except ApiError as error:
                order.tally.unbound(one, error.message)
                return WriteResult.NO
            if not leads_in(self.leadership, order.term):
                order.tally.unbound(one, "another leader may be acting")
                return WriteResult.NO
        order.first_at = self.clock()
        return await self._bind(order)

    async def seat(self, order: "Bind") -> WriteResult:
        """What became of a binding in doubt; it is sent again for a while, where it is still wanted.

        To the same node, so its room is taken either way. What was said no to may still have happened the first time:
        only the pod itself can tell.
        """
        order.asked += 1
        one, now = order.binding, self.clock()
        answer = await self._seat(order)
        if answer is not WriteResult.DOUBT:
            self._settled(one)
            return answer
        may = leads_in(self.leadership, order.term) and now - order.first_at < AGAIN_SECONDS
        return await self._bind(order) if may and self.still(one, order.uid) else WriteResult.DOUBT

    async def _bind(self, order: "Bind") -> WriteResult:
        one, began, before = order.binding, self.clock(), order.sent_at
        self.assumed_pods.bound(one.key, order.uid, one.node)
        order.sent_at = began
        try:
            async with within_leadership(self.leadership, self.seconds):
                await self.cluster.bind(one.namespace, one.pod, order.uid, one.node)
        except ApiError as error:
            self._conflict(error)
            self.observer.bind_failed(error.reason, self.clock() - began)
            if order.asked:
                order.sent_at = before if _certain(error) else began
                return WriteResult.DOUBT
            return self._not_bound(order, error)
        self._settled(one)
        return self._bound(order)

    def _not_bound(self, order: "Bind", error: ApiError) -> WriteResult:
        one = order.binding
        order.tally.unbound(one, error.message)
        if _certain(error):
            self.assumed_pods.failed(one.key, order.uid)
            return WriteResult.NO
        told = f"nobody knows yet whether pod `{one.pod}` was bound to `{one.node}`: {error.message}"
        self.unconfirmed.setdefault(one.gang, {})[one.key] = UnconfirmedBinding(self.clock(), told)
        return WriteResult.DOUBT

    def _settled(self, one: Binding) -> None:
        unconfirmed = self.unconfirmed.get(one.gang, {})
        unconfirmed.pop(one.key, None)
        if not unconfirmed:
            self.unconfirmed.pop(one.gang, None)

    async def _seat(self, order: "Bind") -> WriteResult:
        """Whether a binding in doubt has happened, as far as the pod itself can tell."""
        one = order.binding
        try:
            found = await self._asked(one.namespace, one.pod, order.uid)
        except ApiError:
            return WriteResult.DOUBT
        seat = (found.get("spec") or {}).get("nodeName") if found else None
        if seat == one.node:
            return self._bound(order)
        if found and not seat and self.clock() - order.sent_at < LOST_SECONDS:
            return WriteResult.DOUBT
        self.assumed_pods.failed(one.key, order.uid)
        return WriteResult.NO

    async def _asked(self, namespace: str, name: str, uid: str) -> Raw | None:
        """The pod as it is stored; None: it is gone. Whoever leads no more may ask, too."""
        try:
            async with asyncio.timeout(self.seconds):
                found = await self.cluster.get(PODS, namespace, name)
        except TimeoutError:
            raise ApiError(UNANSWERED, "Timeout", "no answer in time") from None
        except ApiError as error:
            if error.status == GONE:
                return None
            raise
        return found if not uid or (found.get("metadata") or {}).get("uid") == uid else None

    def _bound(self, order: "Bind") -> WriteResult:
        one = order.binding
        self.assumed_pods.promised(one.key, order.uid)
        self.observer.bound(one.role, self.clock() - order.sent_at)
        order.tally.bound.add(one.key)
        self.on_done(one, order.uid, order.term)
        return WriteResult.YES

    async def evict(self, order: "Evict") -> WriteResult:
        """Ask a pod to leave, its budgets heeded."""
        one = order.eviction
        if not leads_in(self.leadership, order.term):
            order.tally.failed(one.gang, f"{one.key}: not evicted: another leader may be acting")
            return WriteResult.NO
        order.sent_at = self.clock()
        try:
            async with within_leadership(self.leadership, self.seconds):
                await self.cluster.evict(one.namespace, one.pod, order.uid)
        except ApiError as error:
            return await self._not_evicted(order, error)
        return self._evicted(order)

    async def leaving(self, order: "Evict") -> WriteResult:
        """What became of an eviction in doubt. It is not sent again: the next plan may not want it."""
        order.asked += 1
        return await self._leaving(order)

    async def _not_evicted(self, order: "Evict", error: ApiError) -> WriteResult:
        one = order.eviction
        self._conflict(error)
        if error.status == GONE:
            return WriteResult.NO  # it is gone already
        self.observer.eviction_failed(error.reason)
        order.tally.failed(one.gang, f"{one.key}: not evicted: {error.message}")
        if not _certain(error):
            answer = await self._leaving(order)
            if answer is not WriteResult.DOUBT or error.status == UNANSWERED:
                return answer
        self.refusals.refused(one.key, order.uid)
        return WriteResult.NO

    async def _leaving(self, order: "Evict") -> WriteResult:
        one = order.eviction
        try:
            found = await self._asked(one.namespace, one.pod, order.uid)
        except ApiError:
            return WriteResult.DOUBT
        if found is None or (found.get("metadata") or {}).get("deletionTimestamp"):
            return self._evicted(order)
        return WriteResult.DOUBT if self.clock() - order.sent_at < LOST_SECONDS else WriteResult.NO

    def _evicted(self, order: "Evict") -> WriteResult:
        one = order.eviction
        self.assumed_pods.evicted(one.key, order.uid)
        self.refusals.taken(one.key)
        self.observer.evicted(one.reason)
        order.tally.evicted += 1
        self.on_done(one, order.uid, order.term)
        return WriteResult.YES

    async def probe(self, one: Eviction, uid: str, tally: ApplyTally, term: int) -> WriteResult:
        """Whether a pod could be evicted now; where nobody knows, it is not tried."""
        if not leads_in(self.leadership, term):
            return WriteResult.NO
        try:
            async with within_leadership(self.leadership, self.seconds):
                await self.cluster.evict(one.namespace, one.pod, uid, dry_run=True)
        except ApiError as error:
            if error.status == GONE:
                return WriteResult.YES
            self.observer.eviction_failed(error.reason)
            tally.failed(one.gang, f"{one.key}: cannot be evicted, so nobody is for {one.preemptor}: {error.message}")
            if error.status != UNANSWERED:
                self.refusals.refused(one.key, uid)
            return WriteResult.NO
        return WriteResult.YES

    async def note(self, one: NominatedPlace, uid: str, tally: ApplyTally, term: int) -> WriteResult:
        """Write on a waiting pod where it will go."""
        if not leads_in(self.leadership, term):
            return WriteResult.NO
        namespace, _, name = one.pod.partition("/")
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": one.node or None}}
        try:
            async with within_leadership(self.leadership, self.seconds):
                await self.cluster.patch(PODS, namespace, name, patch, subresource="status")
        except ApiError as error:
            self._conflict(error)
            if one.node or error.status != GONE:
                tally.failed(one.gang, f"{one.pod}: no place noted: {error.message}")
            return WriteResult.NO
        if one.node:
            self.observer.nominated()
            tally.nominated += 1
        return WriteResult.YES

    def _conflict(self, error: ApiError) -> None:
        if error.status == CONFLICT:
            self.observer.conflict(PODS.plural)


def _certain(error: ApiError) -> bool:
    """A clear no did not happen; after a timeout or a server's failure nobody knows."""
    return 400 <= error.status < 500 and error.status != 408


# orders -------------------------------------------------------------------------------------------------------------


class Bind(Struct, eq=False):
    """One binding to send."""

    writer: Writer
    binding: Binding
    uid: str
    tally: ApplyTally
    term: int  # of the leadership in which it was decided
    asked: int = 0  # how often, whether it has happened
    first_at: float = 0.0
    sent_at: float = 0.0  # the last time that it may have arrived

    @property
    def whose(self) -> str:
        """See Order."""
        return self.binding.gang

    @property
    def first(self) -> bool:
        """See Order."""
        return self.binding.role == "core"

    @property
    def rest_seconds(self) -> float:
        """See Order."""
        return _rest(self.asked)

    async def send(self) -> WriteResult:
        """See Order."""
        return await self.writer.bind(self)

    async def find_out(self) -> WriteResult:
        """See Order."""
        return await self.writer.seat(self)


class Evict(Struct, eq=False):
    """One eviction; where several make room for one gang, all of them are tried without effect first."""

    writer: Writer
    eviction: Eviction
    uid: str
    tally: ApplyTally
    term: int  # of the leadership in which it was decided
    whose: str
    first: bool
    asked: int = 0
    sent_at: float = 0.0

    @property
    def rest_seconds(self) -> float:
        """See Order."""
        return _rest(self.asked)

    async def send(self) -> WriteResult:
        """See Order."""
        return await self.writer.evict(self)

    async def find_out(self) -> WriteResult:
        """See Order."""
        return await self.writer.leaving(self)


class Alone(Struct, frozen=True, eq=False):
    """A write of which nobody has to know what became: the next plan does the same again."""

    whose: str
    send: Callable[[], Coroutine[Any, Any, WriteResult]]
    first: bool = True
    rest_seconds: float = 0.0

    async def find_out(self) -> WriteResult:
        """See Order: there is no doubt about it."""
        return WriteResult.NO


def _rest(asked: int) -> float:
    return min(FIRST_SECONDS * 2.0 ** min(asked, 10), LONGEST_SECONDS)
