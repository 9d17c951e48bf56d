"""Performs the actions of a reconciliation on a cluster, in batches that start small.

Rule 1: actions of one type on one kind that follow each other are one run; the next run starts when this one is done.
Rule 2: a run of creations starts with one request and doubles (slow start): where a whole batch fails, the others are
not sent. An object that is refused holds up no other: the rest of its run is sent, and later runs, unless all of it was
refused. After any other failure nothing more is sent.
Rule 3: nothing is sent in another term of leadership than the one in which it was decided (I9).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from muster.api.resources import PODS
from muster.kube.cluster import Cluster
from muster.kube.controller.object_cache import ObjectCache, controller_uid
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading, Leadership, leads_in, within_leadership
from muster.workloads.operators.pod_admission import admit_pod
from muster.workloads.types import Action, Create, Remove, Update

LARGEST_BATCH = 64  # requests at a time
WRITE_SECONDS = 30.0  # that one request may take
FIELD_MANAGER = "muster-workloads"
REFUSED = (403, 409, 422)
ANOTHER_LEADER = ApiError(503, "ServiceUnavailable", "another replica leads by now")


class FailedAction(Struct, frozen=True):
    """An action that the API server refused, or that may not have reached it."""

    action: Action
    error: ApiError


class ActionWriter:
    """Sends actions, and puts what the API server returns into the cache."""

    def __init__(
        self,
        cluster: Cluster,
        cache: ObjectCache,
        timestamp: Callable[[], str],
        leadership: Leadership | None = None,
        field_manager: str = FIELD_MANAGER,
    ) -> None:
        self._cluster, self._cache, self._timestamp = cluster, cache, timestamp
        self._leadership: Leadership = leadership or AlwaysLeading()
        self._field_manager = field_manager
        self.in_flight = 0  # requests

    async def perform(self, actions: Iterable[Action], term: int) -> Sequence[FailedAction]:
        """Performs runs of actions in order; returns what failed."""
        failures: list[FailedAction] = []
        for _, run in groupby(actions, key=lambda action: (type(action), action.resource)):
            done, failed = await self._perform_run(list(run), term)
            failures += failed
            if failed and (not done or not all(map(is_refusal, failed))):
                break
        return failures

    async def _perform_run(self, actions: Sequence[Action], term: int) -> tuple[int, list[FailedAction]]:
        """How many actions were carried out, and those that failed; a batch that fails as a whole is the last one."""
        done, failures = 0, list[FailedAction]()
        for batch in batches(actions):
            results = await asyncio.gather(*(self._attempt(action, term) for action in batch))
            failed = [failure for failure in results if failure is not None]
            done, failures = done + len(batch) - len(failed), failures + failed
            is_hopeless = len(failed) == len(batch) and (len(batch) > 1 or len(actions) == 1)
            if is_hopeless or not all(map(is_refusal, failed)):
                break
        return done, failures

    async def _attempt(self, action: Action, term: int) -> FailedAction | None:
        if not leads_in(self._leadership, term):
            return FailedAction(action, ANOTHER_LEADER)
        self.in_flight += 1
        try:
            async with within_leadership(self._leadership, WRITE_SECONDS):
                await self._send(action)
        except ApiError as error:
            return FailedAction(action, error)
        finally:
            self.in_flight -= 1
        return None

    async def _send(self, action: Action) -> None:
        match action:
            case Create():
                await self._create(action)
            case Update(resource=resource, namespace=namespace, name=name, patch=patch):
                try:
                    raw = await self._cluster.patch(resource, namespace, name, patch, field_manager=self._field_manager)
                except ApiError as error:
                    if error.status != 404:  # gone: the watch will show it
                        raise
                else:
                    self._cache.updated(resource, raw)
            case Remove():
                await self._remove(action)

    async def _create(self, action: Create) -> None:
        new = admit_pod(action.object) if action.resource == PODS else action.object
        try:
            raw = await self._cluster.create(action.resource, new)
        except ApiError as error:
            metadata = action.object["metadata"]
            if error.reason != "AlreadyExists" or not metadata.get("name"):
                raise
            raw = await self._cluster.get(action.resource, metadata.get("namespace", ""), metadata["name"])
            if controller_uid(raw) != controller_uid(action.object):
                raise error from None
        self._cache.created(action.resource, raw)

    async def _remove(self, action: Remove) -> None:
        key = (action.resource, action.namespace, action.name)
        try:
            await self._cluster.delete(*key, uid=action.uid)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            self._cache.deletion_requested(key, action.uid, self._timestamp())


def is_refusal(failure: FailedAction) -> bool:
    """Whether the API server judged the object, and not the moment."""
    return failure.error.status in REFUSED


def batches(actions: Sequence[Action]) -> Iterator[Sequence[Action]]:
    """1, 2, 4 … actions, at most `LARGEST_BATCH`; updates and deletions fail one by one, and start with that many."""
    start, size = 0, 1 if actions and isinstance(actions[0], Create) else LARGEST_BATCH
    while start < len(actions):
        yield actions[start : start + size]
        start, size = start + size, min(2 * size, LARGEST_BATCH)
