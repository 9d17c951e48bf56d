"""Statuses of objects, written behind the actions: the newest of each object, a few at once.

Rule 1: while actions are in flight, a status waits, but not for ever: what others decide may depend on it. Then few are
written at once, as each takes from the API server what actions wait for. Rule 2: a status is written on the version
that it was made from; where the object has changed since, another one follows. Rule 3: one that is refused is reported
and tried again with a backoff of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.backoff import Backoff
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.object_cache import ObjectCache
from muster.kube.errors import ApiError
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.kube.write_bursts import WriteBurst
from muster.workloads.types import Key

STATUS_SECONDS = 30.0  # that writing one may take
LONGEST_WAIT_SECONDS = 5.0  # behind actions
PAUSE_SECONDS = 0.02
AT_ONCE, AT_ONCE_BUSY = 16, 1  # fewer while actions are in flight
NOT_FOUND, CONFLICT = 404, 409
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 60.0  # after refusals of one object in a row
MOST_BACKOFFS = 10_000
Report = Callable[[Resource, Raw, str, str, int], Awaitable[None]]


class PendingStatus(Struct, frozen=True):
    """A status, the object that it was made from, and since when it waits."""

    owner: Raw
    status: Raw
    term: int
    since: float


class StatusQueue:
    """Writes statuses.

    `is_busy` says whether actions are in flight. `retry` gets objects whose status was refused, with the seconds until
    they are to be reconciled again; `report` gets why.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: ObjectCache,
        leadership: Leadership,
        clock: Callable[[], float],
        is_busy: Callable[[], bool],
        retry: Callable[[Key, float], None],
        report: Report,
    ) -> None:
        self._cluster, self._cache, self._leadership, self._clock = cluster, cache, leadership, clock
        self._is_busy, self._retry, self._report = WriteBurst(is_busy), retry, report
        self._pending: dict[Key, PendingStatus] = {}  # the one that has waited longest first
        self._backoffs: dict[Key, Backoff] = {}
        self._in_flight: set[Key] = set()
        self._waited = 0  # of them, those that waited here: the others never keep these from being written
        self._woken = asyncio.Event()
        self._choosing = asyncio.Lock()  # one worker waits for the next status, the others for that one

    def __len__(self) -> int:
        return len(self._pending) + len(self._in_flight)

    def put(self, key: Key, owner: Raw, status: Raw | None, term: int) -> None:
        """The newest status of an object; None, or one that it has: nothing is to be written."""
        if status is None or pruned(status) == pruned(owner.get("status") or {}):
            self._pending.pop(key, None)
            return
        before = self._pending.get(key)  # it keeps its place, so that no status waits for ever
        self._pending[key] = PendingStatus(owner, status, term, before.since if before else self._clock())
        self._woken.set()

    async def write_now(self, key: Key) -> bool:
        """Writes the pending status of an object before it is reconciled again; False: it was refused."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return True
        async with self._flight(key):
            return await self._write(key, pending)

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        return len(self._in_flight)

    async def run(self) -> None:
        """Writes without end."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            async with self._choosing:
                key = await self._next()
                pending = self._pending.pop(key)
                self._in_flight.add(key)
                self._waited += 1
            try:
                async with self._flight(key):
                    is_done = await self._write(key, pending)
            finally:
                self._waited -= 1
            if not is_done:
                self._retry(key, self._backoff_of(key).next_seconds())

    @asynccontextmanager
    async def _flight(self, key: Key) -> AsyncIterator[None]:
        self._in_flight.add(key)
        try:
            yield
        finally:
            self._in_flight.discard(key)
            self._woken.set()

    async def _next(self) -> Key:
        """The next object whose status is to be written, once its wait is over."""
        while True:
            key = next((key for key in self._pending if key not in self._in_flight), None)
            if key is None:
                self._woken.clear()
                await self._woken.wait()
            elif self._may_write(self._pending[key]):
                return key
            else:
                await asyncio.sleep(PAUSE_SECONDS)

    def _may_write(self, pending: PendingStatus) -> bool:
        if not self._is_busy():
            return True
        has_waited = self._clock() - pending.since >= LONGEST_WAIT_SECONDS
        return has_waited and self._waited < AT_ONCE_BUSY

    async def _write(self, key: Key, pending: PendingStatus) -> bool:
        current, owner = self._cache.get(*key), pending.owner
        if current is None or not leads_in(self._leadership, pending.term):
            return True
        if _version(current) != _version(owner) or current.get("status") != owner.get("status"):
            return True  # it changed meanwhile, and comes again
        try:
            with within_leadership(self._leadership, STATUS_SECONDS):
                written = await self._cluster.replace(key[0], {**current, "status": pending.status}, "status")
        except ApiError as error:
            return error.status == NOT_FOUND or await self._refused(key, pending, error)
        self._backoffs.pop(key, None)
        self._cache.updated(key[0], written)
        return True

    async def _refused(self, key: Key, pending: PendingStatus, error: ApiError) -> bool:
        """Reports it, unless the object only has a newer version than is known here; False."""
        if error.status != CONFLICT:
            await self._report(
                key[0], pending.owner, "FailedUpdate", f"Error updating status: {error.message}", pending.term
            )
        return False

    def _backoff_of(self, key: Key) -> Backoff:
        """A new one, too, where the object was written meanwhile; the oldest makes place for it."""
        if key not in self._backoffs and len(self._backoffs) >= MOST_BACKOFFS:
            del self._backoffs[next(iter(self._backoffs))]
        return self._backoffs.setdefault(key, Backoff(FIRST_SECONDS, LONGEST_SECONDS))


def _version(raw: Raw) -> tuple[object, object]:
    """Which object, and which spec."""
    return raw["metadata"].get("uid"), raw["metadata"].get("generation")


def pruned(value: object) -> object:
    """A value without fields that are zero or empty: API servers leave them out. An object of zeros is not empty."""
    if isinstance(value, dict):
        inner = {name: pruned(field) for name, field in value.items() if field not in (0, "", None, {}, [])}
        return {name: field for name, field in inner.items() if field != []}
    return [pruned(item) for item in value] if isinstance(value, list | tuple) else value
