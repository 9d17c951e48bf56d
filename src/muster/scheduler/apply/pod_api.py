"""Requests about pods: each is sent once, and what the API server answered is an event of the write (`write_state`).

Rule: nothing is decided here, and no ApiError leaves a binding, an eviction or a reading.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from muster.api.resources import PODS
from muster.kube.backoff import Backoff
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError, Unanswered, may_have_been_applied
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.kube.pod_mark import PodMark
from muster.scheduler.apply.write_state import (
    Accepted,
    Answer,
    Denied,
    NoAnswer,
    PodGone,
    PodRead,
    PodUnread,
    Reading,
    ServerFailed,
)
from muster.scheduler.observer import Observer

CONFLICT, NOT_FOUND, TIMEOUT = 409, 404, 504
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 5.0  # between readings of a pod whose write is unconfirmed
SETTLED_AT_ONCE = 64  # unconfirmed writes, where the caller does not say


class PodApi(Struct, frozen=True, eq=False):
    """Pods of one cluster, written to within leadership."""

    cluster: Cluster
    leadership: Leadership
    clock: Callable[[], float]
    seconds: float  # that one request may take
    observer: Observer
    settling: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SETTLED_AT_ONCE))
    """Held while an unconfirmed write is followed up: an API server that fails thousands is not flooded."""

    def leads_in(self, term: int) -> bool:
        """Whether a decision of this term may still be written."""
        return leads_in(self.leadership, term)

    def bind(self, namespace: str, pod: str, uid: str, node: str, mark: PodMark | None = None) -> Awaitable[Answer]:
        """Posts one binding, with which the pod joins its gang where it has not yet (N3)."""
        return self._answer(self.cluster.bind(namespace, pod, uid, node, mark=mark))

    def evict(self, namespace: str, pod: str, uid: str) -> Awaitable[Answer]:
        """Posts one eviction, which heeds disruption budgets."""
        return self._answer(self.cluster.evict(namespace, pod, uid))

    def probe_eviction(self, namespace: str, pod: str, uid: str) -> Awaitable[Answer]:
        """The same as a dry run."""
        return self._answer(self.cluster.evict(namespace, pod, uid, dry_run=True), is_written=False)

    def nominate(self, namespace: str, pod: str, uid: str, node: str) -> Awaitable[Answer]:
        """Writes the nominated node; empty: takes it off the pod."""
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
        return self._answer(self.cluster.patch(PODS, namespace, pod, patch, subresource="status"))

    async def read(self, namespace: str, pod: str) -> Reading:
        """The pod as it is stored. A replica that does not lead any more may read, too."""
        at = self.clock()
        try:
            async with asyncio.timeout(self.seconds):
                raw = await self.cluster.get(PODS, namespace, pod)
        except TimeoutError:
            return PodUnread(at)
        except ApiError as error:
            return PodGone(at) if error.status == NOT_FOUND else PodUnread(at)
        return _reading(raw, pod, at)

    async def _answer(self, request: Awaitable[object], *, is_written: bool = True) -> Answer:
        try:
            with within_leadership(self.leadership, self.seconds):
                await request
        except ApiError as error:
            failure = failure_of(error, self.clock())
            if is_written and isinstance(failure, Denied) and failure.status == CONFLICT:
                self.observer.conflict(PODS.plural)
            return failure
        return Accepted(self.clock())


def failure_of(error: ApiError, at: float) -> Denied | ServerFailed | NoAnswer:
    """An error as an event: a clear no, or one after which the write may have been carried out."""
    if not may_have_been_applied(error):
        return Denied(at, error.status, error.reason, error.message)
    if isinstance(error, Unanswered) or error.status == TIMEOUT:
        return NoAnswer(at, error.reason, error.message)
    return ServerFailed(at, error.reason, error.message)


def settle_backoff() -> Backoff:
    """Between readings of one pod."""
    return Backoff(FIRST_SECONDS, LONGEST_SECONDS)


def _reading(raw: Raw, name: str, at: float) -> Reading:
    """What a pod says about its writes; a proxy may answer with anything that is no pod."""
    meta, spec = raw.get("metadata"), raw.get("spec") or {}
    if not isinstance(meta, dict) or not isinstance(spec, dict) or meta.get("name") != name:
        return PodUnread(at)
    uid, node = meta.get("uid"), spec.get("nodeName") or ""
    if not isinstance(uid, str) or not isinstance(node, str):
        return PodUnread(at)
    return PodRead(at, uid, node, bool(meta.get("deletionTimestamp")))
