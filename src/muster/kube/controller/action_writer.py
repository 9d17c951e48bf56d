"""Performs the actions of a reconciliation on a cluster, many at once.

Rule 1: actions of one type on one kind that follow each other are one run; the next run starts when this one is done.
Rule 2: a run of creations starts with one request and doubles (slow start); then each answer makes place for the next
request. Where a whole batch fails, or as many in a row, the others are not sent. An object that is refused holds up no
other: the rest of its run is sent, and later runs, unless all of it was refused. After any other failure nothing more
is sent.
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

LARGEST_BATCH = 64  # requests of one run at a time
WRITE_SECONDS = 30.0  # that one request may take
FIELD_MANAGER = "muster-workloads"
REFUSED = (403, 409, 422)
ANOTHER_LEADER = ApiError(503, "ServiceUnavailable", "another replica leads by now")


class FailedAction(Struct, frozen=True):
    """An action that the API server refused, or that may not have reached it."""

    action: Action
    error: ApiError


class RunAnswers:
    """What became of the actions of a run so far."""

    def __init__(self) -> None:
        self.done, self.failures = 0, list[FailedAction]()
        self._in_a_row = 0  # failures
        self._is_broken = False  # one of them says nothing about its object

    @property
    def are_hopeless(self) -> bool:
        """Whether no more requests are to be sent."""
        return self._is_broken or self._in_a_row >= LARGEST_BATCH

    def count(self, failure: FailedAction | None) -> None:
        """One more answer; None: the action was carried out."""
        if failure is None:
            self.done, self._in_a_row = self.done + 1, 0
            return
        self.failures.append(failure)
        self._in_a_row += 1
        self._is_broken = self._is_broken or not is_refusal(failure)


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
        done, failures, rest = 0, list[FailedAction](), len(actions)
        for batch in batches(actions):
            results = await asyncio.gather(*(self._attempt(action, term) for action in batch))
            failed = [failure for failure in results if failure is not None]
            done, failures, rest = done + len(batch) - len(failed), failures + failed, rest - len(batch)
            is_hopeless = len(failed) == len(batch) and (len(batch) > 1 or len(actions) == 1)
            if is_hopeless or not all(map(is_refusal, failed)):
                return done, failures
        more, failed = await self._perform_steadily(actions[len(actions) - rest :], term)
        return done + more, failures + failed

    async def _perform_steadily(self, actions: Sequence[Action], term: int) -> tuple[int, list[FailedAction]]:
        """The same of the rest of a run: each answer makes place for the next request."""
        answers, line = RunAnswers(), iter(actions)

        async def work() -> None:
            while not answers.are_hopeless and (action := next(line, None)) is not None:
                answers.count(await self._attempt(action, term))

        await asyncio.gather(*(work() for _ in range(min(LARGEST_BATCH, len(actions)))))
        return answers.done, answers.failures

    async def _attempt(self, action: Action, term: int) -> FailedAction | None:
        if not leads_in(self._leadership, term):
            return FailedAction(action, ANOTHER_LEADER)
        self.in_flight += 1
        try:
            with within_leadership(self._leadership, WRITE_SECONDS):
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
    """The slow start of a run: 1, 2, 4 … creations; updates and deletions fail one by one, and need none."""
    start, size = 0, 1 if actions and isinstance(actions[0], Create) else LARGEST_BATCH
    while start < len(actions) and size < LARGEST_BATCH:
        yield actions[start : start + size]
        start, size = start + size, 2 * size
