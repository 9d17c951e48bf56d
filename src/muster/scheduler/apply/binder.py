"""Performs bindings: posts each one, and follows it until it is confirmed or rejected (I1, I2).

Rule 1: `write_state` decides; here is the I/O. Rule 2: leadership is checked right before every request. Rule 3: from
the moment a binding is sent until it is rejected, its pod is assumed on its node.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from muster.kube.cache.cache import Cache
from muster.kube.errors import ApiError
from muster.kube.leadership import within_leadership
from muster.kube.pod_mark import PodMark
from muster.planning.decision import Binding
from muster.scheduler.apply.apply_result import ANOTHER_LEADER, ApplyTally, Record
from muster.scheduler.apply.pod_api import PodApi, settle_backoff
from muster.scheduler.apply.write_state import (
    FINAL,
    Accepted,
    Answer,
    BindRequest,
    Confirmed,
    Event,
    Rejected,
    Resent,
    Sent,
    TermEnded,
    Unconfirmed,
    Write,
    WriteResult,
    last_sent_at,
    may_resend,
    result_of,
    step,
)
from muster.scheduler.assumed_pods import AssumedPods
from muster.validation.pods.membership import gang_of

PROMPT_SECONDS = (
    1.0  # an unclear answer within so long is followed up at once: its gang goes on after a passing failure
)

LEFT_GANG = "the pod has left the gang for which this was decided"

# What a binding waits for: the pod may be bound once it is awaited, or at once where it is None; ApiError: it may not.
Preparation = Callable[[Binding], Awaitable[object] | None]


class UnconfirmedBinding(Struct, frozen=True):
    """A binding of which it is not known whether it was carried out."""

    since: float
    message: str


class BindingWrite(Struct, eq=False):
    """One binding, from the plan to its final state; see PendingWrite."""

    binder: "Binder"
    binding: Binding
    uid: str
    term: int  # of the leadership in which it was decided
    tally: ApplyTally
    state: Write | None = None  # None: not sent yet
    unconfirmed: UnconfirmedBinding | None = None
    key: str = ""  # the pod
    owner: str = ""  # the gang

    def __post_init__(self) -> None:
        self.key, self.owner = self.binding.key, self.binding.gang

    @property
    def is_first(self) -> bool:
        """The core is bound before the extras."""
        return self.binding.role == "core"

    async def send(self) -> WriteResult:
        """Posts the binding."""
        return await self.binder.send(self)

    async def settle(self) -> WriteResult:
        """Follows an unconfirmed binding to its end."""
        return await self.binder.settle(self)


class Binder:
    """Binds pods in one cluster."""

    def __init__(
        self,
        api: PodApi,
        assumed_pods: AssumedPods,
        preparations: tuple[Preparation, ...] = (),
        is_wanted: Callable[[Binding, str], bool] = lambda *_: True,
        record: Record = lambda *_: None,
        missing_mark: Callable[[str, str], PodMark | None] = lambda *_: None,
        is_member: Callable[[Binding, str], bool] = lambda *_: True,
    ) -> None:
        """`missing_mark`: what the pod with a uid does not carry yet of its gang; `is_member`: whether it is in it."""
        self.api, self.assumed_pods = api, assumed_pods
        self._preparations, self._record, self._missing_mark = preparations, record, missing_mark
        self._is_member = is_member
        self.is_wanted = is_wanted  # whether a binding of the pod with a uid may be sent again
        self._unconfirmed: dict[str, BindingWrite] = {}  # by pod

    @property
    def unconfirmed_number(self) -> int:
        """How many bindings are unconfirmed."""
        return len(self._unconfirmed)

    @property
    def unconfirmed(self) -> dict[str, UnconfirmedBinding]:
        """The oldest unconfirmed binding of each gang that has one."""
        oldest: dict[str, UnconfirmedBinding] = {}
        for write in self._unconfirmed.values():
            unconfirmed = write.unconfirmed
            if unconfirmed is not None and (write.owner not in oldest or unconfirmed.since < oldest[write.owner].since):
                oldest[write.owner] = unconfirmed
        return oldest

    async def send(self, write: BindingWrite) -> WriteResult:
        """Posts a binding for the first time."""
        problem = await self._prepare(write)
        if problem:
            write.tally.add_binding_failure(write.binding, problem)
            return WriteResult.REJECTED
        sent_at = self.api.clock()
        write.state = Sent(BindRequest(write.uid, write.binding.node), sent_at)
        answer = await self._post(write)
        if isinstance(write.state, Unconfirmed) and answer.at - sent_at < PROMPT_SECONDS:
            await self._read_and_resend(write)
        if isinstance(write.state, Confirmed) or isinstance(answer, Accepted):
            return result_of(write.state)
        write.tally.add_binding_failure(write.binding, answer.message)
        if isinstance(write.state, Unconfirmed):
            write.unconfirmed = UnconfirmedBinding(answer.at, _unconfirmed_message(write.binding, answer.message))
            self._unconfirmed[write.key] = write
        return result_of(write.state)

    async def settle(self, write: BindingWrite) -> WriteResult:
        """Reads the pod until it is known what became of the binding; sends it again where that is allowed."""
        backoff = settle_backoff()
        while isinstance(write.state, Unconfirmed):
            await asyncio.sleep(backoff.next_seconds())
            async with self.api.settling:
                await self._read_and_resend(write)
        return result_of(write.state)

    async def _read_and_resend(self, write: BindingWrite) -> None:
        """Reads the pod of an unconfirmed binding once; sends the binding again where that is allowed.

        To the same node, where the pod holds its resources either way.
        """
        binding = write.binding
        self._advance(write, await self.api.read(binding.namespace, binding.pod))
        now = self.api.clock()
        if not self.api.leads_in(write.term):
            self._advance(write, TermEnded(now))
        if write.state is not None and may_resend(write.state, now) and self.is_wanted(binding, write.uid):
            self._advance(write, Resent(now))
            await self._post(write)

    async def _prepare(self, write: BindingWrite) -> str:
        """Why the binding may not be sent; empty: it may."""
        for prepare in self._preparations:
            if not self.api.leads_in(write.term):
                return ANOTHER_LEADER
            waiting = prepare(write.binding)
            if waiting is None:
                continue
            try:
                with within_leadership(self.api.leadership, self.api.seconds):
                    await waiting
            except ApiError as error:
                return error.message
        if not self.api.leads_in(write.term):
            return ANOTHER_LEADER
        return "" if self._is_member(write.binding, write.uid) else LEFT_GANG

    async def _post(self, write: BindingWrite) -> Answer:
        binding, key, began = write.binding, write.key, self.api.clock()
        self.assumed_pods.assume(key, write.uid, binding.node)
        mark = self._missing_mark(key, write.uid)
        answer = await self.api.bind(binding.namespace, binding.pod, write.uid, binding.node, mark)
        if not isinstance(answer, Accepted):
            self.api.observer.bind_failed(answer.reason, answer.at - began)
        self._advance(write, answer)
        return answer

    def _advance(self, write: BindingWrite, event: Event) -> None:
        """Moves a binding to its next state; what follows from a final state is done here."""
        before, binding, key = write.state, write.binding, write.key
        if before is None or isinstance(before, FINAL):
            return
        write.state = after = step(before, event)
        if isinstance(after, FINAL):
            self._unconfirmed.pop(key, None)
        if isinstance(after, Rejected):
            self.assumed_pods.forget(key, write.uid)
        if isinstance(after, Confirmed):
            self.assumed_pods.confirm(key, write.uid)
            self.api.observer.bound(binding.role, self.api.clock() - last_sent_at(before))
            write.tally.bound.add(key)
            self._record(binding, write.uid, write.term)


def wanted_in(cache: Cache, assumed_pods: AssumedPods) -> Callable[[Binding, str], bool]:
    """Whether a binding may be sent again, as far as the cache knows: the plan that decided it may be out of date."""

    is_member = member_in(cache)

    def is_wanted(binding: Binding, uid: str) -> bool:
        pod = cache.pod(binding.key)
        waits = pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None
        in_gang = cache.pod_group(binding.gang) is not None and not assumed_pods.is_evicted(binding.key, uid)
        return waits and in_gang and is_member(binding, uid) and cache.may_bind_to(binding.node)

    return is_wanted


def member_in(cache: Cache) -> Callable[[Binding, str], bool]:
    """Whether a pod is still in the gang for which its binding was decided: its mark may have been withdrawn since."""

    def is_member(binding: Binding, uid: str) -> bool:
        pod = cache.pod(binding.key)
        return pod is None or pod.metadata.uid != uid or gang_of(pod) == binding.gang

    return is_member


def _unconfirmed_message(binding: Binding, why: str) -> str:
    return f"it is not known yet whether pod `{binding.pod}` was bound to `{binding.node}`: {why}"
