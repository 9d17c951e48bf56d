"""What happens to objects of a kind, without end: list, watch, and list again where the watch is lost.

Works on any Cluster. Who listens needs no memory of lists: each object is told as `Changed`, what went away unseen as
`Gone`, then `Synced`: everything there is has been told. Listing again tells only what differs.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.backoff import Backoff
from muster.kube.cluster import Change, Cluster, Raw
from muster.kube.errors import ApiError

PAGE = 500
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 30.0  # of the backoff after a list or a watch that failed
MOST_WATCH_FAILURES = 4  # failures of a watch without a word, before all is listed again
STEADY_SECONDS = 5.0  # a watch that is open for so long works
CUT_SHORT = ApiError(503, "ServiceUnavailable", "the watch ended as soon as it had begun")


class Changed(Struct, frozen=True):
    """An object is there, new or different."""

    object: Raw


class Gone(Struct, frozen=True):
    """An object is no more; where that was not seen to happen, only its identity is left."""

    object: Raw


class Synced(Struct, frozen=True):
    """Everything up to this resource version has been told."""

    resource_version: str


News = Changed | Gone | Synced


class Health:
    """How one follower fares, for readiness; times are those of `clock`.

    Trouble is over when the cluster says something, or when a new watch has stayed open for a moment: one that opens
    and breaks at once proves nothing, and one on a kind that nobody writes may be silent for minutes.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        restarted: Callable[[], None] = lambda: None,
        changed: Callable[[ApiError | None], None] = lambda _: None,
    ) -> None:
        self.clock, self._changed = clock, changed  # called when trouble begins, is another one, or is over
        self.lists = 0  # that have begun
        self.listed = 0  # the last of them that was told to its end
        self.received_at: float | None = None  # the last list, event or bookmark
        self.opened_at: float | None = None  # the watch that is open now
        self._mute = True  # nothing was heard since then
        self._restarted = restarted  # called whenever a watch has ended
        self._trouble: ApiError | None = None

    @property
    def synced(self) -> bool:
        """Everything has been told at least once."""
        return self.listed > 0

    @property
    def trouble(self) -> ApiError | None:
        """What is wrong right now."""
        return None if self.open_seconds >= STEADY_SECONDS else self._trouble

    @property
    def open_seconds(self) -> float:
        """How long the watch has been open; 0: there is none."""
        return 0.0 if self.opened_at is None else self.clock() - self.opened_at

    @property
    def unauthorised(self) -> bool:
        """We may not look: waiting does not help."""
        return self.trouble is not None and self.trouble.status in (401, 403)

    @property
    def ready(self) -> bool:
        """What was told is true but for what happens right now."""
        return self.synced and self.trouble is None

    def lag_seconds(self) -> float:
        """Since the cluster was last heard or a watch was opened, as a quiet one is every few minutes; -1: never."""
        return (
            -1.0
            if self.received_at is None
            else self.clock() - max(self.received_at, self.opened_at or self.received_at)
        )

    def opened(self) -> None:
        """A watch is open, and has said nothing yet."""
        self.opened_at, self._mute = self.clock(), True

    def received(self) -> None:
        """A page of a list, an event or a bookmark came."""
        self.received_at, self._mute = self.clock(), False
        self._turns(None)

    def failed(self, error: ApiError) -> None:
        """A list, or a watch. A version that is too old is no trouble: the next list mends it."""
        if self.opened_at is not None:
            self.ended()
        if error.status != 410:
            self._turns(error)

    def ended(self) -> None:
        """A watch has ended, which is its right; but not before it has said a word or stayed for a moment."""
        self._turns(CUT_SHORT if self._mute and self.open_seconds < STEADY_SECONDS else self.trouble)
        self.opened_at = None
        self._restarted()

    def _turns(self, trouble: ApiError | None) -> None:
        before, self._trouble = self._trouble, trouble
        if (before and before.reason) != (trouble and trouble.reason):
            self._changed(trouble)


class ListWatch:
    """One kind of objects being followed: what is known of them is their identity and version."""

    def __init__(
        self, cluster: Cluster, resource: Resource, health: Health, backoff: Backoff, where: dict[str, str]
    ) -> None:
        self._cluster, self._resource, self._health, self._where = cluster, resource, health, where
        self._backoff = backoff
        self._known: dict[tuple[str, str], tuple[str, str]] = {}  # namespace, name -> uid, resource version
        self.since = ""  # where a watch goes on; empty: list first

    def turn(self) -> AsyncGenerator[News, None]:
        """What is to be done next."""
        return self.watched() if self.since else self.listed()

    async def listed(self) -> AsyncGenerator[News, None]:
        """Everything there is, as far as it is news; pages may grow too old, then all is read in one piece."""
        try:
            async with aclosing(self._pages(PAGE)) as pages:
                async for news in pages:
                    yield news
        except ApiError as error:
            if error.status != 410:
                raise
            async with aclosing(self._pages(0)) as whole:
                async for news in whole:
                    yield news

    async def _pages(self, limit: int) -> AsyncGenerator[News, None]:
        self._health.lists += 1
        number = self._health.lists
        seen: set[tuple[str, str]] = set()
        after = ""
        while True:
            page = await self._cluster.list(self._resource, **self._where, limit=limit, after=after)
            self._health.received()
            for raw in page.items:
                seen.add(identity(raw))
                for news in self._differs(raw):
                    yield news
            after = page.more
            if not after:
                break
        for key in [key for key in self._known if key not in seen]:
            yield self._lost(key)
        self.since = page.resource_version
        self._health.listed = number
        yield Synced(self.since)

    async def watched(self) -> AsyncGenerator[News, None]:
        """What happens from then on."""
        async with self._cluster.watch(self._resource, self.since, **self._where) as changes:
            self._health.opened()
            async for change in changes:
                if change.opened:
                    self._health.opened()
                else:
                    self._health.received()
                self._backoff.reset()
                self.since = change.resource_version
                for news in self._told(change):
                    yield news

    def failed(self, error: ApiError) -> float:
        """Resumes the watch, or lists again where that cannot work. Returns how long to wait before that."""
        if self._health.open_seconds > self._backoff.longest_seconds:
            self._backoff.reset()
        seconds = self._backoff.next_seconds()
        self._health.failed(error)
        if error.status == 410 or self._backoff.failures > MOST_WATCH_FAILURES:
            self.since = ""
        return seconds

    def ended(self) -> float:
        """The API server ended the watch. Returns how long to wait before it is resumed."""
        self._health.ended()
        return self._backoff.next_seconds()

    def _told(self, change: Change) -> list[News]:
        match change.type:
            case "BOOKMARK":
                return []
            case "DELETED":
                self._known.pop(identity(change.object), None)
                return [Gone(change.object)]
            case _:
                return self._differs(change.object)

    def _differs(self, raw: Raw) -> list[News]:
        key, version = identity(raw), _version(raw)
        before = self._known.get(key)
        if before == version:
            return []
        gone = [self._lost(key)] if before is not None and before[0] != version[0] else []
        self._known[key] = version
        return [*gone, Changed(raw)]

    def _lost(self, key: tuple[str, str]) -> Gone:
        uid, version = self._known.pop(key)
        meta = {"name": key[1], "uid": uid, "resourceVersion": version}
        meta |= {"namespace": key[0]} if key[0] else {}
        return Gone({"apiVersion": self._resource.api_version, "kind": self._resource.kind, "metadata": meta})


class Reflector:
    """News of one kind without end. Whoever listens may leave and come back: it goes on where it was."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        health: Health | None = None,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        where = {"namespace": namespace, "labels": labels, "fields": fields}
        self.health, self._pause = health or Health(), pause
        backoff = Backoff(FIRST_SECONDS, LONGEST_SECONDS, chance)
        self._list_watch = ListWatch(cluster, resource, self.health, backoff, where)

    def list_again(self) -> None:
        """What comes next is a list; call it while nobody listens."""
        self._list_watch.since = ""

    async def news(self) -> AsyncGenerator[News, None]:
        """Failures are in `health`, and only something that is not the cluster's ends it."""
        list_watch = self._list_watch
        while True:
            listing = not list_watch.since
            try:
                async with aclosing(list_watch.turn()) as turn:
                    async for news in turn:
                        yield news
            except ApiError as error:
                seconds = list_watch.failed(error)
            else:
                if listing:
                    continue
                seconds = list_watch.ended()
            await self._pause(seconds)


def identity(raw: Raw) -> tuple[str, str]:
    """Namespace and name."""
    meta = raw["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _version(raw: Raw) -> tuple[str, str]:
    meta = raw["metadata"]
    return meta.get("uid", ""), meta.get("resourceVersion", "")
