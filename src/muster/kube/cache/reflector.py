"""Reflector: lists one kind of object, watches it, resumes the watch where it broke, and relists where it must.

Works on any Cluster; reflector and cache together are an informer. A consumer needs no memory of lists: it receives
each object that is new or differs, each object that is gone, and then `ListCompleted`. A later list brings only what
differs from what the consumer has received.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Set
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.backoff import Backoff
from muster.kube.cluster import Change, Cluster, Listing
from muster.kube.errors import ApiError
from muster.kube.stored_object import Raw, StoredObject, identity, raw_of, version_of

T = TypeVar("T")
P = ParamSpec("P")
PAGE = 500
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 30.0  # of the backoff after a list or a watch that failed
MOST_WATCH_FAILURES = 4  # failures of a watch in a row, without an event between them, before a relist
STEADY_SECONDS = 5.0  # a watch that stays open for so long works
CUT_SHORT = ApiError(503, "ServiceUnavailable", "the watch ended as soon as it had begun")


class ObjectUpdated(Struct, frozen=True):
    """An object is new, or differs from what was received before."""

    stored: StoredObject

    @property
    def object(self) -> Raw:
        """The object as a plain value."""
        return raw_of(self.stored)


class ObjectDeleted(Struct, frozen=True):
    """An object is gone. Where the deletion itself was missed, only its identity is left."""

    stored: StoredObject

    @property
    def object(self) -> Raw:
        """The object as a plain value."""
        return raw_of(self.stored)


class ListCompleted(Struct, frozen=True):
    """The consumer has received everything up to this resourceVersion."""

    resource_version: str


ReflectorEvent = ObjectUpdated | ObjectDeleted | ListCompleted


class ReflectorHealth:
    """How one reflector fares, for readiness; times are those of `clock`.

    An error is over with the next response of the API server, or when a new watch has stayed open for a moment. A watch
    that opens and breaks at once proves nothing, and one on a kind that is never written may be silent for minutes.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        on_restart: Callable[[], None] = lambda: None,
        on_change: Callable[[ApiError | None], None] = lambda _: None,
    ) -> None:
        self.clock = clock
        self.lists = 0  # lists that have begun
        self.listed = 0  # number of the last list that was completed
        self.received_at: float | None = None  # the last page of a list, event or bookmark
        self.opened_at: float | None = None  # the watch that is open now; None: none is
        self._answered_at: float | None = None  # the last of both, also of a watch that is over
        self._is_silent = True  # nothing was received since the watch was opened
        self._on_restart = on_restart  # called whenever a watch has ended
        self._on_change = on_change  # called when an error begins, changes its reason, or is over
        self._error: ApiError | None = None

    @property
    def has_synced(self) -> bool:
        """Whether a list was completed at least once."""
        return self.listed > 0

    @property
    def error(self) -> ApiError | None:
        """What is wrong now; None: nothing."""
        return None if self.open_seconds >= STEADY_SECONDS else self._error

    @property
    def open_seconds(self) -> float:
        """How long the watch has been open; 0: there is none."""
        return 0.0 if self.opened_at is None else self.clock() - self.opened_at

    @property
    def is_unauthorised(self) -> bool:
        """Whether muster lacks the right to list or watch: a retry does not help."""
        return self.error is not None and self.error.status in (401, 403)

    @property
    def is_ready(self) -> bool:
        """Whether the cache is up to date, but for events that are on their way."""
        return self.has_synced and self.error is None

    def lag_seconds(self) -> float:
        """Since the last response or the opening of a watch, whichever is later; -1: there was no response yet."""
        return -1.0 if self.received_at is None or self._answered_at is None else self.clock() - self._answered_at

    def opened(self) -> None:
        """A watch was opened, and nothing was received through it yet."""
        self.opened_at = self._answered_at = self.clock()
        self._is_silent = True

    def received(self) -> None:
        """A page of a list, an event or a bookmark came."""
        self.received_at = self._answered_at = self.clock()
        self._is_silent = False
        self._set_error(None)

    def failed(self, error: ApiError) -> None:
        """A list or a watch failed. A resourceVersion that has expired is no error: the next list mends it."""
        if self.opened_at is not None:
            self.ended()
        if error.status != 410:
            self._set_error(error)

    def ended(self) -> None:
        """A watch ended. API servers may do that, but not at once and before anything was received."""
        self._set_error(CUT_SHORT if self._is_silent and self.open_seconds < STEADY_SECONDS else self.error)
        self.opened_at = None
        self._on_restart()

    def closed(self) -> None:
        """The reflector itself closed the watch, to relist."""
        self._set_error(self.error)
        self.opened_at = None

    def _set_error(self, error: ApiError | None) -> None:
        before, self._error = self._error, error
        if (before and before.reason) != (error and error.reason):
            self._on_change(error)


class ReceivedObjects:
    """Identity and version of each object that the consumer has received; turns lists and changes into differences."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._versions: dict[tuple[str, str], tuple[str, str]] = {}  # namespace, name -> uid, resourceVersion

    def apply(self, change: Change) -> Iterator[ReflectorEvent]:
        """What one event of a watch means to the consumer."""
        match change.type:
            case "BOOKMARK":
                return
            case "DELETED":
                self._versions.pop(identity(change.stored), None)
                yield ObjectDeleted(change.stored)
            case _:
                yield from self._differences(identity(change.stored), change.stored)

    def receive(self, page: Iterable[StoredObject], listed: set[tuple[str, str]]) -> Iterator[ReflectorEvent]:
        """What the objects of a page mean to the consumer; notes which there are."""
        for stored in page:
            key = identity(stored)
            listed.add(key)
            if key in self._versions:
                yield from self._differences(key, stored)
            else:
                self._versions[key] = version_of(stored)
                yield ObjectUpdated(stored)

    def _differences(self, key: tuple[str, str], stored: StoredObject) -> tuple[ReflectorEvent, ...]:
        """Nothing where it was received like this; a deletion first where another object had this name before."""
        version = version_of(stored)
        before = self._versions.get(key)
        if before == version:
            return ()
        self._versions[key] = version
        if before is not None and before[0] != version[0]:
            return self._deleted(key, before), ObjectUpdated(stored)
        return (ObjectUpdated(stored),)

    def missing(self, listed: Set[tuple[str, str]]) -> Iterator[ObjectDeleted]:
        """Deletions of everything that a complete list does not hold; what it holds was received."""
        if len(listed) == len(self._versions):
            return
        for key in [key for key in self._versions if key not in listed]:
            yield self._deleted(key, self._versions.pop(key))

    def _deleted(self, key: tuple[str, str], known: tuple[str, str]) -> ObjectDeleted:
        uid, version = known
        meta = {"name": key[1], "uid": uid, "resourceVersion": version}
        meta |= {"namespace": key[0]} if key[0] else {}
        return ObjectDeleted({"apiVersion": self._resource.api_version, "kind": self._resource.kind, "metadata": meta})


class RelistRequested(Exception):
    """`Reflector.relist` was called."""


class Reflector:
    """Events of one kind without end, from one loop of lists and watches. A consumer that stops may resume."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        health: ReflectorHealth | None = None,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster, self._resource = cluster, resource
        self._selection = {"namespace": namespace, "labels": labels, "fields": fields}
        self.health, self._pause = health or ReflectorHealth(), pause
        self._backoff = Backoff(FIRST_SECONDS, LONGEST_SECONDS, chance)
        self._received = ReceivedObjects(resource)
        self._since = ""  # the resourceVersion from which a watch resumes; empty: list first
        self._is_relist_requested = False
        self._waiting: asyncio.Task[Any] | None = None  # the loop, while it waits for a response
        self._is_interrupted = False  # by a relist

    def relist(self) -> None:
        """Lists again at once; may be called at any time, from the event loop's thread.

        Interrupts the watch, a list that is under way and may be too old, or the wait after a failure. Does not
        interrupt the consumer.
        """
        if self._is_relist_requested:
            return
        self._is_relist_requested = True
        if self._waiting is not None:
            self._is_interrupted = True
            self._waiting.cancel()

    async def events(self) -> AsyncGenerator[ReflectorEvent, None]:
        """Retries every ApiError, which is then in `health`; any other exception ends it."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(self) -> AsyncGenerator[Iterator[ReflectorEvent], None]:
        """The same events, those of a page together; each counts as received when it is taken."""
        while True:
            is_watch = bool(self._since) and not self._is_relist_requested
            try:
                async with aclosing(self._watch() if is_watch else self._list()) as batches:
                    async for batch in batches:
                        yield batch
                if is_watch:
                    await self._unless_relist(self._pause, self._end())
            except ApiError as error:
                with suppress(RelistRequested):
                    await self._unless_relist(self._pause, self._fail(error))
            except RelistRequested:
                self.health.closed()

    async def _list(self) -> AsyncGenerator[Iterator[ReflectorEvent], None]:
        """Everything that differs, then `ListCompleted`. Where pages expire on the way, it reads all in one piece."""
        self._is_relist_requested = False
        try:
            async with aclosing(self._pages(PAGE)) as batches:
                async for batch in batches:
                    yield batch
        except ApiError as error:
            if error.status != 410:
                raise
            async with aclosing(self._pages(0)) as batches:
                async for batch in batches:
                    yield batch

    async def _pages(self, limit: int) -> AsyncGenerator[Iterator[ReflectorEvent], None]:
        self.health.lists += 1
        number = self.health.lists
        listed: set[tuple[str, str]] = set()
        async with aclosing(self._pages_ahead(limit)) as pages:
            async for page in pages:
                self.health.received()
                yield self._received.receive(page.stored, listed)
        yield self._received.missing(listed)
        self._since = page.resource_version
        self.health.listed = number
        yield iter((ListCompleted(self._since),))

    async def _pages_ahead(self, limit: int) -> AsyncGenerator[Listing, None]:
        """Every page; the API server prepares the next one while the consumer has this one."""
        following: asyncio.Task[Listing] | None = asyncio.create_task(self._page(limit, ""))
        try:
            while following is not None:
                page = await self._unless_relist(_result, following)
                following = asyncio.create_task(self._page(limit, page.more)) if page.more else None
                await asyncio.sleep(0)  # the request is sent
                yield page
        finally:
            if following is not None and not following.cancel() and not following.cancelled():
                following.exception()  # it is not needed any more

    async def _page(self, limit: int, after: str) -> Listing:
        return await self._cluster.list(self._resource, **self._selection, limit=limit, after=after)

    async def _watch(self) -> AsyncGenerator[Iterator[ReflectorEvent], None]:
        """What happens after the list, until the watch ends."""
        async with AsyncExitStack() as stack:
            watch = self._cluster.watch(self._resource, self._since, **self._selection)
            changes = await self._unless_relist(stack.enter_async_context, watch)
            self.health.opened()
            while (change := await self._unless_relist(_next, changes)) is not None:
                if change.is_reopened:
                    self.health.opened()
                else:
                    self.health.received()
                self._backoff.reset()
                self._since = change.resource_version
                yield self._received.apply(change)

    async def _unless_relist(self, start: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Waits for a response; RelistRequested where a relist is or was requested."""
        if self._is_relist_requested:
            raise RelistRequested
        task = asyncio.current_task()
        assert task is not None
        requests, self._waiting = task.cancelling(), task
        try:
            return await start(*args, **kwargs)
        except asyncio.CancelledError:
            if self._is_interrupted and task.cancelling() - 1 <= requests:
                raise RelistRequested from None
            raise
        finally:
            self._waiting = None
            if self._is_interrupted:
                self._is_interrupted = False
                task.uncancel()

    def _fail(self, error: ApiError) -> float:
        """Resumes the watch, or relists where that cannot work. Returns how long to wait before that."""
        if self.health.open_seconds > self._backoff.longest_seconds:
            self._backoff.reset()
        seconds = self._backoff.next_seconds()
        self.health.failed(error)
        if error.status == 410 or self._backoff.failures > MOST_WATCH_FAILURES:
            self._since = ""
        return seconds

    def _end(self) -> float:
        """The API server ended the watch. Returns how long to wait before it is resumed."""
        self.health.ended()
        return self._backoff.next_seconds()


async def _result(task: asyncio.Task[T]) -> T:
    return await task


async def _next(changes: AsyncIterator[Change]) -> Change | None:
    """None: the API server ended the watch."""
    return await anext(changes, None)
